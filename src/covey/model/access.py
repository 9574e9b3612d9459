"""Who is asking, and the rules of who may do what, each with its default."""

from dataclasses import dataclass

from covey.model.ids import ProjectId, UserId

# A role brings the ones after it along, as Keystone's own roles do.
IMPLIED_ROLES = {"admin": ("manager", "member", "reader"), "manager": ("member", "reader"), "member": ("reader",)}


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody whose identity was checked, acting for a project."""

    user_id: UserId
    project_id: ProjectId
    roles: frozenset[str]
    user_name: str = ""
    project_name: str = ""


def with_implied(roles: frozenset[str]) -> frozenset[str]:
    """The roles and all that they bring along."""
    return roles.union(*(IMPLIED_ROLES.get(role, ()) for role in roles))


@dataclass(frozen=True, slots=True)
class Target:
    """What is acted on, as far as access rules may ask about it."""

    project_id: str | None = None
    user_id: str | None = None


@dataclass(frozen=True, slots=True)
class AccessRule:
    """A named rule with its default check, in the language of oslo.policy, and the requests that it guards."""

    name: str
    check: str
    description: str
    requests: tuple[str, ...] = ()


ADMIN = "rule:context_is_admin"
ANYBODY = "@"
READER_OR_ADMIN = "rule:project_reader_or_admin"
MEMBER_OR_ADMIN = "rule:project_member_or_admin"

_NOVA, _AGGREGATES, _FLAVORS, _HYPERVISORS = "os_compute_api:", "/os-aggregates", "/flavors", "/os-hypervisors"

RULES: tuple[AccessRule, ...] = (
    AccessRule("context_is_admin", "role:admin", "Who counts as an administrator."),
    AccessRule("project_reader", "role:reader and project_id:%(project_id)s", "May look at a project's things."),
    AccessRule("project_member", "role:member and project_id:%(project_id)s", "May change a project's things."),
    AccessRule("project_reader_or_admin", f"rule:project_reader or {ADMIN}", "May look, in the project or anywhere."),
    AccessRule("project_member_or_admin", f"rule:project_member or {ADMIN}", "May change, in the project or anywhere."),
    AccessRule(f"{_NOVA}os-aggregates:index", ADMIN, "List aggregates.", (f"GET {_AGGREGATES}",)),
    AccessRule(f"{_NOVA}os-aggregates:show", ADMIN, "Show an aggregate.", (f"GET {_AGGREGATES}/{{id}}",)),
    AccessRule(f"{_NOVA}os-aggregates:create", ADMIN, "Create an aggregate.", (f"POST {_AGGREGATES}",)),
    AccessRule(
        f"{_NOVA}os-aggregates:update", ADMIN, "Rename an aggregate or its zone.", (f"PUT {_AGGREGATES}/{{id}}",)
    ),
    AccessRule(f"{_NOVA}os-aggregates:delete", ADMIN, "Delete an aggregate.", (f"DELETE {_AGGREGATES}/{{id}}",)),
    AccessRule(
        f"{_NOVA}os-aggregates:add_host",
        ADMIN,
        "Add a host to an aggregate.",
        (f"POST {_AGGREGATES}/{{id}}/action add_host",),
    ),
    AccessRule(
        f"{_NOVA}os-aggregates:remove_host",
        ADMIN,
        "Remove a host from an aggregate.",
        (f"POST {_AGGREGATES}/{{id}}/action remove_host",),
    ),
    AccessRule(
        f"{_NOVA}os-aggregates:set_metadata",
        ADMIN,
        "Set or remove metadata of an aggregate.",
        (f"POST {_AGGREGATES}/{{id}}/action set_metadata",),
    ),
    AccessRule(
        "compute:aggregates:images", ADMIN, "Ask hosts to cache images.", (f"POST {_AGGREGATES}/{{id}}/images",)
    ),
    AccessRule(
        f"{_NOVA}os-availability-zone:list", ANYBODY, "List availability zones.", ("GET /os-availability-zone",)
    ),
    AccessRule(
        f"{_NOVA}os-availability-zone:detail",
        ADMIN,
        "List availability zones with their hosts.",
        ("GET /os-availability-zone/detail",),
    ),
    AccessRule(f"{_NOVA}extensions", ANYBODY, "List extensions.", ("GET /extensions", "GET /extensions/{alias}")),
    AccessRule(f"{_NOVA}os-flavor-manage:create", ADMIN, "Create a flavor.", (f"POST {_FLAVORS}",)),
    AccessRule(f"{_NOVA}os-flavor-manage:update", ADMIN, "Change a flavor's description.", (f"PUT {_FLAVORS}/{{id}}",)),
    AccessRule(f"{_NOVA}os-flavor-manage:delete", ADMIN, "Delete a flavor.", (f"DELETE {_FLAVORS}/{{id}}",)),
    AccessRule(
        f"{_NOVA}os-flavor-access",
        ADMIN,
        "List the projects that may use a private flavor.",
        (f"GET {_FLAVORS}/{{id}}/os-flavor-access",),
    ),
    AccessRule(
        f"{_NOVA}os-flavor-access:add_tenant_access",
        ADMIN,
        "Let a project use a private flavor.",
        (f"POST {_FLAVORS}/{{id}}/action addTenantAccess",),
    ),
    AccessRule(
        f"{_NOVA}os-flavor-access:remove_tenant_access",
        ADMIN,
        "Take a private flavor from a project.",
        (f"POST {_FLAVORS}/{{id}}/action removeTenantAccess",),
    ),
    AccessRule(
        f"{_NOVA}os-flavor-extra-specs:index",
        READER_OR_ADMIN,
        "List a flavor's extra specs, also inside flavors.",
        (f"GET {_FLAVORS}/{{id}}/os-extra_specs", f"GET {_FLAVORS}/detail", f"GET {_FLAVORS}/{{id}}"),
    ),
    AccessRule(
        f"{_NOVA}os-flavor-extra-specs:show",
        READER_OR_ADMIN,
        "Show one extra spec.",
        (f"GET {_FLAVORS}/{{id}}/os-extra_specs/{{key}}",),
    ),
    AccessRule(
        f"{_NOVA}os-flavor-extra-specs:create",
        ADMIN,
        "Add extra specs.",
        (f"POST {_FLAVORS}/{{id}}/os-extra_specs",),
    ),
    AccessRule(
        f"{_NOVA}os-flavor-extra-specs:update",
        ADMIN,
        "Change an extra spec.",
        (f"PUT {_FLAVORS}/{{id}}/os-extra_specs/{{key}}",),
    ),
    AccessRule(
        f"{_NOVA}os-flavor-extra-specs:delete",
        ADMIN,
        "Delete an extra spec.",
        (f"DELETE {_FLAVORS}/{{id}}/os-extra_specs/{{key}}",),
    ),
    AccessRule(f"{_NOVA}os-hypervisors:list", ADMIN, "List hypervisors.", (f"GET {_HYPERVISORS}",)),
    AccessRule(
        f"{_NOVA}os-hypervisors:list-detail", ADMIN, "List hypervisors in full.", (f"GET {_HYPERVISORS}/detail",)
    ),
    AccessRule(f"{_NOVA}os-hypervisors:show", ADMIN, "Show a hypervisor.", (f"GET {_HYPERVISORS}/{{id}}",)),
    AccessRule(
        f"{_NOVA}os-hypervisors:statistics", ADMIN, "Sum up all hypervisors.", (f"GET {_HYPERVISORS}/statistics",)
    ),
    AccessRule(
        f"{_NOVA}os-hypervisors:uptime", ADMIN, "Show a hypervisor's uptime.", (f"GET {_HYPERVISORS}/{{id}}/uptime",)
    ),
    AccessRule(
        f"{_NOVA}os-hypervisors:search",
        ADMIN,
        "Find hypervisors by a part of the name.",
        (f"GET {_HYPERVISORS}/{{pattern}}/search",),
    ),
    AccessRule(
        f"{_NOVA}os-hypervisors:servers",
        ADMIN,
        "List the servers of hypervisors.",
        (f"GET {_HYPERVISORS}/{{pattern}}/servers",),
    ),
    AccessRule(f"{_NOVA}os-keypairs:index", "user_id:%(user_id)s", "List one's key pairs.", ("GET /os-keypairs",)),
    AccessRule(f"{_NOVA}limits", ANYBODY, "Show one's limits.", ("GET /limits",)),
    AccessRule(f"{_NOVA}limits:other_project", ADMIN, "Show another project's limits.", ("GET /limits?tenant_id=",)),
    AccessRule(f"{_NOVA}os-quota-sets:show", READER_OR_ADMIN, "Show a project's quota.", ("GET /os-quota-sets/{id}",)),
    AccessRule(
        f"{_NOVA}os-quota-sets:detail",
        READER_OR_ADMIN,
        "Show a project's quota and use.",
        ("GET /os-quota-sets/{id}/detail",),
    ),
    AccessRule(
        f"{_NOVA}os-quota-sets:defaults", ANYBODY, "Show the default quota.", ("GET /os-quota-sets/{id}/defaults",)
    ),
    AccessRule(f"{_NOVA}os-quota-sets:update", ADMIN, "Set a project's quota.", ("PUT /os-quota-sets/{id}",)),
    AccessRule(f"{_NOVA}os-quota-sets:delete", ADMIN, "Reset a project's quota.", ("DELETE /os-quota-sets/{id}",)),
    AccessRule(
        f"{_NOVA}os-quota-class-sets:show", ADMIN, "Show a class of quotas.", ("GET /os-quota-class-sets/{id}",)
    ),
    AccessRule(
        f"{_NOVA}os-quota-class-sets:update", ADMIN, "Set a class of quotas.", ("PUT /os-quota-class-sets/{id}",)
    ),
    AccessRule(f"{_NOVA}os-services:list", ADMIN, "List compute services.", ("GET /os-services",)),
    AccessRule(
        f"{_NOVA}os-services:update", ADMIN, "Enable, disable or force down a host.", ("PUT /os-services/{id}",)
    ),
    AccessRule(f"{_NOVA}os-services:delete", ADMIN, "Remove a host.", ("DELETE /os-services/{id}",)),
    AccessRule("image:get_images", ANYBODY, "List images.", ("GET /v2/images",)),
    AccessRule("image:get_image", ANYBODY, "Show a visible image.", ("GET /v2/images/{id}",)),
    AccessRule("image:add_image", MEMBER_OR_ADMIN, "Create an image record.", ("POST /v2/images",)),
    AccessRule("image:modify_image", MEMBER_OR_ADMIN, "Change an image record.", ("PATCH /v2/images/{id}",)),
    AccessRule("image:upload_image", MEMBER_OR_ADMIN, "Send image data.", ("PUT /v2/images/{id}/file",)),
    AccessRule("image:delete_image", MEMBER_OR_ADMIN, "Delete an image record.", ("DELETE /v2/images/{id}",)),
    AccessRule("image:publicize_image", ADMIN, "Make an image public.", ("POST /v2/images", "PATCH /v2/images/{id}")),
    AccessRule("image:any_project", ADMIN, "See other projects' private images.", ("GET /v2/images",)),
)
