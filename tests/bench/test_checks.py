"""The checks report nothing for valid rows, and each check reports its violation."""

# ruff: noqa: S608 -- the statements contain only constants of this file

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from covey.storage import engine as databases
from covey.storage import schema
from tests.bench import checks

NOW = "'2026-01-01 00:00:00'"
VALID = [
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
INVALID = {
    "UPDATE inventories SET total = 2": "the usage of a host exceeds its capacity",
    "UPDATE inventories SET used = used + 1 WHERE provider_id = 1": "usage is not the sum of the allocations",
    "UPDATE servers SET host_id = 1": "a host has two members of an anti-affinity group",
    "DELETE FROM instance_group_members WHERE server_id = 's1'": "a server is in no group",
    "UPDATE servers SET vm_state = 'error' WHERE id = 's1'": "a server is not active",
    "UPDATE servers SET vcpus = 2 WHERE id = 's1'": "the allocations of a server do not match its size",
    "UPDATE quota_usages SET cores = 3": "the usage of a project is not the sum of its servers",
    "DELETE FROM servers": "2 servers were accepted, 0 exist",
    "DELETE FROM allocations WHERE resource_class = 'VCPU'": "6 allocations were accepted, 4 exist",
    f"INSERT INTO work (verb, server_id, arguments, due_at) VALUES ('spawn', 's1', '', {NOW})": "unfinished work",
}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    connected = databases.connect(f"sqlite:///{tmp_path / 'covey.sqlite'}")
    schema.upgrade(connected)
    _run(connected, *VALID)
    yield connected
    connected.dispose()


def _run(engine: sa.Engine, *statements: str) -> None:
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def test_valid_rows_have_no_problems(engine: sa.Engine) -> None:
    assert checks.problems(engine, accepted=2) == []


@pytest.mark.parametrize(("statement", "problem"), INVALID.items(), ids=INVALID.values())
def test_each_violation_is_reported(engine: sa.Engine, statement: str, problem: str) -> None:
    _run(engine, statement)
    assert any(reported.startswith(problem) for reported in checks.problems(engine, accepted=2))
