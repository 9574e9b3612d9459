"""How the fleet and its workers are: what wants an operator's attention."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from covey.model.access import Actor
from covey.model.clustering.receivers import Engine
from covey.model.event_feed import Backlog
from covey.model.hosts import Host
from covey.model.scopes import Misplaced, misplaced
from covey.ports import Access
from covey.services.clustering.engines import Engines
from covey.services.dashboard.visibility import OPERATE
from covey.services.misplaced_servers import MisplacedServer, misplaced_servers
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class Health:
    """What is not as it should be, and how much is waiting."""

    hosts: int
    disabled: Sequence[Host]
    down: Sequence[Host]
    misplaced: Sequence[Misplaced]
    misplaced_servers: Sequence[MisplacedServer]
    engines: Sequence[tuple[Engine, bool]]
    backlog: Backlog
    at: datetime


@dataclass(frozen=True, slots=True)
class HealthChecks:
    """Looks at everything once."""

    store: Store
    access: Access
    engines: Engines
    isolates: bool  # whether aggregates keep out requests that lack the traits they require

    def look(self, actor: Actor) -> Health:
        """Raises Forbidden."""
        self.access.require(actor, OPERATE)
        engines, now = self.engines.all(actor), self.engines.clock()
        with self.store.read() as tx:
            hosts, aggregates, scopes = tx.hosts.find(), tx.aggregates.all(), tx.scopes.all()
            in_use, backlog = tx.scopes.in_use(), tx.dashboard.backlog(now)
            astray = misplaced_servers(tx) if self.isolates else []
        peopled = {aggregate.scope for aggregate in aggregates} | in_use
        names = [host.name for host in hosts]
        wrong = [misplaced(scope, names, aggregates) for scope in scopes if scope.id in peopled]
        return Health(
            hosts=len(hosts),
            disabled=[host for host in hosts if host.disabled],
            down=[host for host in hosts if not host.up],
            misplaced=[each for each in wrong if each.nowhere or each.ambiguous],
            misplaced_servers=astray,
            engines=engines,
            backlog=backlog,
            at=now,
        )
