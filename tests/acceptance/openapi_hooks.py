"""Hooks of schemathesis: formats, existing resources, and rules that no schema can express."""

from base64 import b64encode
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

from covey.model.control_characters import CONTROL
from tests.acceptance.openapi_resources import PUBLIC_KEY, Resources

_VISIBLE = st.characters(exclude_categories=("C", "Z"))
_LINES = st.characters(exclude_categories=("C", "Z"), include_characters=" \t\n")
_EXACT = 2**53
_PLACING = ("trait", "resources", "group_policy")  # extra specs that decide where servers go
_NAMES = st.text(_VISIBLE, min_size=1, max_size=40)
_OF_EMPTY_AGGREGATES = ("DELETE /os-aggregates/{key}", "PUT /os-aggregates/{key}")  # with hosts, it may be 400

schemathesis.openapi.format("name", _NAMES)
schemathesis.openapi.format("az_name", _NAMES.map(lambda name: name.replace(":", "-")))
schemathesis.openapi.format("base64", st.binary(max_size=40).map(lambda data: b64encode(data).decode()))
schemathesis.openapi.format("printable", st.text(_LINES, max_size=40))
schemathesis.openapi.format("re2", st.sampled_from(["web", "^a.*b$", "x|y"]))


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
    if isinstance(case.body, dict) and "forceDelete" in case.body:
        return False
    if str(case.path_parameters.get("spec", "")).startswith(_PLACING):  # servers of the flavor would find no host
        return False
    return case.method != "DELETE" or case.path_parameters.get("key") not in _resources(case.operation).kept


@schemathesis.hook
def map_path_parameters(context: Any, path_parameters: Any) -> Any:
    """Point paths to existing resources, except for deletions; links of schemathesis stay."""
    resources = _resources(context.operation)
    if not path_parameters:
        return path_parameters
    return path_parameters | _existing_key(context.operation, resources.by_text_id) | _spec(path_parameters)


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Make a valid body refer to existing resources, and make its fields consistent."""
    del kwargs
    resources = _resources(context.operation)
    if case.meta.phase.name == TestPhase.COVERAGE and _fits(case, ParameterLocation.PATH):
        case.path_parameters |= _existing_key(context.operation, resources.by_text_id | resources.by_number_or_uuid)
        case.path_parameters |= _spec(case.path_parameters)
    if case.operation.label in _OF_EMPTY_AGGREGATES and _fits(case, ParameterLocation.PATH):
        resources.empty(case.path_parameters["key"])
    if _fits(case, ParameterLocation.QUERY):
        case.query = _query(case, resources)
    if _fits(case, ParameterLocation.BODY):
        case.body = _body(case, resources)


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    """Wait until a deleted server is gone: its host deletes it after the response."""
    if case.operation.label == "DELETE /servers/{key}" and response.status_code == HTTPStatus.NO_CONTENT:
        _resources(context.operation).flavor_and_host(case.path_parameters["key"])


def _fits(case: Any, location: ParameterLocation) -> bool:
    part = case.meta.components.get(location)
    return part is not None and part.mode.is_positive


_things_at = cache(Resources)


def _resources(operation: Any) -> Resources:
    schema = operation.schema
    return _things_at(schema.get_base_url(), schema.config.auth_for(operation=operation))


def _existing_key(operation: Any, keys: Mapping[str, str]) -> dict[str, str]:
    """Return the key of an existing resource for a path."""
    key = keys.get(operation.path.partition("/{key}")[0])
    return {"key": key} if key and operation.method != "delete" else {}


def _spec(path_parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return the extra spec of a path, with a namespace."""
    spec = path_parameters.get("spec")
    return {"spec": _with_namespace(spec)} if isinstance(spec, str) else {}


def _query(case: Any, resources: Resources) -> dict[str, Any]:
    query = dict(case.query)
    if "hypervisor_hostname_pattern" in query:  # it cannot be combined with paging
        query = {name: value for name, value in query.items() if name not in {"limit", "marker"}}
    if "marker" in query:
        known = _markers(case, resources)
        query |= {"marker": known[-1]} if known else {}
        if not known:
            del query["marker"]
    since, before = query.get("changes-since"), query.get("changes-before")
    if since and before:
        query["changes-since"], query["changes-before"] = sorted((since, before))
    return query


def _markers(case: Any, resources: Resources) -> list[str]:
    path = case.path.removesuffix("/detail")
    if path in {"/servers", "/os-keypairs"}:
        return [resources.server if path == "/servers" else resources.key_pair]
    match path:
        case "/flavors":
            return [*resources.flavors]
        case "/os-hypervisors":
            return [*resources.hosts]
        case "/os-migrations":
            return [] if "project_id" in case.query else resources.migrations  # a marker is of that project
        case "/servers/{key}/os-instance-actions":
            return resources.instance_action_ids(case.path_parameters["key"])
    return [case.query["marker"]]


def _body(case: Any, resources: Resources) -> Any:
    body = _without_ambiguous_values(case.body)
    match case.operation.label:
        case "PUT /servers/{key}/metadata/{item}":
            body = {"meta": _with_path_key(body["meta"], case.path_parameters["item"])}
        case "POST /flavors/{key}/os-extra_specs":
            specs = {key: value for key, value in body["extra_specs"].items() if not key.startswith(_PLACING)}
            body = {"extra_specs": {_with_namespace(key): value for key, value in specs.items()}}
        case "PUT /flavors/{key}/os-extra_specs/{spec}":
            body = _with_path_key(body, case.path_parameters["spec"])
        case "POST /os-aggregates/{key}/images":
            body = {"cache": [{"id": image} for image, _ in zip(resources.images, body["cache"], strict=False)]}
        case "POST /os-server-groups" | "POST /os-server-groups/{key}" | "PUT /os-server-groups/{key}":
            body = {"server_group": _with_consistent_policies(body["server_group"], resources)}
        case "POST /servers":
            body = _with_ordered_counts(_with_existing_resources(_without_devices(body), resources))
        case "POST /servers/{key}/action":
            flavor, host = resources.flavor_and_host(case.path_parameters["key"])
            resources.force_down(host if "evacuate" in body else None)  # evacuation requires a source host that is down
            body = _with_existing_resources(body, resources, flavor, host)
        case "POST /os-keypairs" | "POST /os-drains" | "PUT /os-quota-sets/{key}" | "PUT /os-quota-class-sets/{key}":
            body = {name: _with_fixed_fields(name, fields, resources) for name, fields in body.items()}
        case "POST /os-placement-explain" | "POST /os-server-groups/{key}/action" | "POST /os-aggregates/{key}/action":
            body = _with_existing_resources(body, resources)
    return body


def _with_fixed_fields(name: str, fields: dict[str, Any], resources: Resources) -> dict[str, Any]:
    """Return a valid key pair, quota or drain; the latter is a dry run, since other requests need the hosts."""
    if name == "keypair":
        return fields | {"type": "ssh", "public_key": PUBLIC_KEY}
    if name == "drain":
        return fields | {"scope": "host", "domain": next(iter(resources.hosts.values()), "node"), "dry_run": True}
    return {"class:VGPU" if each.startswith("class:") else each: limit for each, limit in fields.items()}


def _without_devices(body: Any) -> Any:
    """Boot from an image: of block devices only one that agrees with imageRef is valid."""
    server = {name: value for name, value in body["server"].items() if not name.startswith("block_device_mapping")}
    return body | {"server": server | {"imageRef": server.get("imageRef") or "image"}}


def _without_ambiguous_values(value: Any) -> Any:
    """Replace 1.0 and control characters, which JSON Schema admits in integers and strings, and the API does not."""
    match value:
        case dict():
            return {_without_ambiguous_values(key): _without_ambiguous_values(inner) for key, inner in value.items()}
        case list():
            return [_without_ambiguous_values(inner) for inner in value]
        case float() if value.is_integer() and abs(value) < _EXACT:
            return int(value)
        case str():
            return CONTROL.sub("0", value)
    return value


def _with_namespace(spec: str) -> str:
    """Return the key of an extra spec with a namespace: servers of a flavor with any other key are refused."""
    return spec if ":" in spec else f"site:{spec}"[:255]


def _with_path_key(one: dict[str, Any], key: str) -> dict[str, Any]:
    """Make the body name the key of the path."""
    return {unquote(key): value for value in one.values()}


def _with_existing_resources(
    value: Any, resources: Resources, flavor: str | None = None, host: str | None = None, name: str = ""
) -> Any:
    """Return the action with existing resources, other than the server's own flavor and host."""
    match value:
        case dict():
            return {key: _with_existing_resources(inner, resources, flavor, host, key) for key, inner in value.items()}
        case list():
            return [_with_existing_resources(inner, resources, flavor, host, name) for inner in value]
        case None | "":
            return value
    match name:
        case "flavorRef" | "flavor":
            value = next(key for key, called in resources.flavors.items() if called != flavor)
        case "imageRef" | "image":
            value = resources.images[0]
        case "group":
            value = resources.group
        case "host" | "hypervisor_hostname":
            value = next((called for called in resources.hosts.values() if called != host), value)
        case "key_name":
            value = resources.key_pair
        case "availability_zone":
            value = resources.zones[0]
    return value


def _with_ordered_counts(body: Any) -> Any:
    """Order the two counts, which no schema can express."""
    counts = {key: body["server"][key] for key in ("min_count", "max_count") if key in body["server"]}
    ordered = dict(zip(counts, sorted(counts.values(), key=int), strict=True))
    return body | {"server": body["server"] | ordered}


def _with_consistent_policies(group: dict[str, Any], resources: Resources) -> dict[str, Any]:
    """Return consistent policies, one for each existing scope, and rules for them."""
    rules = group.get("rules", {})
    if isinstance(group.get("policy"), dict):
        kind = group["policy"]["name"].partition(":")[0]
        limits = {"max_server_per_host": 2} if kind == "anti-affinity" else {}
        return group | {"policy": {"name": kind, "rules": limits}}
    if "policy" in group or not {"policies", "rules"} & group.keys():
        return group
    given = group.get("policies", ["anti-affinity"] * len(rules))
    policies = {scope: text.partition(":")[0] for scope, text in zip(resources.scopes, given, strict=False)}
    limited = [scope for scope, kind in policies.items() if kind == "anti-affinity"]
    limits = {f"max_server_per_{scope}": limit for scope, limit in zip(limited, rules.values(), strict=False)}
    said = {"policies": [f"{kind}:{scope}" for scope, kind in policies.items()]} if given else {}
    return group | said | ({"rules": limits} if "rules" in group else {})
