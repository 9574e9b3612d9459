"""A stream on a fleet: repeatable, by the service's own decisions, and never against a hard policy."""

from dataclasses import replace

import numpy as np
import pytest

from covey.model.errors import Invalid
from covey.model.ids import HostId
from covey.scheduler.decide import decide
from covey.scheduler.request_spec import RequestSpec
from covey.scheduler.violations import violations
from covey.simulation.events import Event, read, written
from covey.simulation.replay import Outcome
from covey.simulation.start import Running
from covey.simulation.workload import Mix, Workload, generate
from tests.unit.simulation.runs import SMALL, boot, grow, replayed, server_creation, start, stream, world

HARD = tuple(
    Mix(policies, 1.0)
    for policies in (("anti-affinity:rack=1",), ("affinity:rack", "anti-affinity"), ("anti-affinity:zone=4",))
)


def same(one: Outcome, other: Outcome) -> bool:
    ours, theirs = one.history, other.history
    columns = ("at_s", "use", "servers", "skew_mean", "skew_worst", "refused")
    return (one.counts, one.fate, one.places) == (other.counts, other.fate, other.places) and all(
        np.array_equal(getattr(ours, name), getattr(theirs, name), equal_nan=True) for name in columns
    )


def test_the_same_seed_gives_the_same_outcome_and_another_one_another() -> None:
    begin = start()
    runs = [replayed(stream(begin, seed), begin=begin) for seed in (7, 7, 8)]
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


def test_a_recorded_stream_is_replayed_as_it_was() -> None:
    begin = start()
    made = stream(begin)
    recorded = read(written(made), "a file")
    assert recorded == made
    assert same(replayed(recorded, begin=begin), replayed(made, begin=begin))


def test_a_stream_has_as_many_servers_as_asked_for_and_of_every_kind_of_happening() -> None:
    made = stream(start(), server_creation=500)
    asked = sum(1 for each in made if each.boot) + sum(each.grow.count for each in made if each.grow)
    assert asked == 500
    assert all(any(getattr(each, kind) for each in made) for kind in ("boot", "grow", "delete", "fail", "recover"))
    assert [each.at for each in made] == sorted(each.at for each in made)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_hard_policy_is_ever_broken_and_no_host_is_overfull(seed: int) -> None:
    cloud = world()
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
    assert sum(n for reason, n in cloud.counts.reasons.items() if "group" in reason) > 50  # there was temptation
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


def test_a_place_is_what_the_service_would_have_decided() -> None:
    begin = start()
    outcome = replayed(server_creation(1, "g", "soft-anti-affinity:rack"), begin=begin)
    asked = RequestSpec(*SMALL)
    fleet = begin.fleet()
    chosen = decide(asked, fleet, seed=0).chosen[0]
    assert outcome.places == {"s0": fleet.hosts[fleet.row_of[chosen]].name}


def test_a_refusal_is_counted_by_its_reason_with_how_full_the_fleet_was() -> None:
    outcome = replayed(server_creation(4, "g", "anti-affinity:zone"))
    assert outcome.counts.reasons == {"already hold enough of the group in their zone": 1}
    assert (outcome.counts.placed, outcome.counts.refused) == (3, 1)
    assert outcome.fate.whole == 0
    assert 0 < outcome.counts.first_at["already hold enough of the group in their zone"] < 0.01


def test_growth_is_one_decision_that_places_what_fits() -> None:
    events = [Event(0, boot("one", "g", "anti-affinity:zone")), Event(1, grow=grow("g", 5))]
    outcome = replayed(events)
    assert sorted(outcome.places) == ["g/2", "g/3", "one"]
    assert (outcome.counts.asked, outcome.counts.refused, outcome.decision_s.size) == (6, 3, 2)


def test_a_batch_that_needs_more_than_fit_gets_nothing() -> None:
    outcome = replayed([Event(0, boot("s", "g", "anti-affinity:zone", count=5, minimum=4))])
    assert (outcome.places, outcome.counts.refused) == ({}, 5)


def test_skew_is_what_the_fullest_domain_has_more_than_the_emptiest() -> None:
    crowd = [Running(f"s{n}", HostId(1 + n % 2), SMALL, group="g") for n in range(5)]
    begin = replace(start(), servers=tuple(crowd), groups={"g": start().policies(["soft-anti-affinity:rack"], {})})
    history = replayed([], begin=begin).history
    assert history.skew_worst[-1].tolist()[1:] == pytest.approx(
        [5, np.nan], nan_ok=True
    )  # of racks; nobody asked for zones
    assert replayed([], begin=begin).fate.uneven == 1


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"at": 1}', "exactly one of boot, grow"),
        ('{"at": 1, "delete": "a", "fail": "b"}', "exactly one of boot, grow"),
        ('{"delete": "a"}', "required field `at`"),
        ('{"at": 1, "boot": {"name": "a", "vcpus": "2", "memory_mb": 1, "disk_gb": 1}}', "`$.boot.vcpus`"),
        ('{"at": 1, "boot": {"name": "a", "vcpus": 2, "memory_mb": 1, "disk_gb": 1, "flavour": "x"}}', "`flavour`"),
        ('{"at": 1, "boot": {"name": "a", "vcpus": 0, "memory_mb": 0, "disk_gb": 0}}', "more than 0"),
        ("nonsense", "malformed"),
        (b'{"at": 1, "fail": "\xff"}', "utf-8"),
    ],
)
def test_a_bad_line_is_refused_with_its_number(line: str | bytes, complaint: str) -> None:
    with pytest.raises(Invalid) as refused:
        read(['{"at": 0, "recover": "host-1"}', "", line], "stream.jsonl")
    assert str(refused.value).startswith("stream.jsonl, line 3: ")
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        (Event(0, delete="nobody"), "The server nobody"),
        (Event(0, fail="nowhere"), "no host 'nowhere'"),
        (Event(0, grow=grow("nobody", 2)), "The group nobody"),
        (Event(0, boot("a", zone="mars")), "the zone 'mars'. There are: zone-a, zone-b, zone-c"),
        (Event(0, boot("a", "g", "anti-affinity:shelf")), "no scope 'shelf'. There are: host, rack, zone"),
    ],
)
def test_what_makes_no_sense_on_this_fleet_is_refused(event: Event, complaint: str) -> None:
    with pytest.raises(Invalid, match=complaint):
        replayed([event])


def test_a_fleet_without_flavors_has_nothing_to_ask_for() -> None:
    with pytest.raises(Invalid, match="no flavors"):
        generate(replace(start(), sizes=()), Workload(), 1)
