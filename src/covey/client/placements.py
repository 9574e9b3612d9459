"""`openstack server placement show` and `explain`."""

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


class ExplainPlacement(ShowOne):
    """Explain where a new server would go, and what excludes each other host (administrators).

    Example: openstack server placement explain --flavor small --image linux
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--flavor", metavar="<flavor>", required=True, help="flavor of the server (name or ID)")
        parser.add_argument("--image", metavar="<image>", help="image of the server (name or ID)")
        parser.add_argument("--group", metavar="<server-group>", help="server group (name or ID)")
        parser.add_argument("--availability-zone", metavar="<zone>", help="availability zone")
        parser.add_argument("--project", metavar="<project>", help="project of the server (name or ID)")
        return parser

    def take_action(self, parsed_args: Namespace) -> Record:
        body = {
            "flavorRef": self.api.flavor(parsed_args.flavor),
            "imageRef": None if parsed_args.image is None else self.api.image(parsed_args.image),
            "group": None if parsed_args.group is None else self.api.group(parsed_args.group),
            "availability_zone": parsed_args.availability_zone,
            "project_id": None if parsed_args.project is None else self.api.project(parsed_args.project),
        }
        return record(self.api.post("os-placement-explain", body={"explain": body})["explanation"])
