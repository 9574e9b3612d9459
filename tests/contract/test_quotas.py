"""Quotas: rows in, values out, the same on every database."""

import pytest

from covey.model.errors import Conflict
from covey.model.ids import ProjectId
from covey.storage.store import Store

WEB, DB = ProjectId("web"), ProjectId("db")


def test_limits_are_stored_by_project_and_class(store: Store) -> None:
    with store.write() as tx:
        tx.quotas.set_for_project(WEB, {"cores": 5, "ram": -1})
        tx.quotas.set_for_project(WEB, {"cores": 6})
        tx.quotas.set_for_project(WEB, {})
        tx.quotas.set_for_class("default", {"cores": 7, "ram": 8})
        tx.quotas.set_for_class("default", {"ram": 0})
        tx.quotas.set_for_class("default", {})
    with store.read() as tx:
        assert tx.quotas.of_project(WEB) == {"cores": 6, "ram": -1}
        assert tx.quotas.of_class("default") == {"cores": 7, "ram": 0}
        assert tx.quotas.of_project(DB) == tx.quotas.of_class("web") == {}


def test_reset_deletes_the_limits_of_one_project(store: Store) -> None:
    with store.write() as tx:
        tx.quotas.set_for_project(WEB, {"cores": 5})
        tx.quotas.set_for_project(DB, {"cores": 6})
        tx.quotas.reset_project(WEB)
        assert (tx.quotas.of_project(WEB), tx.quotas.of_project(DB)) == ({}, {"cores": 6})


def test_limit_below_unlimited_is_rejected(store: Store) -> None:
    with pytest.raises(Conflict), store.write() as tx:
        tx.quotas.set_for_project(WEB, {"cores": -2})
