"""Request bodies with the rules that the service enforces in code, beyond the validation schemas."""

from covey.api.compute import schemas, server_groups, server_schemas
from covey.api.compute.extra_specs import TRAIT, TRAIT_VALUES
from covey.api.compute.openapi.operations import body, narrowed
from covey.api.validation import JsonSchema
from covey.model.groups import PolicyKind
from covey.model.quotas import CLASS_QUOTA

_HARD_SPREAD = str(PolicyKind.ANTI_AFFINITY)
_POLICY = f"^({'|'.join(PolicyKind)})(:[a-zA-Z0-9_.-]+(:.+)?)?$"
_TRAITS: JsonSchema = {"patternProperties": {f"^{TRAIT.pattern}$": {"enum": list(TRAIT_VALUES)}}}
_NO_HOST_IN_ZONE: JsonSchema = {"properties": {"availability_zone": {"pattern": "^[^:]*:{0,2}$"}}}


def _group(**fields: JsonSchema) -> JsonSchema:
    return {"properties": {"server_group": {"properties": fields}}}


# A server boots from an image or from block devices; at most one field names a host.
_IMAGE: JsonSchema = {"required": ["imageRef"], "properties": {"imageRef": {"minLength": 1}}}
_DEVICES: tuple[JsonSchema, ...] = tuple(
    {"required": [name], "properties": {name: {"minItems": 1}}}
    for name in ("block_device_mapping", "block_device_mapping_v2")
)
_SERVER: JsonSchema = {
    "properties": {"availability_zone": {"pattern": "^[^:]*(:[^:]*){0,2}$"}},
    "anyOf": [_IMAGE, *_DEVICES],
    "dependentSchemas": {"host": _NO_HOST_IN_ZONE, "hypervisor_hostname": _NO_HOST_IN_ZONE},
}
NEW_SERVER = narrowed(body(server_schemas.CREATE), {"properties": {"server": _SERVER}})

# Only anti-affinity has rules.
_ONE_POLICY = (
    narrowed(body(server_groups.CREATE_ANY["single"]), _group(policy={"enum": [_HARD_SPREAD]})),
    narrowed(
        body(server_groups.CREATE_ANY["single"]),
        _group(policy={"enum": [kind for kind in PolicyKind if kind != _HARD_SPREAD]}, rules={"maxProperties": 0}),
    ),
)
_SOME_CHANGE: JsonSchema = {"properties": {"server_group": {"required": [], "minProperties": 1}}}
_NESTED_POLICY = _group(policy={"properties": {"name": {"pattern": _POLICY}}})
_POLICIES = _group(policies={"items": {"pattern": _POLICY}})
NEW_GROUP: JsonSchema = {
    "anyOf": [
        narrowed(body(server_groups.CREATE_ANY["nested"]), _NESTED_POLICY),
        *_ONE_POLICY,
        narrowed(body(server_groups.CREATE_ANY["several"]), _POLICIES),
    ]
}
GROUP_CHANGE: JsonSchema = {
    "anyOf": [
        narrowed(body(server_groups.UPDATE["nested"]), _NESTED_POLICY),
        *(narrowed(form, _SOME_CHANGE) for form in _ONE_POLICY),
        narrowed(body(server_groups.UPDATE["several"]), _POLICIES),
    ]
}

# A trait is required or forbidden.
EXTRA_SPECS = narrowed(body(schemas.EXTRA_SPECS_CREATE), {"properties": {"extra_specs": _TRAITS}})
EXTRA_SPEC = narrowed(body(schemas.EXTRA_SPECS_UPDATE), _TRAITS)

# Images are unique.
CACHED_IMAGES = narrowed(body(schemas.CACHE_IMAGES), {"properties": {"cache": {"uniqueItems": True}}})

# The body sets the status, forced_down, or both; only a disabled service has a reason.
SERVICE_CHANGE = narrowed(
    body(schemas.SERVICE_UPDATE),
    {
        "anyOf": [{"required": ["status"]}, {"required": ["forced_down"]}],
        "not": {"required": ["status", "disabled_reason"], "properties": {"status": {"const": "enabled"}}},
    },
)

# A quota of a resource class is named for it.
_NAMES: JsonSchema = {"propertyNames": {"pattern": f"^([a-z_]+|{CLASS_QUOTA})$"}}
NEW_QUOTA = narrowed(body(schemas.QUOTA_UPDATE), {"properties": {"quota_set": _NAMES}})
NEW_CLASS_QUOTA = narrowed(body(schemas.CLASS_QUOTA_UPDATE), {"properties": {"quota_class_set": _NAMES}})
