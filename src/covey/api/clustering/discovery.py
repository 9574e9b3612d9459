"""The Clustering API's version documents, and the requests that need no authentication."""

import re

import falcon

from covey.api.clustering.microversions import VERSIONS
from covey.api.requests import Json, Request

PREFIX = "/v1"
_UPDATED = "2016-01-18T00:00:00Z"
_MEDIA_TYPES = [{"base": "application/json", "type": "application/vnd.openstack.clustering-v1+json"}]
_GUIDE = {"rel": "help", "href": "https://docs.openstack.org/api-ref/clustering"}
_WEBHOOK = re.compile(rf"{PREFIX}/webhooks/[^/]+/trigger")
_RECEIVER = re.compile(r"(/(?:webhooks|receivers)/+)[^/]+")


class Versions:
    """GET / and /versions list the only version; GET /v1 shows it."""

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        resp.status, resp.media = falcon.HTTP_300, {"versions": [_version(req)]}

    def on_get_one(self, req: Request, resp: falcon.Response) -> None:
        resp.media = {"version": _version(req)}


def is_open(req: Request) -> bool:
    """Return whether a request needs no authentication: version documents and webhooks, whose URL is the secret."""
    path = req.path
    return not path.startswith(f"{PREFIX}/") or path == f"{PREFIX}/" or _WEBHOOK.fullmatch(path) is not None


def loggable(path: str) -> str:
    """Return a path without the id of a receiver, which is the secret of its webhook."""
    return _RECEIVER.sub(r"\1***", path)


def _version(req: Request) -> Json:
    return {
        "id": str(VERSIONS.minimum),
        "status": "CURRENT",
        "updated": _UPDATED,
        "media-types": _MEDIA_TYPES,
        "links": [{"rel": "self", "href": req.link(PREFIX)}, _GUIDE],
        "min_version": str(VERSIONS.minimum),
        "max_version": str(VERSIONS.maximum),
    }
