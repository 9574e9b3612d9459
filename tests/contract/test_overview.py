"""The state of the fleet at a glance, on every database."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import sqlalchemy as sa

from covey.model.groups import Group, GroupPolicy, PolicyKind, ScopeRef
from covey.model.ids import GroupId, ProjectId, ScopeId, UserId
from covey.model.scopes import DomainProblems, Scope
from covey.model.work import JobKind
from covey.services.overview import Overview, get_overview
from covey.storage.store import Store
from covey.storage.tables import aggregate_hosts
from tests.build import NOW, a_flavor, a_host, an_image

RACK, CELL, SWITCH = (
    Scope(ScopeId(f"s{n}"), name, False, False, "n") for n, name in enumerate(("rack", "cell", "switch"))
)


def test_overview_of_an_empty_fleet_reports_what_is_missing(store: Store) -> None:
    seen = get_overview(store, "nova")
    assert seen == Overview(0, 0, 0, (), 0, (), 0, 0, seen.warnings)
    assert list(seen.warnings) == [
        "The fleet has no hosts; `covey fleet apply FILE` adds them.",
        "The fleet has no flavors, so no server can be created.",
    ]


def test_overview_counts_the_fleet_and_reports_scopes_without_domains(store: Store) -> None:
    with store.write() as tx:
        tx.hosts.add([a_host("n1"), a_host("n2"), a_host("n3")], NOW)
        first, second, _ = tx.hosts.find()
        tx.hosts.set_state(replace(first, disabled=True), NOW)
        tx.hosts.set_state(replace(second, forced_down=True), NOW)
        tx.scopes.add([RACK, CELL])
        zoned, _ = tx.aggregates.add([("u1", "a", "az", None), ("u2", "r1", None, RACK.id)], NOW)
        tx.aggregates.add_hosts([(zoned, first.id)], NOW)
        tx.flavors.add([a_flavor(is_public=False)], NOW)
        tx.images.add([an_image()])
    assert get_overview(store, "nova") == Overview(
        hosts=3,
        disabled=1,
        down=1,
        zones=(("az", 1), ("nova", 2)),
        aggregates=2,
        scopes=(("cell", 0), ("rack", 1)),
        flavors=1,
        images=1,
        warnings=(
            "The scope cell has no domains.",
            "3 hosts are in no domain of the scope rack: n1, n2, n3.",
        ),
        domain_problems=(DomainProblems("rack", ("n1", "n2", "n3"), ()),),
    )


def test_hosts_in_no_domain_are_reported_for_used_scopes(store: Store) -> None:
    with store.write() as tx:
        tx.hosts.add([a_host(f"n{n}") for n in range(1, 9)], NOW)
        tx.flavors.add([a_flavor()], NOW)
        tx.scopes.add([RACK, CELL, SWITCH])
        (rack,) = tx.aggregates.add([("u", "r1", None, RACK.id)], NOW)
        tx.aggregates.add_hosts([(rack, host.id) for host in tx.hosts.find()[:7]], NOW)
        policy = GroupPolicy(PolicyKind.AFFINITY, ScopeRef(CELL.id))
        tx.groups.add(Group(GroupId("g"), "g", ProjectId("p"), UserId("u"), (policy,), 0, NOW))
    seen = get_overview(store, "nova")
    assert seen.warnings == (
        "The scope cell has no domains.",
        "The scope switch has no domains.",
        "8 hosts are in no domain of the scope cell: n1, n2, n3, n4, n5 and 3 more.",
        "1 host is in no domain of the scope rack: n8.",
    )
    all_hosts = tuple(f"n{n}" for n in range(1, 9))
    assert seen.domain_problems == (DomainProblems("cell", all_hosts, ()), DomainProblems("rack", ("n8",), ()))


def test_fleet_with_every_host_in_a_domain_has_no_findings(store: Store) -> None:
    with store.write() as tx:
        tx.hosts.add([a_host("n1"), a_host("n2")], NOW)
        tx.flavors.add([a_flavor()], NOW)
        tx.scopes.add([RACK])
        first, second = tx.aggregates.add([("u1", "r1", None, RACK.id), ("u2", "r2", None, RACK.id)], NOW)
        one, two = tx.hosts.find()
        tx.aggregates.add_hosts([(first, one.id), (second, two.id)], NOW)
    seen = get_overview(store, "nova")
    assert (seen.warnings, seen.domain_problems) == ((), ())


def test_hosts_in_two_domains_are_reported_with_both(store: Store, connected: sa.Engine) -> None:
    with store.write() as tx:
        tx.hosts.add([a_host("n1"), a_host("n2")], NOW)
        tx.flavors.add([a_flavor()], NOW)
        tx.scopes.add([RACK])
        first, second = tx.aggregates.add([("u1", "r1", None, RACK.id), ("u2", "r2", None, RACK.id)], NOW)
        one, two = tx.hosts.find()
        tx.aggregates.add_hosts([(first, one.id), (first, two.id)], NOW)
    with keys_dropped(connected) as connection:
        row = {"aggregate_id": second, "host_id": one.id, "scope_id": RACK.id}
        connection.execute(sa.insert(aggregate_hosts), row)
        connection.commit()
        seen = get_overview(store, "nova")
    assert seen.warnings == (
        "1 host is in more than one domain of the scope rack, so excluded by its policies: n1 (r1, r2).",
    )
    assert seen.domain_problems == (DomainProblems("rack", (), (("n1", ("r1", "r2")),)),)


@contextmanager
def keys_dropped(connected: sa.Engine) -> Iterator[sa.Connection]:
    """Drop the keys that keep a host in one domain, for the block."""
    with connected.connect() as connection:
        connection.execute(sa.text("ALTER TABLE aggregate_hosts RENAME TO kept"))
        connection.execute(sa.text("CREATE TABLE aggregate_hosts AS SELECT * FROM kept"))
        connection.commit()
        try:
            yield connection
        finally:
            connection.execute(sa.text("DROP TABLE aggregate_hosts"))
            connection.execute(sa.text("ALTER TABLE kept RENAME TO aggregate_hosts"))
            connection.commit()


def test_overview_reports_parked_jobs(store: Store) -> None:
    with store.write() as tx:
        for name in "abcdef":
            tx.work.add(JobKind.DESTROY, name)
    with store.write() as tx:
        for job in tx.work.take(30, 16):
            tx.work.park(job, "no route to host")
    seen = get_overview(store, "nova")
    assert len(seen.parked_jobs) == 6
    assert seen.warnings[-1] == (
        "6 jobs are parked after repeated failures: "
        + ", ".join(f"destroy of {name} (no route to host)" for name in "abcde")
        + " and 1 more. `covey manage retry_jobs` tries again."
    )
