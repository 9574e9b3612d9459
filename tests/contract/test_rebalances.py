"""Rebalances: rows in, values out, at most one running for each group, on both databases."""

from dataclasses import replace
from functools import partial

import pytest

from covey.model.errors import Conflict
from covey.model.groups import Group, GroupPolicy, PolicyKind
from covey.model.ids import GroupId, ProjectId, UserId
from covey.model.rebalances import Rebalance, RebalanceStatus, Step
from covey.storage.store import Store
from tests.build import LATER, NOW
from tests.contract.concurrency import conflicts, run_concurrently

GROUP, OTHER = GroupId("g1"), GroupId("g2")
FIRST = Rebalance(
    id="r1",
    group_id=GROUP,
    project_id=ProjectId("web"),
    user_id=UserId("root"),
    request_id="req-1",
    status=RebalanceStatus.RUNNING,
    steps=(Step("s1", "n1", "n2"), Step("s2", "n1", "n3")),
    created_at=NOW,
    updated_at=NOW,
    max_moves=2,
)


@pytest.fixture(autouse=True)
def _groups(store: Store) -> None:
    apart = (GroupPolicy(PolicyKind.ANTI_AFFINITY),)
    with store.write() as tx:
        for group in (GROUP, OTHER):
            tx.groups.add(Group(group, "g", ProjectId("web"), UserId("alice"), apart, 0, NOW))


def add(store: Store, *new: Rebalance) -> None:
    for each in new:
        with store.write() as tx:
            tx.rebalances.add(each)


def test_stored_rebalance_is_read_back_unchanged(store: Store) -> None:
    add(store, FIRST)
    changed = replace(
        FIRST, status=RebalanceStatus.FAILED, done=1, under_way=True, plans=3, reason="no", steps=FIRST.steps[:1]
    )
    with store.write() as tx:
        assert tx.rebalances.by_id("r1", lock=True) == FIRST
        tx.rebalances.update(changed)
    with store.read() as tx:
        assert tx.rebalances.by_id("r1") == changed
        assert tx.rebalances.by_id("r2") is None
        assert tx.rebalances.latest(OTHER) is None


def test_second_running_rebalance_of_a_group_is_a_conflict(store: Store) -> None:
    add(store, FIRST, replace(FIRST, id="r2", group_id=OTHER))
    with pytest.raises(Conflict, match="A rebalance of the server group g1 is running"):
        add(store, replace(FIRST, id="r3"))
    with store.write() as tx:
        tx.rebalances.update(replace(FIRST, status=RebalanceStatus.CANCELLED))
    add(store, replace(FIRST, id="r3", created_at=LATER))
    with store.read() as tx:
        latest = tx.rebalances.latest(GROUP)
    assert latest is not None
    assert latest.id == "r3"


def test_concurrent_starts_leave_one_running_rebalance(store: Store) -> None:
    new = [replace(FIRST, id=f"r{n}") for n in range(6)]
    assert len(conflicts(run_concurrently([partial(add, store, each) for each in new]))) == 5


def test_deleting_a_group_deletes_its_rebalances(store: Store) -> None:
    add(store, FIRST)
    with store.write() as tx:
        tx.groups.delete(GROUP)
    with store.read() as tx:
        assert tx.rebalances.by_id("r1") is None


def test_latest_with_moves_leaves_out_empty_rebalances(store: Store) -> None:
    done = replace(FIRST, status=RebalanceStatus.DONE)
    add(
        store,
        done,
        replace(done, id="r2", steps=(), created_at=LATER),
        replace(done, id="r3", group_id=OTHER, steps=()),
    )
    with store.read() as tx:
        latest = tx.rebalances.latest_with_moves(GROUP)
        assert tx.rebalances.latest_with_moves(OTHER) is None
    assert latest == done
