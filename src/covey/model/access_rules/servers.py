"""Access rules of servers and server groups. Names and defaults follow Nova where it has them."""

from covey.model.access import AccessRule
from covey.model.access_rules.basics import ADMIN, MANAGER_OR_ADMIN, MEMBER_OR_ADMIN, READER_OR_ADMIN

_NOVA = "os_compute_api:"

SERVERS: tuple[AccessRule, ...] = (
    AccessRule(
        f"{_NOVA}os-hypervisors:servers",
        ADMIN,
        "List the servers of hypervisors.",
        ("GET /os-hypervisors/{pattern}/servers",),
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
        "Change a server group's name, policies or members.",
        ("PUT /os-server-groups/{id}", "POST /os-server-groups/{id}", "POST /os-server-groups/{id}/action"),
    ),
    AccessRule(
        f"{_NOVA}os-server-groups:audit",
        READER_OR_ADMIN,
        "Audit a server group: the placement of its members and its policy violations.",
        ("GET /os-server-groups/{id}/audit",),
    ),
    AccessRule(
        f"{_NOVA}os-server-groups:preview",
        READER_OR_ADMIN,
        "Preview where further members of a server group would be placed, and how many fit.",
        ("POST /os-server-groups/{id}/action (preview, headroom)",),
    ),
    AccessRule(
        f"{_NOVA}os-server-groups:rebalance:plan",
        MEMBER_OR_ADMIN,
        "Plan a rebalance of a server group, and show the progress of one.",
        ("POST /os-server-groups/{id}/action (rebalance with dry_run)", "GET /os-server-groups/{id}/rebalance"),
    ),
    AccessRule(
        f"{_NOVA}os-server-groups:rebalance",
        ADMIN,
        "Start or cancel a rebalance of a server group.",
        ("POST /os-server-groups/{id}/action (rebalance, cancel_rebalance)",),
    ),
    AccessRule(
        f"{_NOVA}os-server-groups:rebalance:own",
        "!",
        "Start a rebalance within the limits of tenants ([scheduler] tenant_rebalance_max_moves and "
        "tenant_rebalance_interval_s), or cancel one that was started so. Off by default; rule:project_member lets "
        "members repair their own groups.",
        ("POST /os-server-groups/{id}/action (rebalance, cancel_rebalance)",),
    ),
    AccessRule(
        f"{_NOVA}os-server-groups:delete", MEMBER_OR_ADMIN, "Delete a server group.", ("DELETE /os-server-groups/{id}",)
    ),
    AccessRule(f"{_NOVA}servers:index", READER_OR_ADMIN, "List servers.", ("GET /servers",)),
    AccessRule(f"{_NOVA}servers:detail", READER_OR_ADMIN, "List servers with details.", ("GET /servers/detail",)),
    AccessRule(
        f"{_NOVA}servers:index:get_all_tenants",
        ADMIN,
        "List the servers of all projects.",
        ("GET /servers?all_tenants=",),
    ),
    AccessRule(
        f"{_NOVA}servers:detail:get_all_tenants",
        ADMIN,
        "List the servers of all projects with details.",
        ("GET /servers/detail?all_tenants=",),
    ),
    AccessRule(
        f"{_NOVA}servers:allow_all_filters",
        ADMIN,
        "Filter servers by admin-only attributes, such as host.",
        ("GET /servers?host=",),
    ),
    AccessRule(f"{_NOVA}servers:show", READER_OR_ADMIN, "Show a server.", ("GET /servers/{id}",)),
    AccessRule(f"{_NOVA}servers:show:host_status", ADMIN, "See the status of a server's host.", ("GET /servers/{id}",)),
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
    AccessRule(
        f"{_NOVA}servers:update", MEMBER_OR_ADMIN, "Change a server's name or description.", ("PUT /servers/{id}",)
    ),
    AccessRule(f"{_NOVA}servers:delete", MEMBER_OR_ADMIN, "Delete a server.", ("DELETE /servers/{id}",)),
    AccessRule(
        f"{_NOVA}os-deferred-delete:force",
        MEMBER_OR_ADMIN,
        "Delete a server by force.",
        ("POST /servers/{id}/action forceDelete",),
    ),
    AccessRule(
        f"{_NOVA}os-deferred-delete:restore",
        MEMBER_OR_ADMIN,
        "Restore a deleted server.",
        ("POST /servers/{id}/action restore",),
    ),
    AccessRule(f"{_NOVA}servers:start", MEMBER_OR_ADMIN, "Start a server.", ("POST /servers/{id}/action os-start",)),
    AccessRule(f"{_NOVA}servers:stop", MEMBER_OR_ADMIN, "Stop a server.", ("POST /servers/{id}/action os-stop",)),
    AccessRule(f"{_NOVA}servers:reboot", MEMBER_OR_ADMIN, "Reboot a server.", ("POST /servers/{id}/action reboot",)),
    AccessRule(f"{_NOVA}servers:resize", MEMBER_OR_ADMIN, "Resize a server.", ("POST /servers/{id}/action resize",)),
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
        "Offload a shelved server from its host.",
        ("POST /servers/{id}/action shelveOffload",),
    ),
    AccessRule(
        f"{_NOVA}os-shelve:unshelve",
        MEMBER_OR_ADMIN,
        "Unshelve a server.",
        ("POST /servers/{id}/action unshelve",),
    ),
    AccessRule(
        f"{_NOVA}os-shelve:unshelve_to_host",
        ADMIN,
        "Unshelve a server onto a named host.",
        ("POST /servers/{id}/action unshelve",),
    ),
    AccessRule(
        f"{_NOVA}os-admin-actions:reset_state",
        ADMIN,
        "Reset a server's state.",
        ("POST /servers/{id}/action os-resetState",),
    ),
    AccessRule(
        f"{_NOVA}os-admin-actions:inject_network_info",
        ADMIN,
        "Inject network information into a server.",
        ("POST /servers/{id}/action injectNetworkInfo",),
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
        "Add metadata to a server.",
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
        "Check whether a server has a tag.",
        ("GET /servers/{id}/tags/{tag}",),
    ),
    AccessRule(
        f"{_NOVA}os-server-tags:update", MEMBER_OR_ADMIN, "Add a tag to a server.", ("PUT /servers/{id}/tags/{tag}",)
    ),
    AccessRule(
        f"{_NOVA}os-server-tags:update_all", MEMBER_OR_ADMIN, "Replace a server's tags.", ("PUT /servers/{id}/tags",)
    ),
    AccessRule(
        f"{_NOVA}os-server-tags:delete",
        MEMBER_OR_ADMIN,
        "Remove a tag from a server.",
        ("DELETE /servers/{id}/tags/{tag}",),
    ),
    AccessRule(
        f"{_NOVA}os-server-tags:delete_all",
        MEMBER_OR_ADMIN,
        "Remove all tags from a server.",
        ("DELETE /servers/{id}/tags",),
    ),
    AccessRule(
        f"{_NOVA}os-instance-actions:list",
        READER_OR_ADMIN,
        "List a server's instance actions.",
        ("GET /servers/{id}/os-instance-actions",),
    ),
    AccessRule(
        f"{_NOVA}os-instance-actions:show",
        READER_OR_ADMIN,
        "Show an instance action of a server.",
        ("GET /servers/{id}/os-instance-actions/{request_id}",),
    ),
    AccessRule(
        f"{_NOVA}os-instance-actions:events",
        ADMIN,
        "See the events of an instance action.",
        ("GET /servers/{id}/os-instance-actions/{request_id}",),
    ),
    AccessRule(
        f"{_NOVA}os-instance-actions:events:details",
        ADMIN,
        "See the details of a failed event, for each host.",
        ("GET /servers/{id}/os-instance-actions/{request_id}",),
    ),
    AccessRule(
        f"{_NOVA}os-console-output",
        MEMBER_OR_ADMIN,
        "Show what a server wrote to its console.",
        ("POST /servers/{id}/action os-getConsoleOutput",),
    ),
    *(
        AccessRule(f"{_NOVA}servers:migrations:{name}", ADMIN, description, (request,))
        for name, description, request in (
            ("index", "List the live migrations of a server.", "GET /servers/{id}/migrations"),
            ("show", "Show a live migration of a server.", "GET /servers/{id}/migrations/{id}"),
            ("delete", "Abort a live migration.", "DELETE /servers/{id}/migrations/{id}"),
        )
    ),
    AccessRule(f"{_NOVA}os-migrations:index", ADMIN, "List migrations.", ("GET /os-migrations",)),
    AccessRule(
        "compute:servers:create:requested_destination",
        ADMIN,
        "Request a host by name; it still must pass all constraints.",
        ("POST /servers host=",),
    ),
    AccessRule(
        "covey:placement:show", READER_OR_ADMIN, "Explain a server's placement.", ("GET /servers/{id}/placement",)
    ),
    AccessRule(
        "covey:placement:explain",
        ADMIN,
        "Explain for each host why it can or cannot take a server.",
        ("POST /os-placement-explain",),
    ),
)
