"""`openstack policy scope ...`: the scopes of group policies, such as rack."""

from argparse import SUPPRESS, ArgumentParser, BooleanOptionalAction, Namespace

from openstack.exceptions import SDKException
from osc_lib.exceptions import CommandError

from covey.client.api import Api, Json
from covey.client.commands import Command, Lister, Record, ShowOne, Table, record, table

URL = "os-policy-scopes"
FLAGS = {
    "allow_identifiers": "users may name one domain of the scope in a policy",
    "obfuscate_identifiers": "users see and send identifiers that are valid in their project only",
}


class CreatePolicyScope(ShowOne):
    """Create a policy scope, such as rack or switch.

    Example: openstack policy scope create rack --allow-identifiers
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="<name>", help="name of the new scope")
        for flag, meaning in FLAGS.items():
            parser.add_argument(_option(flag), action="store_true", help=meaning)
        parser.add_argument(
            "--namespace", metavar="<uuid>", help="namespace of obfuscated identifiers (default: a random one)"
        )
        return parser

    def take_action(self, parsed_args: Namespace) -> Record:
        scope = {"name": parsed_args.name} | _flags(parsed_args)
        if parsed_args.namespace is not None:
            scope["obfuscate_namespace_uuid"] = parsed_args.namespace
        return record(self.api.post(URL, body={"policy_scope": scope})["policy_scope"])


class ListPolicyScope(Lister):
    """List policy scopes.

    Example: openstack policy scope list --as-project demo
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        return _as_project(super().get_parser(prog_name))

    def take_action(self, parsed_args: Namespace) -> Table:
        columns = {"ID": "id", "Name": "name"} | {flag.replace("_", " ").title(): flag for flag in FLAGS}
        scopes = self.api.get(URL, **_tenant(self.api, parsed_args))["policy_scopes"]
        if parsed_args.as_project is not None:
            columns["Identifiers"] = "identifiers"
            scopes = [scope | {"identifiers": _identifiers(scope)} for scope in scopes]
        return table(columns, scopes)


class ShowPolicyScope(ShowOne):
    """Show a policy scope and its domains.

    Example: openstack policy scope show rack --as-project demo
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        return _as_project(_for_one_scope(super().get_parser(prog_name)))

    def take_action(self, parsed_args: Namespace) -> Record:
        query = _tenant(self.api, parsed_args)
        return record(self.api.get(URL, parsed_args.scope, **query)["policy_scope"])


class SetPolicyScope(Command):
    """Change a policy scope.

    Example: openstack policy scope set rack --name cabinet --no-allow-identifiers
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        parser = _for_one_scope(super().get_parser(prog_name))
        parser.add_argument("--name", metavar="<name>", help="new name; the policies of groups follow it")
        for flag, meaning in FLAGS.items():
            parser.add_argument(_option(flag), action=BooleanOptionalAction, default=SUPPRESS, help=meaning)
        return parser

    def take_action(self, parsed_args: Namespace) -> None:
        changes = _flags(parsed_args)
        if parsed_args.name is not None:
            changes["name"] = parsed_args.name
        _change(self, parsed_args.scope, changes)


class UnsetPolicyScope(Command):
    """Unset properties of a policy scope.

    Example: openstack policy scope unset rack --allow-identifiers
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        parser = _for_one_scope(super().get_parser(prog_name))
        for flag, meaning in FLAGS.items():
            parser.add_argument(_option(flag), action="store_false", default=SUPPRESS, help=f"unset: {meaning}")
        return parser

    def take_action(self, parsed_args: Namespace) -> None:
        _change(self, parsed_args.scope, _flags(parsed_args))


class DeletePolicyScope(Command):
    """Delete policy scopes that no group uses and that have no aggregates.

    Example: openstack policy scope delete rack switch
    """

    def get_parser(self, prog_name: str) -> ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("scopes", metavar="<scope>", nargs="+", help="scopes to delete (name or ID)")
        return parser

    def take_action(self, parsed_args: Namespace) -> None:
        failed = [scope for scope in parsed_args.scopes if not self._deleted(scope)]
        if failed:
            raise CommandError(f"{len(failed)} of {len(parsed_args.scopes)} policy scopes failed to delete.")

    def _deleted(self, scope: str) -> bool:
        """Delete a scope. Return False and log the error if that fails."""
        try:
            self.api.delete(URL, scope)
        except (CommandError, SDKException) as error:
            self.log.error("%s", error)  # noqa: TRY400 - without a stack trace
            return False
        return True


class AddAggregate(ShowOne):
    """Make an aggregate a domain of a policy scope.

    Example: openstack policy scope add aggregate rack rack-17
    """

    action = "add_aggregate"

    def get_parser(self, prog_name: str) -> ArgumentParser:
        parser = _for_one_scope(super().get_parser(prog_name))
        parser.add_argument("aggregate", metavar="<aggregate>", help="host aggregate (name or ID)")
        return parser

    def take_action(self, parsed_args: Namespace) -> Record:
        body = {self.action: self.parameters(parsed_args)}
        return record(self.api.post(URL, parsed_args.scope, "action", body=body)["policy_scope"])

    def parameters(self, parsed_args: Namespace) -> Json:
        """Return the parameters of the action."""
        return {"aggregate": self.api.aggregate(parsed_args.aggregate)}


class RemoveAggregate(AddAggregate):
    """Remove an aggregate from a policy scope, without deleting the aggregate.

    Example: openstack policy scope remove aggregate rack rack-17
    """

    action = "remove_aggregate"

    def get_parser(self, prog_name: str) -> ArgumentParser:
        parser = super().get_parser(prog_name)
        help_text = "remove it although policies of server groups name it; the audit reports these groups"
        parser.add_argument("--force", action="store_true", help=help_text)
        return parser

    def parameters(self, parsed_args: Namespace) -> Json:
        return super().parameters(parsed_args) | ({"force": True} if parsed_args.force else {})


def _for_one_scope(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument("scope", metavar="<scope>", help="policy scope (name or ID)")
    return parser


def _option(flag: str) -> str:
    return f"--{flag.replace('_', '-')}"


def _flags(parsed_args: Namespace) -> Json:
    """Return the flags that the command line sets."""
    return {flag: getattr(parsed_args, flag) for flag in FLAGS if hasattr(parsed_args, flag)}


def _change(command: Command, scope: str, changes: Json) -> None:
    if not changes:
        raise CommandError("Nothing to change: give at least one option.")
    command.api.put(URL, scope, body={"policy_scope": changes})


def _as_project(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument(
        "--as-project",
        metavar="<project>",
        help="also show identifiers as this project sees them (name or ID; administrators only)",
    )
    return parser


def _tenant(api: Api, parsed_args: Namespace) -> dict[str, str]:
    project = parsed_args.as_project
    return {} if project is None else {"as_tenant_id": api.project(project)}


def _identifiers(scope: Json) -> list[str]:
    """Return the identifiers that a project sees of a scope's domains; none if the scope keeps them from tenants."""
    shown = (domain.get("obfuscated_group_id") for domain in scope["aggregates"])
    return [identifier for identifier in shown if identifier is not None]
