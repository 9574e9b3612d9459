"""What deployments and tests swap: the clock, ids, access rules, accounts, movers, the driver, the notifier."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from covey.model.access import Actor, Target
from covey.model.errors import CoveyError
from covey.model.ids import HostId, ProjectId, UserId
from covey.model.server_moves import ServerPosition
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


class Accounts(Protocol):
    """Knows which access a user has now. A webhook acts for a user who does not sign in."""

    def remaining_roles(self, user: UserId, project: ProjectId, roles: frozenset[str]) -> frozenset[str]:
        """Return those of the roles that the user still has in the project; none for a removed user.

        Raises Unavailable if that cannot be found out.
        """


class Mover(Protocol):
    """Moves servers for rebalances and drains. A worker may repeat each call after a crash.

    Each method raises Unavailable while the service that runs the servers can't be asked.
    """

    def positions(self, servers: Sequence[str]) -> Mapping[str, ServerPosition]:
        """Return where servers are now, by id, without those that do not exist."""

    def begin(
        self,
        actor: Actor,
        request_id: str,
        server: str,
        destination: str,
        leaving: frozenset[HostId] = ...,
        *,
        cold: bool = False,
    ) -> None:
        """Begin a move: a live one if the server runs, unless `cold` is set. It continues after this call.

        The members of its group on the `leaving` hosts leave them as well. Raises NoValidHost, Conflict, Invalid,
        NotFound, and Busy if the move may be possible in a moment.
        """

    def confirm(self, actor: Actor, request_id: str, server: str) -> None:
        """Begin to confirm a cold move. Raises Conflict, NotFound."""

    def abort(self, server: str) -> bool:
        """Abort a move in progress. Return whether it ends; some moves can't be aborted, and complete."""


class Driver(Protocol):
    """Runs servers on hosts. A worker may repeat each call after a crash.

    `epoch` is that of the caller's lease. A host that has seen a larger one for the same server raises LeaseLost and
    does nothing, so a worker that was frozen past its lease does no harm. Each method raises DriverFault, and each with
    an epoch raises OperationInProgress while the host works: the same job then calls it again.

    The server has the flavor and the power state that it is to have after the call.
    """

    @property
    def is_instant(self) -> bool:
        """Whether calls return at once, so that there is no use in making several at the same time."""

    def spawn(self, server: Server, host: str, epoch: int) -> None:
        """Start the server on the host. Does nothing if it runs there already."""

    def destroy(self, server: Server, host: str, epoch: int) -> None:
        """Remove the server from the host, with its data. Does nothing if it is not there."""

    def detach(self, server: Server, host: str, epoch: int) -> None:
        """Remove the server from the host, and keep its data. Does nothing if it is not there.

        Returns only when it is certain that the server does not run there.
        """

    def move(self, server: Server, source: str, destination: str, epoch: int, *, live: bool) -> None:
        """Move the server from one host to the other. Does nothing if it is there already."""

    def abort(self, server: Server, source: str, destination: str, epoch: int) -> bool:
        """End a move that the same job began. Return whether the server stays on the source.

        False if it arrived, or may have arrived: then `move` finds out.
        """

    def evacuate(self, server: Server, source: str, destination: str, epoch: int) -> None:
        """Start the server on another host than the dead one, which is never asked."""

    def power(self, server: Server, host: str, verb: str, epoch: int) -> None:
        """Start, stop or reboot the server: start, stop, reboot or reboot_hard."""

    def console_log(self, server: Server, host: str, lines: int | None) -> str:
        """Return the last lines that the server wrote to its console; None means all that is kept."""


@runtime_checkable
class BatchDriver(Protocol):
    """A driver that takes many calls at once, for less than it takes them one by one."""

    def spawn_all(self, wanted: Sequence[tuple[Server, str, int]]) -> list[CoveyError | None]:
        """Spawn servers, each with its host and epoch. Return for each what `spawn` would raise, or None."""


class Notifier(Protocol):
    """Sends notifications."""

    def send(self, notification: Notification) -> None:
        """Send a notification at least once. Raises Unavailable within a short time if the broker does not take it."""
