"""Hosts: what can be told of one."""

import pytest

from covey.model.hosts import Host
from covey.model.ids import HostId
from tests.build import NOW


@pytest.mark.parametrize("disabled", [True, False])
def test_a_host_is_up_unless_it_is_forced_down_whether_or_not_it_takes_servers(disabled: bool) -> None:
    for forced_down in (True, False):
        host = Host(HostId(1), "u", "n1", None, disabled, None, forced_down, NOW)
        assert host.up is not forced_down
