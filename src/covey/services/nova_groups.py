"""Reads server groups from Nova with the token of the caller: Nova decides which ones the caller may see.

So a tenant can set policies for its groups in Nova, under their uuids, before Nova's scheduler reports them. A group
that Nova does not show to the caller is like one that does not exist.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

import structlog

from covey.model.access import Actor
from covey.model.errors import Busy, Forbidden, Unauthorized, Unavailable
from covey.model.group_consumers import ReportedGroup
from covey.model.ids import GroupId
from covey.model.quotas import QuotaUse
from covey.ports import Clock
from covey.request_slots import ProjectLimit, RequestSlots
from covey.services.nova_sync.nova import Nova
from covey.services.placement.generations import retry_on_conflict
from covey.services.placement.host_rankings import record_group
from covey.storage.store import Store

log = structlog.get_logger()
T = TypeVar("T")

_MAX_REQUESTS, _MAX_REQUESTS_OF_PROJECT = 16, 4  # at once: each occupies a thread until Nova answers


@dataclass(frozen=True, slots=True)
class NovaGroups:
    """Groups of the Nova whose Placement service Covey is. Without the address of one, no group is Nova's."""

    store: Store
    clock: Clock
    request_slots: RequestSlots
    connect: Callable[[str, str], Nova]  # from an address and a token
    url: str | None = None  # None: the address that `covey sync nova` reads
    limit: ProjectLimit = field(default_factory=lambda: ProjectLimit(_MAX_REQUESTS, _MAX_REQUESTS_OF_PROJECT))

    def mirror(self, actor: Actor, token: str | None, group: str) -> bool:
        """Store a group that Nova shows to the owner of the token, with its members. Return whether there is one.

        Raises Unavailable, Busy, and Invalid for a policy that Nova does not have.
        """
        try:
            reported = self._find(actor, token, group)
        except (Forbidden, Unauthorized):
            return False
        if reported is None:
            return False
        retry_on_conflict(lambda: self._record(reported))
        log.info("nova.group_mirrored", group=reported.id, project=reported.project_id)
        return True

    def is_gone(self, actor: Actor, token: str | None, group: str) -> bool:
        """Return whether Nova returns 404 for this group to the owner of the token. Raises Unavailable, Busy."""
        try:
            return bool(token) and self._address() is not None and self._find(actor, token, group) is None
        except (Forbidden, Unauthorized):
            return False

    def quota(self, actor: Actor, token: str | None) -> QuotaUse:
        """Return the quota of the caller's project in Nova. Raises Unavailable, Busy."""
        try:
            found = self._ask(actor, token, Nova.quota)
        except (Forbidden, Unauthorized):
            found = None
        if found is None:
            raise Unavailable("Nova did not return the quota of the project. Try again in a moment.")
        return found

    def _find(self, actor: Actor, token: str | None, group: str) -> ReportedGroup | None:
        return self._ask(actor, token, lambda nova: nova.group(GroupId(group))) if _is_uuid(group) else None

    def _ask(self, actor: Actor, token: str | None, request: Callable[[Nova], T]) -> T | None:
        """Return Nova's response to a request with this token; None without a token or without Nova's address."""
        address = self._address()
        if address is None or not token:
            return None
        if not self.limit.take(actor.project_id):
            raise Busy("Too many requests wait for Nova. Retry in 1 second.")
        try:
            with self.request_slots.released():
                return request(self.connect(address, token))
        except Unavailable as error:
            log.warning("nova.unavailable", error=error.message)  # it may contain an internal address
            raise Unavailable("Nova does not answer. Try again in a moment.") from error
        finally:
            self.limit.release(actor.project_id)

    def _address(self) -> str | None:
        if self.url is not None:
            return self.url
        with self.store.read() as tx:
            state = tx.nova_mirror.state()
        return None if state is None else state.url

    def _record(self, reported: ReportedGroup) -> None:
        with self.store.write() as tx:
            record_group(tx, reported, set(reported.members), self.clock())


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
