"""Quotas: limits on the resources of a project.

`class:` and the name of a resource class name a quota of what the project's servers hold of that class.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from covey.model.errors import Invalid

UNLIMITED: Final = -1
COUNTED: Final = ("instances", "cores", "ram")
"""The quotas whose usage is stored, in the order of its columns."""

CLASS: Final = "class:"
COUNTED_CLASSES: Final[Mapping[str, str]] = {"VCPU": "cores", "PCPU": "cores", "MEMORY_MB": "ram"}
"""The quotas that count these resource classes; the other classes have quotas of their own."""

CLASS_QUOTA: Final = f"{CLASS}[A-Z0-9_]{{1,249}}"  # 255 characters fit into a row
_CLASS_QUOTA = re.compile(CLASS_QUOTA)

# The limits of a new deployment, in the order of API responses.
DEFAULTS: Final[Mapping[str, int]] = {
    "instances": 10,
    "cores": 20,
    "ram": 51200,
    "floating_ips": UNLIMITED,
    "fixed_ips": UNLIMITED,
    "metadata_items": 128,
    "injected_files": 5,
    "injected_file_content_bytes": 10240,
    "injected_file_path_bytes": 255,
    "key_pairs": 100,
    "security_groups": UNLIMITED,
    "security_group_rules": UNLIMITED,
    "server_groups": 10,
    "server_group_members": 10,
}


def class_of_quota(name: str) -> str | None:
    """Return the resource class that a quota limits; None for a quota of something else. Raises Invalid."""
    if not name.startswith(CLASS):
        return None
    if not _CLASS_QUOTA.fullmatch(name):
        raise Invalid(
            f"The quota {name} names no resource class. Write class: and a name of up to 249 capital letters, digits "
            "and underscores, such as class:CUSTOM_GPU."
        )
    kind = name.removeprefix(CLASS)
    if kind in COUNTED_CLASSES:
        counted = COUNTED_CLASSES[kind]
        raise Invalid(f"The quota {counted} counts {kind}, so {name} cannot be set. Set {counted}.")
    return kind


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """Limits of a project by name, and how much of each is in use."""

    limits: Mapping[str, int]
    used: Mapping[str, int]

    def left_for(self, sizes: Mapping[str, int]) -> int | None:
        """Return how many more servers of these sizes the limits allow; None if no limit applies."""
        left = [
            (self.limits[name] - self.used.get(name, 0)) // size
            for name, size in sizes.items()
            if size and self.limits.get(name, UNLIMITED) != UNLIMITED
        ]
        return max(0, min(left)) if left else None
