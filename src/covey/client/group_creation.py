"""Several policies, and scopes, for the stock `openstack server group create`.

Two plugins can't both have a command: the later one wins, and the user is warned of it at every command of any kind.
So we hook into the stock command, as cliff lets a plugin do by an entry point that is named for the command. What the
stock client can say goes its own way, at the user's microversion; only the rest is ours.
"""

from argparse import ArgumentParser, Namespace

from cliff.command import Command
from cliff.hooks import CommandHook

from covey.client.commands import Record, api_of, record
from covey.client.policies import KINDS, add_policies, add_rules, shown


class SeveralPolicies(CommandHook):
    """Stands beside one run of the stock command."""

    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self._stock_parser = command.get_parser
        # A hook's own get_parser() comes before the command's options are there, too early to change one of them.
        command.get_parser = self._parser  # type: ignore[method-assign]

    def get_parser(self, parser: ArgumentParser) -> ArgumentParser:
        return parser

    def get_epilog(self) -> str:
        return (
            "With Covey --policy may be repeated, and name a scope. Example: openstack server group create"
            " --policy anti-affinity:rack --policy soft-affinity:switch --rule max_server_per_rack=2 web"
        )

    def before(self, parsed_args: Namespace) -> Namespace:
        policies = parsed_args.policy or [KINDS[0]]
        if len(policies) == 1 and policies[0] in KINDS:
            parsed_args.policy = policies[0]
        else:
            self.cmd.take_action = self._create  # type: ignore[method-assign]
        return parsed_args

    def after(self, parsed_args: Namespace, return_code: int) -> int:  # noqa: ARG002
        return return_code

    def _parser(self, prog_name: str) -> ArgumentParser:
        parser = self._stock_parser(prog_name)
        group = parser.add_argument_group("policies", conflict_handler="resolve")
        kinds = ", ".join(KINDS)
        add_policies(group, f"TYPE[:SCOPE[:IDENTIFIER]], TYPE one of {kinds}; repeat for several (default: {KINDS[0]})")
        add_rules(
            group, "such as max_server_per_host=3 for anti-affinity, max_server_per_SCOPE=3 for anti-affinity:SCOPE"
        )
        parser.set_defaults(rules={})
        return parser

    def _create(self, parsed_args: Namespace) -> Record:
        group = {"name": parsed_args.name, "policies": parsed_args.policy, "rules": parsed_args.rules}
        created = api_of(self.cmd.app).post("os-server-groups", body={"server_group": group})
        return record(shown(created["server_group"]))
