"""What the Compute API answers with at 2.1000: a shape for each kind of thing."""

from covey.api.compute.microversions import COVEY
from covey.api.compute.openapi.shapes import (
    ANYTHING,
    FLAG,
    LINKS,
    MAYBE_NUMBER,
    MAYBE_TEXT,
    MICROSECONDS,
    NOTHING,
    NUMBER,
    SECONDS,
    TEXT,
    UUID,
    Shapes,
    by_name,
    one_of,
    ref,
    several,
    shape,
)
from covey.api.compute.quotas import LIMITS, USED
from covey.api.compute.schemas import QUOTA_RESOURCES
from covey.model.actions import MoveKind
from covey.model.rebalances import RebalanceStatus
from covey.model.servers import Task, VmState

_QUOTAS = QUOTA_RESOURCES.at(COVEY)
_TEXTS = by_name(TEXT)

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
    "image": {"anyOf": [{"const": ""}, shape({"id": TEXT, "links": LINKS, "properties": ANYTHING})]},
    "flavor": shape(
        {
            "original_name": TEXT,
            **dict.fromkeys(("vcpus", "ram", "disk", "ephemeral", "swap"), NUMBER),
            "extra_specs": _TEXTS,
        }
    ),
    "created": SECONDS,
    "updated": SECONDS,
    "addresses": ANYTHING,
    "accessIPv4": TEXT,
    "accessIPv6": TEXT,
    "OS-DCF:diskConfig": one_of("AUTO", "MANUAL"),
    "OS-EXT-AZ:availability_zone": TEXT,
    "OS-EXT-STS:task_state": {"enum": [*map(str, Task), None]},
    "OS-EXT-STS:vm_state": one_of(*VmState),
    "OS-EXT-STS:power_state": NUMBER,
    "OS-SRV-USG:launched_at": MICROSECONDS,
    "OS-SRV-USG:terminated_at": NOTHING,
    "os-extended-volumes:volumes_attached": several(ANYTHING),
    "config_drive": TEXT,
    "key_name": MAYBE_TEXT,
    "progress": NUMBER,
    "security_groups": several(shape({"name": TEXT})),
    "locked": FLAG,
    "description": MAYBE_TEXT,
    "tags": several(TEXT),
    "trusted_image_certificates": NOTHING,
    "locked_reason": MAYBE_TEXT,
    "OS-EXT-SRV-ATTR:hostname": TEXT,
    "pinned_availability_zone": MAYBE_TEXT,
    "scheduler_hints": by_name({"type": "array"}),
}
_SERVER_SOMETIMES: Shapes = {
    "server_groups": several(UUID),
    "fault": shape({"code": NUMBER, "created": SECONDS, "message": TEXT}, {"details": TEXT}),
    **dict.fromkeys(("OS-EXT-SRV-ATTR:host", "OS-EXT-SRV-ATTR:hypervisor_hostname"), MAYBE_TEXT),
    "OS-EXT-SRV-ATTR:instance_name": TEXT,
    "OS-EXT-SRV-ATTR:reservation_id": TEXT,
    "OS-EXT-SRV-ATTR:launch_index": NUMBER,
    "OS-EXT-SRV-ATTR:root_device_name": TEXT,
    "OS-EXT-SRV-ATTR:kernel_id": TEXT,
    "OS-EXT-SRV-ATTR:ramdisk_id": TEXT,
    "OS-EXT-SRV-ATTR:user_data": NOTHING,
    "host_status": one_of("UP", "DOWN", ""),
}
_ACTION: Shapes = {
    **dict.fromkeys(("action", "request_id", "project_id", "user_id"), TEXT),
    "instance_uuid": UUID,
    "start_time": MICROSECONDS,
    "message": MAYBE_TEXT,
    "updated_at": MICROSECONDS,
}
_EVENT = shape(
    {
        "event": TEXT,
        "start_time": MICROSECONDS,
        "finish_time": MICROSECONDS,
        "result": {"enum": ["Success", "Error", None]},
        "details": MAYBE_TEXT,
    },
    {"traceback": MAYBE_TEXT},
)
_MOVE = shape({"instance_id": UUID, "from": TEXT, "to": TEXT})
_PLACES = by_name(MAYBE_TEXT)
_HYPERVISOR: Shapes = {
    "id": UUID,
    "hypervisor_hostname": TEXT,
    "state": one_of("up", "down"),
    "status": one_of("enabled", "disabled"),
}
_ON_HYPERVISOR: Shapes = {"servers": several(shape({"name": TEXT, "uuid": UUID}))}
_FLAVOR: Shapes = {"id": TEXT, "name": TEXT, "links": LINKS, "description": MAYBE_TEXT}
_AGGREGATE: Shapes = {
    "id": NUMBER,
    "uuid": UUID,
    "name": TEXT,
    "availability_zone": MAYBE_TEXT,
    "created_at": MICROSECONDS,
    "updated_at": MICROSECONDS,
    "deleted_at": NOTHING,
    "deleted": FLAG,
}

_SERVICE_STATE = shape({"available": FLAG, "active": FLAG, "updated_at": MICROSECONDS})

COMPONENTS: Shapes = {
    "Versions": shape({"versions": several(shape(_VERSIONED))}),
    "Version": shape({"version": shape({**_VERSIONED, "media-types": several(ANYTHING)})}),
    "ServerName": shape(_SHORT_SERVER),
    "Server": shape(_SERVER, _SERVER_SOMETIMES),
    "NewServer": shape(
        {
            "id": UUID,
            "links": LINKS,
            "OS-DCF:diskConfig": one_of("AUTO", "MANUAL"),
            "security_groups": several(shape({"name": TEXT})),
            "adminPass": TEXT,
        }
    ),
    "Placement": shape(
        {
            "server_id": UUID,
            "hostId": TEXT,
            "decision": shape({"attempts": NUMBER}, {"hosts": NUMBER, "candidates": NUMBER, "seed": NUMBER}),
            "group": {"anyOf": [UUID, NOTHING]},
            "refused": MAYBE_TEXT,
        },
        {"host": MAYBE_TEXT, "moving_to": MAYBE_TEXT, "query": TEXT},
    ),
    "Explanation": shape(
        {
            "sentence": MAYBE_TEXT,
            "candidates": NUMBER,
            "query": TEXT,
            "hosts": several(shape({"host": TEXT, "allowed": FLAG, "reason": MAYBE_TEXT})),
        }
    ),
    "Action": shape(_ACTION),
    "ActionWithEvents": shape({**_ACTION, "events": several(_EVENT)}),
    "Migration": shape(
        {
            "id": NUMBER,
            "uuid": UUID,
            "instance_uuid": UUID,
            "status": TEXT,
            "migration_type": one_of(*MoveKind),
            "source_compute": TEXT,
            "source_node": TEXT,
            **dict.fromkeys(("dest_compute", "dest_node"), MAYBE_TEXT),
            "dest_host": NOTHING,
            **dict.fromkeys(("old_instance_type_id", "new_instance_type_id", "project_id", "user_id"), TEXT),
            "created_at": MICROSECONDS,
            "updated_at": MICROSECONDS,
        }
    ),
    "ServerGroup": shape(
        {
            "id": UUID,
            "name": TEXT,
            "members": several(UUID),
            "policies": several(TEXT),
            "policy": shape({"name": TEXT, "rules": by_name(NUMBER)}),
            "rules": by_name(NUMBER),
            "project_id": TEXT,
            "user_id": TEXT,
        }
    ),
    "Violation": shape(
        {
            "policy": TEXT,
            "scope": TEXT,
            "domain": MAYBE_TEXT,
            "members": several(UUID),
            "soft": FLAG,
            "reason": TEXT,
        }
    ),
    "Audit": shape(
        {"server_group_id": UUID, "members": several(shape({"instance_id": UUID, "placements": _PLACES}))},
        {"violations": several(ref("Violation"))},
    ),
    "Preview": shape(
        {
            "server_group_id": UUID,
            "count": NUMBER,
            "fits": NUMBER,
            "placements": several(_PLACES),
            "reason": MAYBE_TEXT,
        }
    ),
    "Headroom": shape({"server_group_id": UUID, "count": NUMBER, "at_least": FLAG, "reason": MAYBE_TEXT}),
    "Rebalance": shape(
        {
            "id": UUID,
            "server_group_id": UUID,
            "status": one_of(*RebalanceStatus),
            "moves": several(_MOVE),
            "moves_done": NUMBER,
            "reason": MAYBE_TEXT,
            "created_at": SECONDS,
            "updated_at": SECONDS,
        }
    ),
    "RebalancePlan": shape(
        {
            "server_group_id": UUID,
            "dry_run": {"const": True},
            "moves": several(_MOVE),
            "left": several(_MOVE),
            "bound": MAYBE_NUMBER,
            "optimal": FLAG,
            "violations_before": several(ref("Violation")),
            "violations_after": several(ref("Violation")),
        }
    ),
    "PolicyScope": shape(
        {
            "id": UUID,
            "name": TEXT,
            "allow_identifiers": FLAG,
            "obfuscate_identifiers": FLAG,
            "aggregates": several(
                shape(
                    {"group_id": TEXT},
                    {"id": NUMBER, "uuid": UUID, "name": TEXT, "hosts": several(TEXT), "obfuscated_group_id": UUID},
                )
            ),
        },
        {"obfuscate_namespace_uuid": {"anyOf": [UUID, NOTHING]}},
    ),
    "HypervisorName": shape(_HYPERVISOR, _ON_HYPERVISOR),
    "Hypervisor": shape(
        {
            **_HYPERVISOR,
            "hypervisor_type": TEXT,
            "hypervisor_version": NUMBER,
            "host_ip": NOTHING,
            "service": shape({"id": UUID, "host": TEXT, "disabled_reason": MAYBE_TEXT}),
            "uptime": NOTHING,
        },
        _ON_HYPERVISOR,
    ),
    "Service": shape(
        {
            "id": UUID,
            "binary": TEXT,
            "host": TEXT,
            "zone": TEXT,
            "status": one_of("enabled", "disabled"),
            "state": one_of("up", "down"),
            "updated_at": MICROSECONDS,
            "disabled_reason": MAYBE_TEXT,
            "forced_down": FLAG,
        }
    ),
    "Zone": shape(
        {
            "zoneName": TEXT,
            "zoneState": shape({"available": FLAG}),
            "hosts": {"type": ["object", "null"], "additionalProperties": by_name(_SERVICE_STATE)},
        }
    ),
    "NewAggregate": shape(_AGGREGATE),
    "Aggregate": shape({**_AGGREGATE, "hosts": several(TEXT), "metadata": _TEXTS}),
    "FlavorName": shape(_FLAVOR),
    "Flavor": shape(
        {
            **_FLAVOR,
            **dict.fromkeys(("ram", "disk", "vcpus", "OS-FLV-EXT-DATA:ephemeral", "swap"), NUMBER),
            "os-flavor-access:is_public": FLAG,
        },
        {"extra_specs": _TEXTS},
    ),
    "FlavorAccess": shape({"flavor_access": several(shape({"flavor_id": TEXT, "tenant_id": TEXT}))}),
    "Quota": shape(dict.fromkeys(_QUOTAS, NUMBER)),
    "NamedQuota": shape({"id": TEXT, **dict.fromkeys(_QUOTAS, NUMBER)}),
    "QuotaInUse": shape(
        {
            "id": TEXT,
            **dict.fromkeys(_QUOTAS, shape(dict.fromkeys(("limit", "in_use", "reserved"), NUMBER))),
        }
    ),
    "Limits": shape({"rate": several(ANYTHING), "absolute": shape(dict.fromkeys((*LIMITS, *USED), NUMBER))}),
    "Extension": shape(
        {
            **dict.fromkeys(("alias", "name", "description", "namespace", "updated"), TEXT),
            "links": several(ANYTHING),
        }
    ),
}
