"""The rules of who may do what with the Placement API. Names and defaults are Placement's."""

from covey.model.access import AccessRule

_OPERATOR = "rule:admin_or_service_api"
_PROJECT = "not system_scope:all"  # whoever acts for a whole system acts for no project
_PROVIDER = "/resource_providers/{uuid}"


def _rules(prefix: str, path: str, *verbs: tuple[str, str, str]) -> tuple[AccessRule, ...]:
    """Rules about one kind of thing: for each the verb, the request's method and end of path, and what it guards."""
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
    AccessRule("admin_api", f"role:admin and {_PROJECT}", "An administrator, acting for a project."),
    AccessRule(
        "service_api",
        f"role:service and {_PROJECT}",
        "Another service of the cloud; an administrator as well, unless [oslo_policy] enforce_new_defaults.",
        formerly=f"role:admin and {_PROJECT}",
    ),
    AccessRule("admin_or_service_api", f"(role:admin or role:service) and {_PROJECT}", "Most of the Placement API."),
    AccessRule(
        "project_reader_api",
        f"role:reader and project_id:%(project_id)s and {_PROJECT}",
        "May look at what a project uses.",
    ),
    AccessRule(
        "admin_or_project_reader_or_service_api",
        f"{_OPERATOR} or rule:project_reader_api",
        "May look at what a project uses, in the project or anywhere.",
    ),
    *_rules(
        "resource_providers",
        "/resource_providers",
        ("list", "GET", "List resource providers."),
        ("create", "POST", "Create a resource provider."),
        ("show", "GET /{uuid}", "Show a resource provider."),
        ("update", "PUT /{uuid}", "Rename or move a resource provider."),
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
        ("update", "PUT", "Put a provider into aggregates."),
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
        ("list", "GET", "List who holds something of a provider."),
    ),
    *_rules("resource_providers", _PROVIDER, ("usages", "GET /usages", "See what is used of a provider.")),
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
        ("show", "GET /{name}", "Ask whether a trait exists."),
        ("update", "PUT /{name}", "Create a trait."),
        ("delete", "DELETE /{name}", "Delete a trait."),
    ),
    *_rules(
        "allocations",
        "/allocations",
        ("manage", "POST", "Change what many consumers hold."),
        ("list", "GET /{consumer_uuid}", "See what a consumer holds."),
        ("update", "PUT /{consumer_uuid}", "Change what a consumer holds."),
        ("delete", "DELETE /{consumer_uuid}", "Take all that a consumer holds."),
    ),
    *_rules(
        "allocation_candidates",
        "/allocation_candidates",
        ("list", "GET", "Ask where resources could come from."),
    ),
    AccessRule(
        "placement:usages",
        "rule:admin_or_project_reader_or_service_api",
        "See what a project uses in all.",
        ("GET /usages",),
    ),
    AccessRule(
        "placement:reshaper:reshape",
        "rule:service_api",
        "Change inventories and allocations together.",
        ("POST /reshaper",),
    ),
)
