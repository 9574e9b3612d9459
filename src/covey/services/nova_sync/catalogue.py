"""Mirrors the aggregates and flavors of Nova: what differs is written in bulk."""

from collections.abc import Mapping
from datetime import datetime

from covey.model.aggregates import SCOPE_KEY, ZONE_KEY, Aggregate
from covey.model.flavors import Flavor, FlavorFilter
from covey.model.ids import ScopeId
from covey.model.nova import NovaAggregate, NovaKind
from covey.storage.nova_catalogue import MirroredAggregate
from covey.storage.store import Transaction

_NO_PROJECTS: frozenset[str] = frozenset()


def write_aggregates(tx: Transaction, new: Mapping[str, NovaAggregate], now: datetime) -> tuple[int, list[str]]:
    """Make the aggregates of Nova match, by uuid. Return how many changed, and warnings.

    Their hosts are not copied: Nova keeps them in the placement aggregates of the same uuids.
    """
    old = {aggregate.uuid: aggregate for aggregate in tx.aggregates.all()}
    scopes = {scope.name: scope.id for scope in tx.scopes.all()}
    gone = [old[uuid].id for uuid in tx.nova_mirror.owned(NovaKind.AGGREGATE) - new.keys() if uuid in old]
    changed = [
        each for uuid, aggregate in new.items() if (each := _mirrored(aggregate, scopes)) != _stored(old.get(uuid))
    ]
    tx.nova_catalogue.delete_aggregates(gone)
    tx.nova_catalogue.put_aggregates(changed, now)
    tx.nova_mirror.set_owned(NovaKind.AGGREGATE, new.keys())
    named = {scope for each in new.values() if (scope := each.metadata.get(SCOPE_KEY))}
    warnings = [
        f"Aggregates of Nova have the policy_scope {name}, which is no scope of Covey's."
        for name in sorted(named - scopes.keys())
    ]
    return len(gone) + len(changed), warnings


def _mirrored(aggregate: NovaAggregate, scopes: Mapping[str, ScopeId]) -> MirroredAggregate:
    metadata = {key: value for key, value in aggregate.metadata.items() if key not in {ZONE_KEY, SCOPE_KEY}}
    scope = scopes.get(aggregate.metadata.get(SCOPE_KEY, ""))
    return MirroredAggregate(aggregate.uuid, aggregate.name, aggregate.metadata.get(ZONE_KEY) or None, scope, metadata)


def _stored(old: Aggregate | None) -> MirroredAggregate | None:
    return None if old is None else MirroredAggregate(old.uuid, old.name, old.zone, old.scope, dict(old.metadata))


def write_flavors(
    tx: Transaction, new: Mapping[str, Flavor], access: Mapping[str, frozenset[str]], now: datetime
) -> int:
    """Make the flavors of Nova match, by id, and the projects that may use private ones. Return how many changed."""
    old: dict[str, Flavor] = {flavor.id: flavor for flavor in tx.flavors.find(FlavorFilter(is_public=None))}
    gone = (tx.nova_mirror.owned(NovaKind.FLAVOR) & old.keys()) - new.keys()
    changed = [flavor for key, flavor in new.items() if old.get(key) != flavor]
    tx.nova_catalogue.delete_flavors(gone)
    tx.nova_catalogue.put_flavors(changed, now)
    tx.nova_mirror.set_owned(NovaKind.FLAVOR, new.keys())
    stored = tx.nova_catalogue.flavor_access(new.keys())
    admitted = {
        key: access.get(key, _NO_PROJECTS)
        for key in new
        if access.get(key, _NO_PROJECTS) != stored.get(key, _NO_PROJECTS)
    }
    tx.nova_catalogue.set_flavor_access(admitted)
    return len(gone) + len({each.id for each in changed} | admitted.keys())
