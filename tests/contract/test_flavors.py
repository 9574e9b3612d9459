"""Flavors: rows in, values out, the same on every database."""

from dataclasses import replace
from functools import partial

import pytest

from covey.model.errors import Conflict, NotFound
from covey.model.flavors import Flavor, FlavorFilter
from covey.model.ids import FlavorId, ProjectId
from covey.storage.store import Store
from tests.build import LATER, NOW, a_flavor

EVERYTHING = FlavorFilter(is_public=None)
WEB = ProjectId("web")
SMALL = a_flavor("small", id="2", vcpus=1, memory_mb=512, disk_gb=1, description="b")
LARGE = a_flavor("large", id="10", vcpus=8, memory_mb=4096, disk_gb=40)
SECRET = a_flavor("secret", id="3", is_public=False, memory_mb=4096, disk_gb=1, description="a")


@pytest.fixture
def three(store: Store) -> list[Flavor]:
    with store.write() as tx:
        tx.flavors.add([SMALL, LARGE, SECRET], NOW)
    return [SMALL, LARGE, SECRET]


def test_stored_flavor_is_read_back_unchanged(store: Store) -> None:
    made = Flavor(FlavorId("f1"), "tiny", 2, 3, 4, 5, 6, 7.5, False, "nice", {"a": "1", "b": "2"})
    with store.write() as tx:
        tx.flavors.add([made, SMALL], NOW)
        tx.flavors.add([], NOW)
    with store.read() as tx:
        assert tx.flavors.by_id("f1") == made
        assert tx.flavors.by_id("f2") is None


FILTERS = {
    "the public ones": (FlavorFilter(), ["10", "2"]),
    "the private ones": (FlavorFilter(is_public=False), ["3"]),
    "all of them": (EVERYTHING, ["10", "2", "3"]),
    "those with memory enough": (FlavorFilter(is_public=None, min_memory_mb=4096), ["10", "3"]),
    "those with disk enough": (FlavorFilter(is_public=None, min_disk_gb=2), ["10"]),
    "what a project may use that was given one": (FlavorFilter(is_public=None, visible_to=WEB), ["10", "2", "3"]),
    "what another project may use": (FlavorFilter(is_public=None, visible_to=ProjectId("db")), ["10", "2"]),
}


@pytest.mark.usefixtures("three")
def test_filter_returns_only_matching_rows(store: Store, subtests: pytest.Subtests) -> None:
    with store.write() as tx:
        tx.flavors.add_access(SECRET.id, WEB)
    for claim, (wanted, ids) in FILTERS.items():
        with subtests.test(claim), store.read() as tx:
            assert sorted(flavor.id for flavor in tx.flavors.find(wanted)) == ids


ORDERS = {
    "flavorid": ["10", "2", "3"],
    "name": ["10", "3", "2"],
    "id": ["2", "10", "3"],
    "memory_mb": ["2", "10", "3"],
    "is_public": ["3", "2", "10"],
    "description": ["10", "3", "2"],
    "created_at": ["2", "10", "3"],
    "updated_at": ["10", "3", "2"],
}


@pytest.mark.usefixtures("three")
def test_flavors_sort_by_any_column_then_by_age(store: Store, subtests: pytest.Subtests) -> None:
    with store.write() as tx:
        tx.flavors.update(SMALL, LATER)
    for column, ids in ORDERS.items():
        with subtests.test(column), store.read() as tx:
            assert [flavor.id for flavor in tx.flavors.find(EVERYTHING, column)] == ids
            assert [flavor.id for flavor in tx.flavors.find(EVERYTHING, column, descending=True)] == ids[::-1]


TAKEN = {
    "an id": (replace(SMALL, name="new"), r"Flavor with ID 2 already exists\."),
    "a name": (replace(SMALL, id=FlavorId("new")), r"Flavor with name small already exists\."),
}


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(("flavor", "message"), TAKEN.values(), ids=[f"{what} is taken" for what in TAKEN])
def test_taken_id_or_name_is_a_conflict_and_nothing_is_added(store: Store, flavor: Flavor, message: str) -> None:
    with pytest.raises(Conflict, match=message), store.write() as tx:
        tx.flavors.add([a_flavor("other"), flavor], NOW)
    with store.read() as tx:
        assert len(tx.flavors.find(EVERYTHING)) == 3


@pytest.mark.usefixtures("three")
def test_update_keeps_the_extra_specs(store: Store) -> None:
    wanted = replace(SMALL, description="new", vcpus=9)
    with store.write() as tx:
        tx.flavors.update(replace(wanted, extra_specs={"not": "stored"}), LATER)
        assert tx.flavors.by_id(SMALL.id) == wanted
    with pytest.raises(Conflict, match=r"Flavor with name large already exists\."), store.write() as tx:
        tx.flavors.update(replace(wanted, name="large"), LATER)


@pytest.mark.usefixtures("three")
def test_deleting_a_flavor_deletes_its_extra_specs_and_access(store: Store) -> None:
    with store.write() as tx:
        tx.flavors.set_specs(SECRET.id, {"a": "1"})
        tx.flavors.add_access(SECRET.id, WEB)
        tx.flavors.delete(SECRET.id)
        assert tx.flavors.by_id(SECRET.id) is None
        tx.flavors.add([SECRET], NOW)
        assert (tx.flavors.by_id(SECRET.id), tx.flavors.access(SECRET.id)) == (SECRET, [])


@pytest.mark.usefixtures("three")
def test_extra_specs_are_merged_and_none_removes_a_key(store: Store) -> None:
    with store.write() as tx:
        tx.flavors.set_specs(SMALL.id, {"a": "1", "b": "2", "gone": "3"})
        tx.flavors.set_specs(SMALL.id, {"b": "two", "gone": None, "never": None})
        tx.flavors.set_specs(SMALL.id, {})
        assert tx.flavors.by_id(SMALL.id) == replace(SMALL, extra_specs={"a": "1", "b": "two"})


@pytest.mark.usefixtures("three")
def test_repeated_access_changes_are_errors(store: Store) -> None:
    with store.write() as tx:
        tx.flavors.add_access(SECRET.id, WEB)
        tx.flavors.add_access(SECRET.id, ProjectId("db"))
        assert tx.flavors.access(SECRET.id) == ["db", "web"]
        tx.flavors.remove_access(SECRET.id, WEB)
        assert tx.flavors.access(SECRET.id) == ["db"]
    with pytest.raises(Conflict, match="already exists for flavor 3 and project db"), store.write() as tx:
        tx.flavors.add_access(SECRET.id, ProjectId("db"))
    with pytest.raises(NotFound, match="not found for 3 / web"), store.write() as tx:
        tx.flavors.remove_access(SECRET.id, WEB)


def test_extra_specs_and_access_require_the_flavor(store: Store) -> None:
    missing = FlavorId("nope")
    with store.write() as tx:
        for change in (
            partial(tx.flavors.set_specs, missing, {"a": "1"}),
            partial(tx.flavors.add_access, missing, WEB),
            partial(tx.flavors.remove_access, missing, WEB),
        ):
            with pytest.raises(NotFound, match=r"Flavor nope could not be found\."):
                change()
        assert tx.flavors.access(missing) == []
