"""Copies the ledger of another Placement service, and checks the copy. `covey adopt` calls it directly."""

from dataclasses import dataclass

from covey.model.errors import Conflict, Invalid
from covey.model.ledger_copy import Difference, Ledger, consumer_allocations, find_differences, find_problems
from covey.ports import Clock
from covey.services.adoption.original import Original
from covey.services.adoption.reading import Reading, StartStep, read
from covey.storage.store import Store, Transaction

_NOT_EMPTY = (
    "The database has {} resource providers. `covey adopt` writes to an empty database; --update updates a copy."
)
_MAX_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Check:
    """The differences between the original and the copy, and the providers that changed while they were read."""

    differences: tuple[Difference, ...]
    providers: int
    consumers: int
    changing: frozenset[str]


@dataclass(frozen=True, slots=True)
class Adoption:
    """Reads from one service, writes to one store."""

    original: Original
    store: Store
    clock: Clock
    start: StartStep

    def read(self, *, update: bool) -> Reading:
        """Return what the copy will hold. With `update`, only read what changed since the last copy.

        Raises Conflict for a database that is not empty, unless `update` is set, and for a copy that has been written
        to; Invalid for what Covey cannot store.
        """
        with self.store.read(long=True) as tx:
            known = _old_ledger(tx, update=update)
        reading = read(self.original, known.providers, consumer_allocations(known), self.start)
        _reject_newer(known, reading.ledger)
        if problems := find_problems(reading.ledger):
            more = f" (and {len(problems) - _MAX_SHOWN} more problems)" if len(problems) > _MAX_SHOWN else ""
            raise Invalid(f"The original cannot be copied. {' '.join(problems[:_MAX_SHOWN])}{more}")
        return reading

    def write(self, ledger: Ledger, *, update: bool) -> None:
        """Write the copy in one transaction. Raises Conflict, as `read` does."""
        with self.store.write() as tx:
            old = _old_ledger(tx, update=update)
            if hosts := tx.ledger_copies.hosts(old.providers.keys() - ledger.providers.keys()):
                raise Conflict(
                    f"The original has no provider of the hosts {', '.join(hosts[:_MAX_SHOWN])}: remove them first."
                )
            progress = self.start("Writing providers", len(ledger.providers))
            tx.ledger_copies.write(ledger, old, self.clock(), progress)

    def check(self, known: Ledger | None = None) -> Check:
        """Read the original again, and compare it with the rows.

        Of the consumers of `known`, those are read again whose generation or allocations differ: project, user and
        type of a consumer change together with its generation.
        """
        reading = read(self.original, {}, consumer_allocations(known or Ledger()), self.start)
        with self.store.read(long=True) as tx:
            copy = tx.ledger_copies.read()
        found = tuple(find_differences(reading.ledger, copy))
        return Check(found, len(reading.ledger.providers), len(reading.ledger.consumers), reading.changing)


def _old_ledger(tx: Transaction, *, update: bool) -> Ledger:
    """Return the ledger of the database, which is empty unless `update` is set. Raises Conflict."""
    if update:
        return tx.ledger_copies.read()
    if tx.providers.exist():
        raise Conflict(_NOT_EMPTY.format(len(tx.ledger_copies.read().providers)))
    return Ledger()


def _reject_newer(copy: Ledger, original: Ledger) -> None:
    """Raise Conflict if a provider of the copy has a newer generation: its clients use Covey already."""
    newer = [
        provider.name
        for uuid, provider in copy.providers.items()
        if uuid in original.providers and provider.generation > original.providers[uuid].generation
    ]
    if newer:
        raise Conflict(
            f"{len(newer)} providers, such as {newer[0]}, are newer in Covey than in the original: Covey is in use. "
            "An update would replace what its clients wrote."
        )
