"""The Placement API's version document."""

from dataclasses import dataclass

import falcon

from covey.api.placement.microversions import VERSIONS
from covey.api.placement.responses import set_last_modified
from covey.api.requests import Request
from covey.ports import Clock


@dataclass(frozen=True, slots=True)
class Versions:
    """GET /: the only version, with the range of its microversions."""

    clock: Clock

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        resp.media = {
            "versions": [
                {
                    "id": f"v{VERSIONS.minimum}",
                    "min_version": str(VERSIONS.minimum),
                    "max_version": str(VERSIONS.maximum),
                    "status": "CURRENT",
                    "links": [{"rel": "self", "href": ""}],
                }
            ]
        }
        set_last_modified(req, resp, self.clock())


def is_open(req: Request) -> bool:
    """Return whether a path needs no authentication: version discovery."""
    return req.path in {"", "/"}
