"""What deployments and tests swap: the clock, ids, access rules, the driver, the notifier."""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from covey.model.access import Actor, Target
from covey.model.servers import Server
from covey.model.work import Notification

Clock = Callable[[], datetime]
"""Returns the time in UTC, without a time zone, as the wire and the database use it."""

NewUuid = Callable[[], str]
"""Returns a new unique id."""


class Access(Protocol):
    """Decides by access rules who may do what."""

    def allows(self, actor: Actor, rule: str, target: Target = ...) -> bool: ...

    def require(self, actor: Actor, rule: str, target: Target = ...) -> None:
        """Raise Forbidden, with the rule's name, unless the rule allows it."""


class Driver(Protocol):
    """Runs servers on hosts. A worker may repeat each call after a crash. Each method raises DriverFault."""

    def spawn(self, server: Server, host: str) -> None:
        """Start the server on the host. Does nothing if it runs there already. Raises OperationInProgress."""

    def destroy(self, server: Server, host: str) -> None:
        """Remove the server from the host. Does nothing if it is not there."""

    def move(self, server: Server, source: str, destination: str, *, live: bool) -> None:
        """Move the server from one host to the other. Does nothing if it is there already."""

    def power(self, server: Server, host: str, verb: str) -> None:
        """Start, stop or reboot the server."""


class Notifier(Protocol):
    """Sends notifications."""

    def send(self, notification: Notification) -> None:
        """Send a notification at least once. Raises Unavailable within a short time if the broker does not take it."""
