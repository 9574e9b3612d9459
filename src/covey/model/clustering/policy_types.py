"""The policy types that Covey implements."""

from covey.model.clustering.spec_schema import Boolean, Integer, List, Map, Number, Schema, String
from covey.model.clustering.spec_types import SpecType, SpecTypes

AFFINITY, SCALING = "senlin.policy.affinity", "senlin.policy.scaling"
DELETION, ZONE_PLACEMENT = "senlin.policy.deletion", "senlin.policy.zone_placement"

_GROUP_POLICIES = ("affinity", "soft-affinity", "anti-affinity", "soft-anti-affinity")
_GROUP_NAME = String("The server group, by name or id. A missing group is created, and deleted with the binding.")


def _affinity(group: Schema) -> Schema:
    return {
        "servergroup": Map("The server group of the nodes.", default={}, items=group),
        "availability_zone": String("The availability zone of the nodes."),
        "enable_drs_extension": Boolean("Whether nodes are placed on a host that is a vSphere cluster.", default=False),
    }


_AFFINITY = _affinity(
    {
        "name": _GROUP_NAME,
        "policies": String("The group's policy.", default="anti-affinity", allowed=_GROUP_POLICIES),
    }
)
_AFFINITY_IN_SCOPES = _affinity(
    {
        "name": _GROUP_NAME,
        "policies": List(
            "The group's policies, such as anti-affinity:rack. A single policy needs no list.",
            default=["anti-affinity"],
            of=String("TYPE, TYPE:SCOPE or TYPE:SCOPE:IDENTIFIER."),
            may_be_one=True,
            may_be_empty=False,
        ),
        "rules": Map(
            "The maximum number of nodes in a domain: max_server_per_SCOPE.",
            of=Integer("The maximum.", minimum=1),
            default={},
        ),
    }
)

_ADJUSTMENT: Schema = {
    "type": String(
        "The meaning of the number.",
        default="CHANGE_IN_CAPACITY",
        allowed=("EXACT_CAPACITY", "CHANGE_IN_CAPACITY", "CHANGE_IN_PERCENTAGE"),
    ),
    "number": Number("The size, or the change of the size.", default=1, minimum=0),
    "min_step": Integer("The minimum number of nodes that a percentage changes.", default=1, minimum=0),
    "best_effort": Boolean("Whether the size is truncated to the cluster's bounds.", default=False),
    "cooldown": Integer("The cooldown in seconds.", default=0, minimum=0),
}
_SCALING: Schema = {
    "event": String(
        "The action that the policy applies to.", required=True, allowed=("CLUSTER_SCALE_IN", "CLUSTER_SCALE_OUT")
    ),
    "adjustment": Map("The adjustment of the size.", default={}, items=_ADJUSTMENT),
}

_DELETION: Schema = {
    "criteria": String(
        "The order in which nodes are removed.",
        default="RANDOM",
        allowed=("OLDEST_FIRST", "OLDEST_PROFILE_FIRST", "YOUNGEST_FIRST", "RANDOM"),
    ),
    "destroy_after_deletion": Boolean("Whether the server is deleted with its node.", default=True),
    "grace_period": Integer("The delay before the deletion in seconds.", default=0, minimum=0),
    "reduce_desired_capacity": Boolean("Whether the cluster's desired capacity is reduced.", default=True),
}

_ZONES: Schema = {
    "zones": List(
        "The availability zones of the nodes.",
        required=True,
        may_be_empty=False,
        of=Map(
            "An availability zone.",
            items={
                "name": String("The name of the zone.", required=True),
                "weight": Integer("The weight of the zone.", default=100, minimum=0),
            },
        ),
    )
}

POLICY_TYPES = SpecTypes(
    "policy_type",
    (
        SpecType(AFFINITY, "1.0", "2016.10", _AFFINITY),
        SpecType(AFFINITY, "1.1", "2026.11", _AFFINITY_IN_SCOPES),
        SpecType(DELETION, "1.0", "2016.04", _DELETION),
        SpecType(DELETION, "1.1", "2018.01", _DELETION),
        SpecType(SCALING, "1.0", "2016.04", _SCALING),
        SpecType(ZONE_PLACEMENT, "1.0", "2016.10", _ZONES),
    ),
)
