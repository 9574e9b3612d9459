"""Domains: which domain of a scope each host is in."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from covey.model.fleet_records import AggregateRecord, HostRecord
from covey.scheduler.columns import Column, Mask, Overlay, RowOfKey, Rows, highest
from covey.scheduler.labels import Labels
from covey.scheduler.new_rows import NewRows, with_values

T = TypeVar("T", bound=np.generic)

NO_DOMAIN = -1  # the domain of a host that is in none, or in two
_MIN_RUN = 4  # mean length from which runs of one domain are worth using


@dataclass(frozen=True, slots=True)
class Domains:
    """The domains of one scope: which domain each host is in."""

    of_host: Rows  # one entry for each row; NO_DOMAIN where it is in none, or in two
    ambiguous: Mask  # hosts that were modified outside Covey and belong to two domains
    names: Sequence[str]  # the real identifier of each domain
    _find: Callable[[str], int | None]
    _runs: tuple[Rows, Rows, Rows] | None = None  # domain, length and start of each run of neighbours in one domain
    _is_host: bool = False  # the host scope: each row is its own domain
    several: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # the domains of each ambiguous row

    def number(self, name: str) -> int:
        """Return the number of the domain with a real identifier; one that no host has if the domain does not exist."""
        number = self._find(name)
        return NO_DOMAIN - 1 if number is None else number

    def of_row(self, row: int) -> tuple[int, ...]:
        """Return the domains of one host: none, one, or several if it is ambiguous."""
        number = int(self.of_host[row])
        return (number,) if number != NO_DOMAIN else self.several.get(row, ())

    def exists(self, name: str) -> bool:
        """Return whether a domain has this real identifier."""
        return self._find(name) is not None

    def per_host(self, of_domain: NDArray[T]) -> NDArray[T]:
        """Turn a value for each domain, with one for NO_DOMAIN at the end, into a value for each host."""
        if self._is_host:
            return of_domain[:NO_DOMAIN]
        if self._runs is None:
            return of_domain[self.of_host]
        domains, lengths, _ = self._runs
        return np.repeat(of_domain[domains], lengths)

    def highest(self, of_domain: Column, candidates: Mask) -> Mask:
        """Return the candidates whose domain has the highest value; there is at least one candidate."""
        if self._runs is None:
            return highest(self.per_host(of_domain), candidates)
        domains, lengths, starts = self._runs
        values = np.where(np.logical_or.reduceat(candidates, starts), of_domain[domains], -np.inf)
        return np.repeat(values == values.max(), lengths) & candidates

    def moved(self, aggregates: Mapping[int, frozenset[int]], new: NewRows) -> "Domains":
        """Return the same domains with hosts in other aggregates, by row."""
        found = {
            row: [n for each in ids if (n := self._find(str(each))) is not None] for row, ids in aggregates.items()
        }
        numbers = {row: domains[0] if len(domains) == 1 else NO_DOMAIN for row, domains in found.items()}
        of_host = with_values(self.of_host, numbers, new, NO_DOMAIN)
        ambiguous = {row: len(domains) > 1 for row, domains in found.items()}
        rows = new.moved(np.array([*self.several], dtype=np.intp)).tolist()
        return replace(
            self,
            of_host=of_host,
            ambiguous=with_values(self.ambiguous, ambiguous, new),
            _runs=self._runs if of_host is self.of_host else _runs(of_host),
            several={row: each for row, each in zip(rows, self.several.values(), strict=True) if row not in found}
            | {row: tuple(domains) for row, domains in found.items() if len(domains) > 1},
        )


@dataclass(frozen=True, slots=True)
class HostNames(Sequence[str]):
    """The name of each row: of a host, or of a resource provider that is no host of Covey's."""

    _ids: NDArray[np.int64]
    _hosts: Overlay[int, HostRecord]  # by id, as the next ones
    _providers: Overlay[int, str]

    @overload
    def __getitem__(self, row: int) -> str: ...

    @overload
    def __getitem__(self, row: slice) -> list[str]: ...

    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(len(self)))]
        each = self._ids.item(row)
        return self._hosts[each].name or self._providers.get(each, "")

    def __len__(self) -> int:
        return self._ids.size

    def __iter__(self) -> Iterator[str]:
        return (self[row] for row in range(len(self)))


def host_domains(names: HostNames, row_of_name: RowOfKey[str]) -> Domains:
    """Return the domains of the host scope: each row is one."""
    rows = np.arange(len(names), dtype=np.intp)
    return Domains(rows, np.zeros(rows.size, dtype=np.bool_), names, row_of_name.get, _is_host=True)


def scope_domains(
    aggregates: Sequence[AggregateRecord], hosts: Labels[int], providers: Labels[str], is_host: Mask
) -> Domains:
    """Return the domains that these aggregates are.

    `hosts` has the aggregates of each host, and `providers` the placement aggregates of each provider. A provider that
    is no host of Covey's, such as a compute node of Nova, is in a domain whose uuid is among its placement aggregates.
    """
    ids, uuids = [each.id for each in aggregates], [each.uuid for each in aggregates]
    of_host, ambiguous = hosts.positions(ids)
    of_provider, ambiguous_provider = providers.positions(uuids)
    of_host, ambiguous = np.where(is_host, of_host, of_provider), np.where(is_host, ambiguous, ambiguous_provider)
    names = tuple(map(str, ids))
    position: dict[int | str, int] = {
        **{key: i for i, key in enumerate(ids)},
        **{key: i for i, key in enumerate(uuids)},
    }
    several = {
        row: tuple(sorted(position[each] for each in (hosts if is_host[row] else providers)[row] if each in position))
        for row in np.flatnonzero(ambiguous).tolist()
    }
    find = {name: i for i, name in enumerate(names)}.get
    return Domains(of_host, ambiguous, names, find, _runs(of_host), several=several)


def _runs(of_host: Rows) -> tuple[Rows, Rows, Rows] | None:
    """Return the runs of neighbours in one domain; None where they are short. Racks usually number hosts in runs."""
    if not of_host.size:
        return None
    starts = np.concatenate([[0], np.flatnonzero(of_host[1:] != of_host[:-1]) + 1])
    if starts.size * _MIN_RUN > of_host.size:
        return None
    return of_host[starts], np.diff(starts, append=of_host.size), starts
