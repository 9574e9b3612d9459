"""Mirrors the aggregates and flavors of Nova: what differs is written in bulk.

An object is left out if one of Covey's own has its name or id.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Protocol, TypeVar

from covey.model.aggregates import SCOPE_KEY, ZONE_KEY, Aggregate
from covey.model.flavors import Flavor, FlavorFilter
from covey.model.ids import ScopeId
from covey.model.nova import NovaAggregate, NovaKind
from covey.storage.nova_catalogue import MirroredAggregate
from covey.storage.store import Transaction

_NO_PROJECTS: frozenset[str] = frozenset()


class Named(Protocol):
    """An aggregate or a flavor."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


def write_aggregates(tx: Transaction, new: Mapping[str, NovaAggregate], now: datetime) -> tuple[int, list[str]]:
    """Make the aggregates of Nova match, by uuid. Return how many changed, and warnings.

    Their hosts are not copied: Nova keeps them in the placement aggregates of the same uuids.
    """
    old = {aggregate.uuid: aggregate for aggregate in tx.aggregates.all()}
    owned = tx.nova_mirror.owned(NovaKind.AGGREGATE)
    admitted, warnings = find_clashes(NovaKind.AGGREGATE, new, old, owned)
    scopes = {scope.name: scope.id for scope in tx.scopes.all()}
    gone = [old[uuid].id for uuid in owned - new.keys() if uuid in old]
    changed = [
        each for uuid, aggregate in admitted.items() if (each := _mirrored(aggregate, scopes)) != _stored(old.get(uuid))
    ]
    tx.nova_catalogue.delete_aggregates(gone)
    tx.nova_catalogue.put_aggregates(changed, now)
    tx.nova_mirror.set_owned(NovaKind.AGGREGATE, admitted.keys() | (owned & new.keys()))
    named = {scope for each in new.values() if (scope := each.metadata.get(SCOPE_KEY))}
    warnings += [
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
) -> tuple[int, list[str]]:
    """Make the flavors of Nova match, by id, and the projects that may use private ones.

    Return how many changed, and warnings.
    """
    old: dict[str, Flavor] = {flavor.id: flavor for flavor in tx.flavors.find(FlavorFilter(is_public=None))}
    owned = tx.nova_mirror.owned(NovaKind.FLAVOR)
    admitted, warnings = find_clashes(NovaKind.FLAVOR, new, old, owned)
    gone = (owned & old.keys()) - new.keys()
    changed = [flavor for key, flavor in admitted.items() if old.get(key) != flavor]
    tx.nova_catalogue.delete_flavors(gone)
    tx.nova_catalogue.put_flavors(changed, now)
    tx.nova_mirror.set_owned(NovaKind.FLAVOR, admitted.keys() | (owned & new.keys()))
    stored = tx.nova_catalogue.flavor_access(admitted.keys())
    projects = {key: access.get(key, _NO_PROJECTS) for key in admitted}
    projects = {key: each for key, each in projects.items() if each != stored.get(key, _NO_PROJECTS)}
    tx.nova_catalogue.set_flavor_access(projects)
    return len(gone) + len({each.id for each in changed} | projects.keys()), warnings


def find_clashes(
    kind: NovaKind, new: Mapping[str, T], stored: Mapping[str, Named], owned: Collection[str]
) -> tuple[dict[str, T], list[str]]:
    """Return those of Nova's objects that can be mirrored, by key, and a sentence about each of the others.

    An object that was mirrored before keeps its old name while another has the new one, so it may be in the way itself.
    """
    holders = {each.name: key for key, each in stored.items() if key not in owned}
    clashing = {key: key for key in new if key in stored and key not in owned}
    while found := _holders_of_taken_names({key: new[key] for key in new if key not in clashing}, holders):
        clashing |= found
        holders |= {stored[key].name: key for key in found if key in stored}
    sentences = [
        _sentence(kind, key, new[key].name, holder, is_mirrored=key in owned) for key, holder in clashing.items()
    ]
    return {key: each for key, each in new.items() if key not in clashing}, sentences


def _holders_of_taken_names(new: Mapping[str, Named], holders: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of objects whose names others have, with the keys of those others."""
    names = dict(holders)
    return {key: holder for key, each in new.items() if (holder := names.setdefault(each.name, key)) != key}


def _sentence(kind: NovaKind, key: str, name: str, holder: str, *, is_mirrored: bool) -> str:
    outcome = "stays as it was mirrored before" if is_mirrored else "is not mirrored"
    if holder == key:
        return (
            f"The {kind} {name} of Nova ({key}) {outcome}: a {kind} of Covey's own has its id. Delete one of the two."
        )
    remedy = "Rename or delete one of the two."
    return f"The {kind} {name} of Nova ({key}) {outcome}: Covey has another one, {holder}, of that name. {remedy}"
