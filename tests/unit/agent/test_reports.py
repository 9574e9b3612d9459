"""Reports of calls to the service."""

import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from covey.agent.reports import Reports
from covey.agent.service_api import Call, Conflict, ServiceApi
from tests.unit.agent.build import a_call

if TYPE_CHECKING:
    from covey.agent.hypervisor import Hypervisor


class EndedCalls:
    """A service that has ended every call."""

    def report(self, call: Call, state: str, **_: Any) -> bool:
        raise Conflict(f"The call {call.id} has ended, and is not {state}.")


class Host:
    """A hypervisor that records which migrations were aborted."""

    def __init__(self) -> None:
        self.aborted: list[str] = []

    def progress(self, server: str) -> None:
        """Return None: no migration has progress."""

    def abort(self, server: str) -> None:
        self.aborted.append(server)


@pytest.mark.parametrize(("verb", "is_aborted"), [("migrate", True), ("spawn", False)])
def test_migration_whose_call_has_ended_is_aborted(verb: str, is_aborted: bool) -> None:
    """The service has decided where the server is. A guest that is started stays: the agent removes it if need be."""
    host, stopping = Host(), threading.Event()
    reports = Reports(cast("ServiceApi", EndedCalls()), cast("Hypervisor", host), stopping, lambda: 0.0)
    call = a_call(verb=verb)
    assert reports.begin(call, float("inf"))
    reports._renew(call)
    assert host.aborted == ([call.server] if is_aborted else [])
    assert not reports._calls
