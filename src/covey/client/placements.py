"""`openstack server placement show`."""

from argparse import ArgumentParser, Namespace

from covey.client.commands import Record, ShowOne, record


class ShowServerPlacement(ShowOne):
    """Explain a server's placement or refusal.

    Example: openstack server placement show web-7
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="<server>", help="server (name or ID)")
        return parser

    def take_action(self, parsed_args: Namespace) -> Record:
        return record(self.api.get("servers", self.api.server(parsed_args.server), "placement")["placement"])
