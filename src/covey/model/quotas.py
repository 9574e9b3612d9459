"""Quotas: limits on the resources of a project."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

UNLIMITED: Final = -1

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
