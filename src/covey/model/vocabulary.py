"""The names of traits and resource classes: the standard ones, and how one's own look."""

import re
from collections.abc import Iterable

import os_resource_classes
import os_traits

STANDARD_CLASSES: tuple[str, ...] = tuple(os_resource_classes.STANDARDS)
STANDARD_TRAITS: frozenset[str] = frozenset(os_traits.get_traits())
CUSTOM = "CUSTOM_"
CUSTOM_NAME = re.compile(r"CUSTOM_[A-Z0-9_]{1,248}", re.ASCII)

_RANK = {name: rank for rank, name in enumerate(STANDARD_CLASSES)}


def in_order(classes: Iterable[str]) -> list[str]:
    """Standard classes in the order of their package, then others by name."""
    return sorted(classes, key=lambda name: (_RANK.get(name, len(_RANK)), name))
