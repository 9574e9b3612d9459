"""Derives the fleet after a structural change from the fleet before it. Only the changed columns are new."""

from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from covey.model.fleet_records import NO_HOST, AggregateRecord, FleetChange, HostRecord
from covey.model.ids import ScopeId
from covey.model.providers import ProviderRecord
from covey.scheduler.columns import Overlay, with_values
from covey.scheduler.domains import host_domains
from covey.scheduler.provider_trees import NO_PROVIDER, ProviderTrees

if TYPE_CHECKING:
    from covey.scheduler.fleet import Fleet

_NOTHING: frozenset[str] = frozenset()
_NAME_COLUMNS = ("ids", "row_of_name", "provider_names")
_TREE_COLUMNS = ("parent", "root", "present", "traits", "member_of")


def with_changed_structure(fleet: "Fleet", change: FleetChange) -> "Fleet":
    """Return the fleet after the change. It costs a few copies of columns, and work for the changed records."""
    new = copy(fleet)
    new.reset()
    providers = _add_rows(new, change.providers)
    hosts = {row: NO_HOST for row, record in providers.items() if record is None}
    for host, record in change.hosts.items():
        row = new.row_of.get(host)
        if row is not None:
            hosts[row] = record or NO_HOST
    _change_providers(new, providers)
    _change_hosts(new, hosts)
    _change_names(new, providers)
    _change_inventories(new, fleet, providers)
    new.aggregates = _merge(fleet.aggregates, change.aggregates)
    if new.aggregates is not fleet.aggregates:
        new.__dict__.pop("restricted", None)  # derived from the aggregates, of which there may be many
    if any(_moves_by_uuid(new, fleet, row) for row in providers):
        known = list(fleet.known_domains.items())  # other threads may add to those of the old fleet
        new.known_domains = {scope: domains for scope, domains in known if scope is None}
    _change_domains(new, fleet, hosts, _changed_scopes(fleet.aggregates, change.aggregates))
    if new.ids is not fleet.ids and (new.ids[1:] < new.ids[:-1]).any():
        _sort(new)
    if any(getattr(new, column) is not getattr(fleet, column) for column in _TREE_COLUMNS):
        new.trees = ProviderTrees(*(getattr(new, column) for column in _TREE_COLUMNS))
    return new


def _add_rows(new: "Fleet", records: Mapping[int, ProviderRecord | None]) -> dict[int, ProviderRecord | None]:
    """Give each new provider a row, and return the records by row.

    Ids usually grow, so its row is the last; a provider that comes back under the same id gets its old row.
    """
    gone = [each for each, record in records.items() if record is None and each in new.row_of]
    added = sorted(each for each, record in records.items() if record is not None and each not in new.row_of)
    by_row: dict[int, ProviderRecord | None] = {new.row_of[each]: None for each in gone}
    places = zip(added, np.searchsorted(new.ids, added).tolist() if added else (), strict=True)
    rows = {each: row for each, row in places if row < len(new) and new.ids[row] == each}
    unseen = [each for each in added if each not in rows]
    rows.update((each, row) for row, each in enumerate(unseen, start=len(new)))
    new.row_of = new.row_of.changed({**dict.fromkeys(gone), **rows})
    new.ids = np.concatenate([new.ids, np.array(unseen, dtype=np.int64)]) if unseen else new.ids
    by_row.update((new.row_of[each], record) for each, record in records.items() if record is not None)
    return by_row


def _change_providers(new: "Fleet", records: Mapping[int, ProviderRecord | None]) -> None:
    size = len(new)
    own = {row: row for row in range(new.root.size, size)}
    kept = {row: record for row, record in records.items() if record is not None}
    uuids = {row: record.uuid if record else None for row, record in records.items()}
    new.row_of_uuid = _renamed(new.row_of_uuid, {row: new.uuids.get(row) for row in records}, uuids)
    new.uuids = new.uuids.changed(uuids)
    new.present = with_values(new.present, {row: r is not None for row, r in records.items()}, size)
    parents = {row: NO_PROVIDER if r.parent_id is None else new.row_of[r.parent_id] for row, r in kept.items()}
    roots = {row: new.row_of[r.root_id or r.id] for row, r in kept.items()}
    gone = records.keys() - kept.keys()
    new.parent = with_values(new.parent, {**dict.fromkeys(gone, NO_PROVIDER), **parents}, size)
    new.root = with_values(new.root, {**own, **{row: row for row in gone}, **roots}, size)
    new.traits = new.traits.changed({row: r.traits if r else _NOTHING for row, r in records.items()}, size)
    new.member_of = new.member_of.changed({row: r.aggregates if r else _NOTHING for row, r in records.items()}, size)


def _change_hosts(new: "Fleet", hosts: Mapping[int, HostRecord]) -> None:
    size = len(new)
    if not hosts and new.is_host.size == size:
        return
    names = {row: host.name or None for row, host in hosts.items()}
    new.row_of_name = _renamed(new.row_of_name, {row: new.hosts.get(row, NO_HOST).name or None for row in hosts}, names)
    new.hosts = new.hosts.changed({**dict.fromkeys(range(new.is_host.size, size), NO_HOST), **hosts})
    new.is_host = with_values(new.is_host, {row: host is not NO_HOST for row, host in hosts.items()}, size)
    new.enabled = with_values(new.enabled, {row: host.enabled for row, host in hosts.items()}, size)
    new.up = with_values(new.up, {row: host.up for row, host in hosts.items()}, size)
    new.zone = new.zone.changed({row: new.zone_labels(host) for row, host in hosts.items()}, size)
    new.in_aggregates = new.in_aggregates.changed({row: host.aggregates for row, host in hosts.items()}, size)


def _change_names(new: "Fleet", records: Mapping[int, ProviderRecord | None]) -> None:
    names = {row: None if r is None or new.is_host[row] else r.name for row, r in records.items()}
    changed = {row: name for row, name in names.items() if new.provider_names.get(row) != name}
    new.provider_names = new.provider_names.changed(changed)


def _renamed(
    row_of: Overlay[str, int], old: Mapping[int, str | None], new: Mapping[int, str | None]
) -> Overlay[str, int]:
    """Return the rows by name after some rows have other names, or none."""
    if old == new:
        return row_of
    gone = {name: None for name in old.values() if name is not None}
    return row_of.changed({**gone, **{name: row for row, name in new.items() if name is not None}})


def _change_inventories(new: "Fleet", old: "Fleet", records: Mapping[int, ProviderRecord | None]) -> None:
    unchanged = (
        record is not None and old.uuids.get(row) == record.uuid and old.inventories.equal(row, record)
        for row, record in records.items()
    )
    if new.is_host is old.is_host and all(unchanged):
        new.inventories = old.inventories.copy()
        return
    replaced = [row for row, r in records.items() if r is not None and old.uuids.get(row, r.uuid) != r.uuid]
    new.inventories = old.inventories.changed(records, replaced, new.is_host)


def _merge(
    old: dict[int, AggregateRecord], changes: Mapping[int, AggregateRecord | None]
) -> dict[int, AggregateRecord]:
    """Return the aggregates after the changes, by id."""
    if not changes:
        return old
    merged = {**old, **changes}
    return {each: record for each, record in sorted(merged.items()) if record is not None}


def _change_domains(
    new: "Fleet", old: "Fleet", hosts: Mapping[int, HostRecord], changed_scopes: set[ScopeId | None]
) -> None:
    """Move hosts within the scopes that are known; drop the scopes whose domains changed."""
    kept = new.known_domains.keys() - changed_scopes
    new.known_domains = {scope: new.known_domains[scope] for scope in kept}
    if None in new.known_domains and any(getattr(new, column) is not getattr(old, column) for column in _NAME_COLUMNS):
        new.known_domains[None] = host_domains(new.names, new.row_of_name)
    if new.in_aggregates is not old.in_aggregates:
        aggregates = {row: host.aggregates for row, host in hosts.items()}
        for scope, domains in new.known_domains.items():
            if scope is not None:
                new.known_domains[scope] = domains.moved(aggregates, len(new))


def _moves_by_uuid(new: "Fleet", old: "Fleet", row: int) -> bool:
    """Return whether a provider that is no host has other placement aggregates, which give it its domains."""
    before = old.member_of[row] if row < len(old) and not old.is_host[row] else _NOTHING
    return not new.is_host[row] and new.member_of[row] != before


def _changed_scopes(
    old: Mapping[int, AggregateRecord], changes: Mapping[int, AggregateRecord | None]
) -> set[ScopeId | None]:
    """Return the scopes that gain or lose a domain."""
    found: set[ScopeId | None] = set()
    for each, record in changes.items():
        scopes = {before.scope if (before := old.get(each)) else None, record.scope if record else None}
        found |= scopes if len(scopes) > 1 else set()
    return found - {None}


def _sort(new: "Fleet") -> None:
    """Bring the rows into the order of ids: a provider became visible after one that has a higher id."""
    order = np.argsort(new.ids, kind="stable")
    row_after = np.empty_like(order)
    row_after[order] = np.arange(order.size)
    new.ids = new.ids[order]
    for rows in ("row_of", "row_of_uuid", "row_of_name"):
        setattr(new, rows, Overlay({key: int(row_after[row]) for key, row in getattr(new, rows).items()}))
    for values in ("uuids", "provider_names", "hosts"):
        setattr(new, values, Overlay({int(row_after[row]): value for row, value in getattr(new, values).items()}))
    new.parent = np.where(new.parent == NO_PROVIDER, NO_PROVIDER, row_after[new.parent])[order]
    new.root = row_after[new.root][order]
    for mask in ("present", "is_host", "enabled", "up"):
        setattr(new, mask, getattr(new, mask)[order])
    for column in ("traits", "member_of", "zone", "in_aggregates", "inventories"):
        setattr(new, column, getattr(new, column).reordered(order))
    new.known_domains = {}
