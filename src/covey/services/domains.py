"""Aggregates as domains: an aggregate is in at most one scope, and a host in at most one domain of a scope."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from covey.model.aggregates import Aggregate
from covey.model.compute_nodes import ComputeNode
from covey.model.errors import Conflict, Forbidden, Invalid
from covey.model.ids import HostId, ScopeId
from covey.model.scopes import IMPLICIT_SCOPE, DomainProblems, Scope, find_domain_problems
from covey.storage.store import Transaction

_MAX_NAMES = 3  # in one message


def add_to_scope(tx: Transaction, aggregate: Aggregate, scope: Scope, now: datetime) -> None:
    """Make the aggregate, whose row the caller has locked, a domain of the scope.

    Raises Forbidden for the implicit scope, and Conflict when a host is in another domain of the scope.
    """
    reject_implicit(scope)
    reject_second_domain(tx, aggregate, scope.id, scope.name, tx.aggregates.host_ids(aggregate.id))
    tx.topology.begin_change()  # a claim waits for a group, and a change of the group's policies for the scope
    if tx.scopes.lock(scope.id) is None:
        raise Conflict(f"Policy scope {scope.name} was deleted by another request.")
    tx.aggregates.set_scope([aggregate.id], scope.id, now)


def reject_targeted(tx: Transaction, *aggregates: Aggregate, force: bool = False) -> None:
    """Raise Conflict while a hard policy of a server group names one of the aggregates, which the caller has locked.

    Without the domain, `affinity` could never be satisfied, and `anti-affinity` would allow what it forbids. With
    `force` the audit and `covey status` report these groups. The hosts and the scopes stay locked, in the common order,
    so no group begins to name an aggregate.
    """
    domains: dict[ScopeId, list[Aggregate]] = defaultdict(list)
    for aggregate in () if force else aggregates:
        if aggregate.scope is not None:
            domains[aggregate.scope].append(aggregate)
    if domains:
        tx.aggregates.lock_hosts(tx.aggregates.host_ids(*(each.id for found in domains.values() for each in found)))
        tx.topology.begin_change()
    for scope, found in sorted(domains.items()):
        tx.scopes.lock(scope)
        if tx.scopes.groups_targeting(scope, [each.id for each in found]):
            _raise_targeted(tx, scope, found)


def _raise_targeted(tx: Transaction, scope: ScopeId, domains: Iterable[Aggregate]) -> None:
    """Raise Conflict about the first of the domains that a hard policy names."""
    for aggregate in domains:
        groups = tx.scopes.groups_targeting(scope, [aggregate.id])
        if not groups:
            continue
        raise Conflict(
            f"The aggregate {aggregate.name} can't leave the policy scope {aggregate.scope_name} while policies of the "
            f"server groups {list_names(groups)} name it. Change these groups first, or force the removal."
        )


def list_names(names: Sequence[str]) -> str:
    """Return some of the names, and the number of the others."""
    rest = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {rest} more" if rest > 0 else "")


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


def check_domains(
    tx: Transaction, hosts: Iterable[str], nodes: Iterable[ComputeNode], aggregates: Iterable[Aggregate]
) -> list[DomainProblems]:
    """Return the hosts, by name, that are not in exactly one domain of each scope that has domains or is in use.

    Compute nodes count as hosts if the mirror of Nova has them.
    """
    nodes_in = tx.compute_nodes.names_in_aggregates()
    aggregates = [replace(each, hosts=(*each.hosts, *nodes_in.get(each.uuid, ()))) for each in aggregates]
    names = [*hosts, *(node.name for node in nodes if node.is_mirrored)]
    checked = {aggregate.scope for aggregate in aggregates} | tx.scopes.in_use()
    problems = [find_domain_problems(each, names, aggregates) for each in tx.scopes.all() if each.id in checked]
    return [problem for problem in problems if problem.no_domain or problem.ambiguous]


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
