"""The Compute API's version documents and unknown paths."""

from http import HTTPStatus

import falcon
import msgspec

from covey.api.compute.microversions import COVEY, VERSIONS
from covey.api.errors import compute_fault
from covey.api.requests import Json, Request

PREFIX = "/v2.1"
DOCUMENT = f"{PREFIX}/openapi.json"
OPEN_PATHS = frozenset({"", PREFIX, DOCUMENT})
"""The paths below the version, and the root, that need no authentication."""
_UPDATED = "2013-07-23T11:33:21Z"
_MEDIA_TYPES = [{"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}]
_NOT_FOUND = (
    "<html>\n <head>\n  <title>404 Not Found</title>\n </head>\n <body>\n  <h1>404 Not Found</h1>\n"
    "  The resource could not be found.\n </body>\n</html>\n"
)


class Versions:
    """GET /: all versions."""

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        resp.media = {"versions": [_version(req)]}


class OneVersion:
    """GET /v2.1/: the only version."""

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        document = _version(req)
        guide = {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/api-ref/compute/"}
        document |= {"links": [*document["links"], guide], "media-types": _MEDIA_TYPES}
        resp.media = {"version": document}


def no_route(req: Request, resp: falcon.Response) -> None:
    """Respond to an unknown path as Nova does: an HTML 404 below a version, a list of choices elsewhere."""
    if req.path == PREFIX or req.path.startswith(f"{PREFIX}/"):
        resp.status, resp.content_type, resp.text = falcon.HTTP_404, falcon.MEDIA_HTML, _NOT_FOUND
        return
    links = [{"rel": "self", "href": req.link(f"{PREFIX}{req.path}")}]
    choice = {"id": "v2.1", "status": "CURRENT", "links": links, "media-types": _MEDIA_TYPES}
    resp.status, resp.content_type = falcon.HTTP_300, falcon.MEDIA_JSON
    resp.data = msgspec.json.encode({"choices": [choice]})


def wrong_method(req: Request, resp: falcon.Response, error: falcon.HTTPError, _: object) -> None:
    """Respond 405 with the allowed methods at Covey's own version, and 404 at Nova's, as Nova does."""
    if req.context.version is None or req.version < COVEY:
        no_route(req, resp)
        return
    resp.status, resp.content_type = falcon.HTTP_405, falcon.MEDIA_JSON
    resp.set_headers(error.headers or {})
    resp.data = msgspec.json.encode(compute_fault(HTTPStatus.METHOD_NOT_ALLOWED, "The path has no such method."))


def _version(req: Request) -> Json:
    return {
        "id": "v2.1",
        "status": "CURRENT",
        "version": str(VERSIONS.maximum),
        "min_version": str(VERSIONS.minimum),
        "updated": _UPDATED,
        "links": [{"rel": "self", "href": req.link(f"{PREFIX}/")}],
    }
