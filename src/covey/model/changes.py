"""Changes of the fleet since a reader's cursor."""

from collections.abc import Iterable
from dataclasses import dataclass

from covey.model.resources import Resources, server_resources


@dataclass(frozen=True, slots=True)
class Cursor:
    """What a reader's last snapshot of the database saw of the change log.

    On SQLite that is every row up to `seq`. On PostgreSQL it is every row of a transaction below `xmax`, except of
    those that were in progress.
    """

    seq: int  # the newest row that it saw
    token: str  # the topology token at the snapshot
    xmax: int = 0
    in_progress: tuple[int, ...] = ()
    floor: int = 0  # rows up to here have transaction ids of another server: the database was restored from a dump
    server: str = ""  # when the database server started: another server may reuse transaction ids

    def is_older_than(self, other: "Cursor") -> bool:
        """Return whether the snapshot was taken before the other one, on the same server."""
        if self.xmax != other.xmax:
            return self.xmax < other.xmax
        return len(self.in_progress) > len(other.in_progress) or self.seq < other.seq


@dataclass(frozen=True, slots=True)
class UsageChange:
    """The change of a provider's usage. Negative amounts are released resources."""

    host_id: int
    vcpus: int
    memory_mb: int
    disk_gb: int
    others: tuple[tuple[str, int], ...] = ()  # (resource class, amount)

    @property
    def amounts(self) -> Resources:
        """The amounts by resource class."""
        own = server_resources(self.vcpus, self.memory_mb, self.disk_gb)
        return Resources({**own, **dict(self.others)}) if self.others else own


@dataclass(frozen=True, slots=True)
class StructuralChange:
    """The providers and aggregates that one transaction changed, and the topology token before and after it."""

    previous: str
    token: str
    providers: tuple[int, ...] = ()
    aggregates: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes by other writers. If the log is not `intact`, some are missing: the reader must load everything."""

    cursor: Cursor
    uses: tuple[UsageChange, ...] = ()
    structure: tuple[StructuralChange, ...] = ()  # in the order of their commits
    intact: bool = True


def is_chain(changes: Iterable[StructuralChange], before: str, after: str) -> bool:
    """Return whether the changes lead from one topology token to the other, without a gap."""
    for change in changes:
        if change.previous != before:
            return False
        before = change.token
    return before == after
