"""`openstack server group ...`: change a group, and look at where its members are."""

from argparse import ArgumentParser, Namespace

from osc_lib.exceptions import CommandError

from covey.client.commands import Command, Lister, Record, ShowOne, Table, for_one_group, record, table
from covey.client.policies import add_policies, add_rules, shown


class SetServerGroup(Command):
    """Change a server group. Servers that break a new policy stay where they are; the audit tells which.

    Example: openstack server group set web --policy anti-affinity:rack --rule max_server_per_rack=2
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        parser = for_one_group(super().get_parser(prog_name))
        parser.add_argument("--name", metavar="<name>", help="new name")
        add_policies(parser, "instead of the policies that the group has; repeat for several")
        rules = parser.add_mutually_exclusive_group()
        add_rules(rules, "instead of the rules that the group has; repeat for several")
        rules.add_argument("--no-rule", action="store_const", const={}, dest="rules", help="take all rules off")
        return parser

    def take_action(self, parsed_args: Namespace) -> None:
        wanted = {"name": parsed_args.name, "policies": parsed_args.policy, "rules": parsed_args.rules}
        changes = {field: value for field, value in wanted.items() if value is not None}
        if not changes:
            raise CommandError("Nothing to change: give at least one option.")
        self.api.put("os-server-groups", self.api.group(parsed_args.group), body={"server_group": changes})


class AddServer(ShowOne):
    """Make a server that is there already a member of a group.

    Example: openstack server group add server web web-7 --enforce
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        parser = _for_one_member(super().get_parser(prog_name))
        parser.add_argument("--enforce", action="store_true", help="only if that breaks no policy")
        return parser

    def take_action(self, parsed_args: Namespace) -> Record:
        details = {"instance_id": self.api.server(parsed_args.server)} | (
            {"enforce": True} if parsed_args.enforce else {}
        )
        return record(shown(self.api.act(parsed_args.group, "add_instance", details)["server_group"]))


class RemoveServer(ShowOne):
    """Take a server out of a group; the server stays.

    Example: openstack server group remove server web web-7
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        return _for_one_member(super().get_parser(prog_name))

    def take_action(self, parsed_args: Namespace) -> Record:
        details = {"instance_id": self.api.server(parsed_args.server)}
        return record(shown(self.api.act(parsed_args.group, "remove_instance", details)["server_group"]))


class AuditServerGroup(Lister):
    """List in which place of each scope the members of a group are, or what breaks its policies.

    Example: openstack server group audit web --violations
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        parser = for_one_group(super().get_parser(prog_name))
        parser.add_argument(
            "--violations", action="store_true", help="list what breaks the policies, instead of the members"
        )
        return parser

    def take_action(self, parsed_args: Namespace) -> Table:
        query = {"violations": "true"} if parsed_args.violations else {}
        found = self.api.get("os-server-groups", self.api.group(parsed_args.group), "audit", **query)
        audit = found["server_group_policy_audit"]
        if not parsed_args.violations:
            return table({"Server ID": "instance_id", "Placements": "placements"}, audit["members"])
        fields = ("policy", "scope", "domain", "members", "soft", "reason")
        return table({field.title(): field for field in fields}, audit["violations"])


def _for_one_member(parser: ArgumentParser) -> ArgumentParser:
    for_one_group(parser).add_argument("server", metavar="<server>", help="server (name or ID)")
    return parser
