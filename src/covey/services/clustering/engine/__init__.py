"""The clustering engine: executes actions. `build_executor` has the table of handlers."""

from covey.model.clustering.actions import Verb
from covey.model.clustering.sizes import Limits
from covey.ports import Access, Clock, NewUuid
from covey.services.clustering.engine.actions import ActionHandler, Immediate
from covey.services.clustering.engine.executor import Executor
from covey.services.clustering.engine.membership import Membership
from covey.services.clustering.engine.node_creation import CreateCluster, CreateNode, NodeCreation
from covey.services.clustering.engine.node_removal import DeleteCluster, DeleteNode, DeleteNodes, NodeRemoval
from covey.services.clustering.engine.operations import Check, Operations, Reboots, Recover
from covey.services.clustering.engine.policy_attachments import GroupMembers, PolicyAttachments, PolicyGroups
from covey.services.clustering.engine.policy_checks import PolicyChecks
from covey.services.clustering.engine.profile_servers import ProfileServers
from covey.services.clustering.engine.scaling import Candidates, Resize, ScaleIn, ScaleOut
from covey.services.clustering.engine.updates import ProfileUpdates, UpdateCluster, UpdateNode
from covey.services.groups import Groups
from covey.services.moves import Moves
from covey.services.power import Power
from covey.services.servers import Servers
from covey.storage.store import Store


def build_executor(
    store: Store,
    access: Access,
    clock: Clock,
    new_uuid: NewUuid,
    limits: Limits,
    default_zone: str,
    groups: Groups,
    servers: Servers,
    power: Power,
    moves: Moves,
    worker: str,
) -> Executor:
    """Return an executor with a handler for each action that a request can start."""
    checks = PolicyChecks(store, access, clock, limits, default_zone)
    creation_of_servers = servers.server_creation
    members = GroupMembers(groups, creation_of_servers.live, creation_of_servers.max_group_members)
    attachments = PolicyAttachments(store, new_uuid, PolicyGroups(groups, new_uuid), members)
    requests = ProfileServers(store, servers)
    creation = NodeCreation(store, clock, new_uuid, servers, requests)
    removal = NodeRemoval(store, clock, new_uuid, servers)
    candidates = Candidates(store, checks)
    profile_updates = ProfileUpdates(store, clock, requests, moves)
    membership = Membership(clock, limits)
    check = Immediate(Check(clock).check)
    reboots = Reboots(store, clock, power)
    recover = Recover(store, clock, new_uuid, checks, reboots, creation, removal, candidates)
    operations = Operations(store, clock, new_uuid, power, moves)
    handlers: dict[Verb, ActionHandler] = {
        Verb.CLUSTER_CREATE: CreateCluster(clock, creation),
        Verb.CLUSTER_DELETE: DeleteCluster(removal, attachments),
        Verb.CLUSTER_UPDATE: UpdateCluster(store, clock, new_uuid, profile_updates),
        Verb.CLUSTER_ADD_NODES: Immediate(membership.add_nodes),
        Verb.CLUSTER_DEL_NODES: DeleteNodes(store, removal),
        Verb.CLUSTER_RESIZE: Resize(store, creation, removal, candidates, limits),
        Verb.CLUSTER_CHECK: check,
        Verb.CLUSTER_RECOVER: recover,
        Verb.CLUSTER_REPLACE_NODES: Immediate(membership.replace_nodes),
        Verb.CLUSTER_SCALE_OUT: ScaleOut(creation, limits),
        Verb.CLUSTER_SCALE_IN: ScaleIn(removal, candidates),
        Verb.CLUSTER_ATTACH_POLICY: Immediate(attachments.attach),
        Verb.CLUSTER_DETACH_POLICY: Immediate(attachments.detach),
        Verb.CLUSTER_UPDATE_POLICY: Immediate(attachments.update),
        Verb.CLUSTER_OPERATION: operations,
        Verb.NODE_CREATE: CreateNode(creation, limits),
        Verb.NODE_DELETE: DeleteNode(store, removal),
        Verb.NODE_UPDATE: UpdateNode(store, clock, profile_updates),
        Verb.NODE_CHECK: check,
        Verb.NODE_RECOVER: recover,
        Verb.NODE_OPERATION: operations,
    }
    return Executor(store, clock, new_uuid, handlers, checks, worker)
