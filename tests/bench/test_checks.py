"""The checks after a run find nothing wrong with good rows, and each finds what it is there for."""

# ruff: noqa: S608 -- what goes into these statements stands here, too

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from covey.storage import engine as databases
from covey.storage import schema
from tests.bench import checks

NOW = "'2026-01-01 00:00:00'"
GOOD = [
    *(
        "INSERT INTO resource_providers (id, uuid, name, generation, created_at, updated_at) "
        f"VALUES ({i}, 'p{i}', 'h{i}', 0, {NOW}, {NOW})"
        for i in (1, 2)
    ),
    *(f"INSERT INTO hosts (id, name, updated_at) VALUES ({i}, 'h{i}', {NOW})" for i in (1, 2)),
    *(
        "INSERT INTO inventories (provider_id, resource_class, total, reserved, allocation_ratio, used) "
        f"VALUES ({i}, '{kind}', 4, 0, 1.0, {used})"
        for i in (1, 2)
        for kind, used in {"VCPU": 1, "MEMORY_MB": 2, "DISK_GB": 3}.items()
    ),
    f"INSERT INTO instance_groups (id, name, project_id, user_id, created_at) VALUES ('g', 'g', 'p', 'u', {NOW})",
    "INSERT INTO instance_group_policies VALUES ('g', 0, 'anti-affinity', NULL, NULL, '{}')",
    *(
        "INSERT INTO servers (id, name, project_id, user_id, host_id, vm_state, power_state, flavor, request, details, "
        "vcpus, memory_mb, disk_gb, created_at, updated_at) "
        f"VALUES ('s{i}', 's', 'p', 'u', {i}, 'active', 1, '', '', '', 1, 2, 3, {NOW}, {NOW})"
        for i in (1, 2)
    ),
    *(f"INSERT INTO instance_group_members VALUES ('s{i}', 'g')" for i in (1, 2)),
    *(f"INSERT INTO consumers (uuid, project_id, user_id) VALUES ('s{i}', 'p', 'u')" for i in (1, 2)),
    *(
        f"INSERT INTO allocations VALUES ('s{i}', {i}, '{kind}', {used})"
        for i in (1, 2)
        for kind, used in {"VCPU": 1, "MEMORY_MB": 2, "DISK_GB": 3}.items()
    ),
    "INSERT INTO quota_usages VALUES ('p', 2, 2, 4)",
]
BAD = {
    "UPDATE inventories SET total = 2": "a host holds more than it has",
    "UPDATE inventories SET used = used + 1 WHERE provider_id = 1": "use is not the sum of the allocations",
    "UPDATE servers SET host_id = 1": "a host has two members of an anti-affinity group",
    "DELETE FROM instance_group_members WHERE server_id = 's1'": "a server is in no group",
    "UPDATE servers SET vm_state = 'error' WHERE id = 's1'": "a server does not run",
    "UPDATE servers SET vcpus = 2 WHERE id = 's1'": "a server's allocations are not its size on its host",
    "UPDATE quota_usages SET cores = 3": "a project's use is not the sum of its servers",
    "DELETE FROM servers": "2 servers were accepted, 0 are there",
    "DELETE FROM allocations WHERE resource_class = 'VCPU'": "6 allocations were accepted, 4 are there",
    f"INSERT INTO work (verb, server_id, arguments, due_at) VALUES ('spawn', 's1', '', {NOW})": "work is left",
}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    made = databases.connect(f"sqlite:///{tmp_path / 'covey.sqlite'}")
    schema.upgrade(made)
    _run(made, *GOOD)
    yield made
    made.dispose()


def _run(engine: sa.Engine, *statements: str) -> None:
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def test_good_rows_have_no_problems(engine: sa.Engine) -> None:
    assert checks.problems(engine, accepted=2) == []


@pytest.mark.parametrize(("statement", "problem"), BAD.items(), ids=BAD.values())
def test_a_bad_row_is_found(engine: sa.Engine, statement: str, problem: str) -> None:
    _run(engine, statement)
    assert any(told.startswith(problem) for told in checks.problems(engine, accepted=2))
