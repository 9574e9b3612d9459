"""Plans of the changes that make the service match a fleet file."""

from dataclasses import replace

import pytest

from covey.model.fleet_file import AggregateEntry, FlavorEntry, FleetFile, ImageEntry, ScopeEntry
from covey.model.fleet_plan import FleetPlan, FleetState, describe, plan_changes
from covey.model.hosts import Host
from covey.model.inventory import AllocationUnits, Inventory, ResourceClass
from tests.build import an_image
from tests.unit.model.fleets import RATIOS, aggregate, flavor, host, host_entry, scope

RACK, CELL = scope("rack"), scope("cell")
SMALL = FlavorEntry("small", 1, 512, 1)
LINUX = an_image("linux", properties={"os": "linux"})


def planned(file: FleetFile, state: FleetState, *, prune: bool = False) -> FleetPlan:
    return plan_changes(file, state, RATIOS, lambda: "new id", prune=prune)


def domains(**hosts: str) -> FleetFile:
    """Return a file whose hosts are each in a rack."""
    return FleetFile(hosts=tuple(host_entry(name, rack=rack) for name, rack in hosts.items()), scopes=(RACK_ENTRY,))


def without_disk(full: Host) -> Host:
    return replace(full, inventories={name: each for name, each in full.inventories.items() if name != "DISK_GB"})


RACK_ENTRY = ScopeEntry("rack")
GPUS = Inventory(8, 2, units=AllocationUnits(1, 4, 1))
ONE_HOST = FleetState(hosts=(host("n1"),), scopes=(RACK,))

CHANGES: dict[str, tuple[FleetFile, FleetState, list[str]]] = {
    "nothing of nothing": (FleetFile(), FleetState(), []),
    "a new scope": (FleetFile(scopes=(RACK_ENTRY,)), FleetState(), ["+ scope rack"]),
    "a scope with other flags": (
        FleetFile(scopes=(ScopeEntry("rack", allow_identifiers=True),)),
        FleetState(scopes=(RACK,)),
        ["~ scope rack: allow_identifiers False -> True"],
    ),
    "a new host": (FleetFile(hosts=(host_entry("n1"),)), FleetState(), ["+ host n1: 8 vcpus, 1024 MB, 50 GB"]),
    "a host that has less": (
        FleetFile(hosts=(host_entry("n1"),)),
        FleetState(hosts=(host("n1", VCPU=Inventory(4, 0, 2.0)),)),
        ["~ host n1: VCPU 4 (x2) -> 8 (x4)"],
    ),
    "a host without one resource": (
        FleetFile(hosts=(host_entry("n1"),)),
        FleetState(hosts=(replace(host("n1"), inventories={}),)),
        ["~ host n1: VCPU none -> 8 (x4), MEMORY_MB none -> 1024 (x1), DISK_GB none -> 50 (x1)"],
    ),
    "what is reserved and used is not the file's to say": (
        FleetFile(hosts=(host_entry("n1"),)),
        FleetState(hosts=(host("n1", MEMORY_MB=Inventory(1024, 100, 1.0, used=7)),)),
        [],
    ),
    "a new host with further classes": (
        FleetFile(hosts=(replace(host_entry("n1"), inventories={"CUSTOM_GPU": GPUS}),)),
        FleetState(),
        ["+ host n1: 8 vcpus, 1024 MB, 50 GB, CUSTOM_GPU 8 (x1, 2 reserved, 1 to 4 by 1)"],
    ),
    "a file that names no further classes leaves them alone": (
        FleetFile(hosts=(host_entry("n1"),)),
        FleetState(hosts=(host("n1", CUSTOM_GPU=GPUS),)),
        [],
    ),
    "a file with further classes sets exactly these": (
        FleetFile(hosts=(replace(host_entry("n1"), inventories={"CUSTOM_GPU": GPUS, "PCPU": Inventory(4)}),)),
        FleetState(hosts=(host("n1", CUSTOM_GPU=Inventory(4, used=3), CUSTOM_OLD=Inventory(1)),)),
        [
            (
                "~ host n1: CUSTOM_GPU 4 (x1) -> 8 (x1, 2 reserved, 1 to 4 by 1), CUSTOM_OLD 1 (x1) -> none, "
                "PCPU none -> 4 (x1)"
            )
        ],
    ),
    "what is used of a further class is not the file's to say": (
        FleetFile(hosts=(replace(host_entry("n1"), inventories={"CUSTOM_GPU": GPUS}),)),
        FleetState(hosts=(host("n1", CUSTOM_GPU=replace(GPUS, used=3)),)),
        [],
    ),
    "allocation units of a size are not the file's to say": (
        FleetFile(hosts=(host_entry("n1"),)),
        FleetState(hosts=(host("n1", MEMORY_MB=Inventory(1024, units=AllocationUnits(64, 512, 64))),)),
        [],
    ),
    "no disk needs no inventory": (
        FleetFile(hosts=(replace(host_entry("n1"), disk_gb=0),)),
        FleetState(hosts=(without_disk(host("n1")),)),
        [],
    ),
    "a host with other traits": (
        FleetFile(hosts=(host_entry("n1", None, "NEW", "KEPT"),)),
        FleetState(hosts=(host("n1", "KEPT", "OLD"),)),
        ["+ trait NEW on host n1", "- trait OLD on host n1"],
    ),
    "a new zone": (
        FleetFile(hosts=(host_entry("n1", "az"),)),
        ONE_HOST,
        ["+ aggregate az (availability zone az)", "+ host n1 in aggregate az"],
    ),
    "a new domain": (domains(n1="r1"), ONE_HOST, ["+ aggregate r1 (rack)", "+ host n1 in aggregate r1"]),
    "a new aggregate": (
        FleetFile(aggregates=(AggregateEntry("fast", ("n1",), {"k": "v"}),)),
        ONE_HOST,
        ["+ aggregate fast", "+ k=v in aggregate fast", "+ host n1 in aggregate fast"],
    ),
    "an aggregate of another zone": (
        FleetFile(aggregates=(AggregateEntry("fast", zone="z2"), AggregateEntry("slow"))),
        FleetState(aggregates=(aggregate("fast"), aggregate("slow", zone="z1"))),
        ["~ aggregate fast: zone none -> z2", "~ aggregate slow: zone z1 -> none"],
    ),
    "an aggregate of another scope": (
        FleetFile(aggregates=(AggregateEntry("a", scope="rack"), AggregateEntry("b"))),
        FleetState(scopes=(RACK, CELL), aggregates=(aggregate("a", scope="cell"), aggregate("b", scope="rack"))),
        ["~ aggregate a: scope -> rack", "~ aggregate b: scope -> none"],
    ),
    "other metadata": (
        FleetFile(aggregates=(AggregateEntry("a", metadata={"same": "1", "other": "2", "new": "3"}),)),
        FleetState(aggregates=(aggregate("a", same="1", other="1", gone="1"),)),
        ["+ other=2 in aggregate a", "+ new=3 in aggregate a", "- gone in aggregate a"],
    ),
    "metadata of a zone or a domain is kept": (
        domains(n1="r1"),
        replace(ONE_HOST, aggregates=(aggregate("r1", "n1", scope="rack", k="v"),)),
        [],
    ),
    "a host that moves to another rack of the file": (
        domains(n1="r2", n2="r1"),
        FleetState(
            (host("n1"), host("n2")),
            (RACK,),
            (aggregate("r1", "n1", "n2", scope="rack"), aggregate("r2", scope="rack")),
        ),
        ["+ host n1 in aggregate r2", "- host n1 in aggregate r1"],
    ),
    "a host that leaves a rack that the file does not name": (
        domains(n1="r2"),
        replace(ONE_HOST, aggregates=(aggregate("r1", "n1", "other", scope="rack"),)),
        ["+ aggregate r2 (rack)", "+ host n1 in aggregate r2", "- host n1 in aggregate r1"],
    ),
    "a host that leaves a zone that the file does not name": (
        FleetFile(hosts=(host_entry("n1", "az-2"),)),
        replace(ONE_HOST, aggregates=(aggregate("az-1", "n1", zone="az-1"), aggregate("also-2", "n1", zone="az-2"))),
        [
            "+ aggregate az-2 (availability zone az-2)",
            "+ host n1 in aggregate az-2",
            "- host n1 in aggregate az-1",
        ],
    ),
    "a host that stays where the file does not look": (
        domains(n1="r1"),
        replace(
            ONE_HOST,
            scopes=(RACK, CELL),
            aggregates=(
                aggregate("r1", "n1", scope="rack"),
                aggregate("c1", "n1", scope="cell"),
                aggregate("fast", "n1"),
                aggregate("az", "n1", zone="az"),
            ),
        ),
        [],
    ),
    "a new flavor": (FleetFile(flavors=(SMALL,)), FleetState(), ["+ flavor small: 1 vcpus, 512 MB, 1 GB"]),
    "a flavor of another size": (
        FleetFile(flavors=(replace(SMALL, vcpus=2, extra_specs={"a": "b"}),)),
        FleetState(flavors=(flavor("small"),)),
        ["~ flavor small: vcpus 1 -> 2, extra_specs {} -> {'a': 'b'}"],
    ),
    "a flavor of another id is the same flavor": (
        FleetFile(flavors=(replace(SMALL, id="other"),)),
        FleetState(flavors=(flavor("small"),)),
        [],
    ),
    "a new image": (FleetFile(images=(ImageEntry("linux"),)), FleetState(), ["+ image linux"]),
    "an image with other properties": (
        FleetFile(images=(ImageEntry("linux", {"os": "bsd"}),)),
        FleetState(images=(LINUX,)),
        ["~ image linux: properties {'os': 'linux'} -> {'os': 'bsd'}"],
    ),
    "an image that is so already": (
        FleetFile(images=(ImageEntry("linux", {"os": "linux"}),)),
        FleetState(images=(LINUX,)),
        [],
    ),
}


@pytest.mark.parametrize(("file", "state", "lines"), CHANGES.values(), ids=CHANGES)
def test_plan_lists_each_change_on_one_line(file: FleetFile, state: FleetState, lines: list[str]) -> None:
    assert list(describe(planned(file, state))) == lines


@pytest.mark.parametrize(("file", "state", "lines"), CHANGES.values(), ids=CHANGES)
def test_size_is_the_number_of_changes(file: FleetFile, state: FleetState, lines: list[str]) -> None:
    plan = planned(file, state)
    several = sum(len(changes) - 1 for _, changes in plan.changed_metadata)
    assert plan.size == len(lines) - several


EVERYTHING = FleetState(
    hosts=(host("n1"),), scopes=(RACK,), aggregates=(aggregate("a"),), flavors=(flavor("small"),), images=(LINUX,)
)


def test_objects_not_in_the_file_are_left_alone() -> None:
    plan = planned(FleetFile(), EVERYTHING)
    assert (plan.left_alone, plan.removed, plan.size) == (EVERYTHING, FleetState(), 0)


def test_prune_removes_objects_not_in_the_file() -> None:
    plan = planned(FleetFile(), EVERYTHING, prune=True)
    assert (plan.left_alone, plan.removed, plan.size) == (FleetState(), EVERYTHING, 5)
    assert list(describe(plan)) == ["- host n1", "- scope rack", "- aggregate a", "- flavor small", "- image linux"]


def test_prune_keeps_objects_in_the_file() -> None:
    file = FleetFile(
        hosts=(host_entry("n1", "az", rack="r1"),),
        scopes=(RACK_ENTRY,),
        aggregates=(AggregateEntry("a"),),
        flavors=(SMALL,),
        images=(ImageEntry("linux"),),
    )
    state = replace(EVERYTHING, aggregates=(aggregate("a"), aggregate("az", zone="az"), aggregate("r1", scope="rack")))
    assert planned(file, state, prune=True).removed == FleetState()


def test_host_ratios_override_the_defaults() -> None:
    entry = replace(host_entry("n1"), ratios={"MEMORY_MB": 1.5})
    ((_, has),) = planned(FleetFile(hosts=(entry,)), FleetState()).new_hosts
    assert has == {
        ResourceClass.VCPU: Inventory(8, 0, 4.0),
        ResourceClass.MEMORY_MB: Inventory(1024, 0, 1.5),
        ResourceClass.DISK_GB: Inventory(50, 0, 1.0),
    }


def test_changed_inventory_keeps_reserved_and_used() -> None:
    busy = host("n1", VCPU=Inventory(4, reserved=1, used=3))
    ((_, has),) = planned(FleetFile(hosts=(host_entry("n1"),)), FleetState(hosts=(busy,))).changed_hosts
    assert has[ResourceClass.VCPU] == Inventory(8, 1, 4.0, used=3)


def test_new_flavor_has_the_id_of_the_file_or_a_generated_one() -> None:
    file = FleetFile(flavors=(replace(SMALL, id="f1"), replace(SMALL, name="large")))
    assert [new.id for new in planned(file, FleetState()).new_flavors] == ["f1", "new id"]


def test_changed_flavor_keeps_attributes_that_files_do_not_set() -> None:
    old = replace(flavor("small"), ephemeral_gb=3, swap_mb=4, rxtx_factor=5.0, description="nice")
    file = FleetFile(flavors=(replace(SMALL, disk_gb=9),))
    assert planned(file, FleetState(flavors=(old,))).changed_flavors == [(old, replace(old, disk_gb=9))]
