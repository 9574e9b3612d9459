"""`openstack compute drain ...`: empty a host or a domain of its servers."""

import time
from argparse import ArgumentParser, Namespace

from osc_lib.exceptions import CommandError

from covey.client.api import Api, Json
from covey.client.commands import Lister, Record, ShowOne, Table, record, table

URL = "os-drains"
POLL_INTERVAL_S = 1.0
RUNNING, DONE = "running", "done"


class DrainCompute(ShowOne):
    """Drain a host, or all hosts of a domain: disable them, and move their servers away within their policies.

    Example: openstack compute drain --scope rack rack-3 --dry-run
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        parser = _for_one_domain(super().get_parser(prog_name))
        mode = parser.add_mutually_exclusive_group()
        mode.add_argument(
            "--dry-run",
            action="store_true",
            help="show the moves, and the servers that cannot be moved, with reasons, and change nothing",
        )
        mode.add_argument("--wait", action="store_true", help="wait until all moves are done")
        mode.add_argument(
            "--cancel",
            action="store_true",
            help="begin no further move of the running drain; hosts stay disabled; moves in progress complete, except "
            "Nova's live migrations, which are aborted",
        )
        mode.add_argument(
            "--undo",
            action="store_true",
            help="end the latest drain and enable the hosts that it disabled; servers stay where they are, as a move "
            "back would disturb them a second time",
        )
        return parser

    def take_action(self, parsed_args: Namespace) -> Record:
        action = "cancel" if parsed_args.cancel else "undo" if parsed_args.undo else None
        if action is not None:
            drain = _latest(self.api, parsed_args)
            return record(self.api.post(URL, drain["id"], "action", body={action: {}})["drain"])
        new = {"scope": parsed_args.scope, "domain": parsed_args.name, "dry_run": parsed_args.dry_run}
        drain = self.api.post(URL, body={"drain": new})["drain"]
        return record(_wait(self.api, drain) if parsed_args.wait else drain)


class ListDrain(Lister):
    """List drains, the newest first.

    Example: openstack compute drain list
    """

    def take_action(self, parsed_args: Namespace) -> Table:  # noqa: ARG002
        columns = {
            "ID": "id",
            "Scope": "scope",
            "Domain": "domain",
            "Status": "status",
            "Moves Done": "moves_done",
            "Moves Planned": "moves_planned",
            "Created At": "created_at",
        }
        return table(columns, self.api.get(URL)["drains"])


class ShowDrain(ShowOne):
    """Show the latest drain of a host or a domain.

    Example: openstack compute drain show --scope rack rack-3
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        return _for_one_domain(super().get_parser(prog_name))

    def take_action(self, parsed_args: Namespace) -> Record:
        return record(_show(self.api, _latest(self.api, parsed_args)))


def _for_one_domain(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument("--scope", metavar="<scope>", default="host", help="policy scope of the domain (default: host)")
    parser.add_argument("name", metavar="<name>", help="name of the host, or of the domain of the scope")
    return parser


def _latest(api: Api, parsed_args: Namespace) -> Json:
    """Return the latest drain of the domain. Raises CommandError if there is none."""
    scope, domain = parsed_args.scope, parsed_args.name
    drains: list[Json] = api.get(URL)["drains"]
    for drain in drains:
        if (drain["scope"], drain["domain"]) == (scope, domain):
            return drain
    raise CommandError(f"The {scope} {domain} was never drained.")


def _show(api: Api, drain: Json) -> Json:
    found: Json = api.get(URL, drain["id"])["drain"]
    return found


def _wait(api: Api, drain: Json) -> Json:
    """Wait for the end of a drain and return it. Raises CommandError unless its status is done."""
    while drain["status"] == RUNNING:
        time.sleep(POLL_INTERVAL_S)
        drain = _show(api, drain)
    if drain["status"] != DONE:
        left = "".join(f"\n{each['instance_id']} on {each['host']}: {each['reason']}" for each in drain["left"])
        raise CommandError(f"The drain ended as {drain['status']}.{left}")
    return drain
