"""The Image API's version document."""

import falcon

from covey.api.requests import Request

VERSION = "v2.17"


class Versions:
    """GET / and GET /v2: the only version."""

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        resp.status = falcon.HTTP_300
        self._respond(req, resp)

    def on_get_one(self, req: Request, resp: falcon.Response) -> None:
        self._respond(req, resp)

    def _respond(self, req: Request, resp: falcon.Response) -> None:
        links = [{"rel": "self", "href": req.link("/v2/")}]
        resp.media = {"versions": [{"id": VERSION, "status": "CURRENT", "links": links}]}


def is_open(req: Request) -> bool:
    """Return whether a path needs no authentication: version discovery."""
    return req.path in {"/", "/v2", "/v2/"}
