"""The state of a host."""

import pytest

from covey.model.hosts import Host
from covey.model.ids import HostId
from tests.build import NOW


@pytest.mark.parametrize("disabled", [True, False])
def test_host_is_up_unless_forced_down(disabled: bool) -> None:
    for forced_down in (True, False):
        host = Host(HostId(1), "u", "n1", None, disabled, None, forced_down, NOW)
        assert host.up is not forced_down
