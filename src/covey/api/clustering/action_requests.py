"""Requests that start an action: their bodies, and the 202 response."""

import falcon

from covey.api.clustering.errors import Malformed
from covey.api.clustering.fields import as_map, boolean, integer, small_mapping
from covey.api.clustering.microversions import CHECK_BEFORE_RECOVERY, FORCE_DELETE
from covey.api.clustering.queries import flag
from covey.api.requests import Json, Request, query_lists, read_json


def accepted(req: Request, resp: falcon.Response, action: str, media: Json | None) -> None:
    """Answer 202 with the location of the action."""
    resp.status, resp.location = falcon.HTTP_202, req.link(f"/v1/actions/{action}")
    if media is None:
        resp.data, resp.content_type = b"null", falcon.MEDIA_JSON  # the body of a deletion's response
    else:
        resp.media = media


def single_entry(req: Request, kind: str, not_a_map: str, full_stop: str = "") -> tuple[str, object]:
    """Return the only key of a body and its value. Raises Malformed with Senlin's text, which `full_stop` ends."""
    body = read_json(req)
    given = require_map({} if body is None else body, not_a_map)
    if not given:
        raise Malformed(f"No {kind} specified{full_stop}")
    if len(given) > 1:
        raise Malformed(f"Multiple {kind}s specified{full_stop}")
    return next(iter(given.items()))


def require_map(value: object, not_a_map: str) -> Json:
    """Return a JSON object. Raises Malformed with that text."""
    if not isinstance(value, dict):
        raise Malformed(not_a_map)
    return value


def is_forced(req: Request, *, in_query: bool) -> bool:
    """Return whether a deletion is forced; False before microversion 1.8. Raises Malformed."""
    body = read_json(req)
    if req.version < FORCE_DELETE:
        return False
    if in_query and query_flag(req, "force"):
        return True
    return boolean(as_map("the body", {} if body is None else body), "force") or False


def query_flag(req: Request, name: str) -> bool:
    """Return whether a query parameter is present and true. Raises Malformed."""
    query = query_lists(req)
    return name in query and flag(name, query[name]) == (True,)


def recovery_params(req: Request, data: Json) -> Json:
    """Return the parameters of a recovery, converted to their types; the service rejects unknown ones."""
    given = {key: value for key, value in data.items() if key != "check" or req.version >= CHECK_BEFORE_RECOVERY}
    given |= {name: boolean(given, name) for name in ("check", "check_capacity", "force_recreate") if name in given}
    given |= {name: small_mapping(given, name) for name in ("operation_params",) if name in given}
    return given | {name: integer(given, name, 0) for name in ("delete_timeout",) if name in given}
