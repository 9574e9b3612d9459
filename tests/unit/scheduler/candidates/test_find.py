"""Candidates of small hand-written provider trees."""

import pytest

from covey.model.providers import InventoryRecord
from covey.model.resources import Resources
from covey.scheduler.candidates import ProviderSummary, RequestGroup
from covey.scheduler.candidates.flat import can_allocate
from covey.scheduler.candidates.results import ResourceSummary
from tests.unit.scheduler.candidates.forests import (
    SHARES,
    Forest,
    allocations_of,
    group,
    mappings_of,
    sole_providers,
    summarized,
)


@pytest.fixture
def rack() -> Forest:
    """Three providers without trees."""
    return (
        Forest()
        .add("small", VCPU=2, MEMORY_MB=512)
        .add("large", VCPU=8, MEMORY_MB=4096, traits="SSD", aggregates="windows")
        .add("full", VCPU=InventoryRecord(8, used=8), MEMORY_MB=4096, traits="SSD GPU")
    )


@pytest.fixture
def numa() -> Forest:
    """A host with two NUMA nodes, each with network cards of its own below it."""
    return (
        Forest()
        .add("host", DISK_GB=100, traits="AVX", aggregates="east")
        .add("numa0", "host", VCPU=4, MEMORY_MB=1024, traits="FAST")
        .add("numa1", "host", VCPU=4, MEMORY_MB=1024)
        .add("nic0", "numa0", VF=4, traits="PHYSNET")
        .add("nic1", "numa1", VF=4, traits="PHYSNET")
        .add("nic2", "numa1", VF=4)
    )


@pytest.fixture
def storage() -> Forest:
    """Two hosts without disks, one with its own, and a sharing provider for the first two."""
    return (
        Forest()
        .add("a", VCPU=8, aggregates="east")
        .add("b", VCPU=8, aggregates="east")
        .add("c", VCPU=8, DISK_GB=50, aggregates="west")
        .add("store", DISK_GB=1000, aggregates="east", traits=SHARES)
    )


class TestFlat:
    def test_each_provider_with_capacity_is_a_candidate(self, rack: Forest) -> None:
        assert allocations_of(rack.find(group(VCPU=2, MEMORY_MB=512))) == [
            {"large": {"VCPU": 2, "MEMORY_MB": 512}},
            {"small": {"VCPU": 2, "MEMORY_MB": 512}},
        ]

    @pytest.mark.parametrize(
        ("inventory", "amount", "can"),
        [
            pytest.param(InventoryRecord(10, reserved=4), 6, True, id="the amount that is not reserved"),
            pytest.param(InventoryRecord(10, reserved=4), 7, False, id="more than what is not reserved"),
            pytest.param(InventoryRecord(10, allocation_ratio=1.55), 15, True, id="the ratio raises the capacity"),
            pytest.param(InventoryRecord(10, allocation_ratio=1.55), 16, False, id="the capacity is rounded down"),
            pytest.param(InventoryRecord(10, used=5), 5, True, id="the unused amount"),
            pytest.param(InventoryRecord(10, used=5), 6, False, id="more than the unused amount"),
            pytest.param(InventoryRecord(10, min_unit=4), 3, False, id="below min_unit"),
            pytest.param(InventoryRecord(10, max_unit=4), 5, False, id="above max_unit"),
            pytest.param(InventoryRecord(10, step_size=3), 6, True, id="a multiple of step_size"),
            pytest.param(InventoryRecord(10, step_size=3), 5, False, id="not a multiple of step_size"),
            pytest.param(InventoryRecord(10, allocation_ratio=3e38), 10**30, False, id="beyond the integer range"),
            pytest.param(InventoryRecord(10, reserved=20), 1, False, id="more is reserved than the total"),
        ],
    )
    def test_inventory_units_and_capacity_limit_an_allocation(
        self, inventory: InventoryRecord, amount: int, *, can: bool
    ) -> None:
        found = Forest().add("one", VCPU=inventory).add("other", DISK_GB=1).find(group(VCPU=amount))
        assert bool(found.candidates) == can

    @pytest.mark.parametrize(
        ("required", "expected"),
        [
            ("SSD", ["full", "large"]),
            ("SSD GPU", ["full"]),
            ("!SSD", ["small"]),
            ("SSD !GPU", ["large"]),
            ("GPU|SSD", ["full", "large"]),
            ("GPU|FPGA SSD", ["full"]),
            ("FPGA", []),
        ],
    )
    def test_required_and_forbidden_traits_filter_providers(
        self, rack: Forest, required: str, expected: list[str]
    ) -> None:
        assert sole_providers(rack.find(group(required=required, MEMORY_MB=1))) == expected

    @pytest.mark.parametrize(
        ("member_of", "expected"),
        [
            ("windows", ["large"]),
            ("windows|linux", ["large"]),
            ("windows linux", []),
            ("!windows", ["full", "small"]),
            ("!linux", ["full", "large", "small"]),
        ],
    )
    def test_member_of_filters_providers(self, rack: Forest, member_of: str, expected: list[str]) -> None:
        assert sole_providers(rack.find(group(member_of=member_of, MEMORY_MB=1))) == expected

    def test_in_tree_selects_one_tree(self, rack: Forest) -> None:
        assert sole_providers(rack.find(group(VCPU=1, in_tree="small"))) == ["small"]
        assert sole_providers(rack.find(group(VCPU=1, in_tree="missing"))) == []

    def test_limit_returns_the_same_first_candidates(self, rack: Forest) -> None:
        found = rack.find(group(VCPU=1), limit=1)
        assert len(found.candidates) == 1
        assert summarized(found) == sole_providers(found)
        assert rack.find(group(VCPU=1), limit=1) == found

    def test_request_groups_on_one_provider_add_up(self, rack: Forest) -> None:
        groups = group("1", VCPU=1), group("2", VCPU=1, MEMORY_MB=100)
        found = rack.find(*groups)
        assert allocations_of(found)[1] == {"small": {"VCPU": 2, "MEMORY_MB": 100}}
        assert mappings_of(found)[1] == {"1": ("small",), "2": ("small",)}

    def test_request_groups_whose_sum_exceeds_capacity_do_not_fit(self, rack: Forest) -> None:
        assert sole_providers(rack.find(group("1", VCPU=2), group("2", VCPU=1))) == ["large"]

    def test_isolated_groups_never_fit_on_one_provider(self, rack: Forest) -> None:
        assert rack.find(group("1", VCPU=1), group("2", VCPU=1), isolate=True).candidates == ()
        assert sole_providers(rack.find(group(VCPU=1), group("1", VCPU=1), isolate=True)) == ["large", "small"]

    def test_summary_has_capacity_and_used_amounts(self, rack: Forest) -> None:
        found = rack.find(group(MEMORY_MB=1, required="GPU"))
        resources = {"VCPU": ResourceSummary(8, 8), "MEMORY_MB": ResourceSummary(4096, 0)}
        assert found.summaries == (ProviderSummary("full", None, "full", ("GPU", "SSD"), resources),)

    def test_used_amounts_change_in_place(self, rack: Forest) -> None:
        fleet, large = rack.fleet, rack.records["large"].id
        fleet.take_all([(large, Resources({"MEMORY_MB": 4000, "DISK_GB": 1})), (777, Resources({"VCPU": 1}))])
        assert can_allocate(fleet, "MEMORY_MB", 97).tolist() == [True, False, True]
        assert can_allocate(fleet, "MEMORY_MB", 96).tolist() == [True, True, True]

    def test_empty_fleet_has_no_candidates(self) -> None:
        assert Forest().find(group(VCPU=1)).candidates == ()


class TestTrees:
    def test_candidate_combines_providers_of_one_tree(self, numa: Forest) -> None:
        assert allocations_of(numa.find(group(VCPU=1, DISK_GB=1))) == [
            {"host": {"DISK_GB": 1}, "numa0": {"VCPU": 1}},
            {"host": {"DISK_GB": 1}, "numa1": {"VCPU": 1}},
        ]

    def test_summaries_show_the_whole_tree(self, numa: Forest) -> None:
        found = numa.find(group(DISK_GB=1))
        assert summarized(found) == sorted(numa.records)
        assert (found.summaries[3].parent, found.summaries[3].root) == ("numa0", "host")

    def test_query_that_is_not_nested_uses_one_provider_of_a_tree(self, numa: Forest) -> None:
        assert numa.find(group(VCPU=1, DISK_GB=1), nested=False).candidates == ()
        found = numa.find(group(VCPU=1, MEMORY_MB=1), nested=False)
        assert sole_providers(found) == summarized(found) == ["numa0", "numa1"]

    def test_required_traits_may_be_spread_over_the_serving_providers(self, numa: Forest) -> None:
        assert allocations_of(numa.find(group(VCPU=1, DISK_GB=1, required="AVX FAST"))) == [
            {"host": {"DISK_GB": 1}, "numa0": {"VCPU": 1}}
        ]
        assert numa.find(group(VCPU=1, required="AVX")).candidates == ()

    def test_forbidden_trait_excludes_a_provider(self, numa: Forest) -> None:
        assert sole_providers(numa.find(group(VCPU=1, required="!FAST"))) == ["numa1"]

    def test_aggregates_of_the_root_hold_for_its_tree_in_the_unsuffixed_group_only(self, numa: Forest) -> None:
        assert sole_providers(numa.find(group(VCPU=1, member_of="east"))) == ["numa0", "numa1"]
        assert sole_providers(numa.find(group(VCPU=1, member_of="!east"))) == []
        assert sole_providers(numa.find(group("1", VCPU=1, member_of="east"))) == []
        assert sole_providers(numa.find(group("1", VCPU=1, member_of="!east"))) == ["numa0", "numa1"]

    def test_suffixed_group_is_served_by_one_provider(self, numa: Forest) -> None:
        assert numa.find(group("1", VCPU=1, DISK_GB=1)).candidates == ()
        assert sole_providers(numa.find(group("1", VF=1, required="PHYSNET"))) == ["nic0", "nic1"]

    def test_isolated_groups_use_different_providers(self, numa: Forest) -> None:
        groups = group("1", VF=3), group("2", VF=1)
        assert len(numa.find(*groups).candidates) == 9
        assert len(numa.find(*groups, isolate=True).candidates) == 6

    def test_amounts_on_one_provider_add_up_to_its_capacity(self, numa: Forest) -> None:
        found = numa.find(group("1", VF=3), group("2", VF=2))
        assert len(found.candidates) == 6
        assert all(len(one.allocations) == 2 for one in found.candidates)

    def test_root_traits_are_checked_on_a_root_that_serves_nothing(self, numa: Forest) -> None:
        assert len(numa.find(group(VCPU=1), root_required=frozenset({"AVX"})).candidates) == 2
        assert numa.find(group(VCPU=1), root_required=frozenset({"FAST"})).candidates == ()
        assert numa.find(group(VCPU=1), root_forbidden=frozenset({"AVX"})).candidates == ()

    def test_same_subtree_needs_a_common_ancestor_among_the_providers(self, numa: Forest) -> None:
        groups = group("_C", VCPU=1), group("_N", VF=1)
        found = numa.find(*groups, same_subtrees=(frozenset({"_C", "_N"}),))
        assert mappings_of(found) == [
            {"_C": ("numa0",), "_N": ("nic0",)},
            {"_C": ("numa1",), "_N": ("nic1",)},
            {"_C": ("numa1",), "_N": ("nic2",)},
        ]

    def test_resourceless_group_constrains_the_subtree_only(self, numa: Forest) -> None:
        groups = group("_N1", VF=3), group("_N2", VF=3), group("_AT", required="!PHYSNET !AVX !FAST")
        found = numa.find(*groups, same_subtrees=(frozenset({"_N1", "_N2", "_AT"}),), isolate=True)
        assert mappings_of(found) == [
            {"_N1": ("nic1",), "_N2": ("nic2",), "_AT": ("numa1",)},
            {"_N1": ("nic2",), "_N2": ("nic1",), "_AT": ("numa1",)},
        ]
        assert "numa1" not in found.candidates[0].allocations

    def test_limit_stops_the_search_for_combinations(self) -> None:
        forest = Forest().add("host", VCPU=64)
        for number in range(30):
            forest.add(f"nic{number}", "host", VF=8)
        groups = [group(f"_{number}", VF=1) for number in range(12)]
        assert len(forest.find(*groups, isolate=True, limit=7).candidates) == 7


class TestSharing:
    def test_sharing_provider_serves_every_tree_in_its_aggregates(self, storage: Forest) -> None:
        assert allocations_of(storage.find(group(VCPU=1, DISK_GB=10))) == [
            {"a": {"VCPU": 1}, "store": {"DISK_GB": 10}},
            {"b": {"VCPU": 1}, "store": {"DISK_GB": 10}},
            {"c": {"VCPU": 1, "DISK_GB": 10}},
        ]

    def test_allocation_from_the_sharing_provider_alone_is_one_candidate(self, storage: Forest) -> None:
        found = storage.find(group(DISK_GB=10))
        assert sole_providers(found) == ["c", "store"]
        assert summarized(found) == ["c", "store"]

    def test_member_of_applies_to_the_sharing_provider_too(self, storage: Forest) -> None:
        assert len(storage.find(group(VCPU=1, DISK_GB=10, member_of="east")).candidates) == 2
        storage.add("d", VCPU=8, aggregates="east north")
        assert storage.find(group(VCPU=1, DISK_GB=10, member_of="north")).candidates == ()

    def test_in_tree_excludes_sharing_providers(self, storage: Forest) -> None:
        assert storage.find(group(VCPU=1, DISK_GB=10, in_tree="a")).candidates == ()
        assert storage.find(group(DISK_GB=10, in_tree="store"), group("_C", VCPU=1)).candidates == ()

    def test_sharing_provider_may_serve_a_suffixed_group(self, storage: Forest) -> None:
        found = storage.find(group("_C", VCPU=1), group("_D", DISK_GB=10))
        assert {"_C": ("a",), "_D": ("store",)} in mappings_of(found)
        assert {"_C": ("c",), "_D": ("store",)} not in mappings_of(found)

    def test_sharing_reaches_a_tree_through_a_child_in_the_aggregate(self, storage: Forest) -> None:
        storage.add("e", VCPU=8).add("e0", "e", VCPU=1, aggregates="east")
        assert {"e": {"VCPU": 5}, "store": {"DISK_GB": 1}} in allocations_of(storage.find(group(VCPU=5, DISK_GB=1)))

    def test_standalone_provider_beside_trees_is_answered_by_columns(self, storage: Forest) -> None:
        storage.add("t", VCPU=8).add("t0", "t", DISK_GB=5)
        assert storage.fleet.trees.standalone.tolist() == [False, False, True, False, False, False]
        assert {"c": {"VCPU": 1, "DISK_GB": 1}} in allocations_of(storage.find(group(VCPU=1, DISK_GB=1)))


def test_query_lists_the_traits_and_amounts_that_it_names() -> None:
    one = RequestGroup("1", {"VCPU": 1}, required=(frozenset({"A", "B"}),), forbidden=frozenset({"C"}))
    assert one.traits == {"A", "B", "C"}
