"""The base rules that the other rules refer to."""

from covey.model.access import AccessRule

ADMIN = "rule:context_is_admin"
ANYBODY = "@"
READER_OR_ADMIN = "rule:project_reader_or_admin"
MEMBER_OR_ADMIN = "rule:project_member_or_admin"
MANAGER_OR_ADMIN = "rule:project_manager_or_admin"

BASICS: tuple[AccessRule, ...] = (
    AccessRule("context_is_admin", "role:admin", "Administrator."),
    AccessRule("project_reader", "role:reader and project_id:%(project_id)s", "Reads the resources of its project."),
    AccessRule("project_member", "role:member and project_id:%(project_id)s", "Changes the resources of its project."),
    AccessRule("project_manager", "role:manager and project_id:%(project_id)s", "Migrates the servers of its project."),
    AccessRule("project_reader_or_admin", f"rule:project_reader or {ADMIN}", "Project reader, or administrator."),
    AccessRule("project_member_or_admin", f"rule:project_member or {ADMIN}", "Project member, or administrator."),
    AccessRule("project_manager_or_admin", f"rule:project_manager or {ADMIN}", "Project manager, or administrator."),
)
