"""Several policies, and scopes, for the stock `openstack server group create`.

Two plugins cannot define the same command: cliff uses the later one and warns at every command. So this plugin hooks
into the stock command, by cliff's entry point of that name. Requests that the stock client supports stay with it, at
the user's microversion. Where compute is Nova, other requests create the group in both services, under one uuid.
"""

from argparse import ArgumentParser, Namespace

from cliff.command import Command

from covey.client import nova_groups
from covey.client.commands import KINDS, Record, add_policies, add_rules, api_of, record, shown
from covey.client.stock_hooks import StockHook


class CreateServerGroupHook(StockHook):
    """A hook of the stock command."""

    epilog = (
        "With Covey, --policy may be repeated and may name a scope. Example: openstack server group create"
        " --policy anti-affinity:rack --policy soft-affinity:switch --rule max_server_per_rack=2 web"
    )

    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self._stock_parser = command.get_parser
        # cliff calls a hook's get_parser() before the command adds its options, too early to change one of them.
        command.get_parser = self._parser  # type: ignore[method-assign]

    def before(self, parsed_args: Namespace) -> Namespace:
        policies = parsed_args.policy or [KINDS[0]]
        if len(policies) == 1 and policies[0] in KINDS:
            parsed_args.policy = policies[0]
        else:
            self.cmd.take_action = self._create  # type: ignore[method-assign]
        return parsed_args

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
        api, name, policies, rules = api_of(self.cmd.app), parsed_args.name, parsed_args.policy, parsed_args.rules
        if api.is_beside_nova:
            return record(shown(nova_groups.create(api, name, policies, rules)))
        group = {"name": name, "policies": policies, "rules": rules}
        return record(shown(api.post(nova_groups.URL, body={"server_group": group})["server_group"]))
