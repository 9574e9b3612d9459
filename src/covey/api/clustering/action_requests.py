"""Asking for something to be done: what it is, how it shall be, and the answer that it will be."""

import falcon

from covey.api.clustering.errors import Malformed
from covey.api.clustering.fields import as_map, boolean, integer, mapping
from covey.api.clustering.microversions import CHECK_BEFORE_RECOVERY, FORCE_DELETE
from covey.api.clustering.queries import flag
from covey.api.requests import Json, Request, query_lists, read_json


def accepted(req: Request, resp: falcon.Response, action: str, media: Json | None) -> None:
    """It will be done; here is how to see how far it has come."""
    resp.status, resp.location = falcon.HTTP_202, req.link(f"/v1/actions/{action}")
    if media is None:
        resp.data, resp.content_type = b"null", falcon.MEDIA_JSON  # the whole answer to a deletion
    else:
        resp.media = media


def asked(req: Request, kind: str, no_map: str, stop: str = "") -> tuple[str, object]:
    """The only thing that a body asks for, and what it says of it. Raises Malformed.

    What is wrong is told in the words that clients know, which end with a full stop for some resources.
    """
    body = read_json(req)
    given = data_of({} if body is None else body, no_map)
    if not given:
        raise Malformed(f"No {kind} specified{stop}")
    if len(given) > 1:
        raise Malformed(f"Multiple {kind}s specified{stop}")
    return next(iter(given.items()))


def data_of(value: object, no_map: str) -> Json:
    """What is said of it, which is a JSON object. Raises Malformed."""
    if not isinstance(value, dict):
        raise Malformed(no_map)
    return value


def forced(req: Request, *, in_query: bool) -> bool:
    """Whether a deletion is to happen whatever goes on; older versions do not know of it. Raises Malformed."""
    body = read_json(req)
    if req.version < FORCE_DELETE:
        return False
    if in_query and in_query_true(req, "force"):
        return True
    return boolean(as_map("the body", {} if body is None else body), "force") or False


def in_query_true(req: Request, name: str) -> bool:
    """Whether a parameter is there and says yes. Raises Malformed."""
    query = query_lists(req)
    return name in query and flag(name, query[name]) == (True,)


def recovery_of(req: Request, data: Json) -> Json:
    """What a recovery is told, each thing as what it has to be; what nobody knows is for the service to refuse."""
    given = {key: value for key, value in data.items() if key != "check" or req.version >= CHECK_BEFORE_RECOVERY}
    given |= {name: boolean(given, name) for name in ("check", "check_capacity", "force_recreate") if name in given}
    given |= {name: mapping(given, name) for name in ("operation_params",) if name in given}
    return given | {name: integer(given, name, 0) for name in ("delete_timeout",) if name in given}
