"""Polls the database for changes once a second, for all event streams of the process."""

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from covey.model.access import Actor, Target
from covey.model.errors import Unavailable
from covey.model.event_feed import ChangeMarker, FeedEvent, Subject, feed_events
from covey.model.ids import ProjectId
from covey.ports import Access
from covey.services.dashboard.visibility import sees_all
from covey.storage.store import Store

_INTERVAL_S = 1.0
_MAX_IDLE_S = 10.0  # after a longer pause between polls, streams reload everything instead of single changes
_MAX_KEPT = 64  # polls with changes

Changes = Mapping[Subject, tuple[str, ...]]
"""The changed subjects, with the ids of changed objects where they are known."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which events a stream receives: all, or those of one project."""

    everything: bool
    project_id: ProjectId | None  # None: no project

    def select(self, events: Collection[FeedEvent]) -> Changes:
        """Return the changes that the subscription covers, each subject once."""
        visible = [event for event in events if self.everything or self._is_own(event)]
        return {
            subject: tuple(sorted({i for event in visible if event.subject is subject for i in event.ids}))
            for subject in dict.fromkeys(event.subject for event in visible)
        }

    def _is_own(self, event: FeedEvent) -> bool:
        return event.project_id is not None and event.project_id == self.project_id


@dataclass(slots=True)
class ChangePoller:
    """The first caller after the interval polls for all others. Polls that find changes are numbered."""

    store: Store
    access: Access
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _polled_at: float = float("-inf")
    _markers: Collection[ChangeMarker] = ()
    _position: int = 0
    _kept: deque[tuple[int, list[FeedEvent]]] = field(default_factory=lambda: deque(maxlen=_MAX_KEPT))

    def subscribe(self, actor: Actor) -> Subscription:
        """Raises Forbidden for an actor who may not list their project's servers."""
        everything = sees_all(self.access, actor)
        if not everything:
            self.access.require(actor, "os_compute_api:servers:index", Target(project_id=actor.project_id))
        return Subscription(everything, None if everything else actor.own_project)

    def position(self) -> int:
        """Return the current position, from which a new stream starts."""
        with self._lock:
            self._poll()
            return self._position

    def since(self, position: int, subscription: Subscription) -> tuple[int, Changes | None]:
        """Return the current position and the changes since an older one; None when those are no longer kept."""
        with self._lock:
            self._poll()
            missed = self._position - position
            events = [event for at, batch in self._kept if at > position for event in batch]
            known = missed <= len(self._kept)
            return self._position, subscription.select(events) if known else None

    def _poll(self) -> None:
        now = self.clock()
        idle = now - self._polled_at
        if idle < _INTERVAL_S:
            return
        self._polled_at = now
        try:
            with self.store.read() as tx:
                markers = tx.dashboard.markers()
        except Unavailable:
            return  # a later poll finds these changes
        events = feed_events(self._markers, markers)
        self._markers = markers
        if idle > _MAX_IDLE_S:
            self._kept.clear()
            self._position += 1
        elif events:
            self._position += 1
            self._kept.append((self._position, events))
