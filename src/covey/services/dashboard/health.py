"""Health of the fleet and its workers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from covey.model.access import Actor
from covey.model.clustering.actions import Engine
from covey.model.event_feed import Backlog
from covey.model.hosts import Host
from covey.model.scopes import DomainProblems, find_domain_problems
from covey.ports import Access
from covey.services.clustering.engines import Engines
from covey.services.dashboard.visibility import OPERATE
from covey.services.misplaced_servers import MisplacedServer, find_misplaced_servers
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class Health:
    """Unavailable hosts, misconfigured hosts and servers, workers, and the backlog."""

    hosts: int
    disabled: Sequence[Host]
    down: Sequence[Host]
    domain_problems: Sequence[DomainProblems]
    misplaced_servers: Sequence[MisplacedServer]
    engines: Sequence[tuple[Engine, bool]]
    backlog: Backlog
    at: datetime


@dataclass(frozen=True, slots=True)
class HealthChecks:
    """Checks the health of the service."""

    store: Store
    access: Access
    engines: Engines
    isolate_aggregates: bool  # whether aggregates reject requests without the traits that they require

    def check(self, actor: Actor) -> Health:
        """Raises Forbidden."""
        self.access.require(actor, OPERATE)
        engines, now = self.engines.all(actor), self.engines.clock()
        with self.store.read() as tx:
            hosts, aggregates, scopes = tx.hosts.find(), tx.aggregates.all(), tx.scopes.all()
            in_use, backlog = tx.scopes.in_use(), tx.dashboard.backlog(now)
            misplaced = find_misplaced_servers(tx) if self.isolate_aggregates else []
        scopes_in_use = {aggregate.scope for aggregate in aggregates} | in_use
        names = [host.name for host in hosts]
        problems = [find_domain_problems(scope, names, aggregates) for scope in scopes if scope.id in scopes_in_use]
        return Health(
            hosts=len(hosts),
            disabled=[host for host in hosts if host.disabled],
            down=[host for host in hosts if not host.up],
            domain_problems=[problem for problem in problems if problem.no_domain or problem.ambiguous],
            misplaced_servers=misplaced,
            engines=engines,
            backlog=backlog,
            at=now,
        )
