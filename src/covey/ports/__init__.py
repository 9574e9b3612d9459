"""What the services need of the outside: a store, a clock, access rules."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from covey.model.access import Actor, Target
from covey.model.servers import Server
from covey.model.work import Notification
from covey.ports.clustering import ClusteringRows
from covey.ports.dashboard import DashboardRows
from covey.ports.fleet import AggregateRows, ChangeRows, FlavorRows, HostRows, ImageRows, QuotaRows, ScopeRows
from covey.ports.ledger import AllocationRows, InventoryRows, ProviderRows, ResourceClassRows, TraitRows
from covey.ports.servers import ActionRows, ClaimRows, GroupRows, KeyRows, MigrationRows, RebalanceRows, ServerRows
from covey.ports.work import OutboxRows, WorkRows

Clock = Callable[[], datetime]
"""Tells the time, in UTC and without a zone, as the wire and the database do."""

NewUuid = Callable[[], str]
"""Makes an id that nothing else has."""


class Access(Protocol):
    """Who may do what."""

    def allows(self, actor: Actor, rule: str, target: Target = ...) -> bool: ...

    def require(self, actor: Actor, rule: str, target: Target = ...) -> None:
        """Raises Forbidden, with the rule's name, unless the rule allows it."""


class Transaction(Protocol):
    """What one transaction can see and do, a noun at a time."""

    @property
    def actions(self) -> ActionRows: ...
    @property
    def aggregates(self) -> AggregateRows: ...
    @property
    def allocations(self) -> AllocationRows: ...
    @property
    def changes(self) -> ChangeRows: ...
    @property
    def claims(self) -> ClaimRows: ...
    @property
    def clustering(self) -> ClusteringRows: ...
    @property
    def dashboard(self) -> DashboardRows: ...
    @property
    def flavors(self) -> FlavorRows: ...
    @property
    def groups(self) -> GroupRows: ...
    @property
    def hosts(self) -> HostRows: ...
    @property
    def images(self) -> ImageRows: ...
    @property
    def inventories(self) -> InventoryRows: ...
    @property
    def keys(self) -> KeyRows: ...
    @property
    def migrations(self) -> MigrationRows: ...
    @property
    def outbox(self) -> OutboxRows: ...
    @property
    def providers(self) -> ProviderRows: ...
    @property
    def quotas(self) -> QuotaRows: ...
    @property
    def rebalances(self) -> RebalanceRows: ...
    @property
    def resource_classes(self) -> ResourceClassRows: ...
    @property
    def scopes(self) -> ScopeRows: ...
    @property
    def servers(self) -> ServerRows: ...
    @property
    def traits(self) -> TraitRows: ...
    @property
    def work(self) -> WorkRows: ...


class Driver(Protocol):
    """Does what is already decided. Each method may be repeated after a crash, and raises DriverFault."""

    def spawn(self, server: Server, host: str) -> None:
        """Start the server on the host. Does nothing if it already runs there. Raises NotYet when it takes long."""

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


class Store(Protocol):
    """The database."""

    def read(self) -> AbstractContextManager[Transaction]:
        """A transaction that sees one moment and changes nothing."""

    def write(self) -> AbstractContextManager[Transaction]:
        """A transaction that is kept whole if its block ends well, and forgotten whole if it raises."""

    def ping(self) -> None:
        """Raises Unavailable unless the database answers."""
