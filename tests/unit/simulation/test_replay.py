"""The replay of a stream: repeatable, by the service's decisions, without hard violations."""

from dataclasses import replace

import numpy as np
import pytest

from covey.model.errors import Invalid
from covey.model.ids import HostId
from covey.model.resources import server_resources
from covey.scheduler.decide import decide
from covey.scheduler.request_spec import RequestSpec
from covey.scheduler.violations import violations
from covey.simulation.events import Event, encode_lines, read
from covey.simulation.initial_state import RunningServer
from covey.simulation.replay import Outcome
from covey.simulation.workload import Mix, Workload, generate
from tests.unit.simulation.runs import SMALL, a_cloud, boot, boots, grow, replayed, start, stream

HARD = tuple(
    Mix(policies, 1.0)
    for policies in (("anti-affinity:rack=1",), ("affinity:rack", "anti-affinity"), ("anti-affinity:zone=4",))
)


def same(one: Outcome, other: Outcome) -> bool:
    ours, theirs = one.history, other.history
    columns = ("at_s", "usage", "servers", "skew_mean", "skew_worst", "refused")
    return (one.counts, one.groups, one.server_hosts) == (other.counts, other.groups, other.server_hosts) and all(
        np.array_equal(getattr(ours, name), getattr(theirs, name), equal_nan=True) for name in columns
    )


def test_outcome_depends_on_the_seed() -> None:
    begin = start()
    runs = [replayed(stream(begin, seed), begin=begin) for seed in (7, 7, 8)]
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


def test_recorded_stream_replays_identically() -> None:
    begin = start()
    made = stream(begin)
    recorded = read(encode_lines(made), "a file")
    assert recorded == made
    assert same(replayed(recorded, begin=begin), replayed(made, begin=begin))


def test_stream_has_the_requested_servers_and_every_kind_of_event() -> None:
    made = stream(start(), boots=500)
    asked = sum(1 for each in made if each.boot) + sum(each.grow.count for each in made if each.grow)
    assert asked == 500
    assert all(any(getattr(each, kind) for each in made) for kind in ("boot", "grow", "delete", "fail", "recover"))
    assert [each.at for each in made] == sorted(each.at for each in made)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_hard_policy_is_violated_and_no_host_is_overcommitted(seed: int) -> None:
    cloud = a_cloud()
    for number, event in enumerate(stream(cloud.start, seed, mix=HARD)):
        if event.boot:
            cloud.boot(event.boot, number)
        elif event.grow:
            cloud.grow(event.grow, number)
        elif event.delete:
            cloud.delete(event.delete)
        elif event.fail:
            cloud.fail([cloud.row(event.fail)], number, evacuate=True)
        elif event.recover:
            cloud.recover([cloud.row(event.recover)])
    cloud.drain(range(5), 1)
    assert (
        sum(n for reason, n in cloud.counts.reasons.items() if "group" in reason) > 50
    )  # group policies rejected many hosts
    assert cloud.counts.moved > 5
    assert (cloud.fleet.free >= 0).all()
    places: dict[str, dict[str, HostId]] = {name: {} for name in cloud.groups}
    for name, seat in cloud.servers.items():
        if seat.group:
            places[seat.group][name] = cloud.fleet.hosts[seat.row].id
    found = [
        each
        for name, group in cloud.groups.items()
        for each in violations(group.view.policies, places[name], cloud.fleet)
    ]
    assert [each for each in found if not each.soft] == []


def test_placement_equals_the_decision_of_the_service() -> None:
    begin = start()
    outcome = replayed(boots(1, "g", "soft-anti-affinity:rack"), begin=begin)
    asked = RequestSpec(server_resources(*SMALL))
    fleet = begin.fleet()
    chosen = decide(asked, fleet, seed=0).chosen[0]
    assert outcome.server_hosts == {"s0": fleet.hosts[fleet.row_of[chosen]].name}


def test_refusal_is_counted_by_reason_with_the_fleet_usage() -> None:
    outcome = replayed(boots(4, "g", "anti-affinity:zone"))
    assert outcome.counts.reasons == {"already hold enough of the group in their zone": 1}
    assert (outcome.counts.placed, outcome.counts.refused) == (3, 1)
    assert outcome.groups.complete == 0
    assert 0 < outcome.counts.first_at["already hold enough of the group in their zone"] < 0.01


def test_growth_places_what_fits_in_one_decision() -> None:
    events = [Event(0, boot("one", "g", "anti-affinity:zone")), Event(1, grow=grow("g", 5))]
    outcome = replayed(events)
    assert sorted(outcome.server_hosts) == ["g/2", "g/3", "one"]
    assert (outcome.counts.requested, outcome.counts.refused, outcome.decision_s.size) == (6, 3, 2)


def test_batch_below_its_minimum_places_nothing() -> None:
    outcome = replayed([Event(0, boot("s", "g", "anti-affinity:zone", count=5, minimum=4))])
    assert (outcome.server_hosts, outcome.counts.refused) == ({}, 5)


def test_skew_is_the_difference_of_fullest_and_emptiest_domain() -> None:
    crowd = [RunningServer(f"s{n}", HostId(1 + n % 2), server_resources(*SMALL), group="g") for n in range(5)]
    begin = replace(start(), servers=tuple(crowd), groups={"g": start().policies(["soft-anti-affinity:rack"], {})})
    history = replayed([], begin=begin).history
    assert history.skew_worst[-1].tolist()[1:] == pytest.approx(
        [5, np.nan], nan_ok=True
    )  # of racks; no policy of the scope zone
    assert replayed([], begin=begin).groups.soft_violations == 1


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"at": 1}', "exactly one of boot, grow"),
        ('{"at": 1, "delete": "a", "fail": "b"}', "exactly one of boot, grow"),
        ('{"delete": "a"}', "required field `at`"),
        ('{"at": 1, "boot": {"name": "a", "vcpus": "2", "memory_mb": 1, "disk_gb": 1}}', "`$.boot.vcpus`"),
        ('{"at": 1, "boot": {"name": "a", "vcpus": 2, "memory_mb": 1, "disk_gb": 1, "flavour": "x"}}', "`flavour`"),
        ('{"at": 1, "boot": {"name": "a", "vcpus": 0, "memory_mb": 0, "disk_gb": 0}}', "must be greater than 0"),
        ("nonsense", "malformed"),
        (b'{"at": 1, "fail": "\xff"}', "utf-8"),
    ],
)
def test_invalid_line_is_rejected_with_its_number(line: str | bytes, complaint: str) -> None:
    with pytest.raises(Invalid) as refused:
        read(['{"at": 0, "recover": "host-1"}', "", line], "stream.jsonl")
    assert str(refused.value).startswith("stream.jsonl, line 3: ")
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        (Event(0, delete="unknown"), "The server unknown"),
        (Event(0, fail="nowhere"), "Unknown host 'nowhere'"),
        (Event(0, grow=grow("unknown", 2)), "The group unknown"),
        (Event(0, boot("a", zone="mars")), "unknown zone 'mars'. Known: zone-a, zone-b, zone-c"),
        (Event(0, boot("a", "g", "anti-affinity:shelf")), "Unknown scope 'shelf'. Known: host, rack, zone"),
    ],
)
def test_event_that_does_not_match_the_fleet_is_rejected(event: Event, complaint: str) -> None:
    with pytest.raises(Invalid, match=complaint):
        replayed([event])


def test_fleet_without_flavors_is_rejected() -> None:
    with pytest.raises(Invalid, match="no flavors"):
        generate(replace(start(), sizes=()), Workload(), 1)
