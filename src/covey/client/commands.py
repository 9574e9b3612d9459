"""What the commands share: the API, output columns, and the options of policies."""

from argparse import ArgumentParser, ArgumentTypeError, _ActionsContainer
from collections.abc import Iterable, Sequence
from typing import Any

from osc_lib.cli.format_columns import DictColumn, ListColumn, ListDictColumn
from osc_lib.cli.parseractions import KeyValueAction
from osc_lib.command import command

from covey.client.api import Api, Json

KINDS = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")

Record = tuple[Sequence[str], Sequence[object]]
Table = tuple[Sequence[str], Iterable[Sequence[object]]]


class UnsortedListColumn(ListColumn):
    """A list in its own order; the stock column sorts it, but the order of policies matters."""

    def human_readable(self) -> str:
        return ", ".join(str(item) for item in self._value)


def record(document: Json) -> Record:
    """Return the output of a command that shows one document."""
    return tuple(document), tuple(_cell(value) for value in document.values())


def table(columns: dict[str, str], documents: Iterable[Json]) -> Table:
    """Return the output of a command that lists documents; columns are fields by heading."""
    rows = [tuple(_cell(document.get(field)) for field in columns.values()) for document in documents]
    return tuple(columns), rows


def _cell(value: object) -> object:
    if isinstance(value, dict):
        return DictColumn(value)
    if isinstance(value, list):
        of_documents = bool(value) and all(isinstance(item, dict) for item in value)
        return ListDictColumn(value) if of_documents else UnsortedListColumn(value)
    return value


def api_of(app: Any) -> Api:  # noqa: ANN401 - the client's manager has attributes that no type knows
    """Return the API of the running client."""
    api: Api = app.client_manager.covey
    return api


class Command(command.Command):
    """A command without output."""

    @property
    def api(self) -> Api:
        return api_of(self.app)


class ShowOne(command.ShowOne):
    """A command that shows one resource."""

    @property
    def api(self) -> Api:
        return api_of(self.app)


class Lister(command.Lister):
    """A command that lists resources."""

    @property
    def api(self) -> Api:
        return api_of(self.app)


def for_one_group(parser: ArgumentParser) -> ArgumentParser:
    """Add the group argument to a parser."""
    parser.add_argument("group", metavar="<server-group>", help="server group (name or ID)")
    return parser


def policy(text: str) -> str:
    """Return the policy text. Raises ArgumentTypeError for an unknown kind; the service checks the scope."""
    if text.split(":", 1)[0] not in KINDS:
        raise ArgumentTypeError(f"{text!r} is not TYPE[:SCOPE[:IDENTIFIER]] with a TYPE of {', '.join(KINDS)}")
    return text


def add_policies(parser: _ActionsContainer, help_text: str) -> None:
    """Add the repeatable option --policy."""
    parser.add_argument("--policy", metavar="<policy>", action="append", type=policy, help=help_text)


def add_rules(parser: _ActionsContainer, help_text: str) -> None:
    """Add the repeatable option --rule."""
    parser.add_argument("--rule", metavar="<key=value>", action=KeyValueAction, dest="rules", help=help_text)


def shown(group: Json) -> Json:
    """Return a group without `policy`, which repeats its first policy and its rules."""
    return {field: value for field, value in group.items() if field != "policy"}
