"""Quotas: rows in, values out, the same on every database."""

import pytest

from covey.model.actions import Migration, MoveKind
from covey.model.errors import Conflict, Invalid
from covey.model.ids import ProjectId, ServerId, UserId
from covey.model.resources import Resources
from covey.storage.store import Store
from tests.build import NOW, a_flavor, a_host

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


def test_limits_of_a_resource_class_follow_its_name(store: Store) -> None:
    with store.write() as tx:
        tx.quotas.set_for_project(WEB, {"class:CUSTOM_A": 5, "cores": 1})
        tx.quotas.set_for_class("default", {"class:CUSTOM_A": 6, "class:CUSTOM_B": 7})
        tx.quotas.rename_class("CUSTOM_A", "CUSTOM_C")
        tx.quotas.drop_class("CUSTOM_B")
        assert tx.quotas.of_project(WEB) == {"class:CUSTOM_C": 5, "cores": 1}
        assert tx.quotas.of_class("default") == {"class:CUSTOM_C": 6}
        with pytest.raises(Invalid, match="names no resource class"):
            tx.quotas.rename_class("CUSTOM_C", "X" * 250)


def test_held_amounts_count_a_moving_server_once(store: Store) -> None:
    """A server of WEB moves from a host to a smaller amount on another one; one of DB holds a part of two hosts."""
    with store.write() as tx:
        tx.hosts.add([a_host("n1"), a_host("n2")], NOW)
        one, two = (int(host.id) for host in tx.hosts.find())
        for consumer, project, kind, held in (
            ("server", WEB, "INSTANCE", {two: Resources({"VCPU": 1, "DISK_GB": 2})}),
            ("move", WEB, "MIGRATION", {one: Resources({"VCPU": 2, "DISK_GB": 1})}),
            ("unknown-move", WEB, "MIGRATION", {one: Resources({"DISK_GB": 4})}),
            ("other", DB, "INSTANCE", {one: Resources({"DISK_GB": 8}), two: Resources({"DISK_GB": 16})}),
        ):
            tx.server_allocations.add_consumer(consumer, project, "u", kind)
            tx.server_allocations.allocate(consumer, held)
        flavor = a_flavor("small")
        tx.migrations.add(
            Migration(
                *("move", ServerId("server"), WEB, UserId("u"), MoveKind.RESIZE, "finished", "n1", "n2"),
                *(flavor, flavor, NOW, NOW),
            )
        )
        wanted = {WEB: ["class:DISK_GB", "class:VCPU"], DB: ["class:DISK_GB", "class:VGPU"]}
        assert tx.quotas.held(wanted) == {
            WEB: {"class:DISK_GB": 6, "class:VCPU": 2},
            DB: {"class:DISK_GB": 24, "class:VGPU": 0},
        }
