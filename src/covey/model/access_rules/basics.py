"""Who is who: the rules that the others are made of."""

from covey.model.access import AccessRule

ADMIN = "rule:context_is_admin"
ANYBODY = "@"
READER_OR_ADMIN = "rule:project_reader_or_admin"
MEMBER_OR_ADMIN = "rule:project_member_or_admin"
MANAGER_OR_ADMIN = "rule:project_manager_or_admin"

BASICS: tuple[AccessRule, ...] = (
    AccessRule("context_is_admin", "role:admin", "Who counts as an administrator."),
    AccessRule("project_reader", "role:reader and project_id:%(project_id)s", "May look at a project's things."),
    AccessRule("project_member", "role:member and project_id:%(project_id)s", "May change a project's things."),
    AccessRule("project_manager", "role:manager and project_id:%(project_id)s", "May move a project's servers."),
    AccessRule("project_reader_or_admin", f"rule:project_reader or {ADMIN}", "May look, in the project or anywhere."),
    AccessRule("project_member_or_admin", f"rule:project_member or {ADMIN}", "May change, in the project or anywhere."),
    AccessRule("project_manager_or_admin", f"rule:project_manager or {ADMIN}", "May move, in the project or anywhere."),
)
