"""What each verb of a call does on the hypervisor."""

from dataclasses import replace
from pathlib import Path

import pytest

from covey.agent.hypervisor import HypervisorFault
from covey.agent.image_cache import ImageCache
from covey.agent.simulated import Simulated
from covey.agent.simulated_world import World
from covey.agent.verbs import Verbs
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
