"""Hooks of schemathesis: formats, existing resources, and rules that no schema can express."""

from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

import schemathesis
from hypothesis import strategies as st
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import TestPhase
from schemathesis.openapi.checks import RejectedPositiveData

from tests.acceptance.openapi_things import Things

_VISIBLE = st.characters(exclude_categories=("C", "Z"))
_LINES = st.characters(exclude_categories=("C", "Z"), include_characters=" \t\n")
_EXACT = 2**53
_NAMES = st.text(_VISIBLE, min_size=1, max_size=40)
_OF_EMPTY_AGGREGATES = ("DELETE /os-aggregates/{key}", "PUT /os-aggregates/{key}")  # with hosts, it may be 400

schemathesis.openapi.format("name", _NAMES)
schemathesis.openapi.format("az_name", _NAMES.map(lambda name: name.replace(":", "-")))
schemathesis.openapi.format("printable", st.text(_LINES, max_size=40))
schemathesis.openapi.format("python_regex", st.sampled_from(["web", "^a.*b$", "x|y"]))


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """Keep all checks but one: a valid migration without a valid host is 400."""
    del context
    moves = case.operation.label == "POST /servers/{key}/action"
    return not (moves and isinstance(failure, RejectedPositiveData) and "No valid host was found" in response.text)


@schemathesis.hook
def filter_case(context: Any, case: Any) -> bool:
    """Skip requests that would delete resources of other requests."""
    del context
    return case.method != "DELETE" or case.path_parameters.get("key") not in _things(case.operation).kept


@schemathesis.hook
def map_path_parameters(context: Any, path_parameters: Any) -> Any:
    """Point paths to existing resources, except for deletions; links of schemathesis stay."""
    things = _things(context.operation)
    return path_parameters and path_parameters | _somewhere(context.operation, things.by_text)


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Make a valid body refer to existing resources, and make its fields consistent."""
    del kwargs
    things = _things(context.operation)
    if case.meta.phase.name == TestPhase.COVERAGE and _fits(case, ParameterLocation.PATH):
        case.path_parameters |= _somewhere(context.operation, things.by_text | things.by_number_or_uuid)
    if case.operation.label in _OF_EMPTY_AGGREGATES and _fits(case, ParameterLocation.PATH):
        things.empty(case.path_parameters["key"])
    if _fits(case, ParameterLocation.QUERY):
        case.query = _query(case, things)
    if _fits(case, ParameterLocation.BODY):
        case.body = _body(case, things)


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    """Wait until a deleted server is gone: its host deletes it after the response."""
    if case.operation.label == "DELETE /servers/{key}" and response.status_code == HTTPStatus.NO_CONTENT:
        _things(context.operation).flavor_and_host(case.path_parameters["key"])


def _fits(case: Any, location: ParameterLocation) -> bool:
    part = case.meta.components.get(location)
    return part is not None and part.mode.is_positive


_things_at = cache(Things)


def _things(operation: Any) -> Things:
    schema = operation.schema
    return _things_at(schema.get_base_url(), schema.config.auth_for(operation=operation))


def _somewhere(operation: Any, keys: Mapping[str, str]) -> dict[str, str]:
    """Return the key of an existing resource for a path."""
    key = keys.get(operation.path.partition("/{key}")[0])
    return {"key": key} if key and operation.method != "delete" else {}


def _query(case: Any, things: Things) -> dict[str, Any]:
    query = dict(case.query)
    if "hypervisor_hostname_pattern" in query:  # which does not go in pages
        query = {name: value for name, value in query.items() if name not in {"limit", "marker"}}
    if "marker" in query:
        known = _markers(case, things)
        query |= {"marker": known[-1]} if known else {}
        if not known:
            del query["marker"]
    since, before = query.get("changes-since"), query.get("changes-before")
    if since and before:
        query["changes-since"], query["changes-before"] = sorted((since, before))
    return query


def _markers(case: Any, things: Things) -> list[str]:
    match case.path.removesuffix("/detail"):
        case "/servers":
            return [things.server]
        case "/flavors":
            return [*things.flavors]
        case "/os-hypervisors":
            return [*things.hosts]
        case "/os-migrations":
            return things.migrations
        case "/servers/{key}/os-instance-actions":
            return things.deeds(case.path_parameters["key"])
    return [case.query["marker"]]


def _body(case: Any, things: Things) -> Any:
    body = _exact(case.body)
    match case.operation.label:
        case "PUT /servers/{key}/metadata/{item}":
            body = {"meta": _renamed(body["meta"], case.path_parameters["item"])}
        case "PUT /flavors/{key}/os-extra_specs/{spec}":
            body = _renamed(body, case.path_parameters["spec"])
        case "POST /os-aggregates/{key}/images":
            body = {"cache": [{"id": image} for image, _ in zip(things.images, body["cache"], strict=False)]}
        case "POST /os-server-groups" | "POST /os-server-groups/{key}" | "PUT /os-server-groups/{key}":
            body = {"server_group": _policed(body["server_group"], things)}
        case "POST /servers":
            body = _counted(_real(body, things))
        case "POST /servers/{key}/action":
            flavor, host = things.flavor_and_host(case.path_parameters["key"])
            things.force_down(host if "evacuate" in body else None)  # only from there can servers be evacuated
            body = _real(body, things, flavor, host)
        case "POST /os-placement-explain" | "POST /os-server-groups/{key}/action" | "POST /os-aggregates/{key}/action":
            body = _real(body, things)
    return body


def _exact(value: Any) -> Any:
    """Replace 1.0 and U+0000, which JSON Schema admits as integer and string, and the API does not."""
    match value:
        case dict():
            return {_exact(key): _exact(inner) for key, inner in value.items()}
        case list():
            return [_exact(inner) for inner in value]
        case float() if value.is_integer() and abs(value) < _EXACT:
            return int(value)
        case str():
            return value.replace("\0", "0")
    return value


def _renamed(one: dict[str, Any], key: str) -> dict[str, Any]:
    """Make the body name the key of the path."""
    return {unquote(key): value for value in one.values()}


def _real(value: Any, things: Things, flavor: str | None = None, host: str | None = None, name: str = "") -> Any:
    """Return the action with existing resources, other than the server's own flavor and host."""
    match value:
        case dict():
            return {key: _real(inner, things, flavor, host, key) for key, inner in value.items()}
        case list():
            return [_real(inner, things, flavor, host, name) for inner in value]
        case None | "":
            return value
    match name:
        case "flavorRef" | "flavor":
            value = next(key for key, called in things.flavors.items() if called != flavor)
        case "imageRef" | "image":
            value = things.images[0]
        case "group":
            value = things.group
        case "host" | "hypervisor_hostname":
            value = next((called for called in things.hosts.values() if called != host), value)
        case "availability_zone":
            value = things.zones[0]
    return value


def _counted(body: Any) -> Any:
    """Order the two counts, which no schema can express."""
    counts = {key: body["server"][key] for key in ("min_count", "max_count") if key in body["server"]}
    ordered = dict(zip(counts, sorted(counts.values(), key=int), strict=True))
    return body | {"server": body["server"] | ordered}


def _policed(group: dict[str, Any], things: Things) -> dict[str, Any]:
    """Return consistent policies, one for each existing scope, and rules for them."""
    rules = group.get("rules", {})
    if "policy" in group or not {"policies", "rules"} & group.keys():
        return group
    given = group.get("policies", ["anti-affinity"] * len(rules))
    policies = {scope: text.partition(":")[0] for scope, text in zip(things.scopes, given, strict=False)}
    limited = [scope for scope, kind in policies.items() if kind == "anti-affinity"]
    limits = {f"max_server_per_{scope}": limit for scope, limit in zip(limited, rules.values(), strict=False)}
    said = {"policies": [f"{kind}:{scope}" for scope, kind in policies.items()]} if given else {}
    return group | said | ({"rules": limits} if "rules" in group else {})
