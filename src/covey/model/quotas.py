"""Quotas: how much of each thing a project may have."""

from collections.abc import Mapping
from typing import Final

UNLIMITED: Final = -1

# What a fresh service grants, in the order that the wire shows it.
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
