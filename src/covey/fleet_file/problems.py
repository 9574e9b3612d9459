"""Problems of a fleet file with their places, and how messages show values."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""The keys and indexes from the top of the document to a value."""
Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"
"""A YAML value without tags."""

_MAX_SHOWN = 60
_SIMPLE_KEY = re.compile(r"[A-Za-z0-9_:-]{1,60}")


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One problem; lines and columns count from 1."""

    line: int
    column: int
    location: str
    message: str


class FleetFileError(Exception):
    """The file is not valid. It has all problems, in the order of the file."""

    def __init__(self, filename: str, problems: Iterable[Problem]) -> None:
        """Store each problem once: an alias can repeat a line."""
        self.filename = filename
        self.problems = tuple(sorted(set(problems)))
        super().__init__(filename, self.problems)

    def __str__(self) -> str:
        """Return one line for each problem."""
        return "\n".join(f"{self.filename}:{p.line}:{p.column}: {p.location}: {p.message}" for p in self.problems)


def quoted(text: str) -> str:
    """Return text in quotes, truncated if it is long."""
    return repr(text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "...")


def shown(value: Plain) -> str:
    """Return a value as it appears in a message."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str():
            return quoted(value)
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return str(value)


def place(path: Path) -> str:
    """Return a path in the form `hosts[0].domains.rack`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{_key(step)}" for step in path)
    return "".join(steps).removeprefix(".") or "top level"


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """Return a hint with the closest known word, or an empty text."""
    close = get_close_matches(text, known, n=1) if len(text) <= _MAX_SHOWN else []
    return f"; did you mean '{close[0]}'?" if close else ""


def _key(step: str) -> str:
    return step if _SIMPLE_KEY.fullmatch(step) else quoted(step)
