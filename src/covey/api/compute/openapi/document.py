"""Puts the document together: the paths are the route table's, the rest is said once where it belongs."""

import re
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus

from covey.api.compute.microversions import COVEY
from covey.api.compute.openapi.answers import COMPONENTS
from covey.api.compute.openapi.dialect import plain
from covey.api.compute.openapi.operations import Operation
from covey.api.compute.openapi.operator_operations import AGGREGATES, FLAVORS, HOSTS, QUOTAS, SMALL
from covey.api.compute.openapi.server_operations import GROUPS, SCOPES, SERVERS
from covey.api.compute.openapi.shapes import TEXT
from covey.api.errors import compute_fault
from covey.api.requests import Json
from covey.api.validation import JsonSchema
from covey.api.versions import exists_at

OPERATIONS: Mapping[str, Operation] = {
    **SERVERS, **GROUPS, **SCOPES, **AGGREGATES, **FLAVORS, **HOSTS, **QUOTAS, **SMALL,
}  # fmt: skip

_METHODS = ("get", "post", "put", "delete")
_VERSION = f"compute {COVEY}"
_ALWAYS = (400, 401, 403, 406, 503)
_WITH_BODY = (413, 415)
_HEADERS = {"x-openstack-request-id": {"$ref": "#/components/headers/request-id"}}
_NUMBERED, _BY_UUID = ("/os-aggregates/",), ("/os-hypervisors/", "/os-services/")
_ABOUT = f"""Servers, server groups and what operators define, at microversion {COVEY}.

Send the header `OpenStack-API-Version: {_VERSION}` with every request: what is written here holds at that version only.
Older versions have the shapes of the Compute API that its clients know."""


def document(routes: Iterable[tuple[str, object, str | None]], url: str) -> Json:
    """The whole document for these routes, which are found below the URL. Raises KeyError for one nobody described."""
    paths: dict[str, Json] = {}
    for path, resource, suffix in routes:
        found = {method: _operation(path, method) for method in _methods(resource, suffix)}
        if found:
            paths[path] = found
    return {
        "openapi": "3.1.0",
        "info": {"title": "Covey's Compute API", "version": str(COVEY), "description": _ABOUT},
        "servers": [{"url": url}],
        "security": [{"basic": []}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": COMPONENTS,
            "responses": _faults(),
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
            },
            "headers": {"request-id": {"description": "By which the log knows the request.", "schema": TEXT}},
        },
    }


def _methods(resource: object, suffix: str | None) -> Iterator[str]:
    for method in _METHODS:
        responder = getattr(resource, f"on_{method}{f'_{suffix}' if suffix else ''}", None)
        if responder is not None and exists_at(responder, COVEY):
            yield method


def _operation(path: str, method: str) -> Json:
    about = OPERATIONS[f"{method.upper()} {path}"]
    told: Json = {
        "summary": about.summary,
        "operationId": f"{method}{re.sub(r'[^a-z]+', '_', path.lower())}".rstrip("_"),
        "tags": [path.split("/")[1]],
        "parameters": [*_path_parameters(path, about), *_query(about), *_headers(about)],
        "responses": {str(status): response for status, response in _responses(path, about)},
    }
    if about.body is not None:
        told["requestBody"] = {"required": True, "content": {"application/json": {"schema": about.body}}}
    if about.is_open:
        told["security"] = []
    return told


def _path_parameters(path: str, about: Operation) -> Iterator[Json]:
    for name in re.findall(r"{(\w+)}", path):
        yield {"name": name, "in": "path", "required": True, "schema": about.narrower.get(name) or _segment(path, name)}


def _segment(path: str, name: str) -> JsonSchema:
    if name == "key" and path.startswith(_NUMBERED):
        return {"type": "integer"}
    if name == "key" and path.startswith(_BY_UUID):
        return {"type": "string", "format": "uuid"}
    return {"type": "string", "minLength": 1}


def _query(about: Operation) -> Iterator[Json]:
    for name, schema in (about.query.parameters if about.query else {}).items():
        yield {"name": name, "in": "query", "schema": plain(about.narrower.get(name, schema))}


def _headers(about: Operation) -> Iterator[Json]:
    for name, schema in about.headers.items():
        yield {"name": name, "in": "header", "schema": schema}
    yield {"name": "OpenStack-API-Version", "in": "header", "schema": {"type": "string", "const": _VERSION}}


def _responses(path: str, about: Operation) -> Iterator[tuple[int, Json]]:
    for status, schema in about.answers.items():
        told: Json = {"description": HTTPStatus(status).phrase, "headers": _HEADERS}
        if schema is not None:
            told["content"] = {"application/json": {"schema": schema}}
        yield status, told
    found = [404] if "{" in path else []
    for status in sorted({*_ALWAYS, *about.also, *found, *(_WITH_BODY if about.body else ())}):
        yield status, {"$ref": f"#/components/responses/{_fault_name(status)}"}


def _faults() -> dict[str, Json]:
    also = {status for about in OPERATIONS.values() for status in about.also}
    return {_fault_name(status): _fault(status) for status in sorted({404, *_ALWAYS, *_WITH_BODY, *also})}


def _fault_name(status: int) -> str:
    return f"Fault{status}"


def _fault(status: int) -> Json:
    """An answer with the error body that the service itself would make."""
    content: Json = {"application/json": {"schema": _like(compute_fault(HTTPStatus(status), ""))}}
    if status == HTTPStatus.NOT_FOUND:
        content["text/html"] = {"schema": TEXT}  # where a path leads to no route at all
    return {"description": HTTPStatus(status).phrase, "headers": _HEADERS, "content": content}


def _like(value: object) -> JsonSchema:
    if isinstance(value, dict):
        properties = {name: _like(inner) for name, inner in value.items()}
        return {"type": "object", "properties": properties, "required": [*value], "additionalProperties": False}
    return TEXT if isinstance(value, str) else {"const": value}
