"""What an agent does about each guest and each server of its host."""

import pytest

from covey.agent.hypervisor import ObservedGuest
from covey.agent.reconciliation import (
    ForeignService,
    RepairAction,
    cleanups,
    find_leftovers,
    find_orphans,
    removals,
    repairs,
)
from covey.agent.service_api import ExpectedServer
from tests.unit.agent.build import expected


def actions(
    observed: list[ObservedGuest],
    servers: list[ExpectedServer],
    locations: dict[str, str] | None = None,
    *,
    resumed: frozenset[str] | None = frozenset(),
    shares_disks: bool = True,
) -> dict[str, str]:
    found = repairs(observed, servers, locations or {}, resumed=resumed, shares_disks=shares_disks)
    return {repair.server: repair.action for repair in found}


def test_guest_that_runs_as_it_should_is_adopted_without_a_repair() -> None:
    assert actions([ObservedGuest("s1", "running", 3)], [expected()]) == {}


def test_stopped_guest_of_a_stopped_server_needs_no_repair() -> None:
    assert actions([ObservedGuest("s1", "shutdown", 3)], [expected(power="shutdown")]) == {}


@pytest.mark.parametrize("power", ["shutdown", "crashed", "paused"])
def test_guest_that_should_run_and_does_not_is_reported(power: str) -> None:
    (repair,) = repairs([ObservedGuest("s1", power, 3)], [expected()], {}, resumed=frozenset(), shares_disks=True)
    assert (repair.action, repair.power) == (RepairAction.REPORT, power)


def test_guest_that_should_run_and_is_missing_is_reported_as_shut_down() -> None:
    (repair,) = repairs([], [expected()], {}, resumed=frozenset(), shares_disks=True)
    assert (repair.action, repair.power) == (RepairAction.REPORT, "shutdown")


def test_option_to_resume_starts_every_guest_that_should_run() -> None:
    seen = [ObservedGuest("s1", "shutdown", 3), ObservedGuest("s2", "crashed", 3)]
    assert actions(seen, [expected("s1"), expected("s2"), expected("s3")], resumed=None) == {
        "s1": RepairAction.START,
        "s2": RepairAction.START,
        "s3": RepairAction.START,
    }


def test_self_fenced_guests_start_again_and_others_do_not() -> None:
    seen = [ObservedGuest("s1", "shutdown", 3), ObservedGuest("s2", "shutdown", 3)]
    servers = [expected("s1"), expected("s2")]
    assert actions(seen, servers, resumed=frozenset({"s1"})) == {"s1": RepairAction.START, "s2": RepairAction.REPORT}


def test_guest_that_runs_while_its_server_is_stopped_is_reported_and_not_started() -> None:
    (repair,) = repairs(
        [ObservedGuest("s1", "running", 3)], [expected(power="shutdown")], {}, resumed=None, shares_disks=True
    )
    assert (repair.action, repair.power) == (RepairAction.REPORT, "running")


@pytest.mark.parametrize(
    "server", [expected(task="powering-on"), expected(location="arriving"), expected(location="leaving")]
)
def test_servers_with_work_under_way_are_left_to_their_calls(server: ExpectedServer) -> None:
    assert actions([ObservedGuest("s1", "shutdown", 3)], [server], resumed=None) == {}
    assert actions([], [server], resumed=None) == {}


def test_repair_carries_the_larger_epoch() -> None:
    for observed_epoch, epoch in ((3, 7), (7, 3)):
        (repair,) = repairs(
            [ObservedGuest("s1", "shutdown", observed_epoch)],
            [expected(epoch=epoch)],
            {},
            resumed=None,
            shares_disks=True,
        )
        assert repair.epoch == 7


def test_guest_that_the_service_has_not_here_is_an_orphan() -> None:
    seen = [ObservedGuest("s1", "running", 3), ObservedGuest("s2", "running", 3)]
    assert find_orphans(seen, [expected("s1")]) == ["s2"]


@pytest.mark.parametrize(
    ("location", "shares_disks", "action"),
    [
        ("deleted", True, RepairAction.DESTROY),
        ("deleted", False, RepairAction.DESTROY),
        ("elsewhere", True, RepairAction.DETACH),
        ("elsewhere", False, RepairAction.DESTROY),
        ("shelved", True, RepairAction.DETACH),
        ("shelved", False, RepairAction.DETACH),
        ("unknown", True, RepairAction.DETACH),
        ("unknown", False, RepairAction.DETACH),
    ],
)
def test_orphan_loses_its_data_only_if_that_is_certain(location: str, shares_disks: bool, action: RepairAction) -> None:
    seen = [ObservedGuest("s1", "running", 3), ObservedGuest("own", "running", 3)]
    assert actions(seen, [expected("own")], {"s1": location}, shares_disks=shares_disks) == {"s1": action}


@pytest.mark.parametrize("location", ["here", "arriving", "leaving"])
def test_orphan_that_has_come_here_since_is_left_alone(location: str) -> None:
    assert actions([ObservedGuest("s1", "running", 3)], [], {"s1": location}) == {}


def test_data_without_a_guest_is_a_leftover() -> None:
    seen = [ObservedGuest("s1", "running", 3)]
    assert find_leftovers(["s1", "s2", "s3"], seen, [expected("s2", location="arriving")]) == ["s3"]


@pytest.mark.parametrize(
    ("location", "shares_disks", "removed"),
    [
        ("deleted", True, True),
        ("deleted", False, True),
        ("elsewhere", True, False),
        ("elsewhere", False, True),
        ("shelved", True, False),
        ("shelved", False, False),
        ("unknown", False, False),
        ("here", False, False),
        ("arriving", False, False),
        ("leaving", False, False),
    ],
)
def test_data_is_removed_only_if_no_server_needs_it(location: str, shares_disks: bool, removed: bool) -> None:
    found = [repair.action for repair in cleanups({"s1": location}, {}, shares_disks=shares_disks)]
    assert found == [RepairAction.DESTROY] * removed


def test_data_that_a_call_has_left_is_removed_with_the_epoch_of_that_call() -> None:
    (repair,) = cleanups({"s1": "elsewhere"}, {"s1": 7}, shares_disks=False)
    assert (repair.action, repair.epoch) == (RepairAction.DESTROY, 7)


@pytest.mark.parametrize("guests", [1, 2])
def test_service_without_any_guest_of_the_host_is_rejected_as_foreign(guests: int) -> None:
    seen = [ObservedGuest(f"s{number}", "running", 3) for number in range(guests)]
    with pytest.raises(ForeignService, match=rf"no guest on this host \({guests} in all\)"):
        actions(seen, [], {guest.id: "unknown" for guest in seen})


def test_service_with_one_guest_of_the_host_is_accepted() -> None:
    seen = [ObservedGuest("s1", "running", 3), ObservedGuest("s2", "running", 3)]
    found = actions(seen, [expected("s1")], {"s2": "unknown"})
    assert found == {"s2": RepairAction.DETACH}


def test_sweep_removes_guests_that_belong_elsewhere_and_leaves_all_others() -> None:
    locations = {"gone": "deleted", "moved": "elsewhere", "shelved": "shelved"}
    kept = {"own": "here", "comes": "arriving", "goes": "leaving", "foreign": "unknown"}
    observed = [ObservedGuest(server, "running", 3) for server in (*locations, *kept)]
    found = {repair.server: repair.action for repair in removals(observed, locations | kept, shares_disks=True)}
    assert found == {"gone": RepairAction.DESTROY, "moved": RepairAction.DETACH, "shelved": RepairAction.DETACH}
