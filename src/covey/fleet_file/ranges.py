"""Expands ranges in names: `node-[01-03]` is node-01, node-02 and node-03."""

import re
from dataclasses import dataclass
from itertools import product
from math import prod

from covey.fleet_file.wording import quoted

MOST_NAMES = 1_000_000
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_BOUNDS = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")  # 18 digits: no name needs more, and int() stays cheap


class RangeError(ValueError):
    """The text between two brackets is no range, or the ranges make too many names."""


@dataclass(frozen=True, slots=True)
class _Range:
    first: int
    last: int
    width: int

    def __len__(self) -> int:
        return self.last - self.first + 1

    def numbers(self) -> list[str]:
        return [str(number).zfill(self.width) for number in range(self.first, self.last + 1)]


def count(pattern: str) -> int:
    """Say how many names the pattern makes, without making them. Raises RangeError."""
    _, ranges = _split(pattern)
    return prod(map(len, ranges))


def expand(pattern: str) -> list[str]:
    """Make all names, the rightmost range running fastest. Raises RangeError."""
    texts, ranges = _split(pattern)
    if not ranges:
        return texts
    heads, tail = texts[:-1], texts[-1]
    choices = [[head + number for number in r.numbers()] for head, r in zip(heads, ranges, strict=True)]
    return ["".join(parts) + tail for parts in product(*choices)]


def _split(pattern: str) -> tuple[list[str], list[_Range]]:
    """Take the pattern apart: the texts around the ranges, and the ranges."""
    if "[" not in pattern and "]" not in pattern:
        return [pattern], []  # most names hold no range, and there may be many of them
    parts = _BRACKETS.split(pattern)
    texts, bounds = parts[::2], parts[1::2]
    if any("[" in text or "]" in text for text in texts):
        msg = f"a bracket in {quoted(pattern)} has no partner; write a range as in node-[01-12]"
        raise RangeError(msg)
    ranges = [_range(text) for text in bounds]
    if prod(map(len, ranges)) > MOST_NAMES:
        msg = f"{quoted(pattern)} makes more than {MOST_NAMES:,} names"
        raise RangeError(msg)
    return texts, ranges


def _range(text: str) -> _Range:
    match = _BOUNDS.fullmatch(text)
    if match is None:
        msg = f"{quoted(f'[{text}]')} is not a range; write two whole numbers, as in [01-12]"
        raise RangeError(msg)
    first, last = match.groups()
    if int(first) > int(last):
        msg = f"{quoted(f'[{text}]')} runs backwards; write the smaller number first"
        raise RangeError(msg)
    if len(first) != len(last) and (len(first) > len(last) or last.startswith("0")):
        msg = f"{quoted(f'[{text}]')} pads its two numbers differently; write both with as many digits"
        raise RangeError(msg)
    return _Range(int(first), int(last), width=len(first))
