"""Servers that several providers of a host's tree serve together: bounded searches, and batches by columns."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from covey.model.fleet_records import AggregateRecord, HostRecord
from covey.model.groups import GroupPolicy, GroupView
from covey.model.ids import HostId
from covey.model.providers import InventoryRecord
from covey.model.resources import GranularGroup, Resources
from covey.model.servers import HostRequirements
from covey.scheduler import provider_allocations
from covey.scheduler.decide import decide
from covey.scheduler.explain import explain, host_reasons
from covey.scheduler.fleet import Fleet
from covey.scheduler.max_flow import Budget
from covey.scheduler.provider_allocations import allocations_on
from covey.scheduler.provider_trees import SHARES
from covey.scheduler.remedies import remedies
from covey.scheduler.request_spec import RequestSpec
from covey.scheduler.room import count_fits, has_room
from tests.unit.scheduler.fleets import (
    RACK,
    SWITCH,
    affinity,
    anti_affinity,
    hosts_with_cards,
    provider,
    provider_fleet,
)

GPU, VF = "CUSTOM_GPU", "VF"
ONE_GPU = Resources({"VCPU": 1, GPU: 1})
BOTH = HostRequirements(required_traits=frozenset({"CUSTOM_A", "CUSTOM_B"}))


def test_tree_serves_as_many_servers_as_its_scarcest_class_allows() -> None:
    fleet = provider_fleet(*hosts_with_cards(1, {GPU: 2}, {GPU: 3}))
    assert count_fits(RequestSpec(ONE_GPU), fleet)[0] == 5
    assert count_fits(RequestSpec(Resources({"VCPU": 3, GPU: 1})), fleet)[0] == 2
    assert count_fits(RequestSpec(Resources({"VCPU": 1, GPU: 2})), fleet)[0] == 2  # one provider serves both


def test_traits_that_no_single_card_has_need_no_search() -> None:
    traits = {1: ["AB"], 2: ["A", "B"], 3: ["A", "AB"], 4: ["A"]}
    hosts = [provider(n, VCPU=8) for n in traits]
    cards = [
        provider(10 * n + i, parent=n, traits=[f"CUSTOM_{each}" for each in of_card], CUSTOM_GPU=1)
        for n, of_host in traits.items()
        for i, of_card in enumerate(of_host)
    ]
    fleet, spec = provider_fleet(*hosts, *cards), RequestSpec(ONE_GPU, requirements=BOTH)
    assert has_room(spec, fleet)[fleet.is_host].tolist() == [True, False, True, False]
    assert count_fits(spec, fleet)[:4].tolist() == [1, 0, 2, 0]  # at most: the columns count the other card too


def test_batch_fills_every_card_of_every_host() -> None:
    fleet = provider_fleet(*hosts_with_cards(3, {GPU: 2}, {GPU: 1}))
    decision = decide(RequestSpec(ONE_GPU, count=20), fleet, seed=1)
    assert Counter(decision.fitting) == {1: 3, 2: 3, 3: 3}
    assert decision.proved
    taken = Counter(
        provider for served in decision.allocations(ONE_GPU) for provider, each in served.items() if GPU in each
    )
    assert taken == {4: 2, 5: 1, 6: 2, 7: 1, 8: 2, 9: 1}


def test_batch_stops_where_a_shared_pool_is_used_up() -> None:
    pool = provider(9, traits=[SHARES], pool="pool", DISK_GB=25)
    fleet = provider_fleet(
        *(provider(n, VCPU=8, pool="pool") for n in (1, 2, 3)), pool, provider(4, VCPU=1, DISK_GB=10)
    )
    decision = decide(RequestSpec(Resources({"VCPU": 1, "DISK_GB": 10}), count=9), fleet, seed=1)
    assert len(decision.fitting) == 3
    assert sum(served[9]["DISK_GB"] for served in decision.provider_allocations or () if 9 in served) == 20
    assert decision.proved  # by a search of all placements: other servers hold what the pool lacks


@pytest.mark.parametrize(
    ("policies", "racks", "fits"),
    [
        ([anti_affinity(RACK)], {1: 7, 2: 7, 3: 8}, 2),
        ([anti_affinity(RACK, limit=2)], {1: 7, 2: 7, 3: 8}, 4),
        ([affinity(RACK)], {1: 7, 2: 7, 3: 8}, 6),
    ],
    ids=str,
)
def test_batch_in_trees_keeps_its_policies(policies: list[GroupPolicy], racks: Mapping[int, int], fits: int) -> None:
    fleet = provider_fleet(*hosts_with_cards(3, {GPU: 2}, {GPU: 1}), racks=racks)
    decision = decide(RequestSpec(ONE_GPU, count=20, group=GroupView(tuple(policies))), fleet, seed=1)
    assert (len(decision.fitting), decision.proved) == (fits, True)


def test_search_for_crossing_limits_counts_what_trees_serve() -> None:
    """Hosts 1 and 2 share a rack, 2 and 3 a switch; one after another may block the second server."""
    fleet = provider_fleet(*hosts_with_cards(3, {GPU: 1}), racks={1: 7, 2: 7, 3: 8})
    spec = RequestSpec(ONE_GPU, count=3, group=GroupView((anti_affinity(), anti_affinity(RACK))))
    assert len(decide(spec, fleet, seed=1).fitting) == 2


ABC = [f"CUSTOM_{each}" for each in "ABC"]
CARDS_OF_ONE_TRAIT: Sequence[Mapping[str, object]] = [{GPU: 1, VF: 1, "traits": [each]} for each in ABC]
ON_TWO_CARDS = RequestSpec(
    Resources({"VCPU": 1, GPU: 1, VF: 1}), requirements=HostRequirements(required_traits=frozenset(ABC))
)


def test_search_that_stops_at_its_limit_is_unproved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each card has one of three required traits, and two cards serve all: no host serves it, which no column shows."""
    monkeypatch.setattr(provider_allocations, "MAX_STEPS", 0)
    extra = [provider(1000, VCPU=8), provider(1001, 1000, traits=ABC, CUSTOM_GPU=1, VF=1)]
    fleet = provider_fleet(*hosts_with_cards(50, *CARDS_OF_ONE_TRAIT), *extra)
    decision = decide(ON_TWO_CARDS, fleet, seed=1)
    assert (decision.chosen, decision.proved) == ((), False)
    why = explain(ON_TWO_CARDS, fleet)
    assert why.sentence() == (
        "of 51 hosts: 50 have no providers that serve it together, 1 may have providers that serve it together; "
        "the search for other placements stopped at its limit, more may fit"
    )


def test_one_search_answers_for_all_trees_that_look_the_same() -> None:
    extra = [provider(9000, VCPU=4, traits=ABC[:1]), provider(9001, 9000, traits=ABC[1:], CUSTOM_GPU=1, VF=1)]
    fleet = provider_fleet(*hosts_with_cards(500, *CARDS_OF_ONE_TRAIT), *extra)
    spec = ON_TWO_CARDS
    assert (decide(spec, fleet, seed=1).chosen, decide(replace(spec, count=2), fleet, seed=1).fitting) == (
        (9000,),
        (9000,),
    )
    refused = replace(spec, requirements=replace(spec.requirements, ignored_hosts=frozenset({HostId(9000)})))
    assert decide(refused, fleet, seed=1).proved
    assert explain(refused, fleet).sentence() == (
        "of 501 hosts: 500 have no providers that serve it together, 1 is excluded by the request"
    )


def test_each_host_has_the_reason_that_the_counts_have(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = provider_fleet(*hosts_with_cards(2, *CARDS_OF_ONE_TRAIT), provider(9, VCPU=8, traits=ABC[:2]))
    spec = ON_TWO_CARDS
    assert host_reasons(spec, fleet) == {
        "p1": "its resource providers do not serve the request together",
        "p2": "its resource providers do not serve the request together",
        "p9": "it lacks the required trait CUSTOM_C",
    }
    monkeypatch.setattr(provider_allocations, "MAX_STEPS", -1000)
    assert host_reasons(spec, fleet)["p1"] == (
        "its resource providers may serve the request together; the search stopped at its limit"
    )


def test_host_that_serves_nothing_takes_no_place_of_another() -> None:
    """The roomiest host looks suitable; beside it, one after another blocks both domains of the second server."""
    racks, switches = {1: 1, 3: 2, 4: 2, 9: 9}, {1: 11, 3: 11, 4: 12, 9: 19}
    records = [
        provider(9, VCPU=32, MEMORY_MB=32000),
        *(provider(90 + n, 9, traits=[f"CUSTOM_{trait}"], CUSTOM_GPU=1) for n, trait in enumerate("AB")),
    ]
    for number, size in ((1, 8), (3, 16), (4, 8)):
        records += [
            provider(number, VCPU=size, MEMORY_MB=size * 1000, traits=["CUSTOM_A"]),
            provider(100 + number, number, traits=["CUSTOM_B"], CUSTOM_GPU=1),
        ]
    hosts = [HostRecord(HostId(n), f"h{n}", aggregates=frozenset({racks[n], switches[n]})) for n in racks]
    aggregates = [AggregateRecord(n, f"uuid-{n}", RACK.id) for n in (1, 2, 9)]
    aggregates += [AggregateRecord(n, f"uuid-{n}", SWITCH.id) for n in (11, 12, 19)]
    group = GroupView((anti_affinity(RACK), anti_affinity(SWITCH)))
    decision = decide(
        RequestSpec(ONE_GPU, count=2, minimum=2, requirements=BOTH, group=group), Fleet(records, hosts, aggregates), 1
    )
    assert (sorted(decision.chosen), decision.proved) == ([1, 4], True)


def test_pools_go_to_the_hosts_that_have_no_other() -> None:
    """Host 1 may use either pool, host 2 only one of them."""
    pools = [replace(provider(n, traits=[SHARES], DISK_GB=10), aggregates=frozenset({f"pool-{n}"})) for n in (50, 51)]
    either = replace(provider(1, VCPU=9, MEMORY_MB=9000), aggregates=frozenset({"pool-50", "pool-51"}))
    fleet = provider_fleet(either, provider(2, VCPU=1, MEMORY_MB=10, pool="pool-50"), *pools)
    spec = RequestSpec(Resources({"VCPU": 1, "DISK_GB": 10}), count=2, group=GroupView((anti_affinity(),)))
    decision = decide(spec, fleet, seed=1)
    assert (sorted(decision.fitting), decision.proved) == ([1, 2], True)


def test_batch_is_searched_as_a_whole_where_hosts_share_what_it_needs() -> None:
    """Host 1 serves three servers, or four, with what host 2 shares. Host 2 looks suitable and serves none.

    Decided beside host 2, the first server on host 1 takes the disk that two others need.
    """
    lender = replace(provider(2, VCPU=3, DISK_GB=8, traits=[SHARES]), aggregates=frozenset({"pool"}))
    lender = replace(lender, inventories={**lender.inventories, "DISK_GB": InventoryRecord(8, max_unit=2)})
    records = [provider(1, VCPU=6, DISK_GB=4, pool="pool"), lender]
    fleet = Fleet(records, [HostRecord(HostId(n), f"h{n}") for n in (1, 2)])
    parts = (GranularGroup("1", Resources({"DISK_GB": 1})),)
    spec = RequestSpec(Resources({"VCPU": 2, "DISK_GB": 2}), count=3, minimum=3, granular=parts)
    for seed in range(10):
        decision = decide(spec, fleet, seed)
        assert (decision.chosen, decision.proved) == ((1, 1, 1), True)
    larger = replace(spec, count=5, minimum=5)
    refused = decide(larger, fleet, seed=1)
    assert (refused.fitting, refused.proved) == ((1, 1, 1, 1), True)
    assert "stopped at its limit" not in explain(larger, fleet, refused.fitting, proved=refused.proved).sentence()


def test_host_whose_provider_serves_another_tree_is_decided_again() -> None:
    """Host 4 takes the card of host 5, which shares it; host 1 in the rack of host 4 has a card of its own."""
    lender = replace(provider(5, VCPU=8, CUSTOM_GPU=1, traits=[SHARES]), aggregates=frozenset({"pool"}))
    records = [provider(1, VCPU=1, CUSTOM_GPU=1), provider(4, VCPU=16, pool="pool"), lender]
    hosts = [HostRecord(HostId(n), f"h{n}", aggregates=frozenset({rack})) for n, rack in ((1, 7), (4, 7), (5, 8))]
    fleet = Fleet(records, hosts, [AggregateRecord(rack, f"uuid-{rack}", RACK.id) for rack in (7, 8)])
    decision = decide(RequestSpec(ONE_GPU, count=2, group=GroupView((anti_affinity(RACK),))), fleet, seed=1)
    assert (sorted(decision.fitting), decision.proved) == ([1, 5], True)


def test_servers_of_one_host_leave_each_other_what_they_need() -> None:
    """One after another, the first server takes the card and the pool that both have the trait."""
    with_trait = {"traits": ["CUSTOM_A"]}
    fleet = provider_fleet(
        *hosts_with_cards(1, {GPU: 1, **with_trait}, {GPU: 1}, {"CUSTOM_FPGA": 1, **with_trait}, {"CUSTOM_FPGA": 1})
    )
    spec = RequestSpec(
        Resources({"VCPU": 1, GPU: 1, "CUSTOM_FPGA": 1}),
        count=3,
        requirements=HostRequirements(required_traits=frozenset({"CUSTOM_A"})),
    )
    decision = decide(spec, fleet, seed=1)
    assert (decision.fitting, decision.proved) == ((1, 1), True)


def test_few_hosts_that_do_not_combine_are_proved_unsuitable() -> None:
    fleet = provider_fleet(
        *hosts_with_cards(5, *({GPU: 1, "traits": [each]} for each in ABC[:2])),
        provider(900, VCPU=8, traits=["CUSTOM_A"]),
        provider(901, 900, traits=["CUSTOM_B"], CUSTOM_GPU=1),
    )
    decision = decide(RequestSpec(ONE_GPU, requirements=BOTH), fleet, seed=1)
    assert (decision.chosen, decision.proved) == ((900,), True)
    refused = decide(RequestSpec(ONE_GPU, count=3, minimum=3, requirements=BOTH), fleet, seed=1)
    assert (refused.chosen, refused.fitting, refused.proved) == ((), (900,), True)


def test_search_in_one_large_tree_is_bounded() -> None:
    """Eleven groups, all different, need ten cards; each has room for some, and there are 10! orders to try."""
    cards = [{GPU: 4, "traits": ["CUSTOM_A"]} for _ in range(10)] + [{GPU: 1} for _ in range(2)]
    fleet = provider_fleet(*hosts_with_cards(1, *cards))
    groups = [
        GranularGroup(f"{n:02}", Resources({GPU: 1}), frozenset({"CUSTOM_A"}), frozenset({f"CUSTOM_NO_{n}"}))
        for n in range(11)
    ]
    groups.append(GranularGroup("99", Resources({GPU: 1}), forbidden=frozenset({"CUSTOM_A"})))
    spec = RequestSpec(Resources({"VCPU": 1}), granular=tuple(groups), isolate=True)
    decision = decide(spec, fleet, seed=1)
    assert (decision.candidates, decision.chosen, decision.proved) == (1, (), False)


def test_group_with_the_fewest_providers_is_served_first() -> None:
    """Eight groups on eight cards, of which the last one in the alphabet needs a special card."""
    cards = [{GPU: 1, "traits": ["CUSTOM_A"]}] + [{GPU: 1} for _ in range(7)]
    fleet = provider_fleet(*hosts_with_cards(1, *cards))
    groups = [GranularGroup(f"a{n}", Resources({GPU: 1})) for n in range(7)]
    groups.append(GranularGroup("z", Resources({GPU: 1}), frozenset({"CUSTOM_A"})))
    spec = RequestSpec(Resources({"VCPU": 1}), granular=tuple(groups), isolate=True)
    assert allocations_on(spec, fleet, 0, Budget(100)) is not None


def test_granular_groups_that_one_host_serves_are_decided_in_a_batch() -> None:
    fleet = provider_fleet(*(provider(n, VCPU=8, CUSTOM_GPU=4) for n in (1, 2)))
    groups = tuple(GranularGroup(suffix, Resources({GPU: 1})) for suffix in "12")
    decision = decide(RequestSpec(Resources({"VCPU": 1}), count=9, granular=groups), fleet, seed=1)
    assert Counter(decision.fitting) == {1: 2, 2: 2}
    assert next(iter(decision.allocations(Resources({})))) == {decision.fitting[0]: Resources({"VCPU": 1, GPU: 2})}


def test_refusal_says_what_a_card_has_and_how_much_less_would_fit() -> None:
    fleet = provider_fleet(*hosts_with_cards(2, {GPU: 2}, {GPU: 3}))
    spec = RequestSpec(Resources({"VCPU": 1, GPU: 4}))
    assert explain(spec, fleet).sentence() == f"of 2 hosts: 2 lack {GPU}"
    assert host_reasons(spec, fleet) == dict.fromkeys(["p1", "p2"], f"3 {GPU} are free, 4 requested")
    assert [remedy.words for remedy in remedies(spec, fleet)] == [f"with 1 less {GPU}"]
