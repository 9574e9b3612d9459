"""The sender: in order, at least once, and never long at it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from covey.model.errors import Unavailable
from covey.model.work import Notification
from covey.notifications.sender import Sender
from tests.build import NOW

if TYPE_CHECKING:
    from covey.storage.store import Store


@dataclass
class Box:
    """An outbox, and the store around it."""

    notes: list[Notification]
    free: bool = True
    writing: bool = False

    @property
    def outbox(self) -> "Box":
        return self

    @contextmanager
    def read(self) -> Iterator["Box"]:
        yield self

    @contextmanager
    def write(self) -> Iterator["Box"]:
        self.writing = True
        yield self
        self.writing = False

    @contextmanager
    def turn(self) -> Iterator[bool]:
        yield self.free

    def is_empty(self) -> bool:
        return not self.notes

    def oldest(self, most: int) -> list[Notification]:
        return self.notes[:most]

    def told(self, ids: Sequence[int]) -> None:
        self.notes = [note for note in self.notes if note.id not in ids]


@dataclass
class Listener:
    """Takes notes, so many seconds for each; some it refuses, one breaks it."""

    box: Box
    seconds: float = 0.0
    away: bool = False
    breaks_at: int | None = None
    refuses_from: int | None = None
    clock: float = 100.0
    heard: list[int] = field(default_factory=list)
    tries: list[float] = field(default_factory=list)

    def send(self, note: Notification) -> None:
        assert not self.box.writing  # nobody else may be kept from writing while we talk
        self.tries.append(self.clock)
        self.clock += self.seconds
        if self.away or (self.refuses_from is not None and note.id >= self.refuses_from):
            raise Unavailable("nobody is there")
        if note.id == self.breaks_at:
            raise RuntimeError("broken")
        self.heard.append(note.id)


def notes(count: int) -> list[Notification]:
    return [Notification(number, "server_group.create", {}, NOW) for number in range(1, count + 1)]


def a_sender(count: int, **listener: Any) -> tuple[Sender, Box, Listener]:
    box = Box(notes(count))
    to = Listener(box, **listener)
    return Sender(cast("Store", box), to, monotonic=lambda: to.clock), box, to


def test_notes_are_told_in_order_and_forgotten() -> None:
    send, box, to = a_sender(3)
    assert send() == 3
    assert (to.heard, box.notes) == ([1, 2, 3], [])
    assert send() == 0


def test_many_notes_take_several_turns() -> None:
    send, box, to = a_sender(300)
    assert [send(), send(), send(), send()] == [128, 128, 44, 0]
    assert (to.heard, box.notes) == (list(range(1, 301)), [])


def test_a_slow_listener_does_not_hold_a_worker_up() -> None:
    send, box, _ = a_sender(100, seconds=0.3)
    assert send() == 4
    assert [note.id for note in box.notes][:2] == [5, 6]


def test_while_somebody_else_tells_nothing_is_told() -> None:
    send, box, to = a_sender(3)
    box.free = False
    assert send() == 0
    assert (to.heard, len(box.notes)) == ([], 3)


def test_what_nobody_takes_stays_and_what_was_told_goes() -> None:
    send, box, to = a_sender(5, refuses_from=3)
    assert send() == 2
    assert (to.heard, [note.id for note in box.notes]) == ([1, 2], [3, 4, 5])


def test_it_pauses_longer_each_time_and_not_at_all_after_it_was_heard() -> None:
    send, box, to = a_sender(2, away=True)
    for second in range(50):
        to.clock = float(second)
        assert send() == 0
    assert to.tries == [0, 1, 3, 7, 15, 25, 35, 45]
    to.away, to.clock = False, 60.0
    assert send() == 2
    box.notes, to.away = notes(1), True
    for second in range(60, 64):
        to.clock = float(second)
        send()
    assert to.tries[-3:] == [60, 61, 63]


def test_a_crash_before_it_is_forgotten_tells_a_note_again_and_loses_none() -> None:
    send, box, to = a_sender(3, breaks_at=2)
    with pytest.raises(RuntimeError):
        send()
    assert [note.id for note in box.notes] == [2, 3]
    to.breaks_at = None
    send()
    assert (to.heard, box.notes) == ([1, 2, 3], [])
