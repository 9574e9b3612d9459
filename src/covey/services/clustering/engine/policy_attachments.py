"""CLUSTER_ATTACH_POLICY, CLUSTER_DETACH_POLICY and CLUSTER_UPDATE_POLICY, each one transaction.

An affinity policy gets its server group when it is attached: an existing one, or a new one that is deleted with the
binding.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from covey.model.access import Actor
from covey.model.clustering.clusters import Cluster, Node
from covey.model.clustering.policies import PLUGINS
from covey.model.clustering.policies.affinity import (
    ServerGroupProperties,
    affinity_properties,
    binding_data,
    group_of,
    is_inherited,
)
from covey.model.clustering.policy_types import AFFINITY
from covey.model.clustering.specs import Binding, Document, Policy, Profile
from covey.model.errors import Conflict, Forbidden, Invalid, NotFound, OverQuota
from covey.model.groups import Group, GroupPolicy
from covey.model.ids import GroupId, HostId, ServerId
from covey.model.quotas import UNLIMITED
from covey.model.servers import Server
from covey.ports import NewUuid
from covey.scheduler.planning import reject_large_group
from covey.scheduler.violations import violations
from covey.services.audits import drs_hosts
from covey.services.clustering.engine.actions import ActionContext, ActionResult, Outcome, lock_claimed_action
from covey.services.groups import Groups, NewGroup
from covey.services.live_fleet import LiveFleet
from covey.services.memberships import may_join
from covey.services.obfuscation import Obfuscation, obfuscation_for
from covey.services.policies import PolicyParser
from covey.storage.store import Store, Transaction

_MAX_NAME_LENGTH = 255


@dataclass(frozen=True, slots=True)
class PolicyAttachments:
    """Changes the policies of a cluster."""

    store: Store
    new_uuid: NewUuid
    groups: "PolicyGroups"
    members: "GroupMembers"

    def attach(self, context: ActionContext) -> Outcome:
        """Attach the policy, with a server group for an affinity policy. Raises CoveyError.

        The servers that the cluster has already join that group; the outcome reports what they violate.
        """
        joined_servers = JoinedServers()
        with self.store.write() as tx:
            cluster = _locked_cluster(tx, context)
            bindings = tx.clustering.bindings.of(cluster.id)
            if _find_binding(bindings, context) is not None:
                return ActionResult(reason="Policy already attached.")
            policy = _policy(tx, context)
            profile = _profile(tx, cluster)
            _reject_second(policy, bindings, cluster)
            _reject_profile_type(policy, profile)
            enabled = context.action.inputs.get("enabled", True) is True
            priority = PLUGINS[policy.type_name].priority
            binding = Binding(self.new_uuid(), cluster.id, policy, priority, enabled, data={})
            if policy.type_name == AFFINITY:
                group, inherited = self.groups.acquire(tx, context.actor, policy, profile)
                data = binding_data(policy, group, inherited=inherited)
                binding = replace(binding, data=data, group_id=group)
                joined_servers = self.members.join_existing(tx, cluster, policy, group)
            tx.clustering.bindings.add(binding)
        return ActionResult(reason=f"Policy attached. {joined_servers.report}".rstrip(), outputs=joined_servers.outputs)

    def detach(self, context: ActionContext) -> Outcome:
        """Detach the policy, and delete the server group that its attachment created. Raises CoveyError."""
        with self.store.write() as tx:
            cluster = _locked_cluster(tx, context)
            binding = _find_binding(tx.clustering.bindings.of(cluster.id), context)
            if binding is None:
                return ActionResult(reason="Policy not attached.")
            deleted = self._delete_binding(tx, context.actor, binding)
            if deleted is not None:
                members = tx.clustering.nodes.of(cluster.id)
                affected = [node for node in members if _is_placed_in(node, deleted)]
                tx.clustering.nodes.update([_without_group(node, deleted) for node in affected])
        return ActionResult(reason="Policy detached.")

    def update(self, context: ActionContext) -> Outcome:
        """Enable or disable the policy. Raises NotFound when it is not attached."""
        with self.store.write() as tx:
            cluster = _locked_cluster(tx, context)
            binding = _find_binding(tx.clustering.bindings.of(cluster.id), context)
            if binding is None:
                raise NotFound(f"The policy '{_policy_id(context)}' is not attached to the cluster '{cluster.id}'.")
            enabled = context.action.inputs.get("enabled")
            if isinstance(enabled, bool):
                tx.clustering.bindings.update(replace(binding, enabled=enabled))
        return ActionResult(reason="Policy updated.")

    def detach_all(self, tx: Transaction, actor: Actor, cluster: str) -> None:
        """Detach all policies of a cluster whose servers are deleted. Raises CoveyError."""
        for binding in tx.clustering.bindings.of(cluster):
            self._delete_binding(tx, actor, binding)

    def _delete_binding(self, tx: Transaction, actor: Actor, binding: Binding) -> str | None:
        """Delete a binding; return the server group that was deleted with it."""
        is_affinity = binding.policy.type_name == AFFINITY
        deleted = self.groups.release(tx, actor, binding) if is_affinity else None
        tx.clustering.bindings.delete(binding.id)
        return deleted


@dataclass(frozen=True, slots=True)
class PolicyGroups:
    """Finds, creates and deletes the server groups of affinity policies.

    Both acquire and release lock the group's row, so a group in use is never deleted.
    """

    groups: Groups
    new_uuid: NewUuid

    def acquire(self, tx: Transaction, actor: Actor, policy: Policy, profile: Profile) -> tuple[GroupId, bool]:
        """Return the group of the profile's hint, else the policy's group, else a new one; and whether it is inherited.

        An inherited group existed before. Raises CoveyError.
        """
        properties = affinity_properties(policy)["servergroup"]
        hinted = _hinted_group(profile)
        name = hinted or properties.get("name") or ""
        existing = self._find_and_lock(tx, actor, name) if name else None
        if existing is not None:
            self._reject_mismatch(tx, actor, properties, existing)
            return existing.id, True
        if hinted:
            raise NotFound(f"The specified servergroup '{hinted}' could not be found.")
        return self._create(tx, actor, properties, name or self._random_name()), False

    def release(self, tx: Transaction, actor: Actor, binding: Binding) -> str | None:
        """Delete the group that the binding created, and return it. Raises Forbidden.

        A group that another binding uses passes to that binding instead.
        """
        group = group_of(binding)
        if group is None or is_inherited(binding) or not tx.groups.lock([GroupId(group)]):
            return None
        others = [
            other for other in tx.clustering.bindings.using_groups([group]) if other.cluster_id != binding.cluster_id
        ]
        if others:
            data = binding_data(others[0].policy, group, inherited=False)
            tx.clustering.bindings.update(replace(others[0], data=data))
            return None
        self.groups.delete_in(tx, actor, group)
        return group

    def _find_and_lock(self, tx: Transaction, actor: Actor, key: str) -> Group | None:
        """Return the project's group with that id or name."""
        found = tx.groups.by_id(key)
        if found is None or found.project_id != actor.own_project:
            named = tx.groups.named(actor.own_project, key)
            if len(named) > 1:
                raise Conflict(f"Failed in retrieving servergroup '{key}'.")
            found = named[0] if named else None
        if found is not None:
            tx.groups.lock([found.id])
            found = tx.groups.by_id(found.id)
        return found

    def _reject_mismatch(self, tx: Transaction, actor: Actor, properties: ServerGroupProperties, group: Group) -> None:
        obfuscation = obfuscation_for(tx, self.groups.access, actor, group.project_id)
        parser = PolicyParser(tx, self.groups.access, actor, obfuscation)
        policies = parser.parse(_policy_texts(properties), properties.get("rules", {}))
        if _comparable(policies) != _comparable(group.policies):
            ours, theirs = _join_policies(policies, obfuscation), _join_policies(group.policies, obfuscation)
            raise Conflict(f"Policies specified ({ours}) doesn't match that of the existing servergroup ({theirs}).")
        if _limits(policies) != _limits(group.policies):  # version 1.0 has no rules: it implies a limit of one
            ours, theirs = _join_rules(properties.get("rules", {})), _join_rules(group.rules)
            raise Conflict(f"Rules specified ({ours}) doesn't match that of the existing servergroup ({theirs}).")

    def _create(self, tx: Transaction, actor: Actor, properties: ServerGroupProperties, name: str) -> GroupId:
        if len(name) > _MAX_NAME_LENGTH or not name.isprintable() or name != name.strip():
            raise Invalid(
                f"A servergroup has a name of 1 to {_MAX_NAME_LENGTH} printable characters, with no space around them."
            )
        new = NewGroup(name, _policy_texts(properties), properties.get("rules", {}))
        try:
            return self.groups.create_in(tx, actor, new).id
        except (Invalid, Forbidden, OverQuota) as error:
            raise Conflict(f"Failed in creating servergroup: {error.message}") from error

    def _random_name(self) -> str:
        digits = self.new_uuid().replace("-", "")
        return f"server_group_{chr(ord('a') + int(digits[:2], 16) % 26)}{digits[2:9]}"


def _locked_cluster(tx: Transaction, context: ActionContext) -> Cluster:
    cluster, _ = lock_claimed_action(tx, context)
    return replace(context, cluster=cluster).required_cluster


def _policy_id(context: ActionContext) -> str:
    return str(context.action.inputs.get("policy_id"))


def _find_binding(bindings: Sequence[Binding], context: ActionContext) -> Binding | None:
    return next((binding for binding in bindings if binding.policy.id == _policy_id(context)), None)


def _policy(tx: Transaction, context: ActionContext) -> Policy:
    policy = tx.clustering.policies.one(_policy_id(context), None)
    if policy is None:
        raise NotFound(f"The specified policy '{_policy_id(context)}' could not be found.")
    return policy


def _profile(tx: Transaction, cluster: Cluster) -> Profile:
    profile = tx.clustering.profiles.one(cluster.profile_id, None)
    assert profile is not None  # a profile in use cannot be deleted
    return profile


def _reject_second(policy: Policy, bindings: Sequence[Binding], cluster: Cluster) -> None:
    """Raises Conflict for a second policy of one type; the type's versions count as one."""
    other = next((binding.policy for binding in bindings if binding.policy.type_name == policy.type_name), None)
    if other is not None and PLUGINS[policy.type_name].singleton:
        raise Conflict(
            f"Only one instance of policy type ({policy.type}) can be attached to a cluster, but another instance "
            f"({other.id}) is found attached to the cluster ({cluster.id}) already."
        )


def _reject_profile_type(policy: Policy, profile: Profile) -> None:
    supported = PLUGINS[policy.type_name].profile_types
    if supported is not None and profile.type not in supported:
        raise Conflict(f"Policy not applicable on profile type: {profile.type}")


def _is_placed_in(node: Node, group: str) -> bool:
    placement = node.data.get("placement")
    return isinstance(placement, Mapping) and placement.get("servergroup") == group


def _without_group(node: Node, group: str) -> Node:
    """Return the node without a deleted group: its recreation keeps the rest of the placement."""
    placement = node.data.get("placement")
    kept = {key: value for key, value in placement.items() if value != group} if isinstance(placement, Mapping) else {}
    return replace(node, data={**node.data, "placement": kept})


def _hinted_group(profile: Profile) -> str:
    """Return the group in the profile's scheduler hints; empty without one."""
    hints = profile.properties.get("scheduler_hints")
    group = hints.get("group") if isinstance(hints, Mapping) else None
    return "" if group is None else str(group)


def _policy_texts(properties: ServerGroupProperties) -> tuple[str, ...]:
    policies = properties["policies"]
    return (policies,) if isinstance(policies, str) else tuple(policies)


def _comparable(policies: Sequence[GroupPolicy]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return hard policies without order and soft ones in order, both without limits."""
    hard = frozenset(str(policy) for policy in policies if not policy.kind.is_soft)
    return hard, tuple(str(policy) for policy in policies if policy.kind.is_soft)


def _limits(policies: Sequence[GroupPolicy]) -> frozenset[GroupPolicy]:
    return frozenset(replace(policy, limited=False) for policy in policies)


def _join_policies(policies: Sequence[GroupPolicy], obfuscation: Obfuscation) -> str:
    return ", ".join(str(obfuscation.obfuscate_policy(policy)) for policy in policies)


def _join_rules(rules: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={limit}" for name, limit in sorted(rules.items())) or "none"


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
        """The outputs of the action; empty for a cluster without servers."""
        left_out = [*self.elsewhere, *self.unable]
        if not self.joined and not left_out:
            return {}
        found: Document = {"servers_joined": list(self.joined), "violations": list(self.violations)}
        return {**found, "servers_left_out": left_out} if left_out else found

    @property
    def report(self) -> str:
        """The result in words; empty for a cluster without servers."""
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

    def join_existing(self, tx: Transaction, cluster: Cluster, policy: Policy, group: GroupId) -> JoinedServers:
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
        hosts, fleet = tx.groups.member_hosts([group.id])[group.id], self.live.read(tx).fleet
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
