"""Who does which action."""

from collections.abc import Mapping

from covey.model.clustering.actions import Verb
from covey.model.clustering.limits import Limits
from covey.ports import Clock, NewUuid
from covey.services.clustering.engine.attachments import Attachments, Immediate
from covey.services.clustering.engine.growing import CreateCluster, CreateNode, ScaleOut
from covey.services.clustering.engine.growth import Growth
from covey.services.clustering.engine.health import Check, Recover
from covey.services.clustering.engine.membership import Membership
from covey.services.clustering.engine.operations import Operations
from covey.services.clustering.engine.policy_checks import PolicyChecks
from covey.services.clustering.engine.profile_servers import ProfileServers
from covey.services.clustering.engine.reboots import Reboots
from covey.services.clustering.engine.recreation import Recreation
from covey.services.clustering.engine.removal import Removal
from covey.services.clustering.engine.reprofiling import Reprofiling
from covey.services.clustering.engine.resizing import Resize
from covey.services.clustering.engine.run import Handler
from covey.services.clustering.engine.shrinking import Choice, DeleteCluster, DeleteNode, DeleteNodes, ScaleIn
from covey.services.clustering.engine.updates import UpdateCluster, UpdateNode
from covey.services.moves import Moves
from covey.services.power import Power
from covey.services.servers import Servers
from covey.storage.store import Store


def handlers_on(
    store: Store,
    clock: Clock,
    new_uuid: NewUuid,
    limits: Limits,
    checks: PolicyChecks,
    attachments: Attachments,
    servers: Servers,
    power: Power,
    moves: Moves,
) -> Mapping[Verb, Handler]:
    """One for each action that somebody can ask for."""
    requests = ProfileServers(store, servers)
    growth = Growth(store, clock, new_uuid, servers, requests)
    removal = Removal(store, clock, new_uuid, servers)
    choice = Choice(store, checks)
    reprofiling = Reprofiling(store, clock, requests, moves)
    membership = Membership(clock, limits)
    check = Immediate(Check(clock).check)
    reboots, recreation = Reboots(store, clock, power), Recreation(store, clock, growth, removal)
    recover = Recover(store, clock, new_uuid, checks, reboots, recreation, growth, removal, choice)
    operations = Operations(store, clock, new_uuid, power, moves)
    return {
        Verb.CLUSTER_CREATE: CreateCluster(clock, growth),
        Verb.CLUSTER_DELETE: DeleteCluster(removal, attachments),
        Verb.CLUSTER_UPDATE: UpdateCluster(store, clock, new_uuid, reprofiling),
        Verb.CLUSTER_ADD_NODES: Immediate(membership.add),
        Verb.CLUSTER_DEL_NODES: DeleteNodes(store, removal),
        Verb.CLUSTER_RESIZE: Resize(store, growth, removal, choice, limits),
        Verb.CLUSTER_CHECK: check,
        Verb.CLUSTER_RECOVER: recover,
        Verb.CLUSTER_REPLACE_NODES: Immediate(membership.swap),
        Verb.CLUSTER_SCALE_OUT: ScaleOut(growth, limits),
        Verb.CLUSTER_SCALE_IN: ScaleIn(removal, choice),
        Verb.CLUSTER_OPERATION: operations,
        Verb.NODE_CREATE: CreateNode(growth, limits),
        Verb.NODE_DELETE: DeleteNode(store, removal),
        Verb.NODE_UPDATE: UpdateNode(store, clock, reprofiling),
        Verb.NODE_CHECK: check,
        Verb.NODE_RECOVER: recover,
        Verb.NODE_OPERATION: operations,
        **attachments.handlers(),
    }
