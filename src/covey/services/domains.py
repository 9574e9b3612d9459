"""Aggregates as domains of scopes: an aggregate is in one scope at the most, and a host in one domain of each."""

from collections.abc import Sequence
from datetime import datetime

from covey.model.aggregates import Aggregate
from covey.model.errors import Conflict, Forbidden, Invalid
from covey.model.ids import HostId, ScopeId
from covey.model.scopes import IMPLICIT, Scope
from covey.storage.store import Transaction


def join(tx: Transaction, aggregate: Aggregate, scope: Scope, now: datetime) -> None:
    """Make an aggregate that the caller holds a domain of the scope. Raises Conflict, and Forbidden for `host`."""
    refuse_implicit(scope)
    refuse_second_domain(tx, aggregate, scope.id, scope.name, tx.aggregates.host_ids(aggregate.id))
    if tx.scopes.lock(scope.id) is None:
        raise Conflict(f"The policy scope {scope.name} was deleted meanwhile.")
    tx.aggregates.set_scope(aggregate.id, scope.id, now)


def refuse_second_domain(
    tx: Transaction, aggregate: Aggregate, scope: ScopeId, scope_name: str, hosts: Sequence[HostId]
) -> None:
    """Raises Conflict if a host is in another domain of the scope, naming it and both aggregates.

    The hosts' rows are held, so that no other request puts them into a domain meanwhile.
    """
    tx.aggregates.lock_hosts(hosts)
    taken = tx.aggregates.domains_of(hosts, scope, besides=aggregate.id)
    if taken:
        host, other = taken[0]
        more = f" {len(taken) - 1} more of its hosts are in other aggregates of the scope." if len(taken) > 1 else ""
        raise Conflict(
            f"Host {host} is in the aggregate {other} of the scope {scope_name} already, "
            f"so it can't be in {aggregate.name} too.{more}"
        )


def refuse_implicit(scope: Scope) -> None:
    """Raises Forbidden for the scope that is always there."""
    if scope.id == IMPLICIT.id:
        raise Forbidden(
            f"The policy scope {scope.name} can't be changed or deleted: every host is its own domain of it, always."
        )


def scope_named(tx: Transaction, name: str) -> Scope:
    """Raises Invalid when there is none of that name."""
    found = next((scope for scope in (IMPLICIT, *tx.scopes.all()) if scope.name == name), None)
    if found is None:
        raise Invalid(f"There is no policy scope {name!r}.")
    return found
