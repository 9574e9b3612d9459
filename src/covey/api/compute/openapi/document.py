"""GET /openapi.json: the OpenAPI document, built from the routes and the operations."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

import falcon

from covey.api.compute.discovery import DOCUMENT, PREFIX
from covey.api.compute.microversions import COVEY
from covey.api.compute.openapi.components import COMPONENTS
from covey.api.compute.openapi.operations import TEXT, Operation, plain
from covey.api.compute.openapi.operator_operations import AGGREGATES, DRAINS, FLAVORS, HOSTS, QUOTAS, SMALL
from covey.api.compute.openapi.server_operations import GROUPS, SCOPES, SERVERS
from covey.api.errors import compute_fault
from covey.api.requests import Json, Request
from covey.api.validation import JsonSchema
from covey.api.versions import exists_at
from covey.model.control_characters import ONE_LINE

PATH = DOCUMENT.removeprefix(PREFIX)
OPERATIONS: Mapping[str, Operation] = {
    **SERVERS, **GROUPS, **SCOPES, **DRAINS, **AGGREGATES, **FLAVORS, **HOSTS, **QUOTAS, **SMALL,
}  # fmt: skip

_METHODS = ("get", "post", "put", "delete")
_VERSION = f"compute {COVEY}"
_ALWAYS = (400, 401, 403, 406, 503)
_WITH_BODY = (413, 415)
_HEADERS = {"x-openstack-request-id": {"$ref": "#/components/headers/request-id"}}
_NUMBERED, _BY_UUID = ("/os-aggregates/",), ("/os-hypervisors/", "/os-services/")
_DESCRIPTION = f"""Servers, server groups and the resources of operators, at microversion {COVEY}.

Send the header `OpenStack-API-Version: {_VERSION}` with every request: this document describes that version only.
Older versions follow Nova's Compute API."""


def document(routes: Iterable[tuple[str, object, str | None]], url: str) -> Json:
    """Return the document of these routes, below the URL. Raises KeyError for a route without an operation."""
    paths: dict[str, Json] = {}
    for path, resource, suffix in routes:
        operations = {method: _operation(path, method) for method in _methods(resource, suffix)}
        if operations:
            paths[path] = operations
    return {
        "openapi": "3.1.0",
        "info": {"title": "Covey's Compute API", "version": str(COVEY), "description": _DESCRIPTION},
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
            "headers": {"request-id": {"description": "The id of the request in the log.", "schema": TEXT}},
        },
    }


def _methods(resource: object, suffix: str | None) -> Iterator[str]:
    for method in _METHODS:
        responder = getattr(resource, f"on_{method}{f'_{suffix}' if suffix else ''}", None)
        if responder is not None and exists_at(responder, COVEY):
            yield method


def _operation(path: str, method: str) -> Json:
    operation = OPERATIONS[f"{method.upper()} {path}"]
    described: Json = {
        "summary": operation.summary,
        "operationId": f"{method}{re.sub(r'[^a-z]+', '_', path.lower())}".rstrip("_"),
        "tags": [path.split("/")[1]],
        "parameters": [*_path_parameters(path, operation), *_query(operation), *_headers(operation)],
        "responses": {str(status): response for status, response in _responses(path, operation)},
    }
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": operation.body}}}
    if operation.is_open:
        described["security"] = []
    return described


def _path_parameters(path: str, operation: Operation) -> Iterator[Json]:
    for name in re.findall(r"{(\w+)}", path):
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "schema": operation.stricter.get(name) or _segment(path, name),
        }


def _segment(path: str, name: str) -> JsonSchema:
    if name == "key" and path.startswith(_NUMBERED):
        return {"type": "integer"}
    if name == "key" and path.startswith(_BY_UUID):
        return {"type": "string", "format": "uuid"}
    return {"type": "string", "minLength": 1, "pattern": ONE_LINE}


def _query(operation: Operation) -> Iterator[Json]:
    for name, schema in (operation.query.parameters if operation.query else {}).items():
        yield {"name": name, "in": "query", "schema": plain(operation.stricter.get(name, schema))}


def _headers(operation: Operation) -> Iterator[Json]:
    for name, schema in operation.headers.items():
        yield {"name": name, "in": "header", "schema": schema}
    yield {"name": "OpenStack-API-Version", "in": "header", "schema": {"type": "string", "const": _VERSION}}


def _responses(path: str, operation: Operation) -> Iterator[tuple[int, Json]]:
    for status, schema in operation.responses.items():
        response: Json = {"description": HTTPStatus(status).phrase, "headers": _HEADERS}
        if schema is not None:
            response["content"] = {"application/json": {"schema": schema}}
        yield status, response
    missing = [404] if "{" in path else []
    for status in sorted({*_ALWAYS, *operation.errors, *missing, *(_WITH_BODY if operation.body else ())}):
        yield status, {"$ref": f"#/components/responses/{_fault_name(status)}"}


def _faults() -> dict[str, Json]:
    errors = {status for operation in OPERATIONS.values() for status in operation.errors}
    return {_fault_name(status): _fault(status) for status in sorted({404, *_ALWAYS, *_WITH_BODY, *errors})}


def _fault_name(status: int) -> str:
    return f"Fault{status}"


def _fault(status: int) -> Json:
    """Return a response with the service's error body."""
    content: Json = {"application/json": {"schema": _like(compute_fault(HTTPStatus(status), ""))}}
    if status == HTTPStatus.NOT_FOUND:
        content["text/html"] = {"schema": TEXT}  # of an unknown path
    return {"description": HTTPStatus(status).phrase, "headers": _HEADERS, "content": content}


def _like(value: object) -> JsonSchema:
    if isinstance(value, dict):
        properties = {name: _like(inner) for name, inner in value.items()}
        return {"type": "object", "properties": properties, "required": [*value], "additionalProperties": False}
    return TEXT if isinstance(value, str) else {"const": value}


@dataclass(slots=True)
class OpenApi:
    """The OpenAPI document of the routes, including its own."""

    routes: Iterable[tuple[str, object, str | None]]
    _document: Json = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._document = document([*self.routes, (PATH, self, None)], PREFIX)

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        resp.media = {**self._document, "servers": [{"url": req.link(PREFIX)}]}
