"""Fleet files leave alone what Nova manages, and may not name it."""

import pytest

from covey import clock_and_ids
from covey.fleet_file import render
from covey.fleet_file.parse import parse
from covey.model.errors import ReadOnly
from covey.model.flavors import Flavor
from covey.model.ids import FlavorId
from covey.model.inventory import ResourceClass
from covey.model.nova import NovaAggregate
from covey.services.fleets import Fleets
from covey.services.nova_sync.catalogue import write_aggregates, write_flavors
from covey.storage.store import Store
from tests.build import NOW

RACK = NovaAggregate("00000000-0000-0000-0000-000000000001", "rack-1", {"policy_scope": "rack", "pdu": "7"})
TINY = Flavor(FlavorId("41"), "tiny", vcpus=1, memory_mb=512, disk_gb=1)
SECRET = Flavor(FlavorId("42"), "secret", vcpus=1, memory_mb=512, disk_gb=1, is_public=False)
HOST = "{name: own-1, vcpus: 8, memory_mb: 16384, disk_gb: 100%s}"
OWN = f"hosts: [{HOST % ''}]\nscopes: [{{name: rack}}]\naggregates: [{{name: own}}]\n"
SIZE = "vcpus: 2, memory_mb: 512, disk_gb: 1"


@pytest.fixture
def fleets(store: Store) -> Fleets:
    """A service with a host and an aggregate of its own, which mirrors a rack and two flavors of Nova."""
    made = Fleets(store, clock_and_ids.now, clock_and_ids.new_uuid, dict.fromkeys(ResourceClass, 1.0))
    made.apply(parse(OWN, "fleet.yaml"), lambda _: None)
    with store.write() as tx:
        write_aggregates(tx, {RACK.uuid: RACK}, NOW)
        write_flavors(tx, {each.id: each for each in (TINY, SECRET)}, {}, NOW)
    return made


def test_prune_keeps_what_belongs_to_nova(fleets: Fleets, store: Store) -> None:
    file = parse("scopes: [{name: rack}]\n", "fleet.yaml")
    plan = fleets.compare(file, prune=True)
    removed = plan.removed
    assert [host.name for host in removed.hosts] == ["own-1"]
    assert [aggregate.name for aggregate in removed.aggregates] == ["own"]
    assert not removed.flavors
    fleets.apply(file, lambda _: None, prune=True)
    with store.read() as tx:
        assert [(each.name, each.scope_name) for each in tx.aggregates.all()] == [("rack-1", "rack")]
        assert tx.flavors.by_id(TINY.id) == TINY
        assert tx.hosts.find() == []


def test_exported_file_has_nothing_of_nova_and_changes_nothing(fleets: Fleets) -> None:
    text = render(fleets.export())
    assert "own-1" in text
    assert "tiny" not in text
    assert "rack-1" not in text
    assert fleets.compare(parse(text, "fleet.yaml"), prune=True).size == 0


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("file", "named"),
    [
        (f"hosts: [{HOST % ', domains: {rack: rack-1}'}]\nscopes: [{{name: rack}}]\n", "aggregate rack-1"),
        (f"hosts: [{HOST % ', zone: rack-1'}]\n", "aggregate rack-1"),
        ("aggregates: [{name: rack-1, metadata: {a: b}}]\n", "aggregate rack-1"),
        (f"flavors: [{{name: tiny, {SIZE}}}]\n", "flavor tiny"),
        (f"flavors: [{{name: secret, {SIZE}}}]\n", "flavor secret"),
        (f"flavors: [{{name: mine, id: '41', {SIZE}}}]\n", "flavor tiny"),
    ],
    ids=["domain", "zone", "aggregate", "flavor", "private flavor", "id of a flavor"],
)
def test_file_that_names_an_object_of_nova_is_refused(fleets: Fleets, store: Store, file: str, named: str) -> None:
    message = f"The {named} belongs to Nova: `openstack {named.partition(' ')[0]}` changes it"
    before = _changing_parts(store)
    with pytest.raises(ReadOnly, match=message):
        fleets.compare(parse(file, "fleet.yaml"))
    with pytest.raises(ReadOnly, match=message):
        fleets.apply(parse(file, "fleet.yaml"), lambda _: None)
    assert _changing_parts(store) == before


def _changing_parts(store: Store) -> tuple[object, ...]:
    with store.read() as tx:
        return tx.aggregates.all(), tx.flavors.by_id(TINY.id), tx.hosts.find()
