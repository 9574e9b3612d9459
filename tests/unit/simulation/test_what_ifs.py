"""What if a rack were drained, a zone lost, hosts added?"""

from dataclasses import replace

import pytest

from covey.model.errors import Invalid
from covey.model.providers import InventoryRecord, ProviderRecord
from covey.model.resources import Resources
from covey.scheduler.decide import decide
from covey.scheduler.request_spec import RequestSpec
from covey.simulation.initial_state import InitialState
from covey.simulation.what_ifs import Add, Drain, Lose, WhatIf
from tests.unit.simulation.runs import a_cloud, boots, replayed, start, stream


def names(begin: InitialState, place: str) -> set[str]:
    ids = begin.hosts_at(place)
    return {host.name for host in begin.hosts if host.id in ids}


@pytest.mark.parametrize("at", [0.0, 0.5, 1.0])
def test_drained_rack_loses_its_servers_and_gets_none(at: float) -> None:
    begin = start()
    events = stream(begin, boots=200)
    rack = names(begin, "rack-3")
    before = replayed(events, begin=begin)
    after = replayed(events, Drain("rack-3"), begin=begin, at=at)
    assert rack & set(before.server_hosts.values())
    assert not rack & set(after.server_hosts.values())
    assert (after.counts.moved > 0) == (at > 0)
    assert after.counts.stuck == 0


def test_server_without_another_host_is_stuck() -> None:
    outcome = replayed(boots(3, "g", "anti-affinity:zone"), Drain("zone-b"), at=1.0)
    assert (outcome.counts.stuck, outcome.counts.moved, len(outcome.server_hosts)) == (1, 0, 3)


def test_servers_of_a_lost_zone_are_lost() -> None:
    begin = start()
    events = stream(begin, failures=20)  # some of its hosts fail before, and would come back
    after = replayed(events, Lose("zone-b"), begin=begin)
    assert not names(begin, "zone-b") & set(after.server_hosts.values())
    assert after.counts.lost > 0
    assert after.history.usage[-1, 1].tolist() == [0, 0, 0]
    assert after.groups.hard_violations == 0


def test_servers_of_a_lost_zone_are_evacuated_on_request() -> None:
    events = boots(30)
    left, moved = (replayed(events, Lose("zone-b", evacuate), at=1.0) for evacuate in (False, True))
    assert left.counts.lost > 0
    assert len(left.server_hosts) == 30 - left.counts.lost
    assert (moved.counts.lost, moved.counts.moved, len(moved.server_hosts)) == (0, left.counts.lost, 30)


def test_added_hosts_share_the_zone_of_their_rack_and_are_used() -> None:
    begin = start()
    events = stream(begin)
    before = replayed(events, begin=begin)
    after = replayed(events, Add(2, "rack"), begin=begin, at=0.3)
    assert sum(name.startswith("added-") for name in set(after.server_hosts.values())) == 24
    assert after.counts.refused < before.counts.refused
    assert after.groups.hard_violations == 0


def test_what_ifs_combine() -> None:
    begin = start()
    after = replayed(stream(begin), Add(1, "rack"), Drain("rack-1"), begin=begin)
    assert "added-2" in after.server_hosts.values()
    assert "added-1" not in after.server_hosts.values()


@pytest.mark.parametrize(
    ("what_if", "complaint"),
    [
        (Drain("rack-99"), "Unknown aggregate, zone or host 'rack-99'. Known: rack-1, rack-10"),
        (Lose("mars"), "Unknown aggregate, zone or host 'mars'"),
        (Add(1, "shelf"), "Unknown scope 'shelf'. Known: rack, zone"),
        (Add(1, "host"), "Unknown scope 'host'"),
    ],
)
def test_unknown_place_is_rejected_before_the_run(what_if: WhatIf, complaint: str) -> None:
    with pytest.raises(Invalid, match=complaint):
        what_if.check(start())


def test_added_hosts_have_the_child_providers_of_the_host_that_they_copy() -> None:
    begin = start(hosts=2, zones=1, racks_per_zone=1)
    first = begin.hosts[0].id
    card = ProviderRecord(900, "card", "card", first, first, 0, {"CUSTOM_GPU": InventoryRecord(2, used=2)})
    cloud = a_cloud(replace(begin, providers=[*begin.providers, card]))
    cloud.add_hosts(2, "rack")
    gpus = Resources({"VCPU": 1, "CUSTOM_GPU": 1})
    decision = decide(RequestSpec(gpus, count=9), cloud.fleet, 1)
    assert [cloud.fleet.names[cloud.fleet.row_of[host]] for host in sorted(decision.chosen)] == [
        "added-1", "added-1", "added-2", "added-2",
    ]  # fmt: skip
