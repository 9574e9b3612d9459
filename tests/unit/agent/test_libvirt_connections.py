"""Opening a connection to a libvirtd that hangs ends within a time limit."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from covey.agent.hypervisor import HypervisorFault
from tests.agent_lab import wait_until

pytestmark = pytest.mark.needs_program("libvirt")  # for its module


def test_connection_that_is_not_opened_in_time_is_a_fault_for_all_and_used_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import libvirt

    from covey.agent.libvirt.connections import Connection

    answers, opened = threading.Event(), list[str]()
    fresh = SimpleNamespace(setKeepAlive=lambda *_: None, isAlive=lambda: True)

    def open_connection(uri: str) -> SimpleNamespace:
        opened.append(uri)
        assert answers.wait(60)
        return fresh

    monkeypatch.setattr(libvirt, "open", open_connection)
    connection = Connection("qemu:///system", timeout_s=0.05)
    for _ in range(2):
        with pytest.raises(HypervisorFault, match="does not answer within"):
            connection.get()
    answers.set()
    wait_until(lambda: _get(connection) is fresh, "the connection is there")
    assert opened == ["qemu:///system"]


def _get(connection: Any) -> object:
    try:
        return connection.get()
    except HypervisorFault:
        return None
