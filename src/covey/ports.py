"""What is swapped at the edges: the clock, new ids, access rules, the driver, the notifier."""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from covey.model.access import Actor, Target
from covey.model.servers import Server
from covey.model.work import Notification

Clock = Callable[[], datetime]
"""Tells the time, in UTC and without a zone, as the wire and the database do."""

NewUuid = Callable[[], str]
"""Makes an id that nothing else has."""


class Access(Protocol):
    """Who may do what."""

    def allows(self, actor: Actor, rule: str, target: Target = ...) -> bool: ...

    def require(self, actor: Actor, rule: str, target: Target = ...) -> None:
        """Raises Forbidden, with the rule's name, unless the rule allows it."""


class Driver(Protocol):
    """Does what is already decided. Each method may be repeated after a crash, and raises DriverFault."""

    def spawn(self, server: Server, host: str) -> None:
        """Start the server on the host. Does nothing if it runs there already. Raises OperationInProgress."""

    def destroy(self, server: Server, host: str) -> None:
        """Remove the server from the host. Does nothing if it is not there."""

    def move(self, server: Server, source: str, destination: str, *, live: bool) -> None:
        """Bring the server from one host to the other. Does nothing if it is there already."""

    def power(self, server: Server, host: str, verb: str) -> None:
        """start, stop or reboot the server."""


class Notifier(Protocol):
    """Tells others what happened."""

    def send(self, note: Notification) -> None:
        """Tell it, at least once. Raises Unavailable when nobody takes it, soon enough for others to wait for."""
