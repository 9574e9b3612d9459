"""Derives the fleet after a structural change from the fleet before it. Only the changed columns are new."""

from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING

from covey.model.fleet_records import NO_HOST, AggregateRecord, FleetChange, HostRecord
from covey.model.ids import ScopeId
from covey.model.providers import ProviderRecord
from covey.scheduler.columns import Overlay, RowOfId
from covey.scheduler.domains import host_domains
from covey.scheduler.new_rows import NewRows, with_values
from covey.scheduler.provider_trees import NO_PROVIDER, ProviderTrees

if TYPE_CHECKING:
    from covey.scheduler.fleet import Fleet

_NOTHING: frozenset[str] = frozenset()
_NAMES = ("ids", "id_of_name", "provider_name_of")
_TREE_COLUMNS = ("parent", "root", "present", "traits", "member_of")

Records = Mapping[int, ProviderRecord | None]
"""The changed providers, by row; None for one that is gone."""


def with_changed_structure(fleet: "Fleet", change: FleetChange) -> "Fleet":
    """Return the fleet after the change. It costs a few copies of columns, and work for the changed records."""
    new = copy(fleet)
    new.reset()
    rows = NewRows.of(fleet.ids, (each for each, record in change.providers.items() if record is not None))
    providers = _change_ids(new, change.providers, rows)
    hosts = {row: NO_HOST for row, record in providers.items() if record is None}
    for host, record in change.hosts.items():
        row = new.row_of.get(host)
        if row is not None:
            hosts[row] = record or NO_HOST
    _change_providers(new, providers, rows)
    _change_hosts(new, hosts, rows)
    _change_names(new, providers)
    _change_inventories(new, fleet, providers, rows)
    new.aggregates = _merge(fleet.aggregates, change.aggregates)
    if new.aggregates is not fleet.aggregates:
        new.__dict__.pop("restricted", None)  # derived from the aggregates, of which there may be many
    if any(_moves_by_uuid(new, fleet, row) for row in providers):
        known = list(fleet.known_domains.items())  # other threads may add to those of the old fleet
        new.known_domains = {scope: domains for scope, domains in known if scope is None}
    _change_domains(new, fleet, hosts, _changed_scopes(fleet.aggregates, change.aggregates), rows)
    if any(getattr(new, column) is not getattr(fleet, column) for column in _TREE_COLUMNS):
        new.trees = ProviderTrees(*(getattr(new, column) for column in _TREE_COLUMNS))
    return new


def _change_ids(new: "Fleet", records: Records, rows: NewRows) -> dict[int, ProviderRecord | None]:
    """Give each new provider its row, and return the records by row.

    A provider that comes back under the same id gets its old row. One that was never known and is gone has none.
    """
    added = dict(zip(rows.rows.tolist(), rows.ids.tolist(), strict=True))
    new.ids = with_values(new.ids, added, rows)
    found = zip(new.ids.searchsorted([*records]).tolist() if records else (), records.items(), strict=True)
    known = [(row, each, record) for row, (each, record) in found if row < len(new) and new.ids.item(row) == each]
    by_row = {row: record for row, _, record in known}
    new.present = with_values(new.present, {row: record is not None for row, record in by_row.items()}, rows)
    new.row_of = RowOfId(new.ids, new.present)
    return by_row


def _change_providers(new: "Fleet", records: Records, rows: NewRows) -> None:
    kept = {row: record for row, record in records.items() if record is not None}
    gone = records.keys() - kept.keys()
    uuids = {new.ids.item(row): record.uuid if record else None for row, record in records.items()}
    new.id_of_uuid = _renamed(new.id_of_uuid, {each: new.uuid_of.get(each) for each in uuids}, uuids)
    new.uuid_of = new.uuid_of.changed(uuids)
    parents = {row: NO_PROVIDER if r.parent_id is None else new.row_of[r.parent_id] for row, r in kept.items()}
    roots = {row: new.row_of[r.root_id or r.id] for row, r in kept.items()}
    new.parent, new.root = rows.moved(new.parent), rows.moved(new.root)
    new.parent = with_values(new.parent, {**dict.fromkeys(gone, NO_PROVIDER), **parents}, rows)
    new.root = with_values(new.root, {**{row: row for row in gone}, **roots}, rows)
    new.traits = new.traits.changed({row: r.traits if r else _NOTHING for row, r in records.items()}, rows)
    new.member_of = new.member_of.changed({row: r.aggregates if r else _NOTHING for row, r in records.items()}, rows)


def _change_hosts(new: "Fleet", hosts: Mapping[int, HostRecord], rows: NewRows) -> None:
    if not hosts and not rows.places.size:
        return
    by_id = {new.ids.item(row): host for row, host in hosts.items()}
    names = {each: host.name or None for each, host in by_id.items()}
    new.id_of_name = _renamed(
        new.id_of_name, {each: new.host_of.get(each, NO_HOST).name or None for each in names}, names
    )
    new.host_of = new.host_of.changed({**dict.fromkeys(rows.ids.tolist(), NO_HOST), **by_id})
    new.is_host = with_values(new.is_host, {row: host is not NO_HOST for row, host in hosts.items()}, rows)
    new.enabled = with_values(new.enabled, {row: host.enabled for row, host in hosts.items()}, rows)
    new.up = with_values(new.up, {row: host.up for row, host in hosts.items()}, rows)
    new.zone = new.zone.changed({row: new.zone_labels(host) for row, host in hosts.items()}, rows)
    new.in_aggregates = new.in_aggregates.changed({row: host.aggregates for row, host in hosts.items()}, rows)


def _change_names(new: "Fleet", records: Records) -> None:
    names = {new.ids.item(row): None if r is None or new.is_host[row] else r.name for row, r in records.items()}
    changed = {each: name for each, name in names.items() if new.provider_name_of.get(each) != name}
    new.provider_name_of = new.provider_name_of.changed(changed)


def _renamed(
    id_of: Overlay[str, int], old: Mapping[int, str | None], new: Mapping[int, str | None]
) -> Overlay[str, int]:
    """Return the ids by name after some have other names, or none."""
    if old == new:
        return id_of
    gone = {name: None for name in old.values() if name is not None}
    return id_of.changed({**gone, **{name: each for each, name in new.items() if name is not None}})


def _change_inventories(new: "Fleet", old: "Fleet", records: Records, rows: NewRows) -> None:
    kept = {row: record for row, record in records.items() if record is not None}
    replaced = [row for row, record in kept.items() if old.uuid_of.get(record.id, record.uuid) != record.uuid]
    unchanged = len(kept) == len(records) and not replaced and new.is_host is old.is_host
    if unchanged and all(old.inventories.equal(row, record) for row, record in kept.items()):
        new.inventories = old.inventories.copy()
    else:
        new.inventories = old.inventories.changed(records, replaced, new.is_host, rows)


def _merge(
    old: dict[int, AggregateRecord], changes: Mapping[int, AggregateRecord | None]
) -> dict[int, AggregateRecord]:
    """Return the aggregates after the changes, by id."""
    if not changes:
        return old
    merged = {**old, **changes}
    return {each: record for each, record in sorted(merged.items()) if record is not None}


def _change_domains(
    new: "Fleet", old: "Fleet", hosts: Mapping[int, HostRecord], changed_scopes: set[ScopeId | None], rows: NewRows
) -> None:
    """Move hosts within the scopes that are known; drop the scopes whose domains changed."""
    kept = new.known_domains.keys() - changed_scopes
    new.known_domains = {scope: new.known_domains[scope] for scope in kept}
    if None in new.known_domains and any(getattr(new, column) is not getattr(old, column) for column in _NAMES):
        new.known_domains[None] = host_domains(new.names, new.row_of_name)
    if new.in_aggregates is not old.in_aggregates:
        aggregates = {row: host.aggregates for row, host in hosts.items()}
        for scope, domains in new.known_domains.items():
            if scope is not None:
                new.known_domains[scope] = domains.moved(aggregates, rows)


def _moves_by_uuid(new: "Fleet", old: "Fleet", row: int) -> bool:
    """Return whether a provider that is no host has other placement aggregates, which give it its domains."""
    known = old.row_of.get(new.ids.item(row))
    before = _NOTHING if known is None or old.is_host[known] else old.member_of[known]
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
