"""GET /openapi.json: the document, for whoever asks."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import falcon

from covey.api.compute.discovery import DOCUMENT, PREFIX
from covey.api.compute.openapi.document import document
from covey.api.requests import Json, Request

PATH = DOCUMENT.removeprefix(PREFIX)


@dataclass(slots=True)
class OpenApi:
    """Says what the routes do, itself among them."""

    routes: Iterable[tuple[str, object, str | None]]
    _told: Json = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._told = document([*self.routes, (PATH, self, None)], PREFIX)

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        resp.media = {**self._told, "servers": [{"url": req.link(PREFIX)}]}
