"""The schema language of profile and policy specs.

An item reads a value: it returns the value converted to the item's type, with defaults, or raises BadSpec.
"""

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar, Protocol, TypeVar

from covey.model.clustering.errors import BadSpec
from covey.model.clustering.specs import Document

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_TRUE = frozenset({"true", "yes", "on", "1", "t", "y"})
_FALSE = frozenset({"false", "no", "off", "0", "f", "n"})
_MAX_SHOWN = 255  # characters of a value in a message
_MAX_INTEGER = 2**31 - 1

N = TypeVar("N", int, float)


class Item(Protocol):
    """One entry of a schema."""

    @property
    def required(self) -> bool: ...
    @property
    def default(self) -> object: ...
    def read(self, value: object) -> object: ...
    def shown(self) -> dict[str, object]: ...


Schema = Mapping[str, Item]


def read(schema: Schema, given: Document) -> dict[str, object]:
    """Return the values of a spec by name. An item without value and default is left out. Raises BadSpec."""
    for name in given:
        if name not in schema:
            raise _bad(f"Unrecognizable spec item '{_truncate(name)}'")
    values: dict[str, object] = {}
    for name, item in schema.items():
        if name in given:
            values[name] = item.read(given[name])
        elif item.required:
            raise _bad(f"Required spec item '{name}' not provided")
        elif item.default is not None:
            values[name] = item.read(item.default)
    return values


def shown(schema: Schema) -> dict[str, object]:
    """Return the schema as the API shows it."""
    return {name: item.shown() for name, item in schema.items()}


@dataclass(frozen=True, slots=True)
class _Item:
    """The fields of every item."""

    type: ClassVar[str]

    description: str
    _: KW_ONLY
    required: bool = False
    updatable: bool = False
    default: object = None
    allowed: tuple[str, ...] = ()

    def shown(self) -> dict[str, object]:
        """Return the item as the API shows it."""
        document: dict[str, object] = {
            "type": self.type,
            "description": self.description,
            "required": self.required,
            "updatable": self.updatable,
        }
        if self.default is not None:
            document["default"] = self.default
        if self.allowed:
            document["constraints"] = [{"type": "AllowedValues", "constraint": list(self.allowed)}]
        return document


@dataclass(frozen=True, slots=True)
class String(_Item):
    """Text. Numbers and booleans are converted."""

    type: ClassVar[str] = "String"

    def read(self, value: object) -> str:
        if not isinstance(value, str | int | float):
            raise _bad(f"The value '{_truncate(value)}' is not a valid String")
        text = str(value)
        if self.allowed and text not in self.allowed:
            raise _bad(f"'{_truncate(text)}' must be one of the allowed values: {', '.join(self.allowed)}")
        return text


@dataclass(frozen=True, slots=True)
class Integer(_Item):
    """An integer, or text that is one."""

    type: ClassVar[str] = "Integer"
    minimum: int | None = None

    def read(self, value: object) -> int:
        number = _integer(value)
        if number is None or abs(number) > _MAX_INTEGER:
            raise _bad(f"The value '{_truncate(value)}' is not a valid Integer")
        return _at_least(self.minimum, number)


@dataclass(frozen=True, slots=True)
class Number(_Item):
    """An integer or a float, or text that is one."""

    type: ClassVar[str] = "Number"
    minimum: int | None = None

    def read(self, value: object) -> int | float:
        number = _integer(value)
        if number is not None and abs(number) <= _MAX_INTEGER:
            return _at_least(self.minimum, number)
        fraction = _float(value)
        if fraction is None or not abs(fraction) <= _MAX_INTEGER:
            raise _bad(f"The value '{_truncate(value)}' is not a valid Number")
        return _at_least(self.minimum, fraction)


@dataclass(frozen=True, slots=True)
class Boolean(_Item):
    """True or false, in JSON or in words."""

    type: ClassVar[str] = "Boolean"

    def read(self, value: object) -> bool:
        word = str(value).lower()
        if not isinstance(value, str | int) or word not in _TRUE | _FALSE:
            raise _bad(f"The value '{_truncate(value)}' is not a valid Boolean")
        return word in _TRUE


@dataclass(frozen=True, slots=True)
class Map(_Item):
    """Names and values: those of a schema, any names with values `of` one item, or any values."""

    type: ClassVar[str] = "Map"
    items: Schema = field(default_factory=dict)
    of: Item | None = None

    def read(self, value: object) -> dict[str, object]:
        if not isinstance(value, Mapping):
            raise _bad(f"'{_truncate(value)}' is not a Map")
        if self.of is not None:
            return {name: self.of.read(one) for name, one in value.items()}
        return read(self.items, value) if self.items else dict(value)

    def shown(self) -> dict[str, object]:
        inside = {"*": self.of.shown()} if self.of is not None else shown(self.items)
        return _Item.shown(self) | ({"schema": inside} if inside else {})


@dataclass(frozen=True, slots=True)
class List(_Item):
    """Values of one item. With `may_be_one`, a single text is a list of one."""

    type: ClassVar[str] = "List"
    of: Item = String("An item.")
    may_be_one: bool = False
    may_be_empty: bool = True

    def read(self, value: object) -> list[object]:
        if self.may_be_one and isinstance(value, str):
            return [self.of.read(value)]
        if not isinstance(value, list | tuple):
            raise _bad(f"'{_truncate(value)}' is not a List")
        if not value and not self.may_be_empty:
            raise _bad("'[]' must have at least 1 item")
        return [self.of.read(item) for item in value]

    def shown(self) -> dict[str, object]:
        return _Item.shown(self) | {"schema": {"*": self.of.shown()}}


def _integer(value: object) -> int | None:
    match value:
        case bool():
            return None
        case int():
            return value
        case float() if value.is_integer():
            return int(value)
        case str() if _INTEGER.fullmatch(value):
            return int(value)
    return None


def _float(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, str | float) else None
    except ValueError:
        return None


def _at_least(minimum: int | None, number: N) -> N:
    if minimum is not None and not number >= minimum:
        raise _bad(f"The value '{number}' must be {minimum} or more")
    return number


def _bad(message: str) -> BadSpec:
    return BadSpec(message)


def _truncate(value: object) -> str:
    text = str(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
