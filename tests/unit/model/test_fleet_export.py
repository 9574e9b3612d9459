"""Fleet export is short and exact."""

from dataclasses import replace

import pytest

from covey.model.fleet_export import export_fleet
from covey.model.fleet_file import AggregateEntry, FlavorEntry, FleetFile, ImageEntry, ScopeEntry
from covey.model.fleet_plan import FleetState, plan_changes
from covey.model.inventory import AllocationUnits, Inventory
from tests.build import an_image
from tests.unit.model.fleets import RATIOS, aggregate, flavor, host, host_entry, scope

BARE = FleetState(hosts=(host("n1"),), scopes=(scope("rack", allow=True),))
RACK = ScopeEntry("rack", allow_identifiers=True)

FILES: dict[str, tuple[FleetState, FleetFile]] = {
    "nothing is an empty file": (FleetState(), FleetFile()),
    "a host has its traits, and only ratios that differ": (
        FleetState(hosts=(host("n1", "CUSTOM_A", MEMORY_MB=Inventory(1024, 9, 1.5, used=7)),)),
        FleetFile(hosts=(replace(host_entry("n1", None, "CUSTOM_A"), ratios={"MEMORY_MB": 1.5}),)),
    ),
    "a host has its further classes, without their use": (
        FleetState(hosts=(host("n1", CUSTOM_GPU=Inventory(8, 1, 2.0, 5, AllocationUnits(1, 4, 1))),)),
        FleetFile(
            hosts=(
                replace(
                    host_entry("n1"),
                    inventories={"CUSTOM_GPU": Inventory(8, 1, 2.0, units=AllocationUnits(1, 4, 1))},
                ),
            )
        ),
    ),
    "a zone of its own name stands on the hosts": (
        replace(BARE, aggregates=(aggregate("az", "n1", zone="az"),)),
        FleetFile(hosts=(host_entry("n1", "az"),), scopes=(RACK,)),
    ),
    "a domain stands on the hosts": (
        replace(BARE, aggregates=(aggregate("r1", "n1", scope="rack"),)),
        FleetFile(hosts=(host_entry("n1", rack="r1"),), scopes=(RACK,)),
    ),
    "a zone of another name is an aggregate": (
        replace(BARE, aggregates=(aggregate("a", "n1", zone="az"),)),
        FleetFile(hosts=(host_entry("n1"),), scopes=(RACK,), aggregates=(AggregateEntry("a", ("n1",), {}, "az"),)),
    ),
    "a domain that is a zone too is an aggregate": (
        replace(BARE, aggregates=(aggregate("az", "n1", zone="az", scope="rack"),)),
        FleetFile(
            hosts=(host_entry("n1"),), scopes=(RACK,), aggregates=(AggregateEntry("az", ("n1",), {}, "az", "rack"),)
        ),
    ),
    "a domain without hosts is an aggregate": (
        replace(BARE, aggregates=(aggregate("r1", scope="rack"),)),
        FleetFile(hosts=(host_entry("n1"),), scopes=(RACK,), aggregates=(AggregateEntry("r1", (), {}, None, "rack"),)),
    ),
    "a domain with metadata is an aggregate": (
        replace(BARE, aggregates=(aggregate("r1", "n1", scope="rack", k="v"),)),
        FleetFile(
            hosts=(host_entry("n1"),),
            scopes=(RACK,),
            aggregates=(AggregateEntry("r1", ("n1",), {"k": "v"}, None, "rack"),),
        ),
    ),
    "a domain whose name would read as a range is an aggregate": (
        replace(BARE, aggregates=(aggregate("r[1-2]", "n1", scope="rack"),)),
        FleetFile(
            hosts=(host_entry("n1"),),
            scopes=(RACK,),
            aggregates=(AggregateEntry("r[1-2]", ("n1",), {}, None, "rack"),),
        ),
    ),
    "a flavor keeps its id": (
        FleetState(flavors=(flavor("small", 2, a="b"),)),
        FleetFile(flavors=(FlavorEntry("small", 2, 512, 1, {"a": "b"}, "id of small"),)),
    ),
    "an image without a name has no place in a file": (
        FleetState(images=(an_image("linux", properties={"os": "x"}), replace(an_image(), name=None))),
        FleetFile(images=(ImageEntry("linux", {"os": "x"}),)),
    ),
    "of images of one name, the file has the one that it would be compared with": (
        FleetState(images=(an_image("linux", properties={"v": "2"}), an_image("linux", properties={"v": "1"}))),
        FleetFile(images=(ImageEntry("linux", {"v": "1"}),)),
    ),
}


@pytest.mark.parametrize(("state", "file"), FILES.values(), ids=FILES)
def test_export_uses_the_shortest_form(state: FleetState, file: FleetFile) -> None:
    assert export_fleet(state, RATIOS) == file


@pytest.mark.parametrize(("state", "file"), FILES.values(), ids=FILES)
def test_applying_an_export_changes_nothing(state: FleetState, file: FleetFile) -> None:
    assert plan_changes(file, state, RATIOS, lambda: "new id").size == 0
