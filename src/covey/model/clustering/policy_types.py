"""The policy types that Covey implements."""

from covey.model.clustering.spec_schema import Boolean, Integer, List, Map, Number, Schema, String
from covey.model.clustering.spec_types import SpecType, SpecTypes

AFFINITY, SCALING = "senlin.policy.affinity", "senlin.policy.scaling"
DELETION, ZONE_PLACEMENT = "senlin.policy.deletion", "senlin.policy.zone_placement"

_GROUP_POLICIES = ("affinity", "soft-affinity", "anti-affinity", "soft-anti-affinity")
_GROUP_NAME = String("The server group, by name or id. One that does not exist is made, and goes with the policy.")


def _affinity(group: Schema) -> Schema:
    return {
        "servergroup": Map("The server group that the nodes are in.", default={}, items=group),
        "availability_zone": String("The zone that the nodes are in."),
        "enable_drs_extension": Boolean("Whether nodes go to a host that is a vSphere cluster.", default=False),
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
            "The group's policies, such as anti-affinity:rack. A lone one may stand without a list.",
            default=["anti-affinity"],
            of=String("TYPE, TYPE:SCOPE or TYPE:SCOPE:IDENTIFIER."),
            may_be_one=True,
            may_be_empty=False,
        ),
        "rules": Map(
            "How many nodes a place may hold: max_server_per_SCOPE.", of=Integer("How many.", minimum=1), default={}
        ),
    }
)

_ADJUSTMENT: Schema = {
    "type": String(
        "What the number means.",
        default="CHANGE_IN_CAPACITY",
        allowed=("EXACT_CAPACITY", "CHANGE_IN_CAPACITY", "CHANGE_IN_PERCENTAGE"),
    ),
    "number": Number("How much the cluster changes, or becomes.", default=1, minimum=0),
    "min_step": Integer("By how many nodes a percentage changes it at least.", default=1, minimum=0),
    "best_effort": Boolean("Whether it changes as far as its limits let it.", default=False),
    "cooldown": Integer("Seconds until the policy lets the cluster change again.", default=0, minimum=0),
}
_SCALING: Schema = {
    "event": String("Which change it is about.", required=True, allowed=("CLUSTER_SCALE_IN", "CLUSTER_SCALE_OUT")),
    "adjustment": Map("By how much.", default={}, items=_ADJUSTMENT),
}

_DELETION: Schema = {
    "criteria": String(
        "Which nodes go first.",
        default="RANDOM",
        allowed=("OLDEST_FIRST", "OLDEST_PROFILE_FIRST", "YOUNGEST_FIRST", "RANDOM"),
    ),
    "destroy_after_deletion": Boolean("Whether a node's server goes with it.", default=True),
    "grace_period": Integer("Seconds to wait before it.", default=0, minimum=0),
    "reduce_desired_capacity": Boolean("Whether the cluster wants fewer nodes from then on.", default=True),
}

_ZONES: Schema = {
    "zones": List(
        "Zones that the nodes are spread over.",
        required=True,
        may_be_empty=False,
        of=Map(
            "A zone.",
            items={
                "name": String("Its name.", required=True),
                "weight": Integer("Its share of the nodes.", default=100, minimum=0),
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
