"""Fleet: all resource providers in NumPy columns, hosts among them; use changes in place, structure by new columns."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from covey.model.fleet_records import NO_HOST, AggregateRecord, FleetChange, HostRecord
from covey.model.ids import HostId, ScopeId
from covey.model.providers import ProviderRecord
from covey.model.resources import Resources
from covey.model.servers import HostRequirements
from covey.scheduler.columns import ByRow, Column, Mask, Overlay, RowOfId, RowOfKey, Rows, highest
from covey.scheduler.domains import NO_DOMAIN, Domains, HostNames, host_domains, scope_domains
from covey.scheduler.inventories import RESOURCES, UNLIMITED, Inventories, Weights
from covey.scheduler.labels import Labels
from covey.scheduler.provider_trees import NO_PROVIDER, AnchoredProviders, ProviderTrees
from covey.scheduler.structure_changes import with_changed_structure

__all__ = [
    "NO_DOMAIN",
    "RESOURCES",
    "UNLIMITED",
    "Column",
    "Domains",
    "Fleet",
    "Mask",
    "Rows",
    "Weights",
    "counts_by_domain",
    "highest",
    "members_by_row",
]

_FEW = 4  # uses that cost less one by one than as columns
_NO_MEMBERS: tuple[Rows, NDArray[np.int64]] = np.empty(0, dtype=np.intp), np.empty(0, dtype=np.int64)


class Fleet:
    """A row for each resource provider, by id. Hosts are the rows of `is_host`; only they are ever chosen.

    `changed` returns a fleet with another structure. It shares the columns that did not change, and never writes to
    one that an older fleet can see: an older fleet stays as it is.
    """

    static_masks: dict[HostRequirements, Mask]  # the product of the static constraints
    latest_members: tuple[Mapping[int, int] | None, tuple[Rows, NDArray[np.int64]]]

    def __init__(
        self,
        providers: Iterable[ProviderRecord],
        hosts: Iterable[HostRecord] = (),
        aggregates: Iterable[AggregateRecord] = (),
        weights: Weights = Weights(),  # noqa: B008 -- frozen
        default_zone: str = "nova",
    ) -> None:
        records = sorted(providers, key=lambda record: record.id)
        known = {host.id: host for host in hosts}
        self.default_zone = default_zone
        self.ids = np.array([record.id for record in records], dtype=np.int64)
        self.present: Mask = np.ones(len(records), dtype=np.bool_)  # False where a provider is gone
        self.row_of = RowOfId(self.ids, self.present)
        self.uuid_of = Overlay({record.id: record.uuid for record in records})
        self.id_of_uuid = Overlay({record.uuid: record.id for record in records})
        self.parent = self._rows_of(record.parent_id for record in records)
        self.root = self._rows_of(record.root_id or record.id for record in records)
        self.traits = Labels(record.traits for record in records)
        self.member_of = Labels(record.aggregates for record in records)  # placement aggregates, by uuid
        by_row = [known.get(HostId(record.id), NO_HOST) for record in records]
        self.is_host = _mask(host is not NO_HOST for host in by_row)
        self.host_of = Overlay({record.id: host for record, host in zip(records, by_row, strict=True)})  # or NO_HOST
        self.id_of_name = Overlay({host.name: int(host.id) for host in by_row if host is not NO_HOST})
        self.provider_name_of = Overlay({record.id: record.name for record in records if record.id not in known})
        self.enabled = _mask(host.enabled for host in by_row)
        self.up = _mask(host.up for host in by_row)
        self.zone = Labels(map(self.zone_labels, by_row))
        self.in_aggregates = Labels(host.aggregates for host in by_row)  # host aggregates, by id
        self.aggregates = {aggregate.id: aggregate for aggregate in sorted(aggregates, key=lambda each: each.id)}
        self.inventories = Inventories(records, self.is_host, weights)
        self.trees = ProviderTrees(self.parent, self.root, self.present, self.traits, self.member_of)
        self.known_domains: dict[ScopeId | None, Domains] = {}
        self.reset()

    def __len__(self) -> int:
        return self.ids.size

    def changed(self, change: FleetChange) -> "Fleet":
        """Return the fleet after a change of structure. Use stays, except of inventories that are new."""
        return with_changed_structure(self, change)

    def copy(self) -> "Fleet":
        """Return a fleet of the same structure whose use changes independently."""
        other = copy(self)
        other.inventories = self.inventories.copy()
        other.static_masks = dict(self.static_masks)
        other.known_domains = dict(self.known_domains)
        other._class_providers = dict(self._class_providers)  # noqa: SLF001 -- the same class
        return other

    def with_disabled(self, hosts: Iterable[HostId]) -> "Fleet":
        """Return a copy on which these hosts are disabled."""
        other = self.copy()
        other.enabled = self.enabled & ~self.mask_of(hosts)
        other.reset()
        return other

    def reset(self) -> None:
        """Drop what was derived from columns that have changed."""
        self.static_masks = {}
        self.latest_members = None, _NO_MEMBERS
        self._class_providers: dict[str, AnchoredProviders] = {}
        for name in ("available", "host_rows", "zones"):
            self.__dict__.pop(name, None)

    @cached_property
    def available(self) -> Mask:
        """The hosts that are enabled and up."""
        return self.is_host & self.enabled & self.up

    @cached_property
    def host_rows(self) -> Rows:
        """The rows of hosts."""
        return np.flatnonzero(self.is_host)

    @cached_property
    def restricted(self) -> list[AggregateRecord]:
        """The aggregates that do not admit every request."""
        return [aggregate for aggregate in self.aggregates.values() if aggregate.projects or aggregate.traits]

    @cached_property
    def zones(self) -> frozenset[str]:
        """The availability zones that have hosts."""
        return frozenset(self.zone)

    @property
    def uuids(self) -> ByRow[str]:
        """The uuid of each provider, by row."""
        return ByRow(self.ids, self.uuid_of)

    @property
    def hosts(self) -> ByRow[HostRecord]:
        """The host of each row; NO_HOST where it is none."""
        return ByRow(self.ids, self.host_of)

    @property
    def names(self) -> HostNames:
        """The names of hosts, by row."""
        return HostNames(self.ids, self.host_of, self.provider_name_of)

    @property
    def row_of_uuid(self) -> RowOfKey[str]:
        """The row of each provider, by uuid."""
        return RowOfKey(self.id_of_uuid, self.row_of)

    @property
    def row_of_name(self) -> RowOfKey[str]:
        """The row of each host, by name."""
        return RowOfKey(self.id_of_name, self.row_of)

    @property
    def free(self) -> NDArray[np.int64]:
        """The free amounts: a line for each class, RESOURCES first."""
        return self.inventories.free

    @property
    def capacity(self) -> NDArray[np.int64]:
        return self.inventories.capacity

    @property
    def weight(self) -> Column:
        return self.inventories.weight

    def class_providers(self, name: str) -> AnchoredProviders:
        """Return the providers of trees that have an inventory of a class: one value for classes of the same ones."""
        found = self._class_providers.get(name)
        if found is None:
            line = self.inventories.classes.get(name)
            exists = np.zeros(len(self), dtype=np.bool_) if line is None else self.inventories.exists[line]
            new = self.trees.anchored.with_inventory(exists)
            alike = (each for each in self._class_providers.values() if np.array_equal(each.places, new.places))
            found = self._class_providers[name] = next(alike, new)
        return found

    def fits(self, amounts: Resources) -> Mask:
        """Return the rows that have room for the amounts and allow their sizes."""
        return self.inventories.fits(amounts)

    def weight_after(self, amounts: Resources) -> Callable[[int, int], float]:
        """Return a function from (row, times) to the row's weight after it took the amounts `times` times."""
        return self.inventories.weight_after(amounts)

    def take(self, row: int, amounts: Resources) -> None:
        """Take amounts of a row; negative amounts are given back."""
        self.inventories.take(row, amounts)

    def take_for(self, providers: Sequence[int], amounts: Resources) -> None:
        """Take the same amounts of each of the providers, by id; those that the fleet does not have do not count."""
        row = self.row_of.get(providers[0]) if len(providers) == 1 else None
        if row is None:
            self.inventories.take_equal(self.rows(providers), amounts)
        else:
            self.inventories.take(row, amounts)

    def take_all(self, uses: Iterable[tuple[int, Resources]]) -> None:
        """Take amounts of providers, by id; those that the fleet does not have do not count."""
        self._add_to_use(uses, 1)

    def return_all(self, uses: Iterable[tuple[int, Resources]]) -> None:
        """Give back amounts of providers, by id."""
        self._add_to_use(uses, -1)

    def _add_to_use(self, uses: Iterable[tuple[int, Resources]], sign: int) -> None:
        known = list(uses)
        if len(known) <= _FEW:
            for provider, amounts in known:
                row = self.row_of.get(provider)
                if row is not None:
                    self.inventories.take(row, amounts, sign)
            return
        rows = self.rows(provider for provider, _ in known)
        if rows.size < len(known):
            known = [use for use in known if use[0] in self.row_of]
        if known:
            self.inventories.take_many(rows, [amounts for _, amounts in known], sign)

    def zone_of(self, row: int) -> str:
        """Return the availability zone of a host: the default zone if it has none."""
        return self.hosts[row].zone or self.default_zone

    def zone_labels(self, host: HostRecord) -> frozenset[str]:
        """Return the zone of a host as a set of labels."""
        return frozenset() if host is NO_HOST else frozenset({host.zone or self.default_zone})

    def rows(self, providers: Iterable[int]) -> Rows:
        """Return the rows of those of the providers that the fleet has."""
        return self.row_of.rows(providers)

    def mask_of(self, hosts: Iterable[HostId]) -> Mask:
        """Return a mask of the hosts."""
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[self.rows(hosts)] = True
        return mask

    def is_up(self, host: HostId) -> bool:
        """Return whether the fleet has the host, and it is up."""
        row = self.row_of.get(host)
        return row is not None and bool(self.up[row])

    def domains(self, scope: ScopeId | None) -> Domains:
        """Return the domains of a scope; None is the host scope, in which each host is a domain."""
        found = self.known_domains.get(scope)
        if found is None:
            found = self.known_domains[scope] = self._find_domains(scope)
        return found

    def _find_domains(self, scope: ScopeId | None) -> Domains:
        if scope is None:
            return host_domains(self.names, self.row_of_name)
        aggregates = [aggregate for aggregate in self.aggregates.values() if aggregate.scope == scope]
        return scope_domains(aggregates, self.in_aggregates, self.member_of, self.is_host)

    def _rows_of(self, ids: Iterable[int | None]) -> Rows:
        known = np.array([NO_PROVIDER if i is None else i for i in ids], dtype=np.int64)
        return np.where(known == NO_PROVIDER, NO_PROVIDER, self.ids.searchsorted(known))


def _mask(values: Iterable[bool]) -> Mask:
    return np.array([*values], dtype=np.bool_)


def members_by_row(fleet: Fleet, members_by_host: Mapping[int, int]) -> tuple[Rows, NDArray[np.int64]]:
    """Return the rows on which a group's members are, and how many are on each."""
    if not members_by_host:
        return _NO_MEMBERS
    latest, found = fleet.latest_members
    if latest is not members_by_host:  # every policy of a group asks for the same hosts
        rows, counts = fleet.row_of.rows(members_by_host), [*members_by_host.values()]
        if rows.size < len(counts):  # the fleet does not have a member's host yet, or any more
            counts = [number for host, number in members_by_host.items() if host in fleet.row_of]
        found = rows, np.array(counts, dtype=np.int64)
        fleet.latest_members = members_by_host, found
    return found


def counts_by_domain(domains: Domains, fleet: Fleet, members_by_host: Mapping[int, int]) -> NDArray[np.int64]:
    """Return how many members of a group are in each domain; the last entry counts hosts in no domain.

    A member on an ambiguous host counts in each of its domains.
    """
    counts = np.zeros(len(domains.names) + 1, dtype=np.int64)
    if members_by_host:
        rows, numbers = members_by_row(fleet, members_by_host)
        np.add.at(counts, domains.of_host[rows], numbers)
        if domains.several:
            for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
                several = domains.several.get(row, ())
                counts[[*several]] += number
                counts[NO_DOMAIN] -= number if several else 0
    return counts
