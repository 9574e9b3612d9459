"""Rebooting the servers of nodes that do not fare well."""

from collections.abc import Mapping
from dataclasses import dataclass

from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import Node, NodeStatus
from covey.model.clustering.health import examined
from covey.model.errors import CoveyError, Unavailable
from covey.model.servers import Server
from covey.ports import Clock
from covey.services.clustering.engine.child_actions import keep, over, progress, units_of
from covey.services.clustering.engine.members import servers_of
from covey.services.clustering.engine.run import Run, Step, still
from covey.services.power import Power
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class Reboots:
    """Reboots each server once: its own log tells whether that was asked for already."""

    store: Store
    clock: Clock
    power: Power

    def go_on(self, run: Run) -> Step:
        now = self.clock()
        with self.store.read() as tx:
            child_actions = units_of(tx, run.action, Verb.NODE_RECOVER)
            left = [unit for unit in child_actions if not unit.is_over]
            nodes = {node.id: node for node in tx.clustering.nodes.by_ids([unit.target for unit in left])}
            servers = servers_of(tx, nodes.values())
            ids = [server.id for server in servers.values()]
            asked = {entry.server_id for entry in tx.actions.of_request(ids, run.request_id)}
        ended: dict[str, Action] = {}
        settled: list[Node] = []
        for unit in left:
            node, server = nodes.get(unit.target), servers.get(unit.target)
            problem = ""
            if node is not None and node.status is NodeStatus.RECOVERING and server is not None:
                if server.id not in asked:
                    problem = self._ask(run, server)
                if not problem and (server.id not in asked or server.task is not None):
                    continue
            if node is not None:
                node = examined(node, server, now)
                settled.append(node)
            ended[unit.id] = over(unit, now, problem or _problem(node))
        if ended:
            with self.store.write() as tx:
                still(tx, run)
                tx.clustering.nodes.update(settled)
                keep(tx, list(ended.values()))
        return progress([ended.get(unit.id, unit) for unit in child_actions], "recovering", "Recovered")

    def _ask(self, run: Run, server: Server) -> str:
        """Reboot the server; says what is the matter if that can't be. A stopped one starts by it."""
        params = run.action.inputs.get("operation_params")
        soft = isinstance(params, Mapping) and str(params.get("type")).upper() == "SOFT"
        try:
            self.power.reboot(run.actor, server.id, run.request_id, hard=not soft)
        except Unavailable:
            raise
        except CoveyError as error:
            return f"Failed in rebooting server: {error.message}"
        return ""


def _problem(node: Node | None) -> str:
    if node is None:
        return "The node is gone."
    return "" if node.status is NodeStatus.ACTIVE else node.status_reason
