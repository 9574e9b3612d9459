"""How many more servers a quota allows."""

import pytest

from covey.model.quotas import UNLIMITED, QuotaUse
from covey.model.resources import quota_sizes
from tests.build import a_flavor


@pytest.mark.parametrize(
    ("limits", "used", "left"),
    [
        pytest.param({"instances": 10, "cores": 20}, {}, 5, id="the tightest limit counts"),
        pytest.param({"instances": 10, "cores": 20}, {"instances": 7, "cores": 3}, 3, id="what is in use counts"),
        pytest.param({"instances": 10}, {"instances": 12}, 0, id="use above a limit leaves none"),
        pytest.param({"instances": UNLIMITED, "cores": 9}, {"instances": 99}, 2, id="an unlimited one does not count"),
        pytest.param({"instances": UNLIMITED}, {}, None, id="no limit"),
    ],
)
def test_servers_that_a_quota_leaves(limits: dict[str, int], used: dict[str, int], left: int | None) -> None:
    assert QuotaUse(limits, used).left_for({"instances": 1, "cores": 4, "ram": 0}) == left


@pytest.mark.parametrize(
    ("specs", "sizes"),
    [
        pytest.param({}, {"instances": 1, "cores": 2, "ram": 1024, "class:DISK_GB": 10}, id="its size"),
        pytest.param(
            {"resources:VCPU": "1", "resources:PCPU": "4", "resources:DISK_GB": "0", "resources1:CUSTOM_GPU": "2"},
            {"instances": 1, "cores": 5, "ram": 1024, "class:CUSTOM_GPU": 2},
            id="what it claims",
        ),
        pytest.param(
            {"hw:mem_page_size": "large"},
            {"instances": 1, "cores": 2, "ram": 1024, "class:DISK_GB": 10},
            id="its size, if Covey cannot follow it",
        ),
        pytest.param(
            {"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "3"},
            {"instances": 1, "cores": 0, "ram": 0, "class:DISK_GB": 3},
            id="no cores",
        ),
    ],
)
def test_quota_sizes_of_a_flavor(specs: dict[str, str], sizes: dict[str, int]) -> None:
    flavor = a_flavor("f", vcpus=2, memory_mb=1024, disk_gb=10, extra_specs=specs)
    assert quota_sizes(flavor) == sizes
