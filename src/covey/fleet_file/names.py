"""Which names and traits a fleet file may hold, and how a value becomes the names it stands for."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import os_traits

from covey.fleet_file.findings import Findings
from covey.fleet_file.ranges import MOST_NAMES, RangeError, count, expand
from covey.fleet_file.schema import NAME, OneOrMore
from covey.fleet_file.shape import is_name
from covey.fleet_file.wording import Path, did_you_mean, quoted

_HOST_NAME = re.compile(r"[a-zA-Z0-9._-]{1,255}")
_CUSTOM_TRAIT = re.compile(r"CUSTOM_[A-Z0-9_]+")
_LONGEST_TRAIT = 255
_STANDARD_TRAITS = frozenset(os_traits.get_traits())

Rule: TypeAlias = Callable[[str], str]
"""Says what is wrong with a name; an empty text if nothing is."""


class Named(NamedTuple):
    """A name, and the value in the document that it came from."""

    text: str
    path: Path


def host_fault(name: str) -> str:
    """Say what keeps this from being a host's name."""
    if _HOST_NAME.fullmatch(name):
        return ""
    return f"{quoted(name)} must be 1 to 255 letters, digits, '.', '_' and '-'"


def domain_fault(name: str) -> str:
    """Say what keeps this from being a domain's name."""
    return "" if is_name(name) else f"{quoted(name)} must be {NAME['description']}"


def zone_fault(name: str) -> str:
    """Say what keeps this from being an availability zone's name."""
    # Clients write zone:host to ask for one host, so a zone's own name can't hold the colon.
    return f"{quoted(name)} must not contain ':'" if ":" in name else domain_fault(name)


@lru_cache(maxsize=1024)
def trait_fault(trait: str) -> str:
    """Say what keeps this from being a trait."""
    if trait in _STANDARD_TRAITS or _is_custom(trait):
        return ""
    if _is_custom(trait.upper()):
        return f"{quoted(trait)} is not a trait; did you mean '{trait.upper()}'?"
    if trait.startswith("CUSTOM_"):
        return f"{quoted(trait)} must be CUSTOM_, then A to Z, 0 to 9 and '_', {_LONGEST_TRAIT} characters at most"
    hint = did_you_mean(trait, _STANDARD_TRAITS) or "; a trait of your own starts with CUSTOM_"
    return f"{quoted(trait)} is not a standard trait{hint}"


def tally(value: OneOrMore, path: Path, findings: Findings) -> int:
    """Count the names that a value stands for, without making them; 0 if it is at fault, which is then reported."""
    total = 0
    for pattern, at in _patterns(value, path):
        try:
            total += count(pattern)
        except RangeError as error:
            findings.at(at, str(error))
            return 0
    if total > MOST_NAMES:
        findings.at(path, f"makes more than {MOST_NAMES:,} names")
        return 0
    return total


def spell_out(value: OneOrMore, path: Path, findings: Findings, rule: Rule | None = None) -> list[Named]:
    """Make the names that a value stands for, and report those that break the rule."""
    names: list[Named] = []
    for pattern, at in _patterns(value, path):
        expanded = expand(pattern)
        # Names of one range have the same characters and the last one is the longest: if it is good, all are.
        if fault := rule(expanded[-1]) if rule else "":
            findings.at(at, fault)
        names += [Named(name, at) for name in expanded]
    return names


def _patterns(value: OneOrMore, path: Path) -> list[tuple[str, Path]]:
    if isinstance(value, str):
        return [(value, path)]
    return [(pattern, (*path, index)) for index, pattern in enumerate(value)]


def _is_custom(trait: str) -> bool:
    return len(trait) <= _LONGEST_TRAIT and _CUSTOM_TRAIT.fullmatch(trait) is not None
