"""A move uses one connection: requests that hold one and wait for a second would block each other."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from covey.storage import engine
from tests.build import a_host
from tests.contract.concurrency import run_concurrently
from tests.functional.client import Answer
from tests.functional.fleets import Cloud, FailingDriver, cloud_on

LIVE: dict[str, Any] = {"host": None, "block_migration": "auto"}
POOL_S = 2.0  # for a free connection


@pytest.fixture
def wide(database: str, tmp_path: Path) -> Iterator[Cloud]:
    """A process with a large pool, and eight hosts."""
    with cloud_on(database, tmp_path, [a_host(f"node-{n + 1}") for n in range(8)]) as cloud:
        yield cloud


@pytest.fixture
def driver() -> FailingDriver:
    return FailingDriver()


@pytest.fixture(params=[1])
def narrow(
    request: pytest.FixtureRequest, wide: Cloud, driver: FailingDriver, database: str, tmp_path: Path
) -> Iterator[Cloud]:
    """Another process, with a pool of one connection."""
    assert wide.is_empty()
    limits = engine.TimeLimits(pool_s=POOL_S)
    with cloud_on(database, tmp_path, driver=driver, pool_size=request.param, limits=limits) as cloud:
        yield cloud


def act(cloud: Cloud, server: str, action: str, body: Any) -> Answer:
    return cloud.admin.post(f"/servers/{server}/action", {action: body})


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("migrate", None),
        ("os-migrateLive", LIVE),
        ("resize", {"flavorRef": "big"}),
        ("evacuate", {}),
        ("unshelve", {"availability_zone": "nova"}),
    ],
)
def test_move_uses_one_connection(wide: Cloud, narrow: Cloud, action: str, body: Any) -> None:
    away = wide.boot_on("node-8")
    group = wide.group("anti-affinity")
    server = wide.boot_on("node-1", group, hints={"different_host": [away]})
    if action == "evacuate":
        wide.set_down("node-1")
    elif action == "unshelve":
        wide.run_action(wide.admin, server, "shelve")
    answer = act(narrow, server, action, body)
    assert answer.status in {200, 202}, answer.text
    wide.settle()


def test_evacuation_of_a_group_uses_one_connection(wide: Cloud, narrow: Cloud) -> None:
    group = wide.group("affinity")
    for _ in range(2):
        wide.boot_on("node-1", group)
    wide.set_down("node-1")
    answer = narrow.admin.post(f"/os-server-groups/{group}/action", {"evacuate": {}})
    assert answer.status == 202, answer.text
    wide.settle()


def test_server_joins_a_group_by_one_connection(wide: Cloud, narrow: Cloud) -> None:
    group, server = wide.group("anti-affinity"), wide.boot()
    body = {"add_instance": {"instance_id": server, "enforce": True}}
    answer = narrow.alice.post(f"/os-server-groups/{group}/action", body)
    assert answer.status == 200, answer.text


def test_failed_build_is_rescheduled_by_one_connection(wide: Cloud, narrow: Cloud, driver: FailingDriver) -> None:
    away = wide.boot_on("node-8")
    made = wide.request_server(wide.alice, hints={"different_host": [away]})
    server = made.json["server"]["id"]
    first = wide.host(server)
    assert first is not None
    driver.hosts.add(first)
    narrow.assembled.worker().run_once()
    assert wide.host(server) not in {first, None}


@pytest.mark.parametrize("narrow", [2], indirect=True)
def test_more_migrations_of_a_group_than_connections_do_not_block_each_other(wide: Cloud, narrow: Cloud) -> None:
    group = wide.group("soft-anti-affinity")
    servers = [wide.boot(group=group) for _ in range(6)]
    answers = run_concurrently([partial(act, narrow, server, "os-migrateLive", LIVE) for server in servers])
    assert [answer.status for answer in answers if isinstance(answer, Answer)] == [202] * len(servers)
    wide.settle()
