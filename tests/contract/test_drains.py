"""Drains: rows in, values out, at most one running for each host, on both databases."""

from dataclasses import replace
from functools import partial

import pytest

from covey.model.drains import Drain, DrainStatus, DrainStep, LeftServer, StepStatus
from covey.model.errors import Conflict
from covey.model.ids import HostId, ProjectId, UserId
from covey.storage.store import Store
from tests.build import LATER, NOW, a_host
from tests.contract.concurrency import conflicts, run_concurrently

FIRST = Drain(
    id="d1",
    scope="rack",
    domain="rack-1",
    hosts=("n1", "n2"),
    disabled=("n2",),
    status=DrainStatus.RUNNING,
    project_id=ProjectId("operators"),
    user_id=UserId("root"),
    request_id="req-1",
    created_at=NOW,
    updated_at=NOW,
    planned=3,
    steps=(DrainStep("s1", "n1", "n3"), DrainStep("s2", "n2", "n4", StepStatus.FAILED, "no")),
    left=(LeftServer("s3", "n1", "It is locked."),),
)
SECOND = replace(FIRST, id="d2", created_at=LATER)


@pytest.fixture
def hosts(store: Store) -> list[HostId]:
    with store.write() as tx:
        tx.hosts.add([a_host(f"n{n}") for n in (1, 2, 3)], NOW)
        return [host.id for host in tx.hosts.find()]


def add(store: Store, new: Drain, hosts: list[HostId]) -> None:
    with store.write() as tx:
        tx.drains.add(new, hosts)


def test_stored_drain_is_read_back_unchanged(store: Store, hosts: list[HostId]) -> None:
    add(store, FIRST, hosts[:2])
    changed = replace(FIRST, status=DrainStatus.DONE, steps=FIRST.steps[:1], left=(), updated_at=LATER)
    with store.write() as tx:
        assert tx.drains.by_id("d1", lock=True) == FIRST
        tx.drains.update(changed)
    with store.read() as tx:
        assert tx.drains.by_id("d1") == changed
        assert tx.drains.by_id("d2") is None


def test_newest_drains_come_first(store: Store, hosts: list[HostId]) -> None:
    add(store, FIRST, hosts[:1])
    add(store, SECOND, hosts[1:])
    with store.read() as tx:
        assert tx.drains.newest(5) == [SECOND, FIRST]
        assert tx.drains.newest(1) == [SECOND]


def test_host_is_in_one_running_drain(store: Store, hosts: list[HostId]) -> None:
    add(store, FIRST, hosts[:2])
    with pytest.raises(Conflict, match="The drain d1 of one of these hosts is running"):
        add(store, SECOND, hosts[1:])
    with store.write() as tx:
        tx.drains.update(replace(FIRST, status=DrainStatus.CANCELLED))
    add(store, SECOND, hosts[1:])


def test_one_of_several_concurrent_drains_of_a_host_starts(store: Store, hosts: list[HostId]) -> None:
    outcomes = run_concurrently([partial(add, store, replace(FIRST, id=f"d{n}"), hosts) for n in range(4)])
    assert len(conflicts(outcomes)) == 3


def test_hosts_are_disabled_and_enabled_for_a_reason(store: Store, hosts: list[HostId]) -> None:
    with store.write() as tx:
        assert tx.hosts.disable(hosts[:1], "broken", NOW) == ["n1"]
        assert tx.hosts.disable(hosts[:2], "drained", NOW) == ["n2"]
        assert tx.hosts.disable(hosts[:2], "drained again", NOW, {"drained"}) == ["n2"]
        tx.hosts.enable(["n1", "n2", "n3"], "drained again", LATER)
    with store.read() as tx:
        assert [(h.disabled, h.disabled_reason) for h in tx.hosts.find()] == [
            (True, "broken"),
            (False, None),
            (False, None),
        ]
        assert [host.name for host in tx.hosts.by_names(["n3", "n1", "n9"])] == ["n1", "n3"]
