"""Concurrent changes of scopes, their names and domains; a conflict names the host and the aggregates."""

import re
import uuid
from functools import partial
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from covey.model.aggregates import Aggregate
from covey.model.errors import Conflict, CoveyError, Invalid, NotFound
from covey.model.groups import Group, GroupPolicy, PolicyKind, ScopeRef
from covey.model.ids import GroupId, ProjectId, ScopeId, UserId
from covey.services.aggregates import Aggregates
from covey.services.scopes import NewScope, ScopeChange, Scopes
from covey.storage.store import Store
from tests.build import NOW, a_host, an_admin
from tests.contract.concurrency import OpenAccess, conflicts, domains_by_host, run_concurrently, successes

if TYPE_CHECKING:
    from collections.abc import Callable

ADMIN = an_admin()
ROUNDS = 10
REFUSED = re.compile(
    r"Host n\d is already in aggregate (\S+) of the scope rack, so it can't be added to aggregate (\S+): "
    r"a host is in at most one domain of a scope\."
)


def new_id() -> str:
    return str(uuid.uuid4())


@pytest.fixture
def aggregates(store: Store) -> Aggregates:
    return Aggregates(store, OpenAccess(), lambda: NOW, new_id)


@pytest.fixture
def scopes(store: Store) -> Scopes:
    return Scopes(store, OpenAccess(), lambda: NOW, new_id)


@pytest.fixture
def filled(store: Store, aggregates: Aggregates, scopes: Scopes) -> list[Aggregate]:
    """Four aggregates that share a host, and a scope that has none of them."""
    with store.write() as tx:
        tx.hosts.add([a_host("n1"), a_host("n2")], NOW)
    scopes.create(ADMIN, NewScope("rack"))
    made = [aggregates.create(ADMIN, f"a{n}", None) for n in range(4)]
    return [aggregates.add_host(ADMIN, each.id, "n1") for each in made]


def test_concurrent_joins_of_aggregates_with_a_shared_host_leave_one(
    aggregates: Aggregates, scopes: Scopes, filled: list[Aggregate], connected: sa.Engine
) -> None:
    empty = aggregates.create(ADMIN, "empty", None)
    scopes.add_aggregate(ADMIN, "rack", empty.id)
    for _ in range(ROUNDS):
        tasks: list[Callable[[], object]] = [partial(scopes.add_aggregate, ADMIN, "rack", a.id) for a in filled[:2]]
        tasks += [partial(aggregates.set_metadata, ADMIN, a.id, {"policy_scope": "rack"}) for a in filled[2:]]
        tasks += [partial(aggregates.add_host, ADMIN, empty.id, "n1")]
        results = run_concurrently(tasks)
        assert len(successes(results)) == 1
        (inside,) = set(domains_by_host(connected).values())
        names: dict[int, str] = {each.id: each.name for each in aggregates.all(ADMIN)}
        for error in conflicts(results):
            assert isinstance(error, Conflict)
            message_match = REFUSED.fullmatch(error.message)
            assert message_match, error.message
            assert message_match[1] == names[inside] != message_match[2]
        if inside == empty.id:
            aggregates.remove_host(ADMIN, empty.id, "n1")
        else:
            scopes.remove_aggregate(ADMIN, "rack", inside)


@pytest.mark.usefixtures("filled")
def test_concurrent_creation_of_a_scope_name_makes_one(scopes: Scopes) -> None:
    results = run_concurrently([partial(scopes.create, ADMIN, NewScope("fast"))] * 12)
    assert len(successes(results)) == 1
    assert {error.message for error in conflicts(results)} == {"A policy scope named fast exists already."}


def test_scope_deleted_during_first_use_is_deleted_or_used(
    store: Store, aggregates: Aggregates, scopes: Scopes, filled: list[Aggregate], connected: sa.Engine
) -> None:
    def found_group(scope: ScopeId, key: str) -> None:
        policies = (GroupPolicy(PolicyKind.AFFINITY, ScopeRef(scope)),)
        with store.write() as tx:
            tx.groups.add(Group(GroupId(key), "g", ProjectId("p"), UserId("u"), policies, 0, NOW))

    for number in range(ROUNDS):
        scope = scopes.create(ADMIN, NewScope(f"s{number}")).scope
        tasks: list[Callable[[], object]] = [
            partial(scopes.delete, ADMIN, scope.id),
            partial(scopes.add_aggregate, ADMIN, scope.id, filled[0].id),
            partial(aggregates.set_metadata, ADMIN, filled[0].id, {"policy_scope": scope.name}),
            partial(found_group, scope.id, f"g{number}"),
        ]
        results = run_concurrently(tasks)
        assert all(isinstance(error, Conflict | NotFound | Invalid) for error in conflicts(results)), results
        gone = scope.name not in {seen.scope.name for seen in scopes.all(ADMIN)}
        assert gone != isinstance(results[0], CoveyError)
        assert gone == all(isinstance(each, CoveyError) for each in results[1:])
        domains_by_host(connected)
        aggregates.set_metadata(ADMIN, filled[0].id, {"policy_scope": None})


def test_renaming_a_scope_while_its_groups_change_stays_consistent(store: Store, scopes: Scopes) -> None:
    scope = scopes.create(ADMIN, NewScope("rack")).scope
    keys = [GroupId(f"g{n}") for n in range(6)]

    def regroup(key: GroupId) -> None:
        policies = (GroupPolicy(PolicyKind.AFFINITY, ScopeRef(scope.id)),)
        group = Group(key, "g", ProjectId("p"), UserId("u"), policies, 0, NOW)
        with store.write() as tx:
            tx.groups.add(group)
        for _ in range(5):
            with store.write() as tx:  # as an update of a group's policies does
                tx.groups.lock([key])
                tx.groups.update(group, NOW)
                tx.groups.bump([key])

    def rename(names: list[str]) -> None:
        for name in names * 4:
            scopes.update(ADMIN, scope.id, ScopeChange(name=name))

    tasks: list[Callable[[], None]] = [partial(regroup, key) for key in keys]
    tasks += [partial(rename, ["a", "b"]), partial(rename, ["c", "d"])]
    assert conflicts(run_concurrently(tasks)) == []
    with store.read() as tx:
        (now,) = tx.scopes.all()
        assert {policy.scope.name for group in tx.groups.find(None) for policy in group.policies} == {now.name}


def test_concurrent_changes_of_different_scope_fields_both_apply(scopes: Scopes) -> None:
    scope = scopes.create(ADMIN, NewScope("rack")).scope
    for request in (True, False) * ROUNDS:
        changes = [
            ScopeChange(allow_identifiers=request),
            ScopeChange(obfuscate_identifiers=request),
            ScopeChange(name=f"rack-{request}"),
        ]
        assert (
            conflicts(run_concurrently([partial(scopes.update, ADMIN, scope.id, change) for change in changes])) == []
        )
        now = scopes.get(ADMIN, scope.id).scope
        assert (now.allow_identifiers, now.obfuscate_identifiers, now.name) == (request, request, f"rack-{request}")
