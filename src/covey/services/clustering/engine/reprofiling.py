"""Bringing servers to what a profile says: name and metadata at once, another flavor by a resize.

Another image is for servers yet to be made, and for those that are recreated: a running one keeps its disk.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from covey.model.actions import MoveKind
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import Node
from covey.model.clustering.health import examined
from covey.model.clustering.specs import Profile
from covey.model.errors import Busy, CoveyError, Unavailable
from covey.model.flavors import Flavor
from covey.model.servers import Server, VmState
from covey.ports import Clock
from covey.services.clustering.engine.child_actions import begun, keep, over, progress, units_of
from covey.services.clustering.engine.growth import profile_of
from covey.services.clustering.engine.members import servers_of
from covey.services.clustering.engine.profile_servers import ProfileServers, about, metadata_of, name_of
from covey.services.clustering.engine.run import Ended, Run, Step, still
from covey.services.moves import MoveRequest, Moves
from covey.storage.store import Store, Transaction

_AT_ONCE = 10  # servers between two sizes, which hold both
_RESIZE = "os_compute_api:servers:resize"
_IMAGE = "A new image is for servers yet to be made."


class _At(Enum):
    """Where a node stands on its way to a profile."""

    START = auto()
    WAY = auto()
    ARRIVED = auto()  # it has the new size, and its old place is not given back yet
    END = auto()
    LOST = auto()  # it was to have another size, and has not got it


@dataclass(frozen=True, slots=True)
class _Pupil:
    """A node that is to follow a profile."""

    unit: Action
    node: Node
    server: Server | None
    old: Profile
    asked: bool  # for another size


@dataclass(frozen=True, slots=True)
class Reprofiling:
    """Has the nodes of an action follow a profile, a few at a time."""

    store: Store
    clock: Clock
    requests: ProfileServers
    moves: Moves

    def go_on(self, run: Run, profile_id: str) -> Step:
        """Have some more follow, and see which do already."""
        with self.store.read() as tx:
            profile = profile_of(tx, profile_id)
            child_actions = units_of(tx, run.action, Verb.NODE_UPDATE)
            left = [unit for unit in child_actions if not unit.is_over]
            pupils = _pupils(tx, left, run.request_id)
        flavor = (
            self.requests.flavor(run.actor, profile) if any(_is_to_be_resized(p, profile) for p in pupils) else None
        )
        stand = {pupil.unit.id: _where(pupil, profile, flavor) for pupil in pupils}
        problems = {unit.id: "The node is gone." for unit in left if unit.id not in stand}
        free = _AT_ONCE - sum(at in {_At.WAY, _At.ARRIVED} for at in stand.values())
        starting = [pupil for pupil in pupils if stand[pupil.unit.id] is _At.START][: max(0, free)]
        for pupil in (*starting, *(pupil for pupil in pupils if stand[pupil.unit.id] is _At.ARRIVED)):
            problems[pupil.unit.id] = self._move(run, pupil, flavor)
        lost = [pupil.unit.id for pupil in pupils if stand[pupil.unit.id] is _At.LOST]
        problems |= dict.fromkeys(lost, "Failed in resizing server: it has not got the new flavor.")
        now = self.clock()
        moved = {pupil.unit.id: begun(pupil.unit, now) for pupil in starting}
        moved |= {unit.id: over(unit, now, problems[unit.id]) for unit in left if problems.get(unit.id)}
        done = [pupil for pupil in pupils if stand[pupil.unit.id] is _At.END]
        moved |= {pupil.unit.id: over(pupil.unit, now) for pupil in done}
        self._keep(run, list(moved.values()), done, profile)
        step = progress([moved.get(unit.id, unit) for unit in child_actions], "updating", "Updated")
        if isinstance(step, Ended) and step.worked and "profile_id" in run.action.inputs:
            return replace(step, reason=f"{step.reason} {_IMAGE}")
        return step

    def _move(self, run: Run, pupil: _Pupil, flavor: Flavor | None) -> str:
        """One step of a resize; says what is the matter if it can't be taken."""
        assert pupil.server is not None
        server, request = pupil.server.id, run.request_id
        try:
            if pupil.server.vm_state is VmState.RESIZED:
                self.moves.confirm(run.actor, server, request)
            else:
                self.moves.begin(run.actor, server, MoveRequest(MoveKind.RESIZE, request, flavor=flavor), _RESIZE)
        except (Unavailable, Busy):
            raise
        except CoveyError as error:
            return f"Failed in resizing server: {error.message}"
        return ""

    def _keep(self, run: Run, child_actions: Sequence[Action], done: Sequence[_Pupil], profile: Profile) -> None:
        """Those that got there are of the new profile; those that did not stay of the old one."""
        if not child_actions:
            return
        with self.store.write() as tx:
            still(tx, run)
            nodes = [replace(pupil.node, profile_id=profile.id) for pupil in done]
            told = [self._tell_server(tx, node, p.old, profile) for node, p in zip(nodes, done, strict=True)]
            now = self.clock()
            tx.clustering.nodes.update([examined(n, server, now) for n, server in zip(nodes, told, strict=True)])
            keep(tx, child_actions)

    def _tell_server(self, tx: Transaction, node: Node, old: Profile, new: Profile) -> Server | None:
        """Its server has the name and the metadata that the profile wants."""
        server = None if node.server_id is None else tx.servers.by_id(node.server_id, lock=True)
        if server is None:
            return None
        others = {key: value for key, value in server.details.metadata.items() if key not in metadata_of(old)}
        details = replace(server.details, metadata={**others, **metadata_of(new), **about(node)})
        told = replace(server, name=name_of(new, node), details=details, updated_at=self.clock())
        tx.servers.update(told)
        return told


def _pupils(tx: Transaction, child_actions: Sequence[Action], request_id: str) -> list[_Pupil]:
    nodes = {node.id: node for node in tx.clustering.nodes.by_ids([unit.target for unit in child_actions])}
    servers = servers_of(tx, nodes.values())
    moved = {entry.server_id for entry in tx.actions.of_request([s.id for s in servers.values()], request_id)}
    profiles = {profile: profile_of(tx, profile) for profile in {node.profile_id for node in nodes.values()}}
    found: list[_Pupil] = []
    for unit in child_actions:
        node = nodes.get(unit.target)
        if node is not None:
            server = servers.get(node.id)
            asked = server is not None and server.id in moved
            found.append(_Pupil(unit, node, server, profiles[node.profile_id], asked))
    return found


def _is_to_be_resized(pupil: _Pupil, profile: Profile) -> bool:
    return pupil.server is not None and pupil.old.properties.get("flavor") != profile.properties.get("flavor")


def _where(pupil: _Pupil, profile: Profile, flavor: Flavor | None) -> _At:
    server = pupil.server
    if server is None or flavor is None or not _is_to_be_resized(pupil, profile):
        return _At.END
    if server.task is not None:
        return _At.WAY
    if server.flavor.id == flavor.id:
        return _At.ARRIVED if server.vm_state is VmState.RESIZED else _At.END
    return _At.LOST if pupil.asked else _At.START
