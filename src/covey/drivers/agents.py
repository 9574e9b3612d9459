"""The driver of real hosts: the agent of each host carries out its calls, whose rows the worker leaves for it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from covey.model.agents import Verb
from covey.model.errors import CoveyError, HostDown
from covey.model.servers import Server


class Calls(Protocol):
    """Keeps the calls of jobs, and what agents report of them."""

    def carry_out(
        self,
        verb: Verb,
        server: Server,
        host: str,
        epoch: int,
        arguments: Mapping[str, object] | None = None,
        *,
        is_certain: bool = False,
    ) -> None:
        """Return once the call is done. Raises OperationInProgress, DriverFault, HostDown, LeaseLost.

        A removal from a host that is down is left to its agent, unless it must be certain that no guest runs there.
        """

    def has_arrived(self, server: Server, source: str, destination: str, epoch: int) -> bool:
        """Return whether a guest whose source has ended is on its destination; it is removed there if not.

        Raises OperationInProgress, DriverFault, LeaseLost, and HostsDown if the destination has ended as well.
        """

    def spawn_all(self, wanted: Sequence[tuple[Server, str, int]]) -> list[CoveyError | None]:
        """Return for each server what keeps it from running, or None."""

    def abort(self, server: Server, host: str, epoch: int) -> bool:
        """Return whether a migration ended without success. Raises OperationInProgress, LeaseLost."""

    def console_log(self, server: Server, host: str, lines: int | None) -> str:
        """Return what the guest wrote to its console. Raises DriverFault."""


class Agents:
    """Leaves each call to the agent of its host, and raises OperationInProgress until the agent has reported."""

    is_instant = False  # no call waits for a host, but several at once share a transaction

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def spawn(self, server: Server, host: str, epoch: int) -> None:
        data_host = server.placement.data_host  # of a shelved server
        arguments: dict[str, object] = {} if data_host is None else {"has_data": True}
        if data_host not in {None, host}:
            arguments["data"] = data_host
        self._calls.carry_out(Verb.SPAWN, server, host, epoch, arguments)

    def spawn_all(self, wanted: Sequence[tuple[Server, str, int]]) -> list[CoveyError | None]:
        return self._calls.spawn_all(wanted)

    def destroy(self, server: Server, host: str, epoch: int) -> None:
        self._calls.carry_out(Verb.DESTROY, server, host, epoch)

    def detach(self, server: Server, host: str, epoch: int) -> None:
        # The server may start on another host next, so it is not enough that the agent removes it when it is back.
        self._calls.carry_out(Verb.DETACH, server, host, epoch, is_certain=True)

    def move(self, server: Server, source: str, destination: str, epoch: int, *, live: bool) -> None:
        arguments = {"live": live, "destination": destination, "since": epoch}
        try:
            self._calls.carry_out(Verb.MIGRATE, server, source, epoch, arguments)
        except HostDown:
            # It may have arrived before the source died. Then the newest data is there, on local disks the only data.
            if not self._calls.has_arrived(server, source, destination, epoch):
                raise

    def abort(self, server: Server, source: str, destination: str, epoch: int) -> bool:  # noqa: ARG002
        return self._calls.abort(server, source, epoch)

    def evacuate(self, server: Server, source: str, destination: str, epoch: int) -> None:  # noqa: ARG002
        arguments: dict[str, object] = {"since": epoch}
        if server.placement.data_host == destination:
            arguments["has_data"] = True
        self._calls.carry_out(Verb.EVACUATE, server, destination, epoch, arguments)

    def power(self, server: Server, host: str, verb: str, epoch: int) -> None:
        self._calls.carry_out(Verb.POWER, server, host, epoch, {"verb": verb})

    def console_log(self, server: Server, host: str, lines: int | None) -> str:
        return self._calls.console_log(server, host, lines)
