"""`openstack resource class quota ...`: the quotas of resource classes, such as CUSTOM_GPU."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace

from covey.client.api import Api, Json
from covey.client.commands import Lister, Table, table

PREFIX = "class:"
PROJECTS, CLASSES = "os-quota-sets", "os-quota-class-sets"
DEFAULT = "default"


class SetResourceClassQuota(Lister):
    """Limit what a project may hold of resource classes, and list its limits (administrators).

    Example: openstack resource class quota set demo --limit CUSTOM_GPU=4 --limit DISK_GB=-1
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        parser = _for_one_project(super().get_parser(prog_name))
        parser.add_argument(
            "--limit",
            metavar="<class=number>",
            action="append",
            type=_limit,
            required=True,
            help="resource class and its limit; -1 is unlimited (repeat for several classes)",
        )
        parser.add_argument("--force", action="store_true", help="accept a limit below what the project holds")
        return parser

    def take_action(self, parsed_args: Namespace) -> Table:
        limits: Json = {PREFIX + name: number for name, number in parsed_args.limit}
        if parsed_args.default:
            self.api.put(CLASSES, DEFAULT, body={"quota_class_set": limits})
        else:
            force: Json = {"force": True} if parsed_args.force else {}
            self.api.put(PROJECTS, self.api.project(parsed_args.project), body={"quota_set": limits | force})
        return _limits(self.api, parsed_args)


class ShowResourceClassQuota(Lister):
    """List the limits of resource classes that apply to a project, and what it holds.

    Example: openstack resource class quota show demo
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        return _for_one_project(super().get_parser(prog_name))

    def take_action(self, parsed_args: Namespace) -> Table:
        return _limits(self.api, parsed_args)


def _for_one_project(parser: ArgumentParser) -> ArgumentParser:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("project", metavar="<project>", nargs="?", help="project (name or ID)")
    which.add_argument("--default", action="store_true", help="the limits of projects without limits of their own")
    return parser


def _limit(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not name or not number.removeprefix("-").isdecimal():
        raise ArgumentTypeError(f"{text!r} is not CLASS=NUMBER, such as CUSTOM_GPU=4")
    return name, int(number)


def _limits(api: Api, parsed_args: Namespace) -> Table:
    columns = {"Resource Class": "class", "Limit": "limit"}
    if parsed_args.default:
        shown = api.get(CLASSES, DEFAULT)["quota_class_set"]
        return table(columns, [{"class": name, "limit": limit} for name, limit in _of_classes(shown).items()])
    shown = api.get(PROJECTS, api.project(parsed_args.project), "detail")["quota_set"]
    rows = [{"class": name, **use} for name, use in _of_classes(shown).items()]
    return table({**columns, "In Use": "in_use"}, rows)


def _of_classes(shown: Json) -> Json:
    """Return the values of the quotas that limit resource classes, by the class."""
    return {name.removeprefix(PREFIX): value for name, value in shown.items() if name.startswith(PREFIX)}
