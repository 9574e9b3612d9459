"""Names and traits of a fleet file: their rules, and ranges such as `node-[01-03]`."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple, TypeAlias

import os_traits

from covey.fleet_file.document import ProblemCollector
from covey.fleet_file.problems import Path, did_you_mean, quoted
from covey.fleet_file.schema import NAME, OneOrMore, is_name
from covey.model.vocabulary import CUSTOM_NAME, STANDARD_CLASSES

MAX_NAMES = 1_000_000
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_BOUNDS = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")  # 18 digits: no name needs more, and int() stays cheap
_HOST_NAME = re.compile(r"[a-zA-Z0-9._-]{1,255}")
_CUSTOM_TRAIT = re.compile(r"CUSTOM_[A-Z0-9_]+")
_MAX_TRAIT_LENGTH = 255
_STANDARD_TRAITS = frozenset(os_traits.get_traits())
_SIZES = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "disk_gb"}

Rule: TypeAlias = Callable[[str], str]
"""Returns the error of a name; an empty text for a valid one."""


class RangeError(ValueError):
    """A bracket holds no range, or the ranges make too many names."""


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
    """Return the number of names of a pattern, without making them. Raises RangeError."""
    _, ranges = _split(pattern)
    return prod(map(len, ranges))


def expand(pattern: str) -> list[str]:
    """Return all names of a pattern, with the rightmost range varying fastest. Raises RangeError."""
    texts, ranges = _split(pattern)
    if not ranges:
        return texts
    heads, tail = texts[:-1], texts[-1]
    choices = [[head + number for number in r.numbers()] for head, r in zip(heads, ranges, strict=True)]
    return ["".join(parts) + tail for parts in product(*choices)]


def _split(pattern: str) -> tuple[list[str], list[_Range]]:
    """Return the texts around the ranges of a pattern, and the ranges."""
    if "[" not in pattern and "]" not in pattern:
        return [pattern], []  # the common case
    parts = _BRACKETS.split(pattern)
    texts, bounds = parts[::2], parts[1::2]
    if any("[" in text or "]" in text for text in texts):
        raise RangeError(f"a bracket in {quoted(pattern)} has no partner; write a range as in node-[01-12]")
    ranges = [_range(text) for text in bounds]
    if prod(map(len, ranges)) > MAX_NAMES:
        raise RangeError(f"{quoted(pattern)} makes more than {MAX_NAMES:,} names")
    return texts, ranges


def _range(text: str) -> _Range:
    match = _BOUNDS.fullmatch(text)
    if match is None:
        raise RangeError(f"{quoted(f'[{text}]')} is not a range; write two whole numbers, as in [01-12]")
    first, last = match.groups()
    if int(first) > int(last):
        raise RangeError(f"{quoted(f'[{text}]')} runs backwards; write the smaller number first")
    if len(first) != len(last) and (len(first) > len(last) or last.startswith("0")):
        raise RangeError(f"{quoted(f'[{text}]')} pads its two numbers differently; write both with as many digits")
    return _Range(int(first), int(last), width=len(first))


class Named(NamedTuple):
    """A name, and the path of its value in the document."""

    text: str
    path: Path


def host_error(name: str) -> str:
    """Return the error of a host's name."""
    if _HOST_NAME.fullmatch(name):
        return ""
    return f"{quoted(name)} must be 1 to 255 letters, digits, '.', '_' and '-'"


def domain_error(name: str) -> str:
    """Return the error of a domain's name."""
    return "" if is_name(name) else f"{quoted(name)} must be {NAME['description']}"


def zone_error(name: str) -> str:
    """Return the error of an availability zone's name."""
    # Clients request a host as zone:host, so a zone's name cannot contain a colon.
    return f"{quoted(name)} must not contain ':'" if ":" in name else domain_error(name)


@lru_cache(maxsize=1024)
def trait_error(trait: str) -> str:
    """Return the error of a trait."""
    if trait in _STANDARD_TRAITS or _is_custom(trait):
        return ""
    if _is_custom(trait.upper()):
        return f"{quoted(trait)} is not a trait; did you mean '{trait.upper()}'?"
    if trait.startswith("CUSTOM_"):
        return f"{quoted(trait)} must be CUSTOM_, then A to Z, 0 to 9 and '_', {_MAX_TRAIT_LENGTH} characters at most"
    hint = did_you_mean(trait, _STANDARD_TRAITS) or "; a trait of your own starts with CUSTOM_"
    return f"{quoted(trait)} is not a standard trait{hint}"


def resource_class_error(name: str) -> str:
    """Return the error of a resource class under `inventories`."""
    if name in _SIZES:
        return f"{name} is set by the key '{_SIZES[name]}:'"
    if name in STANDARD_CLASSES or CUSTOM_NAME.fullmatch(name):
        return ""
    if CUSTOM_NAME.fullmatch(name.upper()):
        return f"{quoted(name)} is not a resource class; did you mean '{name.upper()}'?"
    hint = did_you_mean(name, STANDARD_CLASSES) or "; a class of your own starts with CUSTOM_"
    return f"{quoted(name)} is not a resource class{hint}"


def count_names(value: OneOrMore, path: Path, problems: ProblemCollector) -> int:
    """Return the number of names of a value without making them, or report a problem and return 0."""
    total = 0
    for pattern, at in _patterns(value, path):
        try:
            total += count(pattern)
        except RangeError as error:
            problems.at(at, str(error))
            return 0
    if total > MAX_NAMES:
        problems.at(path, f"makes more than {MAX_NAMES:,} names")
        return 0
    return total


def expand_names(value: OneOrMore, path: Path, problems: ProblemCollector, rule: Rule | None = None) -> list[Named]:
    """Return the names of a value, and report those that violate the rule."""
    names: list[Named] = []
    for pattern, at in _patterns(value, path):
        expanded = expand(pattern)
        # Names of one range share their characters and the last one is the longest: if it is valid, all are.
        if fault := rule(expanded[-1]) if rule else "":
            problems.at(at, fault)
        names += [Named(name, at) for name in expanded]
    return names


def _patterns(value: OneOrMore, path: Path) -> list[tuple[str, Path]]:
    if isinstance(value, str):
        return [(value, path)]
    return [(pattern, (*path, index)) for index, pattern in enumerate(value)]


def _is_custom(trait: str) -> bool:
    return len(trait) <= _MAX_TRAIT_LENGTH and _CUSTOM_TRAIT.fullmatch(trait) is not None
