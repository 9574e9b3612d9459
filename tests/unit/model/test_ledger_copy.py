"""Two ledgers are compared field by field."""

from dataclasses import replace

import pytest

from covey.model.allocations import Consumer
from covey.model.ledger_copy import (
    ConsumerAllocations,
    Difference,
    HeldAllocations,
    Ledger,
    LedgerProvider,
    consumer_allocations,
    find_differences,
    find_problems,
    usage_by_project,
    with_allocations,
)
from covey.model.providers import InventoryRecord

NODE = LedgerProvider(
    "node",
    "node-1",
    3,
    None,
    "node",
    {"VCPU": InventoryRecord(8, used=2)},
    frozenset({"COMPUTE_NODE"}),
    frozenset({"rack"}),
    {"server": HeldAllocations(1, {"VCPU": 2})},
)
SERVER = Consumer("server", "web", "alice", "INSTANCE", 1)
LEDGER = Ledger({"node": NODE}, {"server": SERVER}, frozenset({"CUSTOM_A"}), frozenset({"CUSTOM_B"}))


def with_node(**changes: object) -> Ledger:
    return replace(LEDGER, providers={"node": replace(NODE, **changes)})  # type: ignore[arg-type]


def with_server(**changes: object) -> Ledger:
    return replace(LEDGER, consumers={"server": replace(SERVER, **changes)})  # type: ignore[arg-type]


def test_equal_ledgers_have_no_difference() -> None:
    assert find_differences(LEDGER, with_node(name="node-1")) == []


@pytest.mark.parametrize(
    ("copy", "difference"),
    [
        (with_node(name="x"), Difference("provider", "node", "name", "node-1", "x")),
        (with_node(generation=4), Difference("provider", "node", "generation", 3, 4)),
        (with_node(parent_uuid="p"), Difference("provider", "node", "parent_uuid", None, "p")),
        (with_node(root_uuid="p"), Difference("provider", "node", "root_uuid", "node", "p")),
        (
            with_node(inventories={}),
            Difference("provider", "node", "inventories: VCPU", InventoryRecord(8, used=2), None),
        ),
        (
            with_node(inventories={"VCPU": InventoryRecord(8, used=1)}),
            Difference("provider", "node", "inventories: VCPU", InventoryRecord(8, used=2), InventoryRecord(8, used=1)),
        ),
        (with_node(traits=frozenset()), Difference("provider", "node", "traits: COMPUTE_NODE", True, False)),
        (
            with_node(aggregates=frozenset({"rack", "row"})),
            Difference("provider", "node", "aggregates: row", False, True),
        ),
        (
            with_node(allocations={}),
            Difference("provider", "node", "allocations: server", HeldAllocations(1, {"VCPU": 2}), None),
        ),
        (with_server(project_id="x"), Difference("consumer", "server", "project_id", "web", "x")),
        (with_server(user_id="x"), Difference("consumer", "server", "user_id", "alice", "x")),
        (with_server(kind=None), Difference("consumer", "server", "kind", "INSTANCE", None)),
        (with_server(generation=2), Difference("consumer", "server", "generation", 1, 2)),
        (replace(LEDGER, providers={}), Difference("provider", "node", "provider", "exists", None)),
        (replace(LEDGER, consumers={}), Difference("consumer", "server", "consumer", "exists", None)),
        (replace(LEDGER, traits=frozenset()), Difference("trait", "CUSTOM_A", "trait", "exists", None)),
        (
            replace(LEDGER, resource_classes=frozenset({"CUSTOM_B", "CUSTOM_C"})),
            Difference("resource class", "CUSTOM_C", "resource class", None, "exists"),
        ),
    ],
    ids=lambda value: value.field if isinstance(value, Difference) else "",
)
def test_each_field_that_differs_is_found(copy: Ledger, difference: Difference) -> None:
    assert find_differences(LEDGER, copy) == [difference]


def test_provider_that_only_the_copy_has_is_found() -> None:
    assert find_differences(Ledger(), Ledger({"node": NODE})) == [
        Difference("provider", "node", "provider", None, "exists")
    ]


def test_allocations_of_consumers_are_those_of_the_providers() -> None:
    assert (
        with_allocations({"node": replace(NODE, allocations={})}, consumer_allocations(LEDGER).values())
        == LEDGER.providers
    )


def test_provider_without_the_consumer_loses_its_allocation_and_usage() -> None:
    (left,) = with_allocations(LEDGER.providers, []).values()
    assert (left.allocations, left.inventories["VCPU"].used) == ({}, 0)


def test_usage_of_a_project_is_the_sum_over_its_consumers() -> None:
    other = ConsumerAllocations(replace(SERVER, uuid="other"), {"node": {"VCPU": 3}, "disk": {"DISK_GB": 5}})
    assert usage_by_project([*consumer_allocations(LEDGER).values(), other]) == {"web": {"VCPU": 5, "DISK_GB": 5}}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"traits": frozenset({"HW_FUTURE"})}, "The installed os-traits lacks the traits HW_FUTURE: upgrade it."),
        (
            {"inventories": {"VCPU": InventoryRecord(8), "FUTURE": InventoryRecord(1)}},
            "The installed os-resource-classes lacks the resource classes FUTURE: upgrade it.",
        ),
        (
            {"inventories": {"VCPU": InventoryRecord(8, allocation_ratio=0.0)}},
            "Provider node-1 (node) has the allocation ratio 0 for VCPU; it must be greater than 0.",
        ),
        (
            {"inventories": {}},
            "Provider node-1 (node) has an allocation of VCPU to server, and no inventory of VCPU.",
        ),
    ],
    ids=["trait", "resource class", "ratio", "allocation without inventory"],
)
def test_what_cannot_be_stored_is_a_problem(changes: dict[str, object], problem: str) -> None:
    assert find_problems(with_node(**changes)) == [problem]


def test_ledger_with_standard_and_custom_names_has_no_problem() -> None:
    assert find_problems(with_node(traits=frozenset({"COMPUTE_NODE", "CUSTOM_X"}))) == []
