"""What our commands have in common: the API to ask, and columns that show its documents."""

from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from typing import Any

from osc_lib.cli.format_columns import DictColumn, ListColumn, ListDictColumn
from osc_lib.command import command

from covey.client.api import Api, Json

Record = tuple[Sequence[str], Sequence[object]]
Table = tuple[Sequence[str], Iterable[Sequence[object]]]


class InOrder(ListColumn):
    """A list as it is: the stock column sorts what people see, but policies count in their order."""

    def human_readable(self) -> str:
        return ", ".join(str(item) for item in self._value)


def record(document: Json) -> Record:
    """One thing, all of it."""
    return tuple(document), tuple(_cell(value) for value in document.values())


def table(columns: dict[str, str], documents: Iterable[Json]) -> Table:
    """Many things, by a heading for each field."""
    rows = [tuple(_cell(document.get(field)) for field in columns.values()) for document in documents]
    return tuple(columns), rows


def _cell(value: object) -> object:
    if isinstance(value, dict):
        return DictColumn(value)
    if isinstance(value, list):
        of_documents = bool(value) and all(isinstance(item, dict) for item in value)
        return ListDictColumn(value) if of_documents else InOrder(value)
    return value


def api_of(app: Any) -> Api:  # noqa: ANN401 - the client's manager has attributes that no type knows
    """The API, as the running client has it."""
    api: Api = app.client_manager.covey
    return api


class Command(command.Command):
    """A command that has nothing to show."""

    @property
    def api(self) -> Api:
        return api_of(self.app)


class ShowOne(command.ShowOne):
    """A command that shows one thing."""

    @property
    def api(self) -> Api:
        return api_of(self.app)


class Lister(command.Lister):
    """A command that lists things."""

    @property
    def api(self) -> Api:
        return api_of(self.app)


def for_one_group(parser: ArgumentParser) -> ArgumentParser:
    """A parser that asks for a group first."""
    parser.add_argument("group", metavar="<server-group>", help="server group (name or ID)")
    return parser
