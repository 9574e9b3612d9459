"""Quotas: limits on the resources of a project."""

from collections.abc import Mapping
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
