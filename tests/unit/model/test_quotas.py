"""How many more servers a quota allows."""

import pytest

from covey.model.quotas import UNLIMITED, QuotaUse


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
