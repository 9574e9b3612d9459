"""The schema: migrations produce the declared tables, and the database rejects rows that violate a rule."""

import json
import uuid
from functools import partial
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from covey.model.servers import Fault, FaultKind
from covey.storage import engine, schema, tables
from covey.storage.rows import load
from tests.build import NOW
from tests.contract.concurrency import conflicts, run_concurrently

SCOPE = "00000000-0000-0000-0000-0000000000aa"


def test_migrations_produce_the_declared_tables(connected: sa.Engine) -> None:
    options = {"compare_type": True, "compare_server_default": True}
    with connected.connect() as connection:
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, tables.metadata) == []


def test_database_has_every_declared_check(connected: sa.Engine) -> None:
    inspected = sa.inspect(connected)
    for table in tables.metadata.sorted_tables:
        wanted = {str(c.name) for c in table.constraints if isinstance(c, sa.CheckConstraint)}
        assert {check["name"] for check in inspected.get_check_constraints(table.name)} == wanted


def test_upgrade_brings_an_empty_database_to_the_newest_version(empty_database: str) -> None:
    made = engine.connect(empty_database)
    assert schema.current(made) is None
    schema.upgrade(made)
    assert schema.current(made) == schema.head()
    made.dispose()


def test_upgrade_of_a_current_database_changes_nothing(connected: sa.Engine) -> None:
    insert(connected, "quotas", project_id="web", resource="cores", hard_limit=1)
    schema.upgrade(connected)
    assert schema.current(connected) == schema.head()
    with connected.connect() as connection:
        assert connection.execute(sa.select(tables.quotas.c.hard_limit)).scalars().all() == [1]


def test_concurrent_upgrades_all_succeed(empty_database: str) -> None:
    """Each upgrade has its own engine, like a separate process."""
    made = [engine.connect(empty_database) for _ in range(4)]
    assert conflicts(run_concurrently([partial(schema.upgrade, each) for each in made])) == []
    assert {schema.current(each) for each in made} == {schema.head()}
    for each in made:
        each.dispose()


def test_filter_columns_and_fault_kinds_are_backfilled(empty_database: str) -> None:
    upgraded = engine.connect(empty_database)
    schema.upgrade(upgraded, "0005")
    refusal = '{"message": "No valid host was found. Of 2 hosts: 2 are disabled.", "created_at": "2026-01-01T00:00:00"}'
    with upgraded.begin() as connection:
        for server, locked, image, fault in (("a", "true", '"i-1"', refusal), ("b", "false", "null", None)):
            details = f'{{"metadata": {{"reservation_id": "r-x"}}, "reservation_id": "r-{server}", "locked": {locked}}}'
            values = {"id": server, "details": details, "image": f'{{"image_id": {image}}}', "fault": fault, "now": NOW}
            connection.execute(OLD_SERVER, values)
    schema.upgrade(upgraded)
    c = tables.servers.c
    with upgraded.connect() as connection:
        rows = connection.execute(
            sa.select(c.flavor_id, c.image_id, c.reservation_id, c.locked, c.fault).order_by(c.id)
        ).all()
    upgraded.dispose()
    assert [tuple(row[:4]) for row in rows] == [("small", "i-1", "r-a", True), ("small", None, "r-b", False)]
    assert load(rows[0].fault, Fault).kind is FaultKind.NO_VALID_HOST
    assert rows[1].fault is None


def test_quota_usage_is_converted_to_what_servers_claim(empty_database: str) -> None:
    upgraded = engine.connect(empty_database)
    schema.upgrade(upgraded, "0008")
    plain = {"vcpus": 2, "memory_mb": 512, "extra_specs": {"hw:cpu_policy": "shared"}}
    override = {"resources:VCPU": "0", "resources1:PCPU": "3", "resources:MEMORY_MB": "768", "resources:CUSTOM_A": "9"}
    claims = {"vcpus": 1, "memory_mb": 1024, "extra_specs": override}
    with upgraded.begin() as connection:
        for server, flavor in (("a", plain), ("b", claims), ("c", claims)):
            values = {"id": server, "flavor": json.dumps({"id": "f", **flavor}), "now": NOW}
            connection.execute(sa.text(SERVER_OF_0008), values)
        resized = {"old": json.dumps(plain), "new": json.dumps(claims), "now": NOW}
        connection.execute(sa.text(MOVE_OF_0008), resized)
        for usage in (("web", 3, 5, 2560), ("ops", 1, 1, 1)):  # 2 + 1 + max(2, 1) cores, 512 + 1024 + 1024 MB
            connection.execute(sa.insert(tables.quota_usages).values(usage))
    schema.upgrade(upgraded)
    with upgraded.connect() as connection:
        rows = connection.execute(sa.select(tables.quota_usages).order_by("project_id")).all()
    upgraded.dispose()
    assert [tuple(row) for row in rows] == [("ops", 1, 1, 1), ("web", 3, 8, 2048)]


SERVER_OF_0008 = """
    INSERT INTO servers (id, name, project_id, user_id, vm_state, power_state, flavor, request, details, locked, vcpus,
        memory_mb, disk_gb, created_at, updated_at)
    VALUES (:id, 's', 'web', 'alice', 'active', 1, :flavor, '{}', '{}', false, 1, 1, 0, :now, :now)
"""
MOVE_OF_0008 = """
    INSERT INTO migrations (uuid, server_id, project_id, user_id, kind, status, source, old_flavor, new_flavor,
        created_at, updated_at)
    VALUES ('m', 'c', 'web', 'alice', 'resize', 'finished', 'n1', :old, :new, :now, :now)
"""
OLD_SERVER = sa.text("""
    INSERT INTO servers (id, name, project_id, user_id, vm_state, power_state, flavor, request, details, vcpus,
        memory_mb, disk_gb, fault, created_at, updated_at)
    VALUES (:id, 's', 'web', 'alice', 'active', 1, '{"id": "small"}', :image, :details, 1, 1, 0, :fault, :now, :now)
""")


def insert(connected: sa.Engine, table: str, **values: Any) -> None:
    with connected.begin() as connection:
        connection.execute(sa.insert(tables.metadata.tables[table]).values(**values))


@pytest.fixture
def populated(connected: sa.Engine) -> sa.Engine:
    """A database with a valid row of each kind, so that a further row violates one rule only."""
    for table, row in ROWS:
        insert(connected, table, **row)
    return connected


def a_provider(number: int, **fields: Any) -> dict[str, Any]:
    row = {"id": number, "uuid": str(uuid.UUID(int=number)), "name": f"n{number}", "created_at": NOW, "updated_at": NOW}
    return row | fields


def an_inventory(**fields: Any) -> dict[str, Any]:
    return {"provider_id": 1, "resource_class": "VCPU", "total": 1, "reserved": 0, "allocation_ratio": 1.0} | fields


def an_aggregate(number: int, **fields: Any) -> dict[str, Any]:
    row = {"id": number, "uuid": str(uuid.UUID(int=number)), "name": f"a{number}", "zone": "z", "scope_id": SCOPE}
    return row | {"created_at": NOW} | fields


def a_scope(key: str, name: str) -> dict[str, Any]:
    return {
        "id": key,
        "name": name,
        "allow_identifiers": False,
        "obfuscate_identifiers": False,
        "namespace_uuid": key,
    }


def a_flavor(number: int, **fields: Any) -> dict[str, Any]:
    sizes = {"vcpus": 1, "memory_mb": 1, "disk_gb": 0, "ephemeral_gb": 0, "swap_mb": 0, "rxtx_factor": 1.0}
    row = {"id": number, "flavorid": f"f{number}", "name": f"f{number}", "is_public": True, "created_at": NOW}
    return row | sizes | fields


def an_image(number: int, **fields: Any) -> dict[str, Any]:
    row = {"id": str(uuid.UUID(int=number)), "owner": "web", "status": "queued", "visibility": "shared"}
    sizes = {"min_disk_gb": 0, "min_ram_mb": 0, "protected": False, "hidden": False}
    return row | sizes | {"created_at": NOW, "updated_at": NOW} | fields


ROWS: list[tuple[str, dict[str, Any]]] = [
    ("resource_providers", a_provider(1)),
    ("resource_providers", a_provider(2)),
    ("resource_providers", a_provider(3)),
    ("inventories", an_inventory()),
    ("provider_traits", {"provider_id": 1, "trait": "CUSTOM_SSD"}),
    ("provider_aggregates", {"provider_id": 1, "aggregate_uuid": SCOPE}),
    ("custom_traits", {"name": "CUSTOM_SSD"}),
    ("custom_resource_classes", {"name": "CUSTOM_GOLD", "created_at": NOW}),
    ("hosts", {"id": 1, "name": "n1", "zone": "z", "updated_at": NOW}),
    ("hosts", {"id": 2, "name": "n2", "zone": None, "updated_at": NOW}),
    ("instance_group_policy_scopes", a_scope(SCOPE, "rack")),
    ("aggregates", an_aggregate(1)),
    ("aggregates", an_aggregate(2)),
    ("aggregate_metadata", {"aggregate_id": 1, "key": "k", "value": "v"}),
    ("aggregate_hosts", {"aggregate_id": 1, "host_id": 1, "zone": "z", "scope_id": SCOPE}),
    ("flavors", a_flavor(1)),
    ("flavor_extra_specs", {"flavor_id": 1, "key": "k", "value": "v"}),
    ("flavor_access", {"flavor_id": 1, "project_id": "web"}),
    ("images", an_image(1)),
    ("image_properties", {"image_id": str(uuid.UUID(int=1)), "key": "k", "value": "v"}),
    ("image_tags", {"image_id": str(uuid.UUID(int=1)), "tag": "t"}),
    ("quotas", {"project_id": "web", "resource": "cores", "hard_limit": -1}),
    ("quota_classes", {"class_name": "default", "resource": "cores", "hard_limit": -1}),
]
FIRST = dict(reversed(ROWS))


def second(table: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    """The existing row with some other fields."""
    return table, FIRST[table] | fields


DISK = {"resource_class": "DISK_GB"}
BROKEN = {
    "two providers of one name": ("resource_providers", a_provider(4, name="n1")),
    "two providers of one uuid": ("resource_providers", a_provider(4, uuid=str(uuid.UUID(int=1)))),
    "a provider below one that is not there": ("resource_providers", a_provider(4, parent_id=9, root_id=1)),
    "a provider of a tree that is not there": ("resource_providers", a_provider(4, parent_id=1, root_id=9)),
    "a provider with a parent and no root": ("resource_providers", a_provider(4, parent_id=1)),
    "portions of nothing": second("inventories", **DISK, step_size=0),
    "an aggregate joined twice": second("provider_aggregates"),
    "an aggregate without a parent": second("provider_aggregates", provider_id=9),
    "a trait named twice": second("custom_traits"),
    "a class named twice": second("custom_resource_classes"),
    "a total below zero": second("inventories", **DISK, total=-1),
    "a reserve below zero": second("inventories", **DISK, reserved=-1),
    "a use below zero": second("inventories", **DISK, used=-1),
    "an allocation ratio of zero": second("inventories", **DISK, allocation_ratio=0),
    "two inventories of one class": second("inventories"),
    "an inventory without a parent": second("inventories", provider_id=9),
    "a trait given twice": second("provider_traits"),
    "a host that is no provider": ("hosts", {"id": 9, "name": "n9", "updated_at": NOW}),
    "two hosts of one name": ("hosts", {"id": 3, "name": "n1", "updated_at": NOW}),
    "a host in a zone without a name": ("hosts", {"id": 3, "name": "n3", "zone": "", "updated_at": NOW}),
    "a provider's number taken": second("resource_providers", uuid="u", name="u"),
    "a host's number taken": second("hosts", name="u"),
    "a trait without a parent": second("provider_traits", provider_id=9),
    "a scope's id taken": second("instance_group_policy_scopes", name="u"),
    "an aggregate's number taken": second("aggregates", uuid="u", name="u"),
    "metadata of no aggregate": second("aggregate_metadata", aggregate_id=9),
    "a flavor's number taken": second("flavors", flavorid="u", name="u"),
    "access to no flavor": second("flavor_access", flavor_id=9),
    "a tag of no image": second("image_tags", image_id=str(uuid.UUID(int=9))),
    "two scopes of one name": ("instance_group_policy_scopes", a_scope(str(uuid.UUID(int=7)), "rack")),
    "two aggregates of one name": ("aggregates", an_aggregate(3, name="a1")),
    "two aggregates of one uuid": ("aggregates", an_aggregate(3, uuid=str(uuid.UUID(int=1)))),
    "an aggregate of a zone without a name": ("aggregates", an_aggregate(3, zone="")),
    "an aggregate of a scope that is not there": ("aggregates", an_aggregate(3, scope_id=str(uuid.UUID(int=9)))),
    "a metadata key set twice": second("aggregate_metadata"),
    "a host twice in one aggregate": second("aggregate_hosts", scope_id=None),
    "a membership of an unknown host": second("aggregate_hosts", host_id=9, zone=None, scope_id=None),
    "a membership in an unknown aggregate": second("aggregate_hosts", aggregate_id=9, zone=None, scope_id=None),
    "two domains of one scope for a host": second("aggregate_hosts", aggregate_id=2),
    "a membership that names another scope": second("aggregate_hosts", host_id=2, zone=None, scope_id="other"),
    "a membership that names another zone": second("aggregate_hosts", host_id=2, zone="other", scope_id=None),
    "a zoned membership of a host without a zone": second("aggregate_hosts", host_id=2, scope_id=None),
    "two flavors of one id": ("flavors", a_flavor(2, flavorid="f1")),
    "two flavors of one name": ("flavors", a_flavor(2, name="f1")),
    "a flavor without a vcpu": ("flavors", a_flavor(2, vcpus=0)),
    "a flavor without memory": ("flavors", a_flavor(2, memory_mb=0)),
    "a flavor with a disk below zero": ("flavors", a_flavor(2, disk_gb=-1)),
    "a flavor with an ephemeral disk below zero": ("flavors", a_flavor(2, ephemeral_gb=-1)),
    "a flavor with swap below zero": ("flavors", a_flavor(2, swap_mb=-1)),
    "a flavor with an rxtx factor of zero": ("flavors", a_flavor(2, rxtx_factor=0)),
    "an extra spec set twice": second("flavor_extra_specs"),
    "extra specs of no flavor": second("flavor_extra_specs", flavor_id=9),
    "a flavor given twice": second("flavor_access"),
    "two images of one id": ("images", an_image(1)),
    "an image that needs a disk below zero": ("images", an_image(2, min_disk_gb=-1)),
    "an image that needs memory below zero": ("images", an_image(2, min_ram_mb=-1)),
    "a property set twice": second("image_properties"),
    "a property of no image": second("image_properties", image_id=str(uuid.UUID(int=9))),
    "a tag given twice": second("image_tags"),
    "a quota below minus one": second("quotas", resource="ram", hard_limit=-2),
    "a quota set twice": second("quotas"),
    "a default quota below minus one": second("quota_classes", resource="ram", hard_limit=-2),
    "a default quota set twice": second("quota_classes"),
}
# Keys that only exist as foreign key targets; the primary key inside them is violated first.
BEHIND_ANOTHER_KEY = {"uq_hosts_id_zone", "uq_aggregates_id_zone", "uq_aggregates_id_scope_id"}


def test_database_rejects_rows_that_violate_a_rule(populated: sa.Engine, subtests: pytest.Subtests) -> None:
    for claim, (table, row) in BROKEN.items():
        with subtests.test(claim), pytest.raises(sa.exc.IntegrityError):
            insert(populated, table, **row)


def test_every_rule_of_these_tables_is_covered(populated: sa.Engine) -> None:
    if populated.dialect.name != "postgresql":
        pytest.skip("SQLite does not say which key it found broken")
    rules = {str(rule.name) for table in FIRST for rule in tables.metadata.tables[table].constraints}
    assert rules - {refused(populated, table, row) for table, row in BROKEN.values()} == BEHIND_ANOTHER_KEY


def refused(connected: sa.Engine, table: str, row: dict[str, Any]) -> str:
    """The name of the rule that a row violates."""
    with pytest.raises(sa.exc.IntegrityError) as caught:
        insert(connected, table, **row)
    assert isinstance(caught.value.orig, psycopg.Error)
    return str(caught.value.orig.diag.constraint_name)


def test_valid_rows_are_stored(populated: sa.Engine) -> None:
    with populated.connect() as connection:
        for table, row in ROWS:
            columns = tables.metadata.tables[table].c
            same = sa.select(sa.func.count()).where(*(columns[name].is_not_distinct_from(v) for name, v in row.items()))
            assert connection.execute(same).scalar() == 1
