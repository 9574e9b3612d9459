"""Several policies, and scopes, for the stock `openstack server group create`.

Two plugins cannot define the same command: cliff uses the later one and warns at every command. So this plugin hooks
into the stock command, by cliff's entry point of that name. Requests that the stock client supports stay with it, at
the user's microversion.
"""

from argparse import ArgumentParser, Namespace

from cliff.command import Command
from cliff.hooks import CommandHook

from covey.client.commands import KINDS, Record, add_policies, add_rules, api_of, record, shown


class SeveralPolicies(CommandHook):
    """A hook of the stock command."""

    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self._stock_parser = command.get_parser
        # cliff calls a hook's get_parser() before the command adds its options, too early to change one of them.
        command.get_parser = self._parser  # type: ignore[method-assign]

    def get_parser(self, parser: ArgumentParser) -> ArgumentParser:
        return parser

    def get_epilog(self) -> str:
        return (
            "With Covey, --policy may be repeated and may name a scope. Example: openstack server group create"
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
