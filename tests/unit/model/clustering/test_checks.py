"""What each policy makes of an action, and what all of them do together."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from covey.model.clustering.actions import Verb
from covey.model.clustering.checks import Moment, check
from covey.model.clustering.checks.outcomes import placements, victims
from covey.model.clustering.checks.situation import Situation
from covey.model.clustering.checks.zones import planned
from covey.model.clustering.clusters import NodeStatus
from covey.model.clustering.specs import Binding, Document
from covey.model.errors import Forbidden
from tests.build import NOW
from tests.unit.model.clustering.build import GROUP, a_cluster, a_member, a_policy, affinity, bound, members, situation

OUT, IN, RESIZE = Verb.CLUSTER_SCALE_OUT, Verb.CLUSTER_SCALE_IN, Verb.CLUSTER_RESIZE
DONE = {"status": "OK", "reason": "Completed policy checking."}


def before(where: Situation, *bindings: Binding) -> Document:
    return check(Moment.BEFORE, bindings, where).data


def refusal(where: Situation, *bindings: Binding) -> str:
    """Why not: what the data says is what the engine is told."""
    checked = check(Moment.BEFORE, bindings, where)
    assert checked.data["status"] == "ERROR"
    assert checked.failure == checked.data["reason"]
    assert str(checked.failure).endswith(str(checked.data["status_reason"]))
    return str(checked.failure)


# Affinity, in the words of its document.

PLAIN = {"count": 2, "placements": [{"servergroup": GROUP}, {"servergroup": GROUP}]}
COUNTED: dict[str, Situation] = {
    "what another policy decided": situation(OUT, inputs={"count": 9}, data={"creation": {"count": 2}}),
    "what the caller asked for": situation(OUT, inputs={"count": 2}),
    "what a webhook asked for in text": situation(OUT, inputs={"count": "2"}),
    "what a resize comes to": situation(
        RESIZE, members("nova"), inputs={"adjustment_type": "EXACT_CAPACITY", "number": 3}
    ),
}


@pytest.mark.parametrize("where", COUNTED.values(), ids=COUNTED)
def test_every_new_node_goes_into_the_group(where: Situation) -> None:
    assert before(where, affinity())["placement"] == PLAIN


@pytest.mark.parametrize("where", [situation(OUT), situation(Verb.NODE_CREATE)], ids=["scale-out", "node"])
def test_it_is_one_node_where_nobody_says_how_many(where: Situation) -> None:
    placement = {"count": 1, "placements": [{"servergroup": GROUP}]}
    assert before(where, affinity()) == {"placement": placement, **DONE}


def test_a_zone_is_passed_along_with_the_group() -> None:
    place = {"zone": "nova_1", "servergroup": GROUP}
    data = before(situation(OUT, inputs={"count": 2}), affinity(availability_zone="nova_1"))
    assert data["placement"] == {"count": 2, "placements": [place, place]}


def test_with_drs_nodes_go_to_the_first_vsphere_host() -> None:
    hosts = ["node-dr7", "vSphere_DRS_1", "vsphere_drs_2"]
    where = situation(OUT, inputs={"count": 2}, hypervisors=lambda: hosts)
    place = {"zone": "nova:vSphere_DRS_1", "servergroup": GROUP}
    data = before(where, affinity(enable_drs_extension=True))
    assert data["placement"] == {"count": 2, "placements": [place, place]}
    data = before(where, affinity(enable_drs_extension=True, availability_zone="az-1"))
    assert placements(data, 2) == [{"zone": "az-1:vSphere_DRS_1", "servergroup": GROUP}] * 2


def test_without_a_vsphere_host_the_data_says_nothing_else() -> None:
    where = situation(OUT, data={"creation": {"count": 2}}, hypervisors=lambda: ["node-dr7"])
    checked = check(Moment.BEFORE, [affinity(enable_drs_extension=True)], where)
    assert checked.data == {"status": "ERROR", "status_reason": "No suitable vSphere host is available."}
    assert checked.failure == "Failed policy 'apart': No suitable vSphere host is available."


def test_nobody_asks_for_hypervisors_without_drs_and_not_everybody_may() -> None:
    def forbidden() -> Sequence[str]:
        raise Forbidden("not for you")

    assert before(situation(OUT, hypervisors=forbidden), affinity())["status"] == "OK"
    told = refusal(situation(OUT, hypervisors=forbidden), affinity(enable_drs_extension=True))
    assert told == "Failed policy 'apart': not for you"


def test_a_shrinking_resize_is_let_through_and_what_others_decided_stays() -> None:
    shrinks = {"adjustment_type": "CHANGE_IN_CAPACITY", "number": -1}
    for data in ({}, {"deletion": {"count": 1, "zones": {"az-1": 1}}}):
        assert before(situation(RESIZE, members("az-1", "az-1"), inputs=shrinks, data=data), affinity()) == data | DONE


BAD_COUNTS: dict[str, tuple[Any, str]] = {
    "words": ("lots", "The value for count must be an integer: 'lots'."),
    "a list": ([], "The value for count must be an integer: '[]'."),
    "less than nothing": (-1, "Value must be >= 0 for field 'count'."),
    "nothing": (0, "Count for scale-out request cannot be 0."),
}


@pytest.mark.parametrize(("count", "why"), BAD_COUNTS.values(), ids=BAD_COUNTS)
def test_a_count_that_is_no_positive_integer_fails_with_a_reason(count: object, why: str) -> None:
    assert refusal(situation(OUT, inputs={"count": count}), affinity()) == f"Failed policy 'apart': {why}"


# Scaling.


def scaling(event: Verb, name: str = "steps", last_op: Any = None, **adjustment: Any) -> Binding:
    return bound(a_policy("scaling", name=name, event=str(event), adjustment=adjustment), last_op=last_op)


STEPS: dict[str, tuple[Binding, Situation, dict[str, object]]] = {
    "by one": (scaling(OUT), situation(OUT), {"creation": {"count": 1}}),
    "by its number": (scaling(OUT, number=3), situation(OUT), {"creation": {"count": 3}}),
    "by what is asked for": (scaling(OUT, number=3), situation(OUT, inputs={"count": 2}), {"creation": {"count": 2}}),
    "down by a part": (
        scaling(IN, type="CHANGE_IN_PERCENTAGE", number=50),
        situation(IN, members(*"aaaaa")),
        {"deletion": {"count": 2}},
    ),
    "down to a number": (
        scaling(IN, type="EXACT_CAPACITY", number=1),
        situation(IN, members(*"aaa")),
        {"deletion": {"count": 2}},
    ),
    "as far as it goes": (
        scaling(OUT, number=9, best_effort=True),
        situation(OUT, members(*"aa"), a_cluster(max_size=3)),
        {"creation": {"count": 1}},
    ),
    "down as far as it goes": (
        scaling(IN, number=9, best_effort=True),
        situation(IN, members(*"aa"), a_cluster(min_size=1)),
        {"deletion": {"count": 1}},
    ),
    "not at all for the other event": (scaling(OUT), situation(IN, members("a")), {}),
}


@pytest.mark.parametrize(("policy", "where", "decided"), STEPS.values(), ids=STEPS)
def test_how_many_a_scaling_policy_says(policy: Binding, where: Situation, decided: dict[str, object]) -> None:
    assert before(where, policy) == decided | DONE


def test_a_scaling_policy_keeps_to_the_bounds_and_to_its_event() -> None:
    full = situation(OUT, members(*"aa"), a_cluster(max_size=2))
    assert refusal(full, scaling(OUT)).endswith("The target capacity (3) is greater than the cluster's max_size (2).")
    least = situation(IN, members(*"aa"), a_cluster(min_size=2))
    assert refusal(least, scaling(IN)).endswith("The target capacity (1) is less than the cluster's min_size (2).")
    exact = scaling(OUT, type="EXACT_CAPACITY", number=1)
    assert refusal(situation(OUT, members(*"aa")), exact).endswith(
        "Count (-1) is not acceptable for action 'CLUSTER_SCALE_OUT': it has to be at least 1."
    )


def test_a_policy_cools_down_from_the_last_scaling_of_either_kind() -> None:
    policy = scaling(OUT, cooldown=60)
    noted = check(Moment.AFTER, [policy, affinity()], situation(IN, data={"deletion": {"count": 1}}))
    assert noted.noted == (replace(policy, last_op=NOW),)
    assert noted.data == {"deletion": {"count": 1}}
    hot, cold = (replace(policy, last_op=NOW - timedelta(seconds=age)) for age in (59, 60))
    assert refusal(situation(OUT), hot) == "Failed policy 'steps': Policy id-of-steps cooldown still in progress."
    assert before(situation(OUT), cold)["creation"] == {"count": 1}


# Zones.


def zones(**weights: int) -> Binding:
    return bound(a_policy("zone_placement", name="zones", zones=[{"name": n, "weight": w} for n, w in weights.items()]))


PLANS = {
    "evenly": ({"a": 100, "b": 100, "c": 100, "d": 100}, {}, 5, {"a": 2, "b": 1, "c": 1, "d": 1}),
    "by weight": ({"a": 1, "b": 3}, {}, 8, {"a": 2, "b": 6}),
    "of equals the heaviest gets first": ({"a": 1, "b": 3}, {"b": 1}, 1, {"b": 1}),
    "where most is missing": ({"a": 1, "b": 1}, {"a": 3}, 3, {"b": 3}),
    "from where most is too much": ({"a": 1, "b": 1}, {"a": 4, "b": 1}, -2, {"a": 2}),
    "of equals the lightest gives first": ({"a": 3, "b": 1}, {"a": 2, "b": 1}, -1, {"b": 1}),
    "from a zone without a share": ({"a": 1, "x": 0}, {"a": 9, "x": 1}, -2, {"a": 1, "x": 1}),
    "weights of nothing are alike": ({"a": 0, "b": 0}, {}, 2, {"a": 1, "b": 1}),
}


@pytest.mark.parametrize(("weights", "spread", "change", "plan"), PLANS.values(), ids=PLANS)
def test_shares_of_zones(weights: dict[str, int], spread: dict[str, int], change: int, plan: dict[str, int]) -> None:
    assert planned(weights, spread, change) == plan


def test_zones_are_settled_before_nodes_are_placed_whatever_the_order_of_attaching() -> None:
    where = situation(OUT, members("a", "gone", None), inputs={"count": 3}, zones=frozenset("abc"))
    data = before(where, affinity(), zones(a=1, b=1, z=5))
    assert data["creation"] == {"count": 3, "zones": {"a": 1, "b": 2}}
    assert data["placement"] == {"count": 3, "placements": [{"servergroup": GROUP}] * 3}
    made = placements(data, 3)
    assert made == [{"zone": zone, "servergroup": GROUP} for zone in "abb"]


def test_the_zone_of_a_placement_goes_before_that_of_a_plan() -> None:
    where = situation(OUT, zones=frozenset("ab"))
    assert placements(before(where, zones(a=1), affinity(availability_zone="b")), 1) == [
        {"zone": "b", "servergroup": GROUP}
    ]
    assert placements(before(where, zones(a=1)), 1) == [{"zone": "a"}]
    assert placements({}, 2) == [{}, {}]


def test_no_zone_to_go_to() -> None:
    assert refusal(situation(OUT), zones(a=1, b=1)) == "Failed policy 'zones': None of its zones is available: a, b."


# Deletion.


def deletion(**properties: Any) -> Binding:
    return bound(a_policy("deletion", "1.1", "fates", **properties))


CROWD = (
    a_member("old", "a", age=9, profile_age=1, index=1),
    a_member("new", "b", age=1, profile_age=5, index=2),
    a_member("mid", "a", age=5, profile_age=5, index=3),
)
ORDERS = {"OLDEST_FIRST": ["old", "mid"], "YOUNGEST_FIRST": ["new", "mid"], "OLDEST_PROFILE_FIRST": ["mid", "new"]}


@pytest.mark.parametrize(("criteria", "first"), ORDERS.items(), ids=ORDERS)
def test_who_goes_first(criteria: str, first: list[str]) -> None:
    data = before(situation(IN, CROWD, inputs={"count": 2}), deletion(criteria=criteria, grace_period=5))
    assert data["deletion"] == {
        "count": 2,
        "candidates": first,
        "destroy_after_deletion": True,
        "grace_period": 5,
        "reduce_desired_capacity": True,
    }


def test_bad_nodes_go_before_good_ones_and_luck_is_the_same_for_the_same_action() -> None:
    bad = a_member("bad", age=7, status=NodeStatus.ERROR), a_member("tainted", age=3, tainted=True)
    unmade = replace(CROWD[1], node=replace(CROWD[1].node, id="unmade", created_at=None))
    where = situation(IN, (*CROWD, unmade, *bad), inputs={"count": 3})
    assert victims(before(where, deletion(criteria="OLDEST_FIRST")), (), 0) == ["bad", "tainted", "unmade"]
    lucky = situation(IN, CROWD, inputs={"count": 1})
    assert before(lucky, deletion()) == before(replace(lucky, members=CROWD[::-1]), deletion())


def test_zones_give_what_their_plan_says_and_who_is_nowhere_goes_first() -> None:
    nowhere = a_member("nowhere", age=2, index=4)
    where = situation(IN, (*CROWD, nowhere), inputs={"count": 2})
    data = before(where, deletion(criteria="OLDEST_FIRST"), zones(b=1))
    assert data["deletion"]["zones"] == {"a": 1}  # type: ignore[index]
    assert victims(data, (), 0) == ["old", "nowhere"]


def test_more_than_there_are_is_all_there_are() -> None:
    assert before(situation(IN, CROWD, inputs={"count": 9}), deletion())["deletion"]["count"] == 3  # type: ignore[index]


def test_who_is_named_goes_and_keeps_the_server_unless_the_caller_says_otherwise() -> None:
    for destroyed in (True, False):
        inputs = {"candidates": ["mid"], "destroy_after_deletion": destroyed}
        decided = before(situation(Verb.CLUSTER_DEL_NODES, CROWD, inputs=inputs), deletion())["deletion"]
        assert decided["candidates"] == ["mid"]  # type: ignore[index]
        assert decided["destroy_after_deletion"] is destroyed  # type: ignore[index]
    data = before(situation(Verb.NODE_DELETE, CROWD, target="new"), deletion())
    assert victims(data, CROWD, 1) == ["new"]


def test_a_growing_resize_deletes_nobody() -> None:
    grows = {"adjustment_type": "CHANGE_IN_CAPACITY", "number": 1}
    assert before(situation(RESIZE, CROWD, inputs=grows), deletion()) == DONE


def test_without_a_policy_bad_nodes_go_first_and_then_the_last_that_came() -> None:
    bad = a_member("bad", age=7, status=NodeStatus.WARNING, index=0)
    assert victims({}, (*CROWD, bad), 3) == ["bad", "mid", "new"]


# All of them.


def test_a_disabled_policy_is_not_asked_and_a_refusal_ends_the_asking() -> None:
    broken = replace(zones(a=1), enabled=False)
    assert before(situation(OUT), broken, affinity())["status"] == "OK"
    where = situation(OUT, members(*"aa"), a_cluster(max_size=2))
    checked = check(Moment.BEFORE, [affinity(), scaling(OUT)], where)
    assert "placement" not in checked.data
    assert checked.failure is not None


def test_without_policies_the_check_is_done() -> None:
    assert before(situation(OUT)) == DONE
