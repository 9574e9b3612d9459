"""The checks of each policy type, and their combination."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from covey.model.clustering.actions import Verb
from covey.model.clustering.clusters import NodeStatus
from covey.model.clustering.policies import post_op, pre_op
from covey.model.clustering.policies.context import PolicyContext
from covey.model.clustering.policies.decisions import deletion_candidates, placements
from covey.model.clustering.policies.zone_placement import plan_zones
from covey.model.clustering.specs import Binding, Document
from covey.model.errors import Forbidden
from tests.build import NOW
from tests.unit.model.clustering.build import GROUP, a_cluster, a_member, a_policy, affinity, bound, context, members

OUT, IN, RESIZE = Verb.CLUSTER_SCALE_OUT, Verb.CLUSTER_SCALE_IN, Verb.CLUSTER_RESIZE
DONE = {"status": "OK", "reason": "Completed policy checking."}


def checked(policy_context: PolicyContext, *bindings: Binding) -> Document:
    return pre_op(bindings, policy_context).data


def failure(policy_context: PolicyContext, *bindings: Binding) -> str:
    """Return the reason of a failed check, which the action's data repeats."""
    result = pre_op(bindings, policy_context)
    assert result.data["status"] == "ERROR"
    assert result.failure == result.data["reason"]
    assert str(result.failure).endswith(str(result.data["status_reason"]))
    return str(result.failure)


# Affinity, with the examples of its specification.

PLAIN = {"count": 2, "placements": [{"servergroup": GROUP}, {"servergroup": GROUP}]}
COUNTED: dict[str, PolicyContext] = {
    "count of an earlier policy": context(OUT, inputs={"count": 9}, data={"creation": {"count": 2}}),
    "count of the request": context(OUT, inputs={"count": 2}),
    "count of a webhook, as text": context(OUT, inputs={"count": "2"}),
    "change of a resize": context(RESIZE, members("nova"), inputs={"adjustment_type": "EXACT_CAPACITY", "number": 3}),
}


@pytest.mark.parametrize("policy_context", COUNTED.values(), ids=COUNTED)
def test_affinity_places_every_new_node_in_the_group(policy_context: PolicyContext) -> None:
    assert checked(policy_context, affinity())["placement"] == PLAIN


@pytest.mark.parametrize("policy_context", [context(OUT), context(Verb.NODE_CREATE)], ids=["scale-out", "node"])
def test_default_count_is_one_node(policy_context: PolicyContext) -> None:
    placement = {"count": 1, "placements": [{"servergroup": GROUP}]}
    assert checked(policy_context, affinity()) == {"placement": placement, **DONE}


def test_affinity_adds_its_zone_to_the_placement() -> None:
    place = {"zone": "nova_1", "servergroup": GROUP}
    data = checked(context(OUT, inputs={"count": 2}), affinity(availability_zone="nova_1"))
    assert data["placement"] == {"count": 2, "placements": [place, place]}


def test_drs_places_nodes_on_the_first_vsphere_host() -> None:
    hosts = ["node-dr7", "vSphere_DRS_1", "vsphere_drs_2"]
    policy_context = context(OUT, inputs={"count": 2}, hypervisors=lambda: hosts)
    place = {"zone": "nova:vSphere_DRS_1", "servergroup": GROUP}
    data = checked(policy_context, affinity(enable_drs_extension=True))
    assert data["placement"] == {"count": 2, "placements": [place, place]}
    data = checked(policy_context, affinity(enable_drs_extension=True, availability_zone="az-1"))
    assert placements(data, 2) == [{"zone": "az-1:vSphere_DRS_1", "servergroup": GROUP}] * 2


def test_missing_vsphere_host_replaces_the_action_data() -> None:
    policy_context = context(OUT, data={"creation": {"count": 2}}, hypervisors=lambda: ["node-dr7"])
    result = pre_op([affinity(enable_drs_extension=True)], policy_context)
    assert result.data == {"status": "ERROR", "status_reason": "No suitable vSphere host is available."}
    assert result.failure == "Failed policy 'apart': No suitable vSphere host is available."


def test_only_drs_reads_hypervisors_and_only_for_operators() -> None:
    def forbidden() -> Sequence[str]:
        raise Forbidden("not for you")

    assert checked(context(OUT, hypervisors=forbidden), affinity())["status"] == "OK"
    reason = failure(context(OUT, hypervisors=forbidden), affinity(enable_drs_extension=True))
    assert reason == "Failed policy 'apart': not for you"


def test_affinity_ignores_a_shrinking_resize_and_keeps_the_data() -> None:
    inputs = {"adjustment_type": "CHANGE_IN_CAPACITY", "number": -1}
    for data in ({}, {"deletion": {"count": 1, "zones": {"az-1": 1}}}):
        assert checked(context(RESIZE, members("az-1", "az-1"), inputs=inputs, data=data), affinity()) == data | DONE


BAD_COUNTS: dict[str, tuple[Any, str]] = {
    "text": ("lots", "The value for count must be an integer: 'lots'."),
    "a list": ([], "The value for count must be an integer: '[]'."),
    "negative": (-1, "Value must be >= 0 for field 'count'."),
    "zero": (0, "Count for scale-out request cannot be 0."),
}


@pytest.mark.parametrize(("count", "reason"), BAD_COUNTS.values(), ids=BAD_COUNTS)
def test_count_must_be_a_positive_integer(count: object, reason: str) -> None:
    assert failure(context(OUT, inputs={"count": count}), affinity()) == f"Failed policy 'apart': {reason}"


# Scaling.


def scaling(event: Verb, name: str = "steps", last_op: Any = None, **adjustment: Any) -> Binding:
    return bound(a_policy("scaling", name=name, event=str(event), adjustment=adjustment), last_op=last_op)


STEPS: dict[str, tuple[Binding, PolicyContext, dict[str, object]]] = {
    "by one": (scaling(OUT), context(OUT), {"creation": {"count": 1}}),
    "by its number": (scaling(OUT, number=3), context(OUT), {"creation": {"count": 3}}),
    "by the count of the request": (
        scaling(OUT, number=3),
        context(OUT, inputs={"count": 2}),
        {"creation": {"count": 2}},
    ),
    "down by a percentage": (
        scaling(IN, type="CHANGE_IN_PERCENTAGE", number=50),
        context(IN, members(*"aaaaa")),
        {"deletion": {"count": 2}},
    ),
    "down to a number": (
        scaling(IN, type="EXACT_CAPACITY", number=1),
        context(IN, members(*"aaa")),
        {"deletion": {"count": 2}},
    ),
    "best effort": (
        scaling(OUT, number=9, best_effort=True),
        context(OUT, members(*"aa"), a_cluster(max_size=3)),
        {"creation": {"count": 1}},
    ),
    "best effort down": (
        scaling(IN, number=9, best_effort=True),
        context(IN, members(*"aa"), a_cluster(min_size=1)),
        {"deletion": {"count": 1}},
    ),
    "another event": (scaling(OUT), context(IN, members("a")), {}),
}


@pytest.mark.parametrize(("policy", "policy_context", "data"), STEPS.values(), ids=STEPS)
def test_scaling_policy_decides_the_count(policy: Binding, policy_context: PolicyContext, data: Document) -> None:
    assert checked(policy_context, policy) == {**data, **DONE}


def test_scaling_policy_respects_the_cluster_bounds() -> None:
    full = context(OUT, members(*"aa"), a_cluster(max_size=2))
    assert failure(full, scaling(OUT)).endswith("The target capacity (3) is greater than the cluster's max_size (2).")
    smallest = context(IN, members(*"aa"), a_cluster(min_size=2))
    assert failure(smallest, scaling(IN)).endswith("The target capacity (1) is less than the cluster's min_size (2).")
    exact = scaling(OUT, type="EXACT_CAPACITY", number=1)
    assert failure(context(OUT, members(*"aa")), exact).endswith(
        "Count (-1) is not acceptable for action 'CLUSTER_SCALE_OUT': the minimum is 1."
    )


def test_cooldown_starts_with_a_scaling_action_in_either_direction() -> None:
    policy = scaling(OUT, cooldown=60)
    assert post_op([policy, affinity()], IN, NOW) == [replace(policy, last_op=NOW)]
    hot, cold = (replace(policy, last_op=NOW - timedelta(seconds=age)) for age in (59, 60))
    assert failure(context(OUT), hot) == "Failed policy 'steps': Policy id-of-steps cooldown still in progress."
    assert checked(context(OUT), cold)["creation"] == {"count": 1}


# Zones.


def zones(**weights: int) -> Binding:
    return bound(a_policy("zone_placement", name="zones", zones=[{"name": n, "weight": w} for n, w in weights.items()]))


PLANS = {
    "evenly": ({"a": 100, "b": 100, "c": 100, "d": 100}, {}, 5, {"a": 2, "b": 1, "c": 1, "d": 1}),
    "by weight": ({"a": 1, "b": 3}, {}, 8, {"a": 2, "b": 6}),
    "of equal deficits the heaviest zone gains first": ({"a": 1, "b": 3}, {"b": 1}, 1, {"b": 1}),
    "the largest deficit gains": ({"a": 1, "b": 1}, {"a": 3}, 3, {"b": 3}),
    "the largest surplus loses": ({"a": 1, "b": 1}, {"a": 4, "b": 1}, -2, {"a": 2}),
    "of equal surpluses the lightest zone loses first": ({"a": 3, "b": 1}, {"a": 2, "b": 1}, -1, {"b": 1}),
    "an unlisted zone loses": ({"a": 1, "x": 0}, {"a": 9, "x": 1}, -2, {"a": 1, "x": 1}),
    "zero weights are equal": ({"a": 0, "b": 0}, {}, 2, {"a": 1, "b": 1}),
}


@pytest.mark.parametrize(("weights", "spread", "change", "plan"), PLANS.values(), ids=PLANS)
def test_zone_plan(weights: dict[str, int], spread: dict[str, int], change: int, plan: dict[str, int]) -> None:
    assert plan_zones(weights, spread, change) == plan


def test_zone_placement_runs_before_affinity_in_any_order_of_attachment() -> None:
    policy_context = context(OUT, members("a", "gone", None), inputs={"count": 3}, zones=frozenset("abc"))
    data = checked(policy_context, affinity(), zones(a=1, b=1, z=5))
    assert data["creation"] == {"count": 3, "zones": {"a": 1, "b": 2}}
    assert data["placement"] == {"count": 3, "placements": [{"servergroup": GROUP}] * 3}
    assert placements(data, 3) == [{"zone": zone, "servergroup": GROUP} for zone in "abb"]


def test_zone_of_a_placement_overrides_the_zone_plan() -> None:
    policy_context = context(OUT, zones=frozenset("ab"))
    assert placements(checked(policy_context, zones(a=1), affinity(availability_zone="b")), 1) == [
        {"zone": "b", "servergroup": GROUP}
    ]
    assert placements(checked(policy_context, zones(a=1)), 1) == [{"zone": "a"}]
    assert placements({}, 2) == [{}, {}]


def test_no_available_zone_fails_the_check() -> None:
    assert (
        failure(context(OUT), zones(a=1, b=1))
        == "Failed policy 'zones': None of the policy's zones is available: a, b."
    )


# Deletion.


def deletion(**properties: Any) -> Binding:
    return bound(a_policy("deletion", "1.1", "removal", **properties))


MEMBERS = (
    a_member("old", "a", age=9, profile_age=1, index=1),
    a_member("new", "b", age=1, profile_age=5, index=2),
    a_member("mid", "a", age=5, profile_age=5, index=3),
)
ORDERS = {"OLDEST_FIRST": ["old", "mid"], "YOUNGEST_FIRST": ["new", "mid"], "OLDEST_PROFILE_FIRST": ["mid", "new"]}


@pytest.mark.parametrize(("criteria", "first"), ORDERS.items(), ids=ORDERS)
def test_deletion_criteria_order_the_candidates(criteria: str, first: list[str]) -> None:
    data = checked(context(IN, MEMBERS, inputs={"count": 2}), deletion(criteria=criteria, grace_period=5))
    assert data["deletion"] == {
        "count": 2,
        "candidates": first,
        "destroy_after_deletion": True,
        "grace_period": 5,
        "reduce_desired_capacity": True,
    }


def test_unhealthy_nodes_are_removed_first_and_random_order_is_stable() -> None:
    unhealthy = a_member("error", age=7, status=NodeStatus.ERROR), a_member("tainted", age=3, tainted=True)
    uncreated = replace(MEMBERS[1], node=replace(MEMBERS[1].node, id="uncreated", created_at=None))
    policy_context = context(IN, (*MEMBERS, uncreated, *unhealthy), inputs={"count": 3})
    assert deletion_candidates(checked(policy_context, deletion(criteria="OLDEST_FIRST")), (), 0) == [
        "error",
        "tainted",
        "uncreated",
    ]
    policy_context = context(IN, MEMBERS, inputs={"count": 1})
    assert checked(policy_context, deletion()) == checked(replace(policy_context, members=MEMBERS[::-1]), deletion())


def test_zone_plan_bounds_deletions_and_nodes_without_zone_are_removed_first() -> None:
    without_zone = a_member("without_zone", age=2, index=4)
    policy_context = context(IN, (*MEMBERS, without_zone), inputs={"count": 2})
    data = checked(policy_context, deletion(criteria="OLDEST_FIRST"), zones(b=1))
    assert data["deletion"]["zones"] == {"a": 1}  # type: ignore[index]
    assert deletion_candidates(data, (), 0) == ["old", "without_zone"]


def test_count_above_the_size_removes_all_nodes() -> None:
    assert checked(context(IN, MEMBERS, inputs={"count": 9}), deletion())["deletion"]["count"] == 3  # type: ignore[index]


def test_named_nodes_are_the_candidates_and_the_request_decides_about_servers() -> None:
    for destroyed in (True, False):
        inputs = {"candidates": ["mid"], "destroy_after_deletion": destroyed}
        deletion_data = checked(context(Verb.CLUSTER_DEL_NODES, MEMBERS, inputs=inputs), deletion())["deletion"]
        assert deletion_data["candidates"] == ["mid"]  # type: ignore[index]
        assert deletion_data["destroy_after_deletion"] is destroyed  # type: ignore[index]
    data = checked(context(Verb.NODE_DELETE, MEMBERS, target="new"), deletion())
    assert deletion_candidates(data, MEMBERS, 1) == ["new"]


def test_growing_resize_has_no_candidates() -> None:
    inputs = {"adjustment_type": "CHANGE_IN_CAPACITY", "number": 1}
    assert checked(context(RESIZE, MEMBERS, inputs=inputs), deletion()) == DONE


def test_without_a_policy_unhealthy_then_newest_nodes_are_removed() -> None:
    unhealthy = a_member("unhealthy", age=7, status=NodeStatus.WARNING, index=0)
    assert deletion_candidates({}, (*MEMBERS, unhealthy), 3) == ["unhealthy", "mid", "new"]


# Combination.


def test_disabled_policy_is_skipped_and_a_failure_ends_the_checks() -> None:
    broken = replace(zones(a=1), enabled=False)
    assert checked(context(OUT), broken, affinity())["status"] == "OK"
    policy_context = context(OUT, members(*"aa"), a_cluster(max_size=2))
    result = pre_op([affinity(), scaling(OUT)], policy_context)
    assert "placement" not in result.data
    assert result.failure is not None


def test_without_policies_the_check_succeeds() -> None:
    assert checked(context(OUT)) == DONE
