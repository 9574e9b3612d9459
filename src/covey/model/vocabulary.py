"""The names of standard traits and resource classes, and the pattern of custom ones."""

import re
from collections.abc import Iterable

import os_resource_classes
import os_traits

STANDARD_CLASSES: tuple[str, ...] = tuple(os_resource_classes.STANDARDS)
STANDARD_TRAITS: frozenset[str] = frozenset(os_traits.get_traits())
CUSTOM = "CUSTOM_"
CUSTOM_NAME = re.compile(r"CUSTOM_[A-Z0-9_]{1,248}", re.ASCII)

_RANK = {name: rank for rank, name in enumerate(STANDARD_CLASSES)}


def sort_classes(classes: Iterable[str]) -> list[str]:
    """Return standard classes in the order of os_resource_classes, then custom ones by name."""
    return sorted(classes, key=lambda name: (_RANK.get(name, len(_RANK)), name))
