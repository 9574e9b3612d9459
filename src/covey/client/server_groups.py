"""`openstack server group ...`: change, audit, preview and rebalance a group."""

import time
from argparse import ArgumentParser, Namespace

from osc_lib.exceptions import CommandError

from covey.client import nova_groups
from covey.client.api import Api, Json
from covey.client.commands import (
    Command,
    Lister,
    Record,
    ShowOne,
    Table,
    add_policies,
    add_rules,
    for_one_group,
    record,
    shown,
    table,
)

POLL_INTERVAL_S = 1.0
RUNNING, DONE = "running", "done"


class SetServerGroup(ShowOne):
    """Change a server group. Members that violate a new policy are not moved; the audit lists them.

    Example: openstack server group set web --policy anti-affinity:rack --rule max_server_per_rack=2
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        parser = for_one_group(super().get_parser(prog_name))
        parser.add_argument("--name", metavar="<name>", help="new name")
        add_policies(parser, "replace the group's policies; repeat for several")
        rules = parser.add_mutually_exclusive_group()
        add_rules(rules, "replace the group's rules; repeat for several")
        rules.add_argument("--no-rule", action="store_const", const={}, dest="rules", help="remove all rules")
        return parser

    def take_action(self, parsed_args: Namespace) -> Record:
        given = {"name": parsed_args.name, "policies": parsed_args.policy, "rules": parsed_args.rules}
        changes = {field: value for field, value in given.items() if value is not None}
        if not changes:
            raise CommandError("Nothing to change: give at least one option.")
        changed = self.api.put(nova_groups.URL, self.api.group(parsed_args.group), body={"server_group": changes})
        group = changed["server_group"]
        stricter = nova_groups.stricter_policy(self.api, group) if self.api.is_beside_nova else None
        if stricter is not None:
            self.log.warning("Nova still enforces %s for this group, and cannot change that.", stricter)
        return record(shown(group))


class AddServer(ShowOne):
    """Add an existing server to a group.

    Example: openstack server group add server web web-7 --enforce
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        parser = _for_one_member(super().get_parser(prog_name))
        parser.add_argument("--enforce", action="store_true", help="fail if that violates a policy")
        return parser

    def take_action(self, parsed_args: Namespace) -> Record:
        details = {"instance_id": self.api.server(parsed_args.server)} | (
            {"enforce": True} if parsed_args.enforce else {}
        )
        return record(shown(self.api.act(parsed_args.group, "add_instance", details)["server_group"]))


class RemoveServer(ShowOne):
    """Remove a server from a group, without deleting the server.

    Example: openstack server group remove server web web-7
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        return _for_one_member(super().get_parser(prog_name))

    def take_action(self, parsed_args: Namespace) -> Record:
        details = {"instance_id": self.api.server(parsed_args.server)}
        return record(shown(self.api.act(parsed_args.group, "remove_instance", details)["server_group"]))


class AuditServerGroup(Lister):
    """List the domains of a group's members, or the violations of its policies.

    Example: openstack server group audit web --violations
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        parser = for_one_group(super().get_parser(prog_name))
        parser.add_argument("--violations", action="store_true", help="list violations instead of members")
        return parser

    def take_action(self, parsed_args: Namespace) -> Table:
        query = {"violations": "true"} if parsed_args.violations else {}
        group = self.api.group(parsed_args.group)
        document = self.api.get("os-server-groups", group, "audit", **query)
        if parsed_args.formatter == "table":  # other formats are for programs
            self.app.stdout.write(_headline(self.api.get("os-server-groups", group)["server_group"]))
        audit = document["server_group_policy_audit"]
        if not parsed_args.violations:
            return table({"Server ID": "instance_id", "Placements": "placements"}, audit["members"])
        fields = ("policy", "scope", "domain", "members", "soft", "reason")
        return table({field.title(): field for field in fields}, audit["violations"])


class EvacuateServerGroup(Lister):
    """Evacuate the members of a group that are on hosts which are down.

    Example: openstack server group evacuate web
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        return for_one_group(super().get_parser(prog_name))

    def take_action(self, parsed_args: Namespace) -> Table:
        outcomes = self.api.act(parsed_args.group, "evacuate", {})["evacuations"]
        return table({"Server ID": "instance_id", "Accepted": "accepted", "Reason": "reason"}, outcomes)


class PreviewServerGroup(ShowOne):
    """Preview the placements of new members of a group, without creating them.

    Example: openstack server group preview web --flavor small --count 3
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        parser = _for_new_members(super().get_parser(prog_name))
        parser.add_argument("--count", metavar="<count>", type=int, default=1, help="number of servers (default: 1)")
        return parser

    def take_action(self, parsed_args: Namespace) -> Record:
        details = _template(self.api, parsed_args) | {"count": parsed_args.count}
        return record(self.api.act(parsed_args.group, "preview", details)["preview"])


class ShowHeadroom(ShowOne):
    """Show how many further servers fit into a group.

    Example: openstack server group headroom web --flavor small
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        return _for_new_members(super().get_parser(prog_name))

    def take_action(self, parsed_args: Namespace) -> Record:
        return record(self.api.act(parsed_args.group, "headroom", _template(self.api, parsed_args))["headroom"])


class RebalanceServerGroup(ShowOne):
    """Rebalance a group: remove its policy violations with the fewest moves.

    Example: openstack server group rebalance web --dry-run
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        parser = for_one_group(super().get_parser(prog_name))
        mode = parser.add_mutually_exclusive_group()
        mode.add_argument("--dry-run", action="store_true", help="show the plan without executing it")
        mode.add_argument("--wait", action="store_true", help="wait until all moves are done")
        return parser

    def take_action(self, parsed_args: Namespace) -> Record:
        group = self.api.group(parsed_args.group)
        rebalance = self.api.act(group, "rebalance", {"dry_run": parsed_args.dry_run})["rebalance"]
        return record(_wait(self.api, group, rebalance) if parsed_args.wait else rebalance)


class ShowRebalance(ShowOne):
    """Show the latest rebalance of a group.

    Example: openstack server group rebalance show web
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        return for_one_group(super().get_parser(prog_name))

    def take_action(self, parsed_args: Namespace) -> Record:
        return record(_latest(self.api, self.api.group(parsed_args.group)))


class CancelRebalance(Command):
    """Cancel a running rebalance. Completed moves are not reverted.

    Example: openstack server group rebalance cancel web
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        return for_one_group(super().get_parser(prog_name))

    def take_action(self, parsed_args: Namespace) -> None:
        self.api.act(parsed_args.group, "cancel_rebalance", {})


def _for_one_member(parser: ArgumentParser) -> ArgumentParser:
    for_one_group(parser).add_argument("server", metavar="<server>", help="server (name or ID)")
    return parser


def _for_new_members(parser: ArgumentParser) -> ArgumentParser:
    for_one_group(parser)
    parser.add_argument("--flavor", metavar="<flavor>", required=True, help="flavor of the servers (name or ID)")
    parser.add_argument("--image", metavar="<image>", help="image of the servers (name or ID)")
    parser.add_argument("--availability-zone", metavar="<zone>", help="availability zone of the servers")
    return parser


def _template(api: Api, parsed_args: Namespace) -> Json:
    template = {"flavor": api.flavor(parsed_args.flavor)}
    if parsed_args.image is not None:
        template["image"] = api.image(parsed_args.image)
    if parsed_args.availability_zone is not None:
        template["availability_zone"] = parsed_args.availability_zone
    return template


def _headline(group: Json) -> str:
    """Return a line with the name, the policies and the rules of a group."""
    rules = "".join(f"; {name}={limit}" for name, limit in group["rules"].items())
    return f"{group['name']}: {', '.join(group['policies'])}{rules}\n"


def _latest(api: Api, group: str) -> Json:
    rebalance: Json = api.get("os-server-groups", group, "rebalance")["rebalance"]
    return rebalance


def _wait(api: Api, group: str, rebalance: Json) -> Json:
    """Wait for the end of a rebalance and return it. Raises CommandError unless its status is done."""
    while rebalance["status"] == RUNNING:
        time.sleep(POLL_INTERVAL_S)
        rebalance = _latest(api, group)
    if rebalance["status"] != DONE:
        reason = rebalance.get("reason") or f"see `server group rebalance show {group}`."
        raise CommandError(f"The rebalance ended as {rebalance['status']}: {reason}")
    return rebalance
