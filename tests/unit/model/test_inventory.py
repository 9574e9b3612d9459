"""Capacity and free amounts of inventories."""

import pytest

from covey.model.inventory import Inventory

CAPACITIES = {
    "as much as there is": (Inventory(8), 8),
    "less what is reserved": (Inventory(8, reserved=3), 5),
    "more, when the ratio says so": (Inventory(8, allocation_ratio=4.0), 32),
    "the ratio is of what is not reserved": (Inventory(10, reserved=2, allocation_ratio=1.5), 12),
    "rounded down to whole units": (Inventory(3, allocation_ratio=1.5), 4),
    "a ratio below one": (Inventory(3, allocation_ratio=0.5), 1),
    "nothing of nothing": (Inventory(0, allocation_ratio=16.0), 0),
    "whatever is used of it": (Inventory(8, used=20), 8),
}
FREE = {
    "all of it": (Inventory(8), 8),
    "less what is used and what is reserved": (Inventory(8, reserved=2, used=3), 3),
    "none, and never less than none, when more is sold than there is": (Inventory(8, 0, 4.0, used=20), 0),
    "none when everything is reserved": (Inventory(8, reserved=9), 0),
}


@pytest.mark.parametrize(("has", "capacity"), CAPACITIES.values(), ids=CAPACITIES)
def test_capacity_follows_total_reserved_and_ratio(has: Inventory, capacity: int) -> None:
    assert has.capacity == capacity


@pytest.mark.parametrize(("has", "free"), FREE.values(), ids=FREE)
def test_free_ignores_the_ratio_and_is_never_negative(has: Inventory, free: int) -> None:
    assert has.free == free
