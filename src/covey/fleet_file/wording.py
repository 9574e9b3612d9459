"""How values, keys and places of a fleet file are shown in messages: short, and never more than a line."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""The keys and indexes that lead from the top of the document to a value."""
Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"
"""What YAML can say without tags."""

_LONGEST = 60
_SIMPLE_KEY = re.compile(r"[A-Za-z0-9_:-]{1,60}")


def quoted(text: str) -> str:
    """Show text in quotes, its end cut off if it is long."""
    return repr(text if len(text) <= _LONGEST else text[:_LONGEST] + "...")


def shown(value: Plain) -> str:
    """Show what somebody wrote where something else was wanted."""
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
    """Show a path as in `hosts[0].domains.rack`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{_key(step)}" for step in path)
    return "".join(steps).removeprefix(".") or "top level"


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """End a message with the closest right word, or with nothing when none comes close."""
    close = get_close_matches(text, known, n=1) if len(text) <= _LONGEST else []
    return f"; did you mean '{close[0]}'?" if close else ""


def _key(step: str) -> str:
    return step if _SIMPLE_KEY.fullmatch(step) else quoted(step)
