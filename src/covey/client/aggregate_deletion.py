"""The stock `openstack aggregate delete`, with an option for aggregates that hard policies name.

A plugin's command of the same name would replace the stock one, so this is a hook of it.
"""

import logging
from argparse import ArgumentParser, Namespace

from openstack.exceptions import SDKException
from osc_lib.exceptions import CommandError

from covey.client.commands import api_of
from covey.client.stock_hooks import ActionHook

_log = logging.getLogger(__name__)


class DeleteAggregateHook(ActionHook):
    """A hook of the stock command."""

    epilog = "With --force, Covey also deletes a domain that hard policies of server groups name."

    def get_parser(self, parser: ArgumentParser) -> ArgumentParser:
        parser.add_argument("--force", action="store_true", help="even if hard policies of server groups name it")
        return parser

    def take_action(self, parsed_args: Namespace) -> None:
        if not parsed_args.force:
            self.stock_action(parsed_args)
            return
        api, failed = api_of(self.cmd.app), 0
        for name in parsed_args.aggregate:
            try:
                api.delete("os-aggregates", str(api.aggregate(name)), force="true")
            except (CommandError, SDKException) as error:
                failed += 1
                _log.error("Failed to delete aggregate with name or ID '%s': %s", name, error)
        if failed:
            raise CommandError(f"{failed} of {len(parsed_args.aggregate)} aggregates failed to delete.")
