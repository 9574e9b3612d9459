"""Aggregates as domains: an aggregate is in at most one scope, and a host in at most one domain of a scope."""

from collections.abc import Sequence
from datetime import datetime

from covey.model.aggregates import Aggregate
from covey.model.errors import Conflict, Forbidden, Invalid
from covey.model.ids import HostId, ScopeId
from covey.model.scopes import IMPLICIT_SCOPE, Scope
from covey.storage.store import Transaction


def add_to_scope(tx: Transaction, aggregate: Aggregate, scope: Scope, now: datetime) -> None:
    """Make the aggregate, whose row the caller has locked, a domain of the scope.

    Raises Forbidden for the implicit scope, and Conflict when a host is in another domain of the scope.
    """
    reject_implicit(scope)
    reject_second_domain(tx, aggregate, scope.id, scope.name, tx.aggregates.host_ids(aggregate.id))
    if tx.scopes.lock(scope.id) is None:
        raise Conflict(f"Policy scope {scope.name} was deleted by another request.")
    tx.aggregates.set_scope(aggregate.id, scope.id, now)


def reject_second_domain(
    tx: Transaction, aggregate: Aggregate, scope: ScopeId, scope_name: str, hosts: Sequence[HostId]
) -> None:
    """Raise Conflict if a host is in another domain of the scope.

    The rows of the hosts are locked, so that no concurrent request adds them to a domain.
    """
    tx.aggregates.lock_hosts(hosts)
    taken = tx.aggregates.domains_of(hosts, scope, excluding=aggregate.id)
    if taken:
        host, other = taken[0]
        more = f" The same holds for {len(taken) - 1} more of its hosts." if len(taken) > 1 else ""
        raise Conflict(
            f"Host {host} is already in aggregate {other} of the scope {scope_name}, "
            f"so it can't be added to aggregate {aggregate.name}: a host is in at most one domain of a scope.{more}"
        )


def reject_implicit(scope: Scope) -> None:
    """Raise Forbidden for the implicit host scope."""
    if scope.id == IMPLICIT_SCOPE.id:
        raise Forbidden(
            f"The policy scope {scope.name} is built in and can't be changed or deleted; every host is its own domain."
        )


def get_scope_by_name(tx: Transaction, name: str) -> Scope:
    """Raises Invalid when no scope has this name."""
    found = next((scope for scope in (IMPLICIT_SCOPE, *tx.scopes.all()) if scope.name == name), None)
    if found is None:
        raise Invalid(f"Policy scope {name!r} does not exist.")
    return found
