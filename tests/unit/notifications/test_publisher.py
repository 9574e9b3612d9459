"""The publisher: in order, at least once, within a time budget."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from covey.model.errors import Unavailable
from covey.model.work import Notification
from covey.notifications.publisher import Publisher
from tests.build import NOW

if TYPE_CHECKING:
    from covey.storage.store import Store


@dataclass
class FakeStore:
    """An outbox and the store around it."""

    waiting: list[Notification]
    lock_free: bool = True
    writing: bool = False

    @property
    def outbox(self) -> "FakeStore":
        return self

    @contextmanager
    def read(self) -> Iterator["FakeStore"]:
        yield self

    read_once = read

    @contextmanager
    def write(self) -> Iterator["FakeStore"]:
        self.writing = True
        yield self
        self.writing = False

    @contextmanager
    def publisher_lock(self) -> Iterator[bool]:
        yield self.lock_free

    def is_empty(self) -> bool:
        return not self.waiting

    def oldest(self, limit: int) -> list[Notification]:
        return self.waiting[:limit]

    def published(self, ids: Sequence[int]) -> None:
        self.waiting = [each for each in self.waiting if each.id not in ids]


@dataclass
class FakeNotifier:
    """Takes `seconds` for each notification; refuses some, and crashes at one."""

    store: FakeStore
    seconds: float = 0.0
    unavailable: bool = False
    crashes_at: int | None = None
    refuses_from: int | None = None
    clock: float = 100.0
    sent: list[int] = field(default_factory=list)
    attempts: list[float] = field(default_factory=list)

    def send(self, notification: Notification) -> None:
        assert not self.store.writing  # a send must not block writers
        self.attempts.append(self.clock)
        self.clock += self.seconds
        if self.unavailable or (self.refuses_from is not None and notification.id >= self.refuses_from):
            raise Unavailable("no listener")
        if notification.id == self.crashes_at:
            raise RuntimeError("broken")
        self.sent.append(notification.id)


def notifications(count: int) -> list[Notification]:
    return [Notification(number, "server_group.create", {}, NOW) for number in range(1, count + 1)]


def a_publisher(count: int, **options: Any) -> tuple[Publisher, FakeStore, FakeNotifier]:
    store = FakeStore(notifications(count))
    notifier = FakeNotifier(store, **options)
    return Publisher(cast("Store", store), notifier, monotonic=lambda: notifier.clock), store, notifier


def test_notifications_are_published_in_order_and_deleted() -> None:
    publish, store, notifier = a_publisher(3)
    assert publish() == 3
    assert (notifier.sent, store.waiting) == ([1, 2, 3], [])
    assert publish() == 0


def test_many_notifications_take_several_batches() -> None:
    publish, store, notifier = a_publisher(300)
    assert [publish(), publish(), publish(), publish()] == [128, 128, 44, 0]
    assert (notifier.sent, store.waiting) == (list(range(1, 301)), [])


def test_slow_notifier_uses_one_budget_of_a_worker() -> None:
    publish, store, _ = a_publisher(100, seconds=0.3)
    assert publish() == 4
    assert [each.id for each in store.waiting][:2] == [5, 6]


def test_nothing_is_published_without_the_lock() -> None:
    publish, store, notifier = a_publisher(3)
    store.lock_free = False
    assert publish() == 0
    assert (notifier.sent, len(store.waiting)) == ([], 3)


def test_refused_notifications_stay_and_sent_ones_are_deleted() -> None:
    publish, store, notifier = a_publisher(5, refuses_from=3)
    assert publish() == 2
    assert (notifier.sent, [each.id for each in store.waiting]) == ([1, 2], [3, 4, 5])


def test_pauses_grow_while_unavailable_and_reset_after_a_success() -> None:
    publish, store, notifier = a_publisher(2, unavailable=True)
    for second in range(50):
        notifier.clock = float(second)
        assert publish() == 0
    assert notifier.attempts == [0, 1, 3, 7, 15, 25, 35, 45]
    notifier.unavailable, notifier.clock = False, 60.0
    assert publish() == 2
    store.waiting, notifier.unavailable = notifications(1), True
    for second in range(60, 64):
        notifier.clock = float(second)
        publish()
    assert notifier.attempts[-3:] == [60, 61, 63]


def test_crash_before_deletion_repeats_and_loses_nothing() -> None:
    publish, store, notifier = a_publisher(3, crashes_at=2)
    with pytest.raises(RuntimeError):
        publish()
    assert [each.id for each in store.waiting] == [2, 3]
    notifier.crashes_at = None
    publish()
    assert (notifier.sent, store.waiting) == ([1, 2, 3], [])
