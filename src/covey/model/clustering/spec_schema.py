"""The little language in which types of profiles and policies say what a specification may hold.

An item reads a value: it gives the value as what it has to be, with defaults filled in, or raises BadSpec.
"""

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar, Protocol, TypeVar

from covey.model.clustering.errors import BadSpec
from covey.model.clustering.specs import Document

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_TRUE = frozenset({"true", "yes", "on", "1", "t", "y"})
_FALSE = frozenset({"false", "no", "off", "0", "f", "n"})
_LONGEST = 255  # letters of a value in a message
_MOST = 2**31 - 1  # what an Integer can be

N = TypeVar("N", int, float)


class Item(Protocol):
    """Something that a specification can say."""

    @property
    def required(self) -> bool: ...
    @property
    def default(self) -> object: ...
    def read(self, value: object) -> object: ...
    def shown(self) -> dict[str, object]: ...


Schema = Mapping[str, Item]


def read(schema: Schema, given: Document) -> dict[str, object]:
    """What is said, by the names of the schema. What is neither said nor has a default is not there."""
    for name in given:
        if name not in schema:
            raise _bad(f"Unrecognizable spec item '{_told(name)}'")
    found: dict[str, object] = {}
    for name, item in schema.items():
        if name in given:
            found[name] = item.read(given[name])
        elif item.required:
            raise _bad(f"Required spec item '{name}' not provided")
        elif item.default is not None:
            found[name] = item.read(item.default)
    return found


def shown(schema: Schema) -> dict[str, object]:
    """A schema as callers see it."""
    return {name: item.shown() for name, item in schema.items()}


@dataclass(frozen=True, slots=True)
class _Item:
    """What all items have in common."""

    type: ClassVar[str]

    description: str
    _: KW_ONLY
    required: bool = False
    updatable: bool = False
    default: object = None
    allowed: tuple[str, ...] = ()

    def shown(self) -> dict[str, object]:
        """The item as callers see it."""
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
    """Text; a number or a boolean is taken as it is written."""

    type: ClassVar[str] = "String"

    def read(self, value: object) -> str:
        if not isinstance(value, str | int | float):
            raise _bad(f"The value '{_told(value)}' is not a valid String")
        text = str(value)
        if self.allowed and text not in self.allowed:
            raise _bad(f"'{_told(text)}' must be one of the allowed values: {', '.join(self.allowed)}")
        return text


@dataclass(frozen=True, slots=True)
class Integer(_Item):
    """A whole number, or text that is one."""

    type: ClassVar[str] = "Integer"
    least: int | None = None

    def read(self, value: object) -> int:
        number = _whole(value)
        if number is None or abs(number) > _MOST:
            raise _bad(f"The value '{_told(value)}' is not a valid Integer")
        return _at_least(self.least, number)


@dataclass(frozen=True, slots=True)
class Number(_Item):
    """A number, whole or not, or text that is one."""

    type: ClassVar[str] = "Number"
    least: int | None = None

    def read(self, value: object) -> int | float:
        number = _whole(value)
        if number is not None and abs(number) <= _MOST:
            return _at_least(self.least, number)
        found = _float(value)
        if found is None or not abs(found) <= _MOST:
            raise _bad(f"The value '{_told(value)}' is not a valid Number")
        return _at_least(self.least, found)


@dataclass(frozen=True, slots=True)
class Boolean(_Item):
    """True or false, also in words."""

    type: ClassVar[str] = "Boolean"

    def read(self, value: object) -> bool:
        word = str(value).lower()
        if not isinstance(value, str | int) or word not in _TRUE | _FALSE:
            raise _bad(f"The value '{_told(value)}' is not a valid Boolean")
        return word in _TRUE


@dataclass(frozen=True, slots=True)
class Map(_Item):
    """Names and their values: those of a schema, any names with values `of` one kind, or whatever there is."""

    type: ClassVar[str] = "Map"
    items: Schema = field(default_factory=dict)
    of: Item | None = None

    def read(self, value: object) -> dict[str, object]:
        if not isinstance(value, Mapping):
            raise _bad(f"'{_told(value)}' is not a Map")
        if self.of is not None:
            return {name: self.of.read(one) for name, one in value.items()}
        return read(self.items, value) if self.items else dict(value)

    def shown(self) -> dict[str, object]:
        inside = {"*": self.of.shown()} if self.of is not None else shown(self.items)
        return _Item.shown(self) | ({"schema": inside} if inside else {})


@dataclass(frozen=True, slots=True)
class List(_Item):
    """Values of one kind; where it `may_be_one`, a lone value is a list too."""

    type: ClassVar[str] = "List"
    of: Item = String("An item.")
    may_be_one: bool = False
    may_be_empty: bool = True

    def read(self, value: object) -> list[object]:
        if self.may_be_one and isinstance(value, str):
            return [self.of.read(value)]
        if not isinstance(value, list | tuple):
            raise _bad(f"'{_told(value)}' is not a List")
        if not value and not self.may_be_empty:
            raise _bad("'[]' must have at least 1 item")
        return [self.of.read(item) for item in value]

    def shown(self) -> dict[str, object]:
        return _Item.shown(self) | {"schema": {"*": self.of.shown()}}


def _whole(value: object) -> int | None:
    match value:
        case bool():
            return None
        case int():
            return value
        case float() if value.is_integer():
            return int(value)
        case str() if _WHOLE.fullmatch(value):
            return int(value)
    return None


def _float(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, str | float) else None
    except ValueError:
        return None


def _at_least(least: int | None, number: N) -> N:
    if least is not None and not number >= least:
        raise _bad(f"The value '{number}' must be {least} or more")
    return number


def _bad(message: str) -> BadSpec:
    return BadSpec(message)


def _told(value: object) -> str:
    told = str(value)
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST]}…"
