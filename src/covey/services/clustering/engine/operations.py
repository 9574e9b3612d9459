"""Operations: what can be done to nodes besides making, changing and deleting them. Their servers do it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from covey.model import actions
from covey.model.access import Actor
from covey.model.actions import MoveKind
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import NodeStatus
from covey.model.clustering.profile_types import PROFILE_TYPES
from covey.model.clustering.spec_schema import read
from covey.model.clustering.specs import Document
from covey.model.errors import Busy, CoveyError, Invalid, Unavailable
from covey.model.ids import ServerId
from covey.model.servers import Server
from covey.ports import Clock, NewUuid
from covey.services.clustering.engine.child_actions import begun, derived, keep, over, progress, units_of, wait
from covey.services.clustering.engine.members import servers_of
from covey.services.clustering.engine.run import Later, Run, Step, still
from covey.services.moves import MoveRequest, Moves
from covey.services.power import Power
from covey.storage.store import Store

_MOST = 100  # servers that are asked in one turn
_OF_SERVERS = PROFILE_TYPES.named("os.nova.server-1.0").operations


@dataclass(frozen=True, slots=True)
class Operations:
    """Does one thing to the server of a node, or to the servers of many nodes of a cluster."""

    store: Store
    clock: Clock
    new_uuid: NewUuid
    power: Power
    moves: Moves

    def begin(self, run: Run) -> Step:
        """Write down to which nodes it is to be done."""
        now = self.clock()
        with self.store.write() as tx:
            _, action = still(tx, run)
            if run.cluster is not None and action.verb is Verb.CLUSTER_OPERATION:
                wanted = _ids(action.inputs.get("nodes"))
                nodes = [node for node in tx.clustering.nodes.of(run.cluster.id) if node.id in wanted]
                child_actions = derived(action, Verb.NODE_OPERATION, nodes, self.new_uuid, now, begun=False)
                inputs = {key: action.inputs.get(key) for key in ("operation", "params")}
                tx.clustering.actions.add([replace(unit, inputs=inputs) for unit in child_actions])
                tx.clustering.nodes.update([replace(node, status=NodeStatus.OPERATING) for node in nodes])
            wait(tx, action, "Waiting for servers.", now)
        return Later()

    def go_on(self, run: Run) -> Step:
        """Ask servers that nobody asked yet, and see which of the others are done with it."""
        now = self.clock()
        with self.store.read() as tx:
            child_actions = units_of(tx, run.action, Verb.NODE_OPERATION)
            servers = servers_of(
                tx, tx.clustering.nodes.by_ids([unit.target for unit in child_actions if not unit.is_over])
            )
            ids = [server.id for server in servers.values()]
            asked = {entry.server_id: entry for entry in tx.actions.of_request(ids, run.request_id)}
        moved: dict[str, Action] = {}
        asks = 0
        for unit in child_actions:
            server = servers.get(unit.target)
            if unit.is_over:
                continue
            if server is None:
                moved[unit.id] = over(unit, now, "The node has no server.")
            elif server.id in asked:
                if server.task is None:
                    moved[unit.id] = over(unit, now, _problem(asked[server.id]))
            elif asks < _MOST:
                asks += 1
                moved[unit.id] = self._asked(run, unit, server)
        with self.store.write() as tx:
            still(tx, run)
            keep(tx, list(moved.values()))
        return progress([moved.get(unit.id, unit) for unit in child_actions], "operating on", "Operated on")

    def _asked(self, run: Run, unit: Action, server: Server) -> Action:
        """The unit once its server was asked. A refusal is its end; what leaves no entry in the log is done at once."""
        now = self.clock()
        try:
            lasts = self._ask(run.actor, server.id, unit.inputs, run.request_id)
        except (Busy, Unavailable):
            raise
        except CoveyError as error:
            return over(unit, now, error.message)
        return begun(unit, now) if lasts else over(unit, now)

    def _ask(self, actor: Actor, server: ServerId, inputs: Document, request_id: str) -> bool:
        """Whether the server takes a while for it. Raises Invalid for what nothing here can do."""
        name = str(inputs.get("operation"))
        params = _params(name, inputs.get("params"))
        match name:
            case "start" | "stop":
                self.power.switch(actor, server, name, request_id)
            case "reboot":
                self.power.reboot(actor, server, request_id, hard=params.get("type") == "HARD")
            case "evacuate":
                host = params.get("host")
                force = params.get("force") is True
                request = MoveRequest(
                    MoveKind.EVACUATION, request_id, None if host is None else str(host), forced=force
                )
                self.moves.begin(actor, server, request, "os_compute_api:os-evacuate")
            case "lock":
                self.power.lock(actor, server, None)
            case "unlock":
                self.power.unlock(actor, server)
            case _:
                raise Invalid(f"The operation '{name}' is not offered by this cloud.")
        return name not in {"lock", "unlock"}


def _params(name: str, given: object) -> Document:
    """What an operation is told, with defaults."""
    known = _OF_SERVERS.get(name)
    return {} if known is None else read(known.parameters, given if isinstance(given, dict) else {})


def _problem(entry: actions.Action) -> str:
    """Why a server did not do what it was asked to; nothing if it did."""
    failed = [event for event in entry.events if event.result == "Error"]
    return (failed[-1].details or "The host failed to do it.") if failed else ""


def _ids(given: object) -> frozenset[str]:
    return frozenset(map(str, given)) if isinstance(given, Sequence) else frozenset()
