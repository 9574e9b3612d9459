"""Moves during concurrent writes of the same allocations through the Placement API: no deadlock."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from covey.storage import tables
from tests.acceptance.storm import deadlocks
from tests.functional.fleets import Cloud

PATIENCE_S = 30.0
_WAITING = sa.text("SELECT COUNT(DISTINCT pid) FROM pg_locks WHERE NOT granted")


def wait_for(connected: sa.Engine, number: int) -> None:
    """Wait until that many transactions are blocked."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        with connected.connect() as connection:
            if connection.execute(_WAITING).scalar_one() >= number:
                return
    pytest.fail(f"{number} transactions never waited at once")


def test_revert_succeeds_during_a_write_of_the_migrations_allocations(cloud: Cloud) -> None:
    if cloud.connection.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer")
    server = cloud.boot_on("node-1")
    cloud.run_action(cloud.admin, server, "migrate", {"host": "node-2"})
    cloud.act(cloud.admin, server, "revertResize")
    move = cloud.admin.get("/os-migrations").json["migrations"][0]["uuid"]
    placement_client = cloud.service.as_("admin").below("/placement").sending(OpenStack_API_Version="placement 1.39")
    wanted: dict[str, Any] = placement_client.get(f"/allocations/{move}").json
    with cloud.connection.connect() as connection:
        of = tables.resource_providers.c
        there = connection.execute(sa.select(of.id, of.uuid).where(of.name == "node-2")).one()
    wanted["allocations"] = {there.uuid: {"resources": {"VCPU": 1}}}
    before = deadlocks(cloud.connection)
    with ThreadPoolExecutor(2) as pool:
        with cloud.connection.begin() as connection:
            mine = tables.inventories.c.provider_id == there.id
            connection.execute(sa.select(tables.inventories).where(mine).with_for_update())
            back = pool.submit(cloud.assembled.worker().run_once)
            wait_for(cloud.connection, 1)
            written = pool.submit(placement_client.put, f"/allocations/{move}", wanted)
            wait_for(cloud.connection, 2)
        assert back.result(PATIENCE_S) == 1
        assert written.result(PATIENCE_S).status == 409, "the move is over, and its consumer is gone"
    assert (cloud.status(server), cloud.host(server)) == ("ACTIVE", "node-1")
    assert deadlocks(cloud.connection) == before
    cloud.check()


def test_server_with_deleted_allocations_can_move(cloud: Cloud) -> None:
    server = cloud.boot_on("node-1")
    placement_client = cloud.service.as_("admin").below("/placement").sending(OpenStack_API_Version="placement 1.39")
    assert placement_client.delete(f"/allocations/{server}").status == 204
    for body in ({"migrate": {"host": "node-2"}}, {"confirmResize": None}):
        assert cloud.admin.post(f"/servers/{server}/action", body).status in {202, 204}
        while cloud.assembled.worker().run_once():  # not settle(), whose check rejects the deleted allocations
            pass
    cloud.check()  # it has allocations on its host again
