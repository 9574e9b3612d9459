"""Quota usage counts the VCPUs and the memory that servers claim, where extra specs of their flavors set them."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_SERVERS = """
    SELECT s.project_id, s.flavor, m.old_flavor, m.new_flavor FROM servers s
    LEFT JOIN migrations m ON m.server_id = s.id AND m.status IN ('preparing', 'finished')
    WHERE s.flavor LIKE '%"resources%' OR m.old_flavor LIKE '%"resources%' OR m.new_flavor LIKE '%"resources%'
"""
_ADD = "UPDATE quota_usages SET cores = cores + :cores, ram = ram + :ram WHERE project_id = :project"
_SPEC = re.compile(r"resources([a-zA-Z0-9_-]{0,64}):(VCPU|PCPU|MEMORY_MB)")


def upgrade() -> None:
    connection = op.get_bind()
    change: Counter[tuple[str, str]] = Counter()
    for project, own, *moving in connection.execute(sa.text(_SERVERS)):
        # A server counts with the larger flavor while it is resized.
        flavors = [json.loads(text) for text in (moving if moving[0] is not None else [own])]
        before, after = (_largest(map(size, flavors)) for size in (_size, _claimed))
        for name, old, new in zip(("cores", "ram"), before, after, strict=True):
            change[project, name] += new - old
    for project in sorted({project for project, _ in change}):
        amounts = {name: change[project, name] for name in ("cores", "ram")}
        connection.execute(sa.text(_ADD), {"project": project, **amounts})


def _largest(sizes: Iterable[tuple[int, int]]) -> tuple[int, int]:
    cores, ram = zip(*sizes, strict=True)
    return max(cores), max(ram)


def _size(flavor: Mapping[str, Any]) -> tuple[int, int]:
    return flavor["vcpus"], flavor["memory_mb"]


def _claimed(flavor: Mapping[str, Any]) -> tuple[int, int]:
    """Return the cores and the MB of memory that a server of the flavor claims."""
    cores, ram = _size(flavor)
    claimed = Counter({("", "VCPU"): cores, ("", "MEMORY_MB"): ram})
    for key, value in flavor.get("extra_specs", {}).items():
        found = _SPEC.fullmatch(key)
        if found and value.isdecimal():
            claimed[found[1], found[2]] = int(value)
    sums: Counter[str] = Counter()
    for (_, name), amount in claimed.items():
        sums[name] += amount
    return sums["VCPU"] + sums["PCPU"], sums["MEMORY_MB"]
