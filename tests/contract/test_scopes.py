"""Scopes: rows in, values out, the same on every database."""

from dataclasses import replace

import pytest

from covey.model.errors import Conflict
from covey.model.groups import HOST, Group, GroupPolicy, PolicyKind, ScopeRef
from covey.model.ids import GroupId, ProjectId, ScopeId, UserId
from covey.model.scopes import Scope
from covey.storage.store import Store
from tests.build import NOW

RACK = Scope(ScopeId("s1"), "rack", True, False, "n1")
CELL = Scope(ScopeId("s2"), "cell", False, True, "n2")


def test_scopes_are_listed_by_name(store: Store) -> None:
    with store.write() as tx:
        tx.scopes.add([RACK, CELL])
        tx.scopes.add([])
    with store.read() as tx:
        assert tx.scopes.all() == [CELL, RACK]


def test_taken_scope_name_is_a_conflict_and_no_scope_is_added(store: Store) -> None:
    with store.write() as tx:
        tx.scopes.add([RACK])
    with pytest.raises(Conflict, match="named cell or rack exists already"), store.write() as tx:
        tx.scopes.add([CELL, replace(RACK, id=ScopeId("s3"))])
    with store.read() as tx:
        assert tx.scopes.all() == [RACK]


def test_set_flags_changes_nothing_else(store: Store) -> None:
    with store.write() as tx:
        tx.scopes.add([RACK, CELL])
        tx.scopes.set_flags(replace(RACK, name="other", allow_identifiers=False, obfuscate_identifiers=True))
        assert tx.scopes.all() == [CELL, replace(RACK, allow_identifiers=False, obfuscate_identifiers=True)]


def test_scope_without_aggregates_can_be_deleted(store: Store) -> None:
    with store.write() as tx:
        tx.scopes.add([RACK])
        (domain,) = tx.aggregates.add([("u", "r1", None, RACK.id)], NOW)
    with pytest.raises(Conflict, match="still has aggregates"), store.write() as tx:
        tx.scopes.delete(RACK.id)
    with store.write() as tx:
        tx.aggregates.delete([domain])
        tx.scopes.delete(RACK.id)
        tx.scopes.delete(ScopeId("never there"))
        assert tx.scopes.all() == []


def add_group(store: Store, key: str, *scopes: ScopeRef) -> None:
    policies = tuple(GroupPolicy(PolicyKind.SOFT_AFFINITY, scope) for scope in scopes)
    with store.write() as tx:
        tx.groups.add(Group(GroupId(key), "g", ProjectId("p"), UserId("u"), policies, 0, NOW))


def test_scope_lists_each_group_that_names_it_once(store: Store) -> None:
    rack, cell = ScopeRef(RACK.id), ScopeRef(CELL.id)
    with store.write() as tx:
        tx.scopes.add([RACK, CELL])
        assert (tx.scopes.groups(RACK.id), tx.scopes.in_use()) == ([], set())
    add_group(store, "g2", rack)
    add_group(store, "g1", HOST, rack, replace(rack, name="the same"))
    add_group(store, "g3", HOST)
    with store.read() as tx:
        assert tx.scopes.groups(RACK.id) == ["g1", "g2"]
        assert (tx.scopes.groups(CELL.id), tx.scopes.in_use()) == ([], {RACK.id})
    add_group(store, "g4", cell)
    with store.read() as tx:
        assert tx.scopes.in_use() == {RACK.id, CELL.id}


def test_scope_named_by_a_group_cannot_be_deleted(store: Store) -> None:
    with store.write() as tx:
        tx.scopes.add([RACK])
    add_group(store, "g1", ScopeRef(RACK.id))
    with pytest.raises(Conflict, match="a server group uses it"), store.write() as tx:
        tx.scopes.delete(RACK.id)
    with store.write() as tx:
        tx.groups.delete(GroupId("g1"))
        tx.scopes.delete(RACK.id)


def test_renamed_scope_shows_in_its_groups(store: Store) -> None:
    with store.write() as tx:
        tx.scopes.add([RACK, CELL])
    add_group(store, "g1", ScopeRef(RACK.id))
    with store.write() as tx:
        tx.scopes.rename(RACK.id, "shelf")
        tx.scopes.rename(ScopeId("never there"), "nothing")
        assert tx.scopes.all() == [CELL, replace(RACK, name="shelf")]
        (group,) = tx.groups.find(None)
        assert group.policies[0].scope == ScopeRef(RACK.id, "shelf")
    with pytest.raises(Conflict, match="A policy scope named cell exists already"), store.write() as tx:
        tx.scopes.rename(RACK.id, "cell")


def test_lock_returns_the_scope_as_stored(store: Store) -> None:
    with store.write() as tx:
        tx.scopes.add([RACK])
        assert tx.scopes.lock(RACK.id) == RACK
        assert tx.scopes.lock(CELL.id) is None
