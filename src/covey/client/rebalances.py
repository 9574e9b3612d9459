"""`openstack server group rebalance ...`: move members until no policy is broken."""

import time
from argparse import ArgumentParser, Namespace

from osc_lib.exceptions import CommandError

from covey.client.api import Api, Json
from covey.client.commands import Command, Record, ShowOne, for_one_group, record

POLL_S = 1.0
RUNNING, DONE = "running", "done"


class RebalanceServerGroup(ShowOne):
    """Move as few members of a group as it takes to end every violation of its policies.

    Example: openstack server group rebalance web --dry-run
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        parser = for_one_group(super().get_parser(prog_name))
        manner = parser.add_mutually_exclusive_group()
        manner.add_argument("--dry-run", action="store_true", help="show the moves, and make none")
        manner.add_argument("--wait", action="store_true", help="wait until all moves are made")
        return parser

    def take_action(self, parsed_args: Namespace) -> Record:
        group = self.api.group(parsed_args.group)
        found = self.api.act(group, "rebalance", {"dry_run": parsed_args.dry_run})["rebalance"]
        return record(_finished(self.api, group, found) if parsed_args.wait else found)


class ShowRebalance(ShowOne):
    """Show how far the last rebalance of a group is.

    Example: openstack server group rebalance show web
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        return for_one_group(super().get_parser(prog_name))

    def take_action(self, parsed_args: Namespace) -> Record:
        return record(_now(self.api, self.api.group(parsed_args.group)))


class CancelRebalance(Command):
    """Make no more moves of a rebalance that is under way. Those that are made stay so.

    Example: openstack server group rebalance cancel web
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        return for_one_group(super().get_parser(prog_name))

    def take_action(self, parsed_args: Namespace) -> None:
        self.api.act(parsed_args.group, "cancel_rebalance", {})


def _now(api: Api, group: str) -> Json:
    found: Json = api.get("os-server-groups", group, "rebalance")["rebalance"]
    return found


def _finished(api: Api, group: str, found: Json) -> Json:
    """The rebalance when its last move is made. Raises CommandError if it ends before that."""
    while found["status"] == RUNNING:
        time.sleep(POLL_S)
        found = _now(api, group)
    if found["status"] != DONE:
        reason = found.get("reason") or f"see `server group rebalance show {group}`."
        raise CommandError(f"The rebalance ended as {found['status']}: {reason}")
    return found
