"""Data that is sent as a stream: each occupies a thread until its client has taken all, so there are a few at once."""

import os
from dataclasses import dataclass, field
from typing import BinaryIO

import falcon

from covey.api.requests import Request
from covey.model.errors import Busy
from covey.model.ids import ProjectId, UserId
from covey.request_slots import FairLimit, ProjectLimit

DATA_TYPE = "application/octet-stream"
_RETRY_AFTER_S = 5


@dataclass(slots=True)
class _Download:
    """A file that the server reads, and closes even when the client disconnects."""

    data: BinaryIO
    limit: ProjectLimit
    client: ProjectId | UserId | None
    _open: bool = field(default=True)

    def read(self, size: int | None = -1, /) -> bytes:
        return self.data.read(-1 if size is None else size)

    def close(self) -> None:
        if self._open:
            self._open = False
            self.data.close()
            self.limit.release(self.client)


@dataclass(frozen=True, slots=True)
class Downloads:
    """Sends files, to a limited number of clients at once."""

    limit: ProjectLimit = field(default_factory=lambda: FairLimit(16))
    by_user: bool = False  # for agents: one project has many of them, and a user each

    def send(self, req: Request, resp: falcon.Response, data: BinaryIO) -> None:
        """Respond with a file, which is closed at the end. Raises Busy at the limit."""
        client = req.actor.user_id if self.by_user else req.actor.project_id
        if not self.limit.take(client):
            data.close()
            raise Busy("Too many downloads. Retry in 5 seconds.", _RETRY_AFTER_S)
        resp.content_type = DATA_TYPE
        resp.set_stream(_Download(data, self.limit, client), os.fstat(data.fileno()).st_size)
