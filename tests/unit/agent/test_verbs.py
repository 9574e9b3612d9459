"""What each verb of a call does on the hypervisor."""

from dataclasses import replace
from pathlib import Path

import pytest

from covey.agent.hypervisor import HypervisorFault
from covey.agent.image_cache import ImageCache
from covey.agent.simulated import Simulated
from covey.agent.simulated_world import World
from covey.agent.verbs import Verbs
from covey.model.agents import ARRIVED
from tests.unit.agent.build import a_call


def verbs_of(host: Simulated, directory: Path) -> Verbs:
    def no_image(image: str) -> None:
        raise AssertionError(image)

    return Verbs(host, ImageCache(directory, no_image, host.images_in_use, 0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verb", "shares_disks", "arguments", "is_refused"),
    [
        pytest.param("evacuate", True, {}, True, id="evacuation without the shared storage"),
        pytest.param("evacuate", False, {}, False, id="evacuation with local disks, which starts from the image"),
        pytest.param("spawn", True, {"has_data": True}, True, id="unshelve without the shared storage"),
        pytest.param("spawn", False, {"has_data": True}, True, id="unshelve on a host that has lost the disk"),
        pytest.param("spawn", True, {}, False, id="boot"),
        pytest.param("power", True, {"verb": "start"}, True, id="start without the shared storage"),
        pytest.param("power", False, {"verb": "reboot_hard"}, True, id="reboot on a host that has lost the disk"),
    ],
)
def test_server_that_has_data_starts_on_no_new_disk(
    tmp_path: Path, verb: str, shares_disks: bool, arguments: dict[str, object], is_refused: bool
) -> None:
    host = Simulated("a", World(), shares_disks=shares_disks)
    verbs, call = verbs_of(host, tmp_path), replace(a_call(verb=verb), arguments=arguments)
    if is_refused:
        with pytest.raises(HypervisorFault, match="The disk of server s1 is not on"):
            verbs.carry_out(call)
        assert host.observed() == []
        host.spawn(call.guest, None, 1)
        host.detach("s1", 1)
    verbs.carry_out(call)
    assert [guest.power for guest in host.observed()] == ["running"]


@pytest.mark.parametrize(
    ("arguments", "guest_epoch", "boots"),
    [
        pytest.param({"since": 100}, None, 1, id="the disk of a move that failed"),
        pytest.param({"since": 100}, 99, 1, id="the guest of an earlier operation"),
        pytest.param({"since": 100}, 100, 8, id="the guest of this evacuation, which is repeated"),
        pytest.param({"since": 100, "has_data": True}, None, 8, id="the newest data, which only this host has"),
    ],
)
def test_evacuated_server_starts_from_no_disk_that_an_earlier_operation_has_left(
    tmp_path: Path, arguments: dict[str, object], guest_epoch: int | None, boots: int
) -> None:
    host = Simulated("a", World(), shares_disks=False)
    call = replace(a_call(verb="evacuate", epoch=101), arguments=arguments)
    if guest_epoch is not None:
        host.spawn(replace(call.guest, power="shutdown"), None, guest_epoch)
    with host.world.transaction() as connection:
        connection.execute("INSERT OR REPLACE INTO disks (host, server, boots) VALUES ('a', 's1', 7)")
    verbs_of(host, tmp_path).carry_out(call)
    assert [tuple(row) for row in host.world.read("SELECT server, boots FROM disks")] == [("s1", boots)]
    assert [guest.power for guest in host.observed()] == ["running"]


@pytest.mark.parametrize("wanted", ["running", "shutdown"])
@pytest.mark.parametrize(
    ("power", "epoch", "arrived"),
    [
        ("running", 99, True),
        ("shutdown", 100, True),
        ("crashed", 101, True),
        pytest.param("shutdown", 99, False, id="what an earlier move has left is older than the data of the source"),
        ("starting", 100, False),
    ],
)
def test_guest_whose_source_has_ended_stays_if_it_has_arrived(
    tmp_path: Path, power: str, epoch: int, arrived: bool, wanted: str
) -> None:
    host = Simulated("a", World())
    call = a_call(verb="detach", epoch=102)
    call = replace(call, guest=replace(call.guest, power=wanted), arguments={"unless": ARRIVED, "since": 100})
    host.spawn(call.guest, None, epoch)
    with host.world.transaction() as connection:
        connection.execute("UPDATE guests SET power = ?", (power,))
    assert verbs_of(host, tmp_path).carry_out(call) == (ARRIVED if arrived else None)
    left = "running" if "running" in {power, wanted} else power
    assert [guest.power for guest in host.observed()] == ([left] if arrived else [])
