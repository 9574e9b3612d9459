"""Takes the servers that a cluster already has into the server group of its affinity policy."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from covey.model.clustering.clusters import Cluster, Node
from covey.model.clustering.policies.affinity import affinity_properties
from covey.model.clustering.specs import Document, Policy
from covey.model.errors import OverQuota
from covey.model.groups import Group
from covey.model.ids import GroupId, HostId, ServerId
from covey.model.quotas import UNLIMITED
from covey.model.servers import Server
from covey.scheduler.planning import reject_large_group
from covey.scheduler.violations import violations
from covey.services.audits import drs_hosts
from covey.services.groups import Groups
from covey.services.live_fleet import LiveFleet
from covey.services.memberships import may_join
from covey.storage.store import Transaction


@dataclass(frozen=True, slots=True)
class JoinedServers:
    """The servers that joined a group, those that did not, and what the members violate, in sentences.

    A server stays out that is in another group, or that can't join one: it is being deleted, or failed without a host.
    """

    joined: tuple[ServerId, ...] = ()
    elsewhere: tuple[ServerId, ...] = ()
    unable: tuple[ServerId, ...] = ()
    violations: tuple[str, ...] = ()

    @property
    def outputs(self) -> Document:
        """Return it for programs; empty for a cluster without servers."""
        left_out = [*self.elsewhere, *self.unable]
        if not self.joined and not left_out:
            return {}
        found: Document = {"servers_joined": list(self.joined), "violations": list(self.violations)}
        return {**found, "servers_left_out": left_out} if left_out else found

    @property
    def report(self) -> str:
        """Return it in words; empty for a cluster without servers."""
        parts = []
        if self.joined:
            parts.append(f"{_count(self.joined, 'existing server')} joined the server group.")
        if self.elsewhere:
            stay = "stays" if len(self.elsewhere) == 1 else "stay"
            parts.append(f"{_count(self.elsewhere, 'server')} {stay} in another server group.")
        if self.unable:
            parts.append(f"{_count(self.unable, 'server')} can't join: being deleted, or without a host.")
        if self.violations:
            parts.append(f"Violations: {'; '.join(self.violations)}.")
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """Adds existing servers to a group, whose row the caller has locked. No server moves."""

    groups: Groups
    live: LiveFleet
    max_members: int = UNLIMITED

    def take_in(self, tx: Transaction, cluster: Cluster, policy: Policy, group: GroupId) -> JoinedServers:
        """Add the cluster's servers that are in no group. Raises OverQuota."""
        nodes = [node for node in tx.clustering.nodes.of(cluster.id) if node.server_id is not None]
        servers = tx.servers.by_ids([ServerId(str(node.server_id)) for node in nodes])
        elsewhere = tuple(server.id for server in servers if server.group_id not in {None, group})
        free = [server for server in servers if server.group_id is None]
        joining = [server for server in free if may_join(server)]
        unable = tuple(server.id for server in free if not may_join(server))
        if not joining:
            return JoinedServers(elsewhere=elsewhere, unable=unable)
        self._reject_over_quota(tx, group, joining)
        tx.groups.join_all(group, [server.id for server in joining])
        tx.groups.bump([group])
        ids = tuple(server.id for server in joining)
        joined = set[str](ids)
        tx.clustering.nodes.update([_placed_in(node, group) for node in nodes if node.server_id in joined])
        found = tx.groups.by_id(group)
        assert found is not None
        self.groups.notifications.members_added(tx, found, ids)
        return JoinedServers(ids, elsewhere, unable, self._violations(tx, found, policy))

    def _reject_over_quota(self, tx: Transaction, group: GroupId, joining: Sequence[Server]) -> None:
        state = tx.groups.states(tx.groups.lock([group]))[group]
        limit = self.groups.quotas.limits_in(tx, state.project_id)["server_group_members"]
        users = Counter(state.users) + Counter(server.user_id for server in joining)
        if limit != UNLIMITED and max(users.values()) > limit:
            raise OverQuota("Quota exceeded, too many servers in group")
        reject_large_group(state, len(joining), self.max_members)

    def _violations(self, tx: Transaction, group: Group, policy: Policy) -> tuple[str, ...]:
        hosts, fleet = tx.groups.places([group.id])[group.id], self.live.read(tx).fleet
        with_drs = affinity_properties(policy)["enable_drs_extension"]
        exempt = drs_hosts(hosts.values(), fleet) if with_drs else frozenset[HostId]()
        found = violations(group.policies, hosts, fleet, exempt)
        return tuple(dict.fromkeys(violation.sentence for violation in found))


def _count(servers: Sequence[ServerId], noun: str) -> str:
    return f"{len(servers)} {noun}" if len(servers) == 1 else f"{len(servers)} {noun}s"


def _placed_in(node: Node, group: GroupId) -> Node:
    """Return the node with the group, which its recreation keeps."""
    placement = node.data.get("placement")
    known = placement if isinstance(placement, Mapping) else {}
    return replace(node, data={**node.data, "placement": {**known, "servergroup": group}})
