"""The access rules of the Clustering API, with Senlin's names."""

from covey.model.access import AccessRule
from covey.model.access_rules.basics import ADMIN, ANYBODY, MEMBER_OR_ADMIN, READER_OR_ADMIN


def _rules(prefix: str, check: str, *verbs: tuple[str, str, str]) -> tuple[AccessRule, ...]:
    """Return the rules of one resource; each verb has a description and a request."""
    return tuple(
        AccessRule(f"{prefix}:{verb}", check, description, (request.replace(" ", " /v1", 1),))
        for verb, description, request in verbs
    )


CLUSTERING: tuple[AccessRule, ...] = (
    *_rules("build_info", READER_OR_ADMIN, ("build_info", "Show the version of the service.", "GET /build-info")),
    *_rules(
        "profile_types",
        READER_OR_ADMIN,
        ("index", "List profile types.", "GET /profile-types"),
        ("get", "Show a profile type.", "GET /profile-types/{type}"),
        ("ops", "List the operations of a profile type.", "GET /profile-types/{type}/ops"),
    ),
    *_rules(
        "policy_types",
        READER_OR_ADMIN,
        ("index", "List policy types.", "GET /policy-types"),
        ("get", "Show a policy type.", "GET /policy-types/{type}"),
    ),
    *_rules(
        "profiles",
        READER_OR_ADMIN,
        ("index", "List profiles.", "GET /profiles"),
        ("get", "Show a profile.", "GET /profiles/{profile}"),
        ("validate", "Validate the spec of a profile.", "POST /profiles/validate"),
    ),
    *_rules(
        "profiles",
        MEMBER_OR_ADMIN,
        ("create", "Create a profile.", "POST /profiles"),
        ("update", "Update a profile's name or metadata.", "PATCH /profiles/{profile}"),
        ("delete", "Delete a profile.", "DELETE /profiles/{profile}"),
    ),
    *_rules(
        "policies",
        READER_OR_ADMIN,
        ("index", "List policies.", "GET /policies"),
        ("get", "Show a policy.", "GET /policies/{policy}"),
        ("validate", "Validate the spec of a policy.", "POST /policies/validate"),
    ),
    *_rules(
        "policies",
        MEMBER_OR_ADMIN,
        ("create", "Create a policy.", "POST /policies"),
        ("update", "Rename a policy.", "PATCH /policies/{policy}"),
        ("delete", "Delete a policy.", "DELETE /policies/{policy}"),
    ),
    *_rules(
        "clusters",
        READER_OR_ADMIN,
        ("index", "List clusters.", "GET /clusters"),
        ("get", "Show a cluster.", "GET /clusters/{cluster}"),
        ("collect", "Show an attribute of all nodes of a cluster.", "GET /clusters/{cluster}/attrs/{path}"),
    ),
    *_rules(
        "clusters",
        MEMBER_OR_ADMIN,
        ("create", "Create a cluster.", "POST /clusters"),
        ("update", "Update a cluster.", "PATCH /clusters/{cluster}"),
        ("delete", "Delete a cluster.", "DELETE /clusters/{cluster}"),
        ("action", "Start an action on a cluster, such as a scale-out.", "POST /clusters/{cluster}/actions"),
        ("operation", "Perform an operation on the nodes of a cluster.", "POST /clusters/{cluster}/ops"),
    ),
    *_rules(
        "cluster_policies",
        READER_OR_ADMIN,
        ("index", "List the policies of a cluster.", "GET /clusters/{cluster}/policies"),
        ("get", "Show the binding of a policy to a cluster.", "GET /clusters/{cluster}/policies/{policy}"),
    ),
    *_rules(
        "nodes",
        READER_OR_ADMIN,
        ("index", "List nodes.", "GET /nodes"),
        ("get", "Show a node.", "GET /nodes/{node}"),
    ),
    *_rules(
        "nodes",
        MEMBER_OR_ADMIN,
        ("create", "Create a node.", "POST /nodes"),
        ("update", "Update a node.", "PATCH /nodes/{node}"),
        ("delete", "Delete a node.", "DELETE /nodes/{node}"),
        ("action", "Check or recover a node.", "POST /nodes/{node}/actions"),
        ("operation", "Perform an operation on a node.", "POST /nodes/{node}/ops"),
    ),
    *_rules(
        "actions",
        READER_OR_ADMIN,
        ("index", "List actions.", "GET /actions"),
        ("get", "Show an action.", "GET /actions/{action}"),
    ),
    *_rules("actions", MEMBER_OR_ADMIN, ("update", "Cancel an action.", "PATCH /actions/{action}")),
    *_rules(
        "events",
        READER_OR_ADMIN,
        ("index", "List events.", "GET /events"),
        ("get", "Show an event.", "GET /events/{event}"),
    ),
    *_rules(
        "receivers",
        MEMBER_OR_ADMIN,  # reads, too: a receiver's id is enough to start its action
        ("index", "List receivers.", "GET /receivers"),
        ("get", "Show a receiver.", "GET /receivers/{receiver}"),
        ("create", "Create a receiver.", "POST /receivers"),
        ("update", "Update a receiver.", "PATCH /receivers/{receiver}"),
        ("delete", "Delete a receiver.", "DELETE /receivers/{receiver}"),
    ),
    *_rules(
        "webhooks",
        ANYBODY,
        (
            "trigger",
            "Start a receiver's action. Checked for the receiver's creator.",
            "POST /webhooks/{receiver}/trigger",
        ),
    ),
    *_rules("services", ADMIN, ("index", "List the engines that execute actions.", "GET /services")),
)
