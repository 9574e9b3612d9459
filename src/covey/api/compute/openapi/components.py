"""The response schemas of the Compute API at 2.1000."""

from covey.api.compute.microversions import COVEY
from covey.api.compute.openapi.operations import (
    ANY_OBJECT,
    BOOLEAN,
    LINKS,
    MICROSECONDS,
    NULL,
    NULLABLE_NUMBER,
    NULLABLE_TEXT,
    NUMBER,
    SECONDS,
    TEXT,
    UUID,
    Shapes,
    array_of,
    enum_of,
    map_of,
    ref,
    shape,
)
from covey.api.compute.quotas import LIMITS, USED
from covey.api.compute.schemas import QUOTA_RESOURCES
from covey.api.validation import JsonSchema
from covey.model.actions import MoveKind
from covey.model.drains import DrainStatus, StepStatus
from covey.model.keypairs import KeyType
from covey.model.quotas import CLASS_QUOTA
from covey.model.rebalances import RebalanceStatus
from covey.model.servers import Task, VmState

_TEXTS = map_of(TEXT)


def _quota(each: JsonSchema, **more: JsonSchema) -> JsonSchema:
    """Return the schema of a quota set, with the quotas of resource classes that are set."""
    quotas = shape({**more, **dict.fromkeys(QUOTA_RESOURCES.at(COVEY), each)})
    return {**quotas, "patternProperties": {f"^{CLASS_QUOTA}$": each}}


_VERSIONED: Shapes = {
    "id": TEXT,
    "status": TEXT,
    "version": TEXT,
    "min_version": TEXT,
    "updated": SECONDS,
    "links": LINKS,
}
_SHORT_SERVER: Shapes = {"id": UUID, "name": TEXT, "links": LINKS}
_SERVER: Shapes = {
    **_SHORT_SERVER,
    "status": TEXT,
    "tenant_id": TEXT,
    "user_id": TEXT,
    "metadata": _TEXTS,
    "hostId": TEXT,
    "image": {"anyOf": [{"const": ""}, shape({"id": TEXT, "links": LINKS, "properties": ANY_OBJECT})]},
    "flavor": shape(
        {
            "original_name": TEXT,
            **dict.fromkeys(("vcpus", "ram", "disk", "ephemeral", "swap"), NUMBER),
            "extra_specs": _TEXTS,
        }
    ),
    "created": SECONDS,
    "updated": SECONDS,
    "addresses": ANY_OBJECT,
    "accessIPv4": TEXT,
    "accessIPv6": TEXT,
    "OS-DCF:diskConfig": enum_of("AUTO", "MANUAL"),
    "OS-EXT-AZ:availability_zone": TEXT,
    "OS-EXT-STS:task_state": {"enum": [*map(str, Task), None]},
    "OS-EXT-STS:vm_state": enum_of(*VmState),
    "OS-EXT-STS:power_state": NUMBER,
    "OS-SRV-USG:launched_at": MICROSECONDS,
    "OS-SRV-USG:terminated_at": NULL,
    "os-extended-volumes:volumes_attached": array_of(ANY_OBJECT),
    "config_drive": TEXT,
    "key_name": NULLABLE_TEXT,
    "security_groups": array_of(shape({"name": TEXT})),
    "locked": BOOLEAN,
    "description": NULLABLE_TEXT,
    "tags": array_of(TEXT),
    "trusted_image_certificates": NULL,
    "locked_reason": NULLABLE_TEXT,
    "OS-EXT-SRV-ATTR:hostname": TEXT,
    "pinned_availability_zone": NULLABLE_TEXT,
    "scheduler_hints": map_of({"type": "array"}),
}
_SERVER_SOMETIMES: Shapes = {
    "server_groups": array_of(UUID),
    "progress": NUMBER,
    "fault": shape({"code": NUMBER, "created": SECONDS, "message": TEXT}, {"details": TEXT}),
    **dict.fromkeys(("OS-EXT-SRV-ATTR:host", "OS-EXT-SRV-ATTR:hypervisor_hostname"), NULLABLE_TEXT),
    "OS-EXT-SRV-ATTR:instance_name": TEXT,
    "OS-EXT-SRV-ATTR:reservation_id": TEXT,
    "OS-EXT-SRV-ATTR:launch_index": NUMBER,
    "OS-EXT-SRV-ATTR:root_device_name": TEXT,
    "OS-EXT-SRV-ATTR:kernel_id": TEXT,
    "OS-EXT-SRV-ATTR:ramdisk_id": TEXT,
    "OS-EXT-SRV-ATTR:user_data": NULL,
    "host_status": enum_of("UP", "DOWN", ""),
}
_ACTION: Shapes = {
    **dict.fromkeys(("action", "request_id", "project_id", "user_id"), TEXT),
    "instance_uuid": UUID,
    "start_time": MICROSECONDS,
    "message": NULLABLE_TEXT,
    "updated_at": MICROSECONDS,
}
_EVENT = shape(
    {
        "event": TEXT,
        "start_time": MICROSECONDS,
        "finish_time": MICROSECONDS,
        "result": {"enum": ["Success", "Error", None]},
        "details": NULLABLE_TEXT,
    },
    {"traceback": NULLABLE_TEXT},
)
_MOVE = shape({"instance_id": UUID, "from": TEXT, "to": TEXT})
_LEFT = shape({"instance_id": UUID, "host": TEXT, "reason": TEXT})
_DRAIN_SUMMARY = {
    "id": UUID,
    "scope": TEXT,
    "domain": TEXT,
    "status": enum_of(*DrainStatus),
    "moves_planned": NUMBER,
    "moves_done": NUMBER,
    "created_at": SECONDS,
    "updated_at": SECONDS,
}
_DRAIN_MOVE = shape(
    {"instance_id": UUID, "from": TEXT, "to": TEXT, "status": enum_of(*StepStatus), "reason": NULLABLE_TEXT}
)
_PLACES = map_of(NULLABLE_TEXT)
_KEY_PAIR: Shapes = {**dict.fromkeys(("name", "public_key", "fingerprint"), TEXT), "type": enum_of(*KeyType)}
_HYPERVISOR: Shapes = {
    "id": UUID,
    "hypervisor_hostname": TEXT,
    "state": enum_of("up", "down"),
    "status": enum_of("enabled", "disabled"),
}
_ON_HYPERVISOR: Shapes = {"servers": array_of(shape({"name": TEXT, "uuid": UUID}))}
_FLAVOR: Shapes = {"id": TEXT, "name": TEXT, "links": LINKS, "description": NULLABLE_TEXT}
_AGGREGATE: Shapes = {
    "id": NUMBER,
    "uuid": UUID,
    "name": TEXT,
    "availability_zone": NULLABLE_TEXT,
    "created_at": MICROSECONDS,
    "updated_at": MICROSECONDS,
    "deleted_at": NULL,
    "deleted": BOOLEAN,
}

_SERVICE_STATE = shape({"available": BOOLEAN, "active": BOOLEAN, "updated_at": MICROSECONDS})

COMPONENTS: Shapes = {
    "Versions": shape({"versions": array_of(shape(_VERSIONED))}),
    "Version": shape({"version": shape({**_VERSIONED, "media-types": array_of(ANY_OBJECT)})}),
    "ServerName": shape(_SHORT_SERVER),
    "Server": shape(_SERVER, _SERVER_SOMETIMES),
    "NewServer": shape(
        {
            "id": UUID,
            "links": LINKS,
            "OS-DCF:diskConfig": enum_of("AUTO", "MANUAL"),
            "security_groups": array_of(shape({"name": TEXT})),
            "adminPass": TEXT,
        }
    ),
    "Placement": shape(
        {
            "server_id": UUID,
            "hostId": TEXT,
            "decision": shape({"attempts": NUMBER}, {"hosts": NUMBER, "candidates": NUMBER, "seed": NUMBER}),
            "group": {"anyOf": [UUID, NULL]},
            "refused": NULLABLE_TEXT,
        },
        {"host": NULLABLE_TEXT, "moving_to": NULLABLE_TEXT, "query": TEXT},
    ),
    "InstancePlacement": shape(
        {
            "server_id": UUID,
            "group": {"anyOf": [UUID, NULL]},
            "placed": BOOLEAN,
            "refused": NULLABLE_TEXT,
            "refused_at": {"anyOf": [SECONDS, NULL]},
            "reasons": array_of(shape({"reason": TEXT, "hosts": {"anyOf": [NUMBER, NULL]}})),
        },
        {"hosts": array_of(TEXT)},
    ),
    "Explanation": shape(
        {
            "sentence": NULLABLE_TEXT,
            "candidates": NUMBER,
            "query": TEXT,
            "hosts": array_of(shape({"host": TEXT, "allowed": BOOLEAN, "reason": NULLABLE_TEXT})),
        }
    ),
    "Action": shape(_ACTION),
    "ActionWithEvents": shape({**_ACTION, "events": array_of(_EVENT)}),
    "Migration": shape(
        {
            "id": NUMBER,
            "uuid": UUID,
            "instance_uuid": UUID,
            "status": TEXT,
            "migration_type": enum_of(*MoveKind),
            "source_compute": TEXT,
            "source_node": TEXT,
            **dict.fromkeys(("dest_compute", "dest_node"), NULLABLE_TEXT),
            "dest_host": NULL,
            **dict.fromkeys(("old_instance_type_id", "new_instance_type_id", "project_id", "user_id"), TEXT),
            "created_at": MICROSECONDS,
            "updated_at": MICROSECONDS,
        }
    ),
    "LiveMigration": shape(
        {
            "id": NUMBER,
            "uuid": UUID,
            "server_uuid": UUID,
            "status": TEXT,
            **dict.fromkeys(("source_compute", "source_node", "project_id", "user_id"), TEXT),
            **dict.fromkeys(("dest_compute", "dest_node"), NULLABLE_TEXT),
            "dest_host": NULL,
            **{
                f"{kind}_{amount}_bytes": {"type": ["integer", "null"]}
                for kind in ("memory", "disk")
                for amount in ("total", "processed", "remaining")
            },
            "created_at": MICROSECONDS,
            "updated_at": MICROSECONDS,
        }
    ),
    "ServerGroup": shape(
        {
            "id": UUID,
            "name": TEXT,
            "members": array_of(UUID),
            "policies": array_of(TEXT),
            "policy": shape({"name": TEXT, "rules": map_of(NUMBER)}),
            "rules": map_of(NUMBER),
            "project_id": TEXT,
            "user_id": TEXT,
        }
    ),
    "Violation": shape(
        {
            "policy": TEXT,
            "scope": TEXT,
            "domain": NULLABLE_TEXT,
            "members": array_of(UUID),
            "soft": BOOLEAN,
            "reason": TEXT,
        }
    ),
    "Audit": shape(
        {"server_group_id": UUID, "members": array_of(shape({"instance_id": UUID, "placements": _PLACES}))},
        {"violations": array_of(ref("Violation"))},
    ),
    "Preview": shape(
        {
            "server_group_id": UUID,
            "count": NUMBER,
            "fits": NUMBER,
            "placements": array_of(_PLACES),
            "reason": NULLABLE_TEXT,
        }
    ),
    "Evacuation": shape({"instance_id": UUID, "accepted": BOOLEAN, "reason": NULLABLE_TEXT}),
    "Headroom": shape({"server_group_id": UUID, "count": NUMBER, "at_least": BOOLEAN, "reason": NULLABLE_TEXT}),
    "Rebalance": shape(
        {
            "id": UUID,
            "server_group_id": UUID,
            "status": enum_of(*RebalanceStatus),
            "moves": array_of(_MOVE),
            "moves_done": NUMBER,
            "reason": NULLABLE_TEXT,
            "failed_moves": array_of(shape({"instance_id": UUID, "to": TEXT, "reason": TEXT})),
            "created_at": SECONDS,
            "updated_at": SECONDS,
        }
    ),
    "RebalancePlan": shape(
        {
            "server_group_id": UUID,
            "dry_run": {"const": True},
            "moves": array_of(_MOVE),
            "left": array_of(_MOVE),
            "bound": NULLABLE_NUMBER,
            "optimal": BOOLEAN,
            "violations_before": array_of(ref("Violation")),
            "violations_after": array_of(ref("Violation")),
        }
    ),
    "DrainSummary": shape(_DRAIN_SUMMARY),
    "Drain": shape(
        {
            **_DRAIN_SUMMARY,
            "hosts": array_of(TEXT),
            "disabled_hosts": array_of(TEXT),
            "moves": array_of(_DRAIN_MOVE),
            "left": array_of(_LEFT),
            "reason": NULLABLE_TEXT,
            "project_id": TEXT,
            "user_id": TEXT,
        }
    ),
    "DrainPlan": shape(
        {
            "scope": TEXT,
            "domain": TEXT,
            "dry_run": {"const": True},
            "hosts": array_of(TEXT),
            "moves": array_of(_MOVE),
            "left": array_of(_LEFT),
        }
    ),
    "PolicyScope": shape(
        {
            "id": UUID,
            "name": TEXT,
            "allow_identifiers": BOOLEAN,
            "obfuscate_identifiers": BOOLEAN,
            "aggregates": array_of(
                shape(
                    {"group_id": TEXT},
                    {"id": NUMBER, "uuid": UUID, "name": TEXT, "hosts": array_of(TEXT), "obfuscated_group_id": TEXT},
                )
            ),
        },
        {"obfuscate_namespace_uuid": {"anyOf": [UUID, NULL]}},
    ),
    "HypervisorName": shape(_HYPERVISOR, _ON_HYPERVISOR),
    "Hypervisor": shape(
        {
            **_HYPERVISOR,
            "hypervisor_type": TEXT,
            "hypervisor_version": NUMBER,
            "host_ip": NULL,
            "service": shape({"id": UUID, "host": TEXT, "disabled_reason": NULLABLE_TEXT}),
            "uptime": NULLABLE_TEXT,
        },
        _ON_HYPERVISOR,
    ),
    "Service": shape(
        {
            "id": UUID,
            "binary": TEXT,
            "host": TEXT,
            "zone": TEXT,
            "status": enum_of("enabled", "disabled"),
            "state": enum_of("up", "down"),
            "updated_at": MICROSECONDS,
            "disabled_reason": NULLABLE_TEXT,
            "forced_down": BOOLEAN,
        }
    ),
    "Zone": shape(
        {
            "zoneName": TEXT,
            "zoneState": shape({"available": BOOLEAN}),
            "hosts": {"type": ["object", "null"], "additionalProperties": map_of(_SERVICE_STATE)},
        }
    ),
    "NewAggregate": shape(_AGGREGATE),
    "Aggregate": shape({**_AGGREGATE, "hosts": array_of(TEXT), "metadata": _TEXTS}),
    "FlavorName": shape(_FLAVOR),
    "Flavor": shape(
        {
            **_FLAVOR,
            **dict.fromkeys(("ram", "disk", "vcpus", "OS-FLV-EXT-DATA:ephemeral", "swap"), NUMBER),
            "os-flavor-access:is_public": BOOLEAN,
        },
        {"extra_specs": _TEXTS},
    ),
    "FlavorAccess": shape({"flavor_access": array_of(shape({"flavor_id": TEXT, "tenant_id": TEXT}))}),
    "Quota": _quota(NUMBER),
    "NamedQuota": _quota(NUMBER, id=TEXT),
    "QuotaInUse": _quota(shape(dict.fromkeys(("limit", "in_use", "reserved"), NUMBER)), id=TEXT),
    "Limits": shape({"rate": array_of(ANY_OBJECT), "absolute": shape(dict.fromkeys((*LIMITS, *USED), NUMBER))}),
    "KeyPair": shape(_KEY_PAIR),
    "NewKeyPair": shape({**_KEY_PAIR, "user_id": TEXT}),
    "FullKeyPair": shape(
        {
            **_KEY_PAIR,
            "id": NUMBER,
            "user_id": TEXT,
            "created_at": MICROSECONDS,
            "updated_at": NULL,
            "deleted": {"const": False},
            "deleted_at": NULL,
        }
    ),
    "Extension": shape(
        {
            **dict.fromkeys(("alias", "name", "description", "namespace", "updated"), TEXT),
            "links": array_of(ANY_OBJECT),
        }
    ),
}
