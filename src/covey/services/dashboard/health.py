"""Health of the fleet and its workers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from covey.model.access import Actor
from covey.model.agents import Agent, RunningMigration
from covey.model.clustering.actions import Engine
from covey.model.compute_nodes import ComputeNode
from covey.model.event_feed import Backlog
from covey.model.hosts import Host
from covey.model.nova import SyncState
from covey.model.scopes import DomainProblems
from covey.ports import Access
from covey.services.clustering.engines import Engines
from covey.services.dashboard.visibility import OPERATE
from covey.services.domains import check_domains
from covey.services.misplaced_servers import MisplacedServer, find_misplaced_servers
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class Health:
    """Unavailable hosts, misconfigured hosts and servers, workers, and the backlog."""

    hosts: int
    disabled: Sequence[Host | ComputeNode]
    down: Sequence[Host]
    nodes_down: Sequence[ComputeNode]
    domain_problems: Sequence[DomainProblems]
    misplaced_servers: Sequence[MisplacedServer]
    engines: Sequence[tuple[Engine, bool]]
    backlog: Backlog
    at: datetime
    nova: SyncState | None = None
    agents: Sequence[Agent] = ()
    migrations: Sequence[RunningMigration] = ()


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
            hosts, aggregates = tx.hosts.find(), tx.aggregates.all()
            nodes, nova, backlog = tx.compute_nodes.all(), tx.nova_mirror.state(), tx.dashboard.backlog(now)
            problems = check_domains(tx, [host.name for host in hosts], nodes, aggregates)
            misplaced = find_misplaced_servers(tx) if self.isolate_aggregates else []
            agents, migrations = tx.agents.all(), tx.agent_calls.migrations()
        mirrored = [node for node in nodes if node.is_mirrored]
        all_hosts: list[Host | ComputeNode] = [*hosts, *mirrored]
        return Health(
            hosts=len(hosts) + len(nodes),
            disabled=[host for host in all_hosts if host.disabled],
            down=[host for host in hosts if not host.up],
            nodes_down=[node for node in mirrored if not node.up],
            domain_problems=problems,
            misplaced_servers=misplaced,
            engines=engines,
            backlog=backlog,
            at=now,
            nova=nova,
            agents=agents,
            migrations=migrations,
        )
