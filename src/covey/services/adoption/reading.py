"""Reads the whole ledger of a Placement service, while the service may change."""

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from covey.model.errors import Conflict
from covey.model.ledger_copy import ConsumerAllocations, Ledger, LedgerProvider, usage_by_project, with_allocations
from covey.services.adoption.original import Original, ProviderRow
from covey.services.manage import Progress

StartStep = Callable[[str, int], Progress]
"""Called with the name of a step and its number of items, before the first one."""

Item = TypeVar("Item")
Result = TypeVar("Result")
_ROUNDS = 6  # to read again what changed since the last round


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read, and the uuids of providers and ids of projects that changed again after the last round.

    Every write to a provider, and every write that adds allocations, changes the generation of the provider. A write
    that only deletes allocations does not. It changes the usage of the consumer's project, and a consumer's own answer
    always has all its allocations. So without changes the ledger is that of one moment, unless allocations were deleted
    between the last two requests; the comparison that follows a copy reads all allocations once more.
    """

    ledger: Ledger
    changing: frozenset[str] = frozenset()


def read(
    original: Original,
    providers: Mapping[str, LedgerProvider],
    consumers: Mapping[str, ConsumerAllocations],
    start: StartStep,
) -> Reading:
    """Return the ledger of the original. Of the given providers and consumers, those that changed are read again.

    Raises Conflict when a provider changes faster than it is read.
    """
    with ThreadPoolExecutor(original.connections) as pool:
        return _Reader(original, dict(providers), dict(consumers), start, pool).read()


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads in rounds: what the last round found outdated, then a look at all generations and usages."""

    _original: Original
    _providers: dict[str, LedgerProvider]
    _consumers: dict[str, ConsumerAllocations]
    _start: StartStep
    _pool: Executor

    def read(self) -> Reading:
        for _ in range(_ROUNDS):
            stale = self._find_stale()
            self._read_consumers(self._read_providers(stale))
            projects = self._find_changed_projects()
            if not stale and not projects:
                break
            self._read_consumers([u for u, each in self._consumers.items() if each.consumer.project_id in projects])
        rows = self._original.rows()
        changing = frozenset(row.uuid for row in rows if not row.describes(self._providers.get(row.uuid)))
        if any(row.uuid not in self._providers for row in rows):
            raise Conflict(
                f"{len(changing)} providers change faster than they are read. Stop the clients of {self._original.url}."
            )
        ledger = Ledger(
            with_allocations({row.uuid: self._providers[row.uuid] for row in rows}, self._consumers.values()),
            {uuid: self._consumers[uuid].consumer for uuid in sorted(self._consumers)},
            self._original.custom_traits(),
            self._original.custom_resource_classes(),
        )
        return Reading(ledger, changing | projects)

    def _find_stale(self) -> list[ProviderRow]:
        """Return the providers that are unknown at their current generation, and drop those that are deleted."""
        rows = self._original.rows()
        for uuid in self._providers.keys() - {row.uuid for row in rows}:
            del self._providers[uuid]
        return [row for row in rows if not row.describes(self._providers.get(row.uuid))]

    def _read_providers(self, stale: Collection[ProviderRow]) -> list[str]:
        """Read providers. Return the consumers on them that are unknown, or differ from what the provider shows."""
        read = self._in_parallel(self._original.provider, stale, "Reading providers")
        found = [provider for provider in read if provider]
        self._providers.update((provider.uuid, provider) for provider in found)
        outdated = {
            uuid
            for provider in found
            for uuid, held in provider.allocations.items()
            if uuid not in self._consumers or not self._consumers[uuid].holds(provider.uuid, held)
        }
        return sorted(outdated)

    def _read_consumers(self, uuids: Collection[str]) -> None:
        for uuid, consumer in zip(
            uuids, self._in_parallel(self._original.consumer, uuids, "Reading consumers"), strict=True
        ):
            if consumer:
                self._consumers[uuid] = consumer
            else:
                self._consumers.pop(uuid, None)

    def _find_changed_projects(self) -> frozenset[str]:
        """Return the projects whose usage is not the sum of their consumers' allocations."""
        known = usage_by_project(self._consumers.values())
        usages = self._in_parallel(self._original.usage, known, "Comparing projects")
        return frozenset(project for project, usage in zip(known, usages, strict=True) if usage != known[project])

    def _in_parallel(self, read: Callable[[Item], Result], items: Collection[Item], step: str) -> Iterator[Result]:
        """Yield the result for each item, in order. An error cancels what has not begun."""
        progress = self._start(step, len(items))
        for result in self._pool.map(read, items):
            progress(1)
            yield result
