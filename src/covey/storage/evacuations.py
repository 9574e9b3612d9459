"""Evacuated instances of Nova: the allocations that they still have on the hosts that they left.

Nova deletes these when nova-compute is back on the host. Until then an instance holds both hosts, as one whose
evacuation is in progress does. The mirror tells them apart.
"""

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa

from covey.storage.rows import execute

# Nova changes the host of an instance at the end of its evacuation, and no task is left then. A reading that began
# before the latest write of the allocations may not know of another evacuation, perhaps back to the host.
_LEFT = """
    SELECT DISTINCT a.consumer_uuid, a.provider_id, r.id
    FROM allocations a JOIN resource_providers p ON p.id = a.provider_id
        JOIN resource_providers r ON r.id = COALESCE(p.root_id, p.id)
        JOIN nova_hosts h ON h.uuid = r.uuid
        JOIN consumers c ON c.uuid = a.consumer_uuid
        LEFT JOIN group_consumers g ON g.consumer_uuid = a.consumer_uuid
        JOIN nova_servers s ON s.id = COALESCE(g.member_uuid, a.consumer_uuid)
        JOIN nova_sync n ON n.id = 1
    WHERE a.consumer_uuid IN ? AND NOT h.up AND h.service_host <> s.host AND s.task_state IS NULL
        AND (c.updated_at IS NULL OR c.updated_at < n.read_at)
        AND EXISTS (SELECT 1 FROM allocations b JOIN resource_providers q ON q.id = b.provider_id
                        JOIN resource_providers t ON t.id = COALESCE(q.root_id, q.id)
                        JOIN nova_hosts o ON o.uuid = t.uuid
                    WHERE b.consumer_uuid = a.consumer_uuid AND o.service_host = s.host)
"""


@dataclass(frozen=True, slots=True)
class LeftAllocation:
    """A provider of which a consumer holds allocations, on a host that its instance was evacuated from."""

    consumer: str
    provider_id: int
    host: int


def left_allocations(connection: sa.Connection, consumers: Collection[str]) -> list[LeftAllocation]:
    """Return what these consumers hold on hosts that are down, beside the host on which Nova has their instance."""
    rows = execute(connection, _LEFT, sorted(consumers)).fetchall() if consumers else []
    return [LeftAllocation(*row) for row in rows]
