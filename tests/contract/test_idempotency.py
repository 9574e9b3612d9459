"""Idempotency keys are reserved once, in one order."""

from datetime import timedelta
from functools import partial

from covey.model.ids import ProjectId
from covey.services.maintenance import Maintenance
from covey.storage.store import Store
from tests.build import NOW
from tests.contract.concurrency import conflicts, run_concurrently, successes

WEB = ProjectId("web")


def test_key_is_reserved_once_and_returns_its_answer(store: Store) -> None:
    with store.write() as tx:
        assert tx.keys.reserve([(WEB, "b"), (WEB, "a"), (WEB, "a")], NOW) == {(WEB, "a"): None, (WEB, "b"): None}
        tx.keys.answer({(WEB, "a"): ("print", ["server"])})
        tx.keys.delete([(WEB, "b")])
    with store.write() as tx:
        assert tx.keys.reserve([(WEB, "a"), (WEB, "b")], NOW) == {(WEB, "a"): ("print", ["server"]), (WEB, "b"): None}


def test_purged_key_is_new_again(store: Store) -> None:
    with store.write() as tx:
        tx.keys.reserve([(WEB, "old")], NOW)
        tx.keys.reserve([(WEB, "young")], NOW + timedelta(seconds=2))
        tx.keys.answer({(WEB, "old"): ("print", ["a"]), (WEB, "young"): ("print", ["b"])})
        tx.keys.purge(NOW + timedelta(seconds=1))
        assert tx.keys.reserve([(WEB, "old"), (WEB, "young")], NOW) == {
            (WEB, "old"): None,
            (WEB, "young"): ("print", ["b"]),
        }


def test_maintenance_purges_keys_after_a_day(store: Store) -> None:
    with store.write() as tx:
        tx.keys.reserve([(WEB, "old")], NOW)
        tx.keys.reserve([(WEB, "young")], NOW + timedelta(hours=1))
        tx.keys.answer({(WEB, "old"): ("print", ["a"]), (WEB, "young"): ("print", ["b"])})
    Maintenance(store, lambda: NOW + timedelta(hours=24, seconds=1)).run_if_due()
    with store.write() as tx:
        assert tx.keys.reserve([(WEB, "old"), (WEB, "young")], NOW) == {
            (WEB, "old"): None,
            (WEB, "young"): ("print", ["b"]),
        }


def test_reserving_the_same_keys_does_not_deadlock(store: Store) -> None:
    for number in range(15):
        names = [f"{number}-{i}" for i in range(8)]
        results = run_concurrently([partial(_take, store, names), partial(_take, store, names[::-1])])
        assert conflicts(results) == []
        assert sorted(successes(results)) == [0, 8]


def _take(store: Store, names: list[str]) -> int:
    with store.write() as tx:
        found = tx.keys.reserve([(WEB, name) for name in names], NOW)
        return sum(known is None for known in found.values())
