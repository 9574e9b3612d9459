"""The watch: one look a second at what changed, for all who keep a page open."""

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from covey.model.access import Actor, Target
from covey.model.errors import Unavailable
from covey.model.event_feed import ChangeMarker, EventFeed, Subject, event_feed
from covey.model.ids import ProjectId
from covey.ports import Access
from covey.services.dashboard.visibility import sees_all
from covey.storage.store import Store

_EVERY_S = 1.0
_IDLE_S = 10.0  # after so long without a look, what changed meanwhile is nobody's news
_KEPT = 64  # looks that brought something

Told = Mapping[Subject, tuple[str, ...]]
"""What changed, with the ids that are known."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """Whose news somebody gets: everybody's, or one project's."""

    everything: bool
    project_id: ProjectId

    def hear(self, told: Collection[EventFeed]) -> Told:
        """What of it is for these ears, each subject once."""
        mine = [each for each in told if self.everything or each.project_id == self.project_id]
        return {
            subject: tuple(sorted({i for each in mine if each.subject is subject for i in each.ids}))
            for subject in dict.fromkeys(each.subject for each in mine)
        }


@dataclass(slots=True)
class Watch:
    """Whoever asks when a second has passed looks for all others. Looks that brought something are numbered."""

    store: Store
    access: Access
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _looked_at: float = float("-inf")
    _seen: Collection[ChangeMarker] = ()
    _number: int = 0
    _kept: deque[tuple[int, list[EventFeed]]] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def ears(self, actor: Actor) -> Subscription:
        """Raises Forbidden for somebody who may not even look at their own servers."""
        everything = sees_all(self.access, actor)
        if not everything:
            self.access.require(actor, "os_compute_api:servers:index", Target(project_id=actor.project_id))
        return Subscription(everything, actor.project_id)

    def now(self) -> int:
        """The number from which on somebody listens."""
        with self._lock:
            self._look()
            return self._number

    def since(self, number: int, ears: Subscription) -> tuple[int, Told | None]:
        """What changed, and the number for the next time; None when that is not known any more."""
        with self._lock:
            self._look()
            missed = self._number - number
            told = [each for at, some in self._kept if at > number for each in some]
            known = missed <= len(self._kept)
            return self._number, ears.hear(told) if known else None

    def _look(self) -> None:
        now = self.clock()
        idle = now - self._looked_at
        if idle < _EVERY_S:
            return
        self._looked_at = now
        try:
            with self.store.read() as tx:
                seen = tx.dashboard.traces()
        except Unavailable:
            return  # what changes meanwhile is told by a later look
        found = event_feed(self._seen, seen)
        self._seen = seen
        if idle > _IDLE_S:
            self._kept.clear()
            self._number += 1
        elif found:
            self._number += 1
            self._kept.append((self._number, found))
