"""`openstack server group preview` and `headroom`: what would become of servers that nobody has asked for yet."""

from argparse import ArgumentParser, Namespace

from covey.client.api import Api, Json
from covey.client.commands import Record, ShowOne, for_one_group, record


class PreviewServerGroup(ShowOne):
    """Show where new members of a group would go, and start none.

    Example: openstack server group preview web --flavor small --count 3
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        parser = _for_new_members(super().get_parser(prog_name))
        parser.add_argument("--count", metavar="<count>", type=int, default=1, help="how many servers (default: 1)")
        return parser

    def take_action(self, parsed_args: Namespace) -> Record:
        details = _wanted(self.api, parsed_args) | {"count": parsed_args.count}
        return record(self.api.act(parsed_args.group, "preview", details)["preview"])


class ShowHeadroom(ShowOne):
    """Show how many more servers a group has room for.

    Example: openstack server group headroom web --flavor small
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        return _for_new_members(super().get_parser(prog_name))

    def take_action(self, parsed_args: Namespace) -> Record:
        return record(self.api.act(parsed_args.group, "headroom", _wanted(self.api, parsed_args))["headroom"])


def _for_new_members(parser: ArgumentParser) -> ArgumentParser:
    for_one_group(parser)
    parser.add_argument("--flavor", metavar="<flavor>", required=True, help="flavor of the servers (name or ID)")
    parser.add_argument("--image", metavar="<image>", help="image of the servers (name or ID)")
    return parser


def _wanted(api: Api, parsed_args: Namespace) -> Json:
    wanted = {"flavor": api.flavor(parsed_args.flavor)}
    if parsed_args.image is not None:
        wanted["image"] = api.image(parsed_args.image)
    return wanted
