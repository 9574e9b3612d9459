"""Access rules of the Placement API. Names and defaults are Placement's, except for Covey's own resource."""

from covey.model.access import AccessRule

_OPERATOR = "rule:admin_or_service_api"
_PROJECT = "not system_scope:all"  # a system-scoped token acts for no project
_PROVIDER = "/resource_providers/{uuid}"


def _rules(prefix: str, path: str, *verbs: tuple[str, str, str]) -> tuple[AccessRule, ...]:
    """Return the rules of one resource: for each the verb, the request (method and path suffix), and a description."""
    return tuple(
        AccessRule(
            f"placement:{prefix}:{verb}",
            _OPERATOR,
            description,
            (f"{request.partition(' ')[0]} {path}{request.partition(' ')[2]}",),
        )
        for verb, request, description in verbs
    )


PLACEMENT: tuple[AccessRule, ...] = (
    AccessRule("admin_api", f"role:admin and {_PROJECT}", "Administrator with a project-scoped token."),
    AccessRule(
        "service_api",
        f"role:service and {_PROJECT}",
        "Another service; an administrator as well, unless [oslo_policy] enforce_new_defaults.",
        deprecated_check=f"role:admin and {_PROJECT}",
    ),
    AccessRule(
        "admin_or_service_api", f"(role:admin or role:service) and {_PROJECT}", "Administrator, or another service."
    ),
    AccessRule(
        "project_reader_api",
        f"role:reader and project_id:%(project_id)s and {_PROJECT}",
        "Reader of the project.",
    ),
    AccessRule(
        "admin_or_project_reader_or_service_api",
        f"{_OPERATOR} or rule:project_reader_api",
        "Reader of the project, administrator, or another service.",
    ),
    *_rules(
        "resource_providers",
        "/resource_providers",
        ("list", "GET", "List resource providers."),
        ("create", "POST", "Create a resource provider."),
        ("show", "GET /{uuid}", "Show a resource provider."),
        ("update", "PUT /{uuid}", "Change a resource provider's name or parent."),
        ("delete", "DELETE /{uuid}", "Delete a resource provider."),
    ),
    *_rules(
        "resource_providers:inventories",
        f"{_PROVIDER}/inventories",
        ("list", "GET", "List a provider's inventories."),
        ("create", "POST", "Add an inventory to a provider."),
        ("show", "GET /{resource_class}", "Show an inventory."),
        ("update", "PUT", "Change a provider's inventories."),
        ("delete", "DELETE", "Remove a provider's inventories."),
    ),
    *_rules(
        "resource_providers:aggregates",
        f"{_PROVIDER}/aggregates",
        ("list", "GET", "List a provider's aggregates."),
        ("update", "PUT", "Set a provider's aggregates."),
    ),
    *_rules(
        "resource_providers:traits",
        f"{_PROVIDER}/traits",
        ("list", "GET", "List a provider's traits."),
        ("update", "PUT", "Change a provider's traits."),
        ("delete", "DELETE", "Remove a provider's traits."),
    ),
    *_rules(
        "resource_providers:allocations",
        f"{_PROVIDER}/allocations",
        ("list", "GET", "List the allocations against a provider."),
    ),
    *_rules("resource_providers", _PROVIDER, ("usages", "GET /usages", "Show a provider's usages.")),
    *_rules(
        "resource_classes",
        "/resource_classes",
        ("list", "GET", "List resource classes."),
        ("create", "POST", "Create a resource class."),
        ("show", "GET /{name}", "Show a resource class."),
        ("update", "PUT /{name}", "Create or rename a resource class."),
        ("delete", "DELETE /{name}", "Delete a resource class."),
    ),
    *_rules(
        "traits",
        "/traits",
        ("list", "GET", "List traits."),
        ("show", "GET /{name}", "Check whether a trait exists."),
        ("update", "PUT /{name}", "Create a trait."),
        ("delete", "DELETE /{name}", "Delete a trait."),
    ),
    *_rules(
        "allocations",
        "/allocations",
        ("manage", "POST", "Set the allocations of several consumers."),
        ("list", "GET /{consumer_uuid}", "List a consumer's allocations."),
        ("update", "PUT /{consumer_uuid}", "Set a consumer's allocations."),
        ("delete", "DELETE /{consumer_uuid}", "Delete a consumer's allocations."),
    ),
    *_rules(
        "allocation_candidates",
        "/allocation_candidates",
        ("list", "GET", "List allocation candidates."),
    ),
    *_rules(
        "host_rankings",
        "/host_rankings",
        ("create", "POST", "Rank hosts by the policies of a server group of another service."),
    ),
    AccessRule(
        "placement:usages",
        "rule:admin_or_project_reader_or_service_api",
        "Show a project's usages.",
        ("GET /usages",),
    ),
    AccessRule(
        "placement:reshaper:reshape",
        "rule:service_api",
        "Change inventories and allocations together.",
        ("POST /reshaper",),
    ),
)
