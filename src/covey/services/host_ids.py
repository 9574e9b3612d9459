"""The `hostId` of servers: what a project may know of a host."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from covey.model.ids import ProjectId
from covey.model.servers import Server
from covey.storage.store import Store

_MAX_CACHED = 16_384

_Digest = Callable[[ProjectId, str], str]


@dataclass(slots=True)
class HostIds:
    """Nova's `hostId`: equal for servers of a project on one host.

    It is keyed with a secret of the database, so that no project finds the host's name by trying names.
    """

    store: Store
    _digest: _Digest | None = field(default=None)

    def of(self, server: Server) -> str:
        """Return the id of the server's host; an empty text without a host."""
        if server.host_name is None:
            return ""
        if self._digest is None:
            with self.store.read_once() as tx:
                self._digest = _digest_with(tx.secret("host_ids"))
        return self._digest(server.project_id, server.host_name)


def _digest_with(key: str) -> _Digest:
    @lru_cache(maxsize=_MAX_CACHED)
    def digest(project: ProjectId, host: str) -> str:
        return hmac.digest(key.encode(), f"{project}\n{host}".encode(), "sha224").hex()

    return digest
