"""Cluster sizes, and the texts of their rejections."""

from typing import Any

import pytest

from covey.model.clustering.actions import Verb
from covey.model.clustering.sizes import (
    AdjustmentType,
    ResizePlan,
    calculate_desired,
    check_max_size,
    check_min_size,
    check_new_cluster,
    check_scale_count,
    check_size_params,
    parse_count,
    parse_resize,
    plan_resize,
)
from covey.model.errors import Invalid
from tests.unit.model.clustering.build import a_cluster

EXACT, BY_NUMBER, BY_PERCENTAGE = "EXACT_CAPACITY", "CHANGE_IN_CAPACITY", "CHANGE_IN_PERCENTAGE"
OF_FIVE = {"min_size": 2, "max_size": 5, "desired_capacity": 3}


def by(kind: str, number: float, **more: object) -> dict[str, object]:
    return {"adjustment_type": kind, "number": number, **more}


GOALS = {
    "exact size": (AdjustmentType.EXACT, 7, 3, 0, 7),
    "exact size zero": (AdjustmentType.EXACT, 0, 3, 0, 0),
    "add a number": (AdjustmentType.BY_NUMBER, 2, 3, 0, 5),
    "remove more than exist": (AdjustmentType.BY_NUMBER, -5, 3, 0, -2),
    "add to an empty cluster": (AdjustmentType.BY_NUMBER, 2, 0, 0, 2),
    "percentage, rounded down": (AdjustmentType.BY_PERCENTAGE, 50, 5, 0, 7),
    "negative percentage, rounded towards zero": (AdjustmentType.BY_PERCENTAGE, -50, 5, 0, 3),
    "percentage below one node": (AdjustmentType.BY_PERCENTAGE, 10, 3, 0, 4),
    "negative percentage below one node": (AdjustmentType.BY_PERCENTAGE, -10, 3, 0, 2),
    "min_step": (AdjustmentType.BY_PERCENTAGE, 10, 3, 2, 5),
    "min_step downwards": (AdjustmentType.BY_PERCENTAGE, -10, 3, 2, 1),
    "percentage of zero nodes": (AdjustmentType.BY_PERCENTAGE, 50, 0, 0, 0),
    "min_step from zero nodes": (AdjustmentType.BY_PERCENTAGE, 50, 0, 2, 2),
    "zero percent": (AdjustmentType.BY_PERCENTAGE, 0, 3, 2, 3),
}


@pytest.mark.parametrize(("kind", "number", "nodes", "step", "goal"), GOALS.values(), ids=GOALS)
def test_calculate_desired(kind: AdjustmentType, number: float, nodes: int, step: int, goal: int) -> None:
    assert calculate_desired(kind, number, nodes, step) == goal


UNREADABLE = {
    "Missing number value for size adjustment.": {"adjustment_type": EXACT},
    "Missing adjustment_type value for size adjustment.": {"number": 2, "adjustment_type": None},
    "Value 'DOUBLE' is not acceptable for field 'adjustment_type'.": by("DOUBLE", 2),
    "Not enough parameters to do resize action.": {"strict": True, "min_step": 1, "min_size": None},
    "The 'number' must be non-negative integer for adjustment type 'EXACT_CAPACITY'.": by(EXACT, -1),
    "The value for number must be a number: 'many'.": {"adjustment_type": EXACT, "number": "many"},
    "The value for number must be a number: 'True'.": by(EXACT, True),
    "The value for min_size must be an integer: '1.5'.": {"min_size": 1.5},
    "The value for the min_size field must be greater than or equal to 0.": {"min_size": -1},
    "The value for the max_size field must be greater than or equal to -1.": {"max_size": "-2"},
    "The value for the max_size field must be less than or equal to 1000.": {"max_size": 1001},
}


@pytest.mark.parametrize(("message", "given"), UNREADABLE.items(), ids=UNREADABLE)
def test_malformed_resize_is_rejected(message: str, given: dict[str, object]) -> None:
    with pytest.raises(Invalid) as refusal:
        parse_resize(given)
    assert refusal.value.message == message


REFUSED = {
    "The target capacity (4) is less than the specified min_size (5).": by(EXACT, 4, min_size=5, max_size=9),
    "The target capacity (10) is greater than the specified max_size (9).": by(EXACT, 10, min_size=5, max_size=9),
    "The target capacity (1) is less than the cluster's min_size (2).": by(BY_NUMBER, -2),
    "The target capacity (6) is greater than the cluster's max_size (5).": by(BY_NUMBER, 3),
    "The target capacity (1003) is greater than the maximum number of nodes allowed per cluster (1000).": by(
        BY_NUMBER, 1000, max_size=-1
    ),
    "The specified min_size (20) is greater than the specified max_size (10).": by(EXACT, 5, min_size=20, max_size=10),
    "The specified min_size (6) is greater than the current max_size (5) of the cluster.": {"min_size": 6},
    "The specified min_size (4) is greater than the current desired_capacity (3) of the cluster.": {"min_size": 4},
    "The specified max_size (1) is less than the current min_size (2) of the cluster.": {"max_size": 1},
    "The specified max_size (2) is less than the current desired_capacity (3) of the cluster.": {"max_size": 2},
}


@pytest.mark.parametrize(("message", "given"), REFUSED.items(), ids=REFUSED)
def test_strict_resize_beyond_bounds_is_rejected(message: str, given: dict[str, object]) -> None:
    for refuse in (check_size_params, plan_resize):
        with pytest.raises(Invalid) as refusal:
            refuse(parse_resize(given), a_cluster(**OF_FIVE), 3)
        assert refusal.value.message == message


FITTED = {
    "to the cluster's maximum": (by(BY_NUMBER, 9), ResizePlan(2, 5, 5, 2)),
    "to the cluster's minimum": (by(EXACT, 0), ResizePlan(2, 5, 2, -1)),
    "to a new maximum": ({"max_size": 2}, ResizePlan(2, 2, 2, -1)),
    "to a new minimum": ({"min_size": 4}, ResizePlan(4, 5, 4, 1)),
    "to the operator's limit": (by(EXACT, 5000, max_size=-1), ResizePlan(2, -1, 1000, 997)),
}


@pytest.mark.parametrize(("given", "becomes"), FITTED.values(), ids=FITTED)
def test_resize_that_is_not_strict_is_truncated(given: dict[str, object], becomes: ResizePlan) -> None:
    wanted = parse_resize({**given, "strict": "false"})
    check_size_params(wanted, a_cluster(**OF_FIVE), 3)
    assert plan_resize(wanted, a_cluster(**OF_FIVE), 3) == becomes


def test_contradictory_bounds_are_rejected_even_when_not_strict() -> None:
    for given in (by(EXACT, 4, min_size=5, max_size=9), {"max_size": 1}, {"min_size": 6}):
        with pytest.raises(Invalid):
            check_size_params(parse_resize({**given, "strict": False}), a_cluster(**OF_FIVE), 3)


def test_new_bounds_alone_change_no_nodes() -> None:
    assert plan_resize(parse_resize({"max_size": 9}), a_cluster(**OF_FIVE), 1) == ResizePlan(2, 9, 3, 0)


ASKED: list[dict[str, Any]] = [by(EXACT, 3), by(BY_PERCENTAGE, 12.5, min_step=2, strict=False), {"max_size": "-1"}]


@pytest.mark.parametrize("given", ASKED, ids=str)
def test_action_inputs_preserve_a_resize_request(given: dict[str, object]) -> None:
    wanted = parse_resize(given)
    assert parse_resize(wanted.inputs) == wanted


def test_count_may_be_text_or_missing() -> None:
    assert [parse_count(given, 1) for given in ({"count": "2"}, {"count": None}, {})] == [2, 1, 1]


@pytest.mark.parametrize("count", ["two", True, [2], 1.5, {"n": 1}], ids=str)
def test_count_must_be_an_integer(count: object) -> None:
    with pytest.raises(Invalid, match="The value for count must be an integer: "):
        parse_count({"count": count})


def test_scale_count_must_be_positive_and_within_the_limit() -> None:
    with pytest.raises(Invalid, match="Value must be >= 0 for field 'count'"):
        parse_count({"count": -1})
    with pytest.raises(Invalid, match="Count for scale-in request cannot be 0"):
        check_scale_count(Verb.CLUSTER_SCALE_IN, 0, 3)
    with pytest.raises(Invalid, match=r"greater than the maximum number of nodes allowed per cluster \(1000\)"):
        check_scale_count(Verb.CLUSTER_SCALE_OUT, 998, 3)


def test_cluster_beyond_its_bounds_may_move_towards_them() -> None:
    cluster = a_cluster(min_size=4, max_size=6)
    check_max_size(cluster, 2)
    check_min_size(cluster, 8)
    with pytest.raises(Invalid):
        check_max_size(cluster, 7)
    with pytest.raises(Invalid):
        check_min_size(cluster, 3)


def test_sizes_of_a_new_cluster_are_checked() -> None:
    check_new_cluster(3, 3, -1)
    for sizes in ((2, 3, -1), (4, 0, 3), (4, 5, 3), (1001, 0, -1)):
        with pytest.raises(Invalid):
            check_new_cluster(*sizes)
