"""Changes of the fleet since a reader's cursor."""

from dataclasses import dataclass
from typing import NamedTuple

from covey.model.resources import Resources


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
    server: str = ""  # when the database server started, and whether it is in recovery: ids mean nothing on another one


class UsageChange(NamedTuple):
    """The change of a provider's usage. Negative amounts are released resources."""

    provider: int
    amounts: Resources


@dataclass(frozen=True, slots=True)
class StructuralChange:
    """The providers and aggregates that one transaction changed, and the topology token before and after it."""

    previous: str
    token: str
    providers: tuple[int, ...] = ()
    aggregates: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CatalogueChange:
    """The flavors and images that one transaction changed or deleted, by id."""

    flavors: tuple[str, ...] = ()
    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes by other writers. If the log is not `intact`, some are missing: the reader must load everything."""

    cursor: Cursor
    uses: tuple[UsageChange, ...] = ()
    structure: tuple[StructuralChange, ...] = ()  # in the order of their commits
    catalogue: tuple[CatalogueChange, ...] = ()
    intact: bool = True
