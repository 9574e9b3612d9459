"""Access rules of hosts, aggregates, scopes, flavors and quotas. Names and defaults follow Nova where it has them."""

from covey.model.access import AccessRule
from covey.model.access_rules.basics import ADMIN, ANYBODY, MEMBER_OR_ADMIN, READER_OR_ADMIN

_NOVA = "os_compute_api:"
_AGGREGATES, _FLAVORS, _HYPERVISORS = "/os-aggregates", "/flavors", "/os-hypervisors"

OPERATORS: tuple[AccessRule, ...] = (
    AccessRule(f"{_NOVA}os-aggregates:index", ADMIN, "List aggregates.", (f"GET {_AGGREGATES}",)),
    AccessRule(f"{_NOVA}os-aggregates:show", ADMIN, "Show an aggregate.", (f"GET {_AGGREGATES}/{{id}}",)),
    AccessRule(f"{_NOVA}os-aggregates:create", ADMIN, "Create an aggregate.", (f"POST {_AGGREGATES}",)),
    AccessRule(
        f"{_NOVA}os-aggregates:update", ADMIN, "Change an aggregate's name or zone.", (f"PUT {_AGGREGATES}/{{id}}",)
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
    AccessRule(f"{_NOVA}os-drains:index", ADMIN, "List drains.", ("GET /os-drains",)),
    AccessRule(f"{_NOVA}os-drains:show", ADMIN, "Show a drain.", ("GET /os-drains/{id}",)),
    AccessRule(f"{_NOVA}os-drains:plan", ADMIN, "Plan a drain.", ("POST /os-drains (with dry_run)",)),
    AccessRule(f"{_NOVA}os-drains:start", ADMIN, "Drain a host or a domain.", ("POST /os-drains",)),
    AccessRule(f"{_NOVA}os-drains:cancel", ADMIN, "Cancel a running drain.", ("POST /os-drains/{id}/action (cancel)",)),
    AccessRule(
        f"{_NOVA}os-drains:undo",
        ADMIN,
        "Undo a drain: enable the hosts that it disabled.",
        ("POST /os-drains/{id}/action (undo)",),
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
        "Grant a project access to a private flavor.",
        (f"POST {_FLAVORS}/{{id}}/action addTenantAccess",),
    ),
    AccessRule(
        f"{_NOVA}os-flavor-access:remove_tenant_access",
        ADMIN,
        "Revoke a project's access to a private flavor.",
        (f"POST {_FLAVORS}/{{id}}/action removeTenantAccess",),
    ),
    AccessRule(
        f"{_NOVA}os-flavor-extra-specs:index",
        READER_OR_ADMIN,
        "List a flavor's extra specs, also as a part of flavors.",
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
        f"{_NOVA}os-hypervisors:list-detail", ADMIN, "List hypervisors with details.", (f"GET {_HYPERVISORS}/detail",)
    ),
    AccessRule(f"{_NOVA}os-hypervisors:show", ADMIN, "Show a hypervisor.", (f"GET {_HYPERVISORS}/{{id}}",)),
    AccessRule(
        f"{_NOVA}os-hypervisors:statistics",
        ADMIN,
        "Show statistics over all hypervisors.",
        (f"GET {_HYPERVISORS}/statistics",),
    ),
    AccessRule(
        f"{_NOVA}os-hypervisors:uptime", ADMIN, "Show a hypervisor's uptime.", (f"GET {_HYPERVISORS}/{{id}}/uptime",)
    ),
    AccessRule(
        f"{_NOVA}os-hypervisors:search",
        ADMIN,
        "Search hypervisors by a part of the name.",
        (f"GET {_HYPERVISORS}/{{pattern}}/search",),
    ),
    AccessRule(
        f"{_NOVA}os-keypairs:index",
        f"user_id:%(user_id)s or {ADMIN}",
        "List the caller's key pairs.",
        ("GET /os-keypairs",),
    ),
    AccessRule(
        f"{_NOVA}os-keypairs:show",
        f"user_id:%(user_id)s or {ADMIN}",
        "Show a key pair of the caller.",
        ("GET /os-keypairs/{name}",),
    ),
    AccessRule(
        f"{_NOVA}os-keypairs:create",
        f"user_id:%(user_id)s or {ADMIN}",
        "Create or import a key pair of the caller.",
        ("POST /os-keypairs",),
    ),
    AccessRule(
        f"{_NOVA}os-keypairs:delete",
        f"user_id:%(user_id)s or {ADMIN}",
        "Delete a key pair of the caller.",
        ("DELETE /os-keypairs/{name}",),
    ),
    AccessRule(f"{_NOVA}limits", ANYBODY, "Show the limits of the caller's project.", ("GET /limits",)),
    AccessRule(f"{_NOVA}limits:other_project", ADMIN, "Show another project's limits.", ("GET /limits?tenant_id=",)),
    AccessRule(f"{_NOVA}os-quota-sets:show", READER_OR_ADMIN, "Show a project's quota.", ("GET /os-quota-sets/{id}",)),
    AccessRule(
        f"{_NOVA}os-quota-sets:detail",
        READER_OR_ADMIN,
        "Show a project's quota and usage.",
        ("GET /os-quota-sets/{id}/detail",),
    ),
    AccessRule(
        f"{_NOVA}os-quota-sets:defaults", ANYBODY, "Show the default quota.", ("GET /os-quota-sets/{id}/defaults",)
    ),
    AccessRule(f"{_NOVA}os-quota-sets:update", ADMIN, "Set a project's quota.", ("PUT /os-quota-sets/{id}",)),
    AccessRule(f"{_NOVA}os-quota-sets:delete", ADMIN, "Reset a project's quota.", ("DELETE /os-quota-sets/{id}",)),
    AccessRule(f"{_NOVA}os-quota-class-sets:show", ADMIN, "Show a quota class.", ("GET /os-quota-class-sets/{id}",)),
    AccessRule(
        f"{_NOVA}os-quota-class-sets:update", ADMIN, "Update a quota class.", ("PUT /os-quota-class-sets/{id}",)
    ),
    AccessRule(f"{_NOVA}os-policy-scopes:index", READER_OR_ADMIN, "List policy scopes.", ("GET /os-policy-scopes",)),
    AccessRule(
        f"{_NOVA}os-policy-scopes:show",
        READER_OR_ADMIN,
        "Show a policy scope, also as a part of the list. `%(scope_name)s` is its name.",
        ("GET /os-policy-scopes/{id}", "GET /os-policy-scopes"),
    ),
    AccessRule(
        f"{_NOVA}os-policy-scopes:show:details",
        ADMIN,
        "See the real identifiers of domains, their aggregates and hosts, and a policy scope's namespace.",
        ("GET /os-policy-scopes/{id}", "GET /os-policy-scopes"),
    ),
    AccessRule(
        f"{_NOVA}os-policy-scopes:show:as_tenant",
        ADMIN,
        "See the identifiers that a tenant sees.",
        ("GET /os-policy-scopes/{id}?as_tenant_id=", "GET /os-policy-scopes?as_tenant_id="),
    ),
    AccessRule(f"{_NOVA}os-policy-scopes:create", ADMIN, "Create a policy scope.", ("POST /os-policy-scopes",)),
    AccessRule(
        f"{_NOVA}os-policy-scopes:update",
        ADMIN,
        "Change a policy scope's name or the permitted use of its identifiers.",
        ("POST /os-policy-scopes/{id}", "PUT /os-policy-scopes/{id}"),
    ),
    AccessRule(f"{_NOVA}os-policy-scopes:delete", ADMIN, "Delete a policy scope.", ("DELETE /os-policy-scopes/{id}",)),
    AccessRule(
        f"{_NOVA}os-policy-scopes:add_aggregate",
        ADMIN,
        "Make an aggregate a domain of a policy scope.",
        ("POST /os-policy-scopes/{id}/action add_aggregate", f"POST {_AGGREGATES}/{{id}}/action set_metadata"),
    ),
    AccessRule(
        f"{_NOVA}os-policy-scopes:remove_aggregate",
        ADMIN,
        "Remove an aggregate from a policy scope.",
        ("POST /os-policy-scopes/{id}/action remove_aggregate", f"POST {_AGGREGATES}/{{id}}/action set_metadata"),
    ),
    AccessRule(
        f"{_NOVA}os-policy-scopes:use",
        MEMBER_OR_ADMIN,
        "Use a policy scope in a server group's policies. `%(scope_name)s` is its name.",
        ("POST /os-server-groups", "PUT /os-server-groups/{id}"),
    ),
    AccessRule(
        f"{_NOVA}os-policy-scopes:use_identifier",
        MEMBER_OR_ADMIN,
        "Name one domain of a policy scope in a server group's policies. `%(scope_name)s` is the scope's name.",
        ("POST /os-server-groups", "PUT /os-server-groups/{id}"),
    ),
    AccessRule(f"{_NOVA}os-services:list", ADMIN, "List compute services.", ("GET /os-services",)),
    AccessRule(
        f"{_NOVA}os-services:update", ADMIN, "Enable, disable or force down a host.", ("PUT /os-services/{id}",)
    ),
    AccessRule(f"{_NOVA}os-services:delete", ADMIN, "Remove a host.", ("DELETE /os-services/{id}",)),
)
