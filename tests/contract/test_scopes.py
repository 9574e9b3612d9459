"""Scopes: rows in, values out, the same on every database."""

from dataclasses import replace

import pytest

from covey.model.errors import Conflict
from covey.model.ids import ScopeId
from covey.model.scopes import Scope
from covey.storage.store import Store
from tests.build import NOW

RACK = Scope(ScopeId("s1"), "rack", True, False, "n1")
CELL = Scope(ScopeId("s2"), "cell", False, True, "n2")


def test_scopes_are_listed_by_name_as_they_were_made(store: Store) -> None:
    with store.write() as tx:
        tx.scopes.add([RACK, CELL])
        tx.scopes.add([])
    with store.read() as tx:
        assert tx.scopes.all() == [CELL, RACK]


def test_a_taken_name_is_a_conflict_and_none_is_added(store: Store) -> None:
    with store.write() as tx:
        tx.scopes.add([RACK])
    with pytest.raises(Conflict, match="of that name exists already"), store.write() as tx:
        tx.scopes.add([CELL, replace(RACK, id=ScopeId("s3"))])
    with store.read() as tx:
        assert tx.scopes.all() == [RACK]


def test_only_the_flags_of_a_scope_change(store: Store) -> None:
    with store.write() as tx:
        tx.scopes.add([RACK, CELL])
        tx.scopes.set_flags(replace(RACK, name="other", allow_identifiers=False, obfuscate_identifiers=True))
        assert tx.scopes.all() == [CELL, replace(RACK, allow_identifiers=False, obfuscate_identifiers=True)]


def test_a_scope_goes_once_it_has_no_aggregates(store: Store) -> None:
    with store.write() as tx:
        tx.scopes.add([RACK])
        (domain,) = tx.aggregates.add([("u", "r1", None, RACK.id)], NOW)
    with pytest.raises(Conflict, match="still has aggregates"), store.write() as tx:
        tx.scopes.delete(RACK.id)
    with store.write() as tx:
        tx.aggregates.delete(domain)
        tx.scopes.delete(RACK.id)
        tx.scopes.delete(ScopeId("never there"))
        assert tx.scopes.all() == []
