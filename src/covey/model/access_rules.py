"""The rules of who may do what, each with its default. Names and defaults are Nova's where Nova has them."""

from covey.model.access import AccessRule
from covey.model.placement_rules import PLACEMENT_RULES

ADMIN = "rule:context_is_admin"
ANYBODY = "@"
READER_OR_ADMIN = "rule:project_reader_or_admin"
MEMBER_OR_ADMIN = "rule:project_member_or_admin"
MANAGER_OR_ADMIN = "rule:project_manager_or_admin"

_NOVA, _AGGREGATES, _FLAVORS, _HYPERVISORS = "os_compute_api:", "/os-aggregates", "/flavors", "/os-hypervisors"

RULES: tuple[AccessRule, ...] = (
    AccessRule("context_is_admin", "role:admin", "Who counts as an administrator."),
    AccessRule("project_reader", "role:reader and project_id:%(project_id)s", "May look at a project's things."),
    AccessRule("project_member", "role:member and project_id:%(project_id)s", "May change a project's things."),
    AccessRule("project_manager", "role:manager and project_id:%(project_id)s", "May move a project's servers."),
    AccessRule("project_reader_or_admin", f"rule:project_reader or {ADMIN}", "May look, in the project or anywhere."),
    AccessRule("project_member_or_admin", f"rule:project_member or {ADMIN}", "May change, in the project or anywhere."),
    AccessRule("project_manager_or_admin", f"rule:project_manager or {ADMIN}", "May move, in the project or anywhere."),
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
    AccessRule(
        f"{_NOVA}os-keypairs:index", f"user_id:%(user_id)s or {ADMIN}", "List one's key pairs.", ("GET /os-keypairs",)
    ),
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
    AccessRule(f"{_NOVA}os-server-groups:index", READER_OR_ADMIN, "List server groups.", ("GET /os-server-groups",)),
    AccessRule(
        f"{_NOVA}os-server-groups:index:all_projects",
        ADMIN,
        "List the server groups of all projects.",
        ("GET /os-server-groups?all_projects=",),
    ),
    AccessRule(
        f"{_NOVA}os-server-groups:show", READER_OR_ADMIN, "Show a server group.", ("GET /os-server-groups/{id}",)
    ),
    AccessRule(
        f"{_NOVA}os-server-groups:create", MEMBER_OR_ADMIN, "Create a server group.", ("POST /os-server-groups",)
    ),
    AccessRule(
        f"{_NOVA}os-server-groups:update",
        MEMBER_OR_ADMIN,
        "Change a server group: its name, its policies, or who is in it.",
        ("PUT /os-server-groups/{id}", "POST /os-server-groups/{id}", "POST /os-server-groups/{id}/action"),
    ),
    AccessRule(
        f"{_NOVA}os-server-groups:audit",
        READER_OR_ADMIN,
        "See where the members of a server group are, and which policies do not hold.",
        ("GET /os-server-groups/{id}/audit",),
    ),
    AccessRule(
        f"{_NOVA}os-server-groups:preview",
        READER_OR_ADMIN,
        "See where more servers of a server group would go, and how many fit.",
        ("POST /os-server-groups/{id}/action (preview, headroom)",),
    ),
    AccessRule(
        f"{_NOVA}os-server-groups:rebalance:plan",
        MEMBER_OR_ADMIN,
        "See which moves would put a server group right, and how far a rebalance of it has come.",
        ("POST /os-server-groups/{id}/action (rebalance with dry_run)", "GET /os-server-groups/{id}/rebalance"),
    ),
    AccessRule(
        f"{_NOVA}os-server-groups:rebalance",
        ADMIN,
        "Move the servers of a server group so that its policies hold, or stop that.",
        ("POST /os-server-groups/{id}/action (rebalance, cancel_rebalance)",),
    ),
    AccessRule(f"{_NOVA}os-policy-scopes:index", READER_OR_ADMIN, "List policy scopes.", ("GET /os-policy-scopes",)),
    AccessRule(
        f"{_NOVA}os-policy-scopes:show",
        READER_OR_ADMIN,
        "Show a policy scope, also in the list. `%(scope_name)s` is its name.",
        ("GET /os-policy-scopes/{id}", "GET /os-policy-scopes"),
    ),
    AccessRule(
        f"{_NOVA}os-policy-scopes:show:details",
        ADMIN,
        "See real identifiers of domains, their aggregates and hosts, and a policy scope's namespace.",
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
        "Rename a policy scope, or change how its identifiers may be used.",
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
        "Take an aggregate out of a policy scope.",
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
    AccessRule(
        f"{_NOVA}os-server-groups:delete", MEMBER_OR_ADMIN, "Delete a server group.", ("DELETE /os-server-groups/{id}",)
    ),
    AccessRule(f"{_NOVA}os-services:list", ADMIN, "List compute services.", ("GET /os-services",)),
    AccessRule(
        f"{_NOVA}os-services:update", ADMIN, "Enable, disable or force down a host.", ("PUT /os-services/{id}",)
    ),
    AccessRule(f"{_NOVA}os-services:delete", ADMIN, "Remove a host.", ("DELETE /os-services/{id}",)),
    AccessRule(f"{_NOVA}servers:index", READER_OR_ADMIN, "List servers.", ("GET /servers",)),
    AccessRule(f"{_NOVA}servers:detail", READER_OR_ADMIN, "List servers in full.", ("GET /servers/detail",)),
    AccessRule(
        f"{_NOVA}servers:index:get_all_tenants",
        ADMIN,
        "List the servers of all projects.",
        ("GET /servers?all_tenants=",),
    ),
    AccessRule(
        f"{_NOVA}servers:detail:get_all_tenants",
        ADMIN,
        "List the servers of all projects in full.",
        ("GET /servers/detail?all_tenants=",),
    ),
    AccessRule(
        f"{_NOVA}servers:allow_all_filters", ADMIN, "Filter servers by host and the like.", ("GET /servers?host=",)
    ),
    AccessRule(f"{_NOVA}servers:show", READER_OR_ADMIN, "Show a server.", ("GET /servers/{id}",)),
    AccessRule(f"{_NOVA}servers:show:host_status", ADMIN, "See the state of a server's host.", ("GET /servers/{id}",)),
    AccessRule(
        f"{_NOVA}os-extended-server-attributes", ADMIN, "See which host a server is on.", ("GET /servers/{id}",)
    ),
    AccessRule(f"{_NOVA}servers:create", MEMBER_OR_ADMIN, "Create servers.", ("POST /servers",)),
    AccessRule(
        f"{_NOVA}servers:create:forced_host",
        ADMIN,
        "Force a server onto a host.",
        ("POST /servers availability_zone=zone:host",),
    ),
    AccessRule(f"{_NOVA}servers:update", MEMBER_OR_ADMIN, "Rename or describe a server.", ("PUT /servers/{id}",)),
    AccessRule(f"{_NOVA}servers:delete", MEMBER_OR_ADMIN, "Delete a server.", ("DELETE /servers/{id}",)),
    AccessRule(f"{_NOVA}servers:start", MEMBER_OR_ADMIN, "Start a server.", ("POST /servers/{id}/action os-start",)),
    AccessRule(f"{_NOVA}servers:stop", MEMBER_OR_ADMIN, "Stop a server.", ("POST /servers/{id}/action os-stop",)),
    AccessRule(f"{_NOVA}servers:reboot", MEMBER_OR_ADMIN, "Reboot a server.", ("POST /servers/{id}/action reboot",)),
    AccessRule(
        f"{_NOVA}servers:resize", MEMBER_OR_ADMIN, "Give a server another size.", ("POST /servers/{id}/action resize",)
    ),
    AccessRule(
        f"{_NOVA}servers:confirm_resize",
        MEMBER_OR_ADMIN,
        "Confirm a resize or a migration.",
        ("POST /servers/{id}/action confirmResize",),
    ),
    AccessRule(
        f"{_NOVA}servers:revert_resize",
        MEMBER_OR_ADMIN,
        "Revert a resize or a migration.",
        ("POST /servers/{id}/action revertResize",),
    ),
    AccessRule(
        f"{_NOVA}os-migrate-server:migrate",
        MANAGER_OR_ADMIN,
        "Cold-migrate a server.",
        ("POST /servers/{id}/action migrate",),
    ),
    AccessRule(
        f"{_NOVA}os-migrate-server:migrate:host",
        ADMIN,
        "Cold-migrate a server to a named host.",
        ("POST /servers/{id}/action migrate",),
    ),
    AccessRule(
        f"{_NOVA}os-migrate-server:migrate_live",
        MANAGER_OR_ADMIN,
        "Live-migrate a server.",
        ("POST /servers/{id}/action os-migrateLive",),
    ),
    AccessRule(
        f"{_NOVA}os-migrate-server:migrate_live:host",
        ADMIN,
        "Live-migrate a server to a named host.",
        ("POST /servers/{id}/action os-migrateLive",),
    ),
    AccessRule(
        f"{_NOVA}os-evacuate",
        ADMIN,
        "Rebuild a server away from a host that is down.",
        ("POST /servers/{id}/action evacuate",),
    ),
    AccessRule(f"{_NOVA}os-shelve:shelve", MEMBER_OR_ADMIN, "Shelve a server.", ("POST /servers/{id}/action shelve",)),
    AccessRule(
        f"{_NOVA}os-shelve:shelve_offload",
        ADMIN,
        "Take a shelved server off its host.",
        ("POST /servers/{id}/action shelveOffload",),
    ),
    AccessRule(
        f"{_NOVA}os-shelve:unshelve",
        MEMBER_OR_ADMIN,
        "Bring a shelved server back.",
        ("POST /servers/{id}/action unshelve",),
    ),
    AccessRule(
        f"{_NOVA}os-shelve:unshelve_to_host",
        ADMIN,
        "Bring a shelved server back on a named host.",
        ("POST /servers/{id}/action unshelve",),
    ),
    AccessRule(
        f"{_NOVA}os-admin-actions:reset_state",
        ADMIN,
        "Set a server's state by hand.",
        ("POST /servers/{id}/action os-resetState",),
    ),
    AccessRule(f"{_NOVA}os-lock-server:lock", MEMBER_OR_ADMIN, "Lock a server.", ("POST /servers/{id}/action lock",)),
    AccessRule(
        f"{_NOVA}os-lock-server:unlock", MEMBER_OR_ADMIN, "Unlock a server.", ("POST /servers/{id}/action unlock",)
    ),
    AccessRule(
        f"{_NOVA}os-lock-server:unlock:unlock_override",
        ADMIN,
        "Unlock a server that an operator locked.",
        ("POST /servers/{id}/action unlock",),
    ),
    AccessRule(
        f"{_NOVA}server-metadata:index", READER_OR_ADMIN, "List a server's metadata.", ("GET /servers/{id}/metadata",)
    ),
    AccessRule(
        f"{_NOVA}server-metadata:show",
        READER_OR_ADMIN,
        "Show one item of a server's metadata.",
        ("GET /servers/{id}/metadata/{key}",),
    ),
    AccessRule(
        f"{_NOVA}server-metadata:create",
        MEMBER_OR_ADMIN,
        "Add to a server's metadata.",
        ("POST /servers/{id}/metadata",),
    ),
    AccessRule(
        f"{_NOVA}server-metadata:update_all",
        MEMBER_OR_ADMIN,
        "Replace a server's metadata.",
        ("PUT /servers/{id}/metadata",),
    ),
    AccessRule(
        f"{_NOVA}server-metadata:update",
        MEMBER_OR_ADMIN,
        "Set one item of a server's metadata.",
        ("PUT /servers/{id}/metadata/{key}",),
    ),
    AccessRule(
        f"{_NOVA}server-metadata:delete",
        MEMBER_OR_ADMIN,
        "Delete one item of a server's metadata.",
        ("DELETE /servers/{id}/metadata/{key}",),
    ),
    AccessRule(f"{_NOVA}os-server-tags:index", READER_OR_ADMIN, "List a server's tags.", ("GET /servers/{id}/tags",)),
    AccessRule(
        f"{_NOVA}os-server-tags:show",
        READER_OR_ADMIN,
        "Ask whether a server has a tag.",
        ("GET /servers/{id}/tags/{tag}",),
    ),
    AccessRule(f"{_NOVA}os-server-tags:update", MEMBER_OR_ADMIN, "Tag a server.", ("PUT /servers/{id}/tags/{tag}",)),
    AccessRule(
        f"{_NOVA}os-server-tags:update_all", MEMBER_OR_ADMIN, "Replace a server's tags.", ("PUT /servers/{id}/tags",)
    ),
    AccessRule(
        f"{_NOVA}os-server-tags:delete", MEMBER_OR_ADMIN, "Untag a server.", ("DELETE /servers/{id}/tags/{tag}",)
    ),
    AccessRule(
        f"{_NOVA}os-server-tags:delete_all", MEMBER_OR_ADMIN, "Remove a server's tags.", ("DELETE /servers/{id}/tags",)
    ),
    AccessRule(
        f"{_NOVA}os-instance-actions:list",
        READER_OR_ADMIN,
        "List what was done to a server.",
        ("GET /servers/{id}/os-instance-actions",),
    ),
    AccessRule(
        f"{_NOVA}os-instance-actions:show",
        READER_OR_ADMIN,
        "Show one thing that was done to a server.",
        ("GET /servers/{id}/os-instance-actions/{request_id}",),
    ),
    AccessRule(
        f"{_NOVA}os-instance-actions:events",
        ADMIN,
        "See the steps of what was done.",
        ("GET /servers/{id}/os-instance-actions/{request_id}",),
    ),
    AccessRule(
        f"{_NOVA}os-instance-actions:events:details",
        ADMIN,
        "See why a step failed, host by host.",
        ("GET /servers/{id}/os-instance-actions/{request_id}",),
    ),
    AccessRule(f"{_NOVA}os-migrations:index", ADMIN, "List migrations.", ("GET /os-migrations",)),
    AccessRule(
        "compute:servers:create:requested_destination",
        ADMIN,
        "Ask for a host by name, with all checks.",
        ("POST /servers host=",),
    ),
    AccessRule(
        "covey:placement:show", READER_OR_ADMIN, "Ask why a server is where it is.", ("GET /servers/{id}/placement",)
    ),
    AccessRule(
        "covey:placement:explain", ADMIN, "Ask each host why it may or may not.", ("POST /os-placement-explain",)
    ),
    AccessRule("image:get_images", ANYBODY, "List images.", ("GET /v2/images",)),
    AccessRule("image:get_image", ANYBODY, "Show a visible image.", ("GET /v2/images/{id}",)),
    AccessRule("image:add_image", MEMBER_OR_ADMIN, "Create an image record.", ("POST /v2/images",)),
    AccessRule("image:modify_image", MEMBER_OR_ADMIN, "Change an image record.", ("PATCH /v2/images/{id}",)),
    AccessRule("image:upload_image", MEMBER_OR_ADMIN, "Send image data.", ("PUT /v2/images/{id}/file",)),
    AccessRule("image:delete_image", MEMBER_OR_ADMIN, "Delete an image record.", ("DELETE /v2/images/{id}",)),
    AccessRule("image:publicize_image", ADMIN, "Make an image public.", ("POST /v2/images", "PATCH /v2/images/{id}")),
    AccessRule("image:any_project", ADMIN, "See other projects' private images.", ("GET /v2/images",)),
    *PLACEMENT_RULES,
)
