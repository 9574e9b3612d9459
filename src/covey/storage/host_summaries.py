"""Host summaries: what lists of hypervisors, compute services and zones show."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import func, select

from covey.model.hosts import HostSummary, HostUsage
from covey.model.ids import HostId
from covey.model.inventory import ResourceClass
from covey.storage.hosts import HOSTS
from covey.storage.tables import hosts, inventories, servers

_SUMMARIES = HOSTS.order_by(hosts.c.id)
_SERVERS = select(func.count()).select_from(servers).where(servers.c.host_id == hosts.c.id).scalar_subquery()


def _with_usage(summaries: sa.Select[Any]) -> sa.Select[Any]:
    """Add the fields of HostUsage: total, reserved and used of each resource class, then the number of servers."""
    for kind in ResourceClass:
        inventory = inventories.alias(kind.lower())
        here = (inventory.c.provider_id == hosts.c.id) & (inventory.c.resource_class == sa.literal_column(f"'{kind}'"))
        summaries = summaries.outerjoin(inventory, here).add_columns(
            *(func.coalesce(column, 0) for column in (inventory.c.total, inventory.c.reserved, inventory.c.used))
        )
    return summaries.add_columns(_SERVERS)


_WITH_USAGE = _with_usage(_SUMMARIES)
_FIELDS = len(HostSummary._fields) - 1


class HostSummaries:
    """A summary of every host."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def find(
        self,
        *,
        only: HostId | None = None,
        after: HostId | None = None,
        limit: int | None = None,
        name_has: str | None = None,
        usage: bool = False,
    ) -> list[HostSummary]:
        """Return hosts by id, after a given one, up to a limit, with a case-insensitive text in the name."""
        page = (_WITH_USAGE if usage else _SUMMARIES).limit(limit)
        if only is not None:
            page = page.where(hosts.c.id == only)
        if after is not None:
            page = page.where(hosts.c.id > after)
        if name_has is not None:
            page = page.where(hosts.c.name.icontains(name_has, autoescape=True))
        rows = self._connection.execute(page).all()
        if not usage:
            return [HostSummary(*row) for row in rows]
        return [HostSummary._make((*row[:_FIELDS], HostUsage._make(row[_FIELDS:]))) for row in rows]
