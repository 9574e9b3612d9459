"""What if a rack were drained, a zone lost, hosts added?"""

import pytest

from covey.model.errors import Invalid
from covey.simulation.start import Start
from covey.simulation.what_ifs import Add, Drain, Lose, WhatIf
from tests.unit.simulation.runs import replayed, server_creation, start, stream


def names(begin: Start, place: str) -> set[str]:
    ids = begin.hosts_at(place)
    return {host.name for host in begin.hosts if host.id in ids}


@pytest.mark.parametrize("at", [0.0, 0.5, 1.0])
def test_a_drained_rack_receives_nothing_and_what_was_there_moved(at: float) -> None:
    begin = start()
    events = stream(begin, server_creation=200)
    rack = names(begin, "rack-3")
    before = replayed(events, begin=begin)
    after = replayed(events, Drain("rack-3"), begin=begin, at=at)
    assert rack & set(before.places.values())
    assert not rack & set(after.places.values())
    assert (after.counts.moved > 0) == (at > 0)
    assert after.counts.stuck == 0


def test_what_can_not_move_stays_where_it_is() -> None:
    outcome = replayed(server_creation(3, "g", "anti-affinity:zone"), Drain("zone-b"), at=1.0)
    assert (outcome.counts.stuck, outcome.counts.moved, len(outcome.places)) == (1, 0, 3)


def test_a_lost_zones_servers_are_gone_for_good() -> None:
    begin = start()
    events = stream(begin, failures=20)  # some of its hosts fail before, and would come back
    after = replayed(events, Lose("zone-b"), begin=begin)
    assert not names(begin, "zone-b") & set(after.places.values())
    assert after.counts.lost > 0
    assert after.history.use[-1, 1].tolist() == [0, 0, 0]
    assert after.fate.breaking == 0


def test_a_lost_zones_servers_find_other_places_if_they_are_to() -> None:
    events = server_creation(30)
    left, moved = (replayed(events, Lose("zone-b", evacuate), at=1.0) for evacuate in (False, True))
    assert left.counts.lost > 0
    assert len(left.places) == 30 - left.counts.lost
    assert (moved.counts.lost, moved.counts.moved, len(moved.places)) == (0, left.counts.lost, 30)


def test_added_hosts_stand_where_their_rack_stands_and_are_used() -> None:
    begin = start()
    events = stream(begin)
    before = replayed(events, begin=begin)
    after = replayed(events, Add(2, "rack"), begin=begin, at=0.3)
    assert sum(name.startswith("added-") for name in set(after.places.values())) == 24
    assert after.counts.refused < before.counts.refused
    assert after.fate.breaking == 0


def test_several_what_ifs_see_one_another() -> None:
    begin = start()
    after = replayed(stream(begin), Add(1, "rack"), Drain("rack-1"), begin=begin)
    assert "added-2" in after.places.values()
    assert "added-1" not in after.places.values()


@pytest.mark.parametrize(
    ("what_if", "complaint"),
    [
        (Drain("rack-99"), "no aggregate, zone or host 'rack-99'. There are: rack-1, rack-10"),
        (Lose("mars"), "no aggregate, zone or host 'mars'"),
        (Add(1, "shelf"), "no scope 'shelf'. There are: rack, zone"),
        (Add(1, "host"), "no scope 'host'"),
    ],
)
def test_a_place_that_is_not_there_is_refused_before_anything_runs(what_if: WhatIf, complaint: str) -> None:
    with pytest.raises(Invalid, match=complaint):
        what_if.check(start())
