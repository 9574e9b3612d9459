"""Server groups and their policies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from covey.model.access import Actor, Target
from covey.model.errors import Conflict, NotFound, OverQuota
from covey.model.groups import Group, check_policies, with_rules
from covey.model.ids import GroupId
from covey.model.nova import NovaKind
from covey.model.quotas import UNLIMITED
from covey.ports import Access, Clock, NewUuid
from covey.services.notifications import Event, NotificationEmitter
from covey.services.obfuscation import obfuscation_for
from covey.services.policies import PolicyParser
from covey.services.quotas import Quotas
from covey.storage.store import Store, Transaction

_RULE = "os_compute_api:os-server-groups:"


@dataclass(frozen=True, slots=True)
class NewGroup:
    """A group to create; its policies are not parsed yet."""

    name: str
    policies: tuple[str, ...]
    rules: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class GroupChange:
    """The requested changes; None keeps a value. New policies replace the rules, too."""

    name: str | None = None
    policies: tuple[str, ...] | None = None
    rules: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Groups:
    """Operations on server groups."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid
    quotas: Quotas
    notifications: NotificationEmitter

    def find(self, actor: Actor, *, all_projects: bool, offset: int, limit: int) -> Sequence[Group]:
        """Return a page of the project's groups; administrators may list all projects'."""
        self.access.require(actor, f"{_RULE}index", Target(project_id=actor.project_id))
        all_projects = all_projects and self.access.allows(actor, f"{_RULE}index:all_projects")
        with self.store.read() as tx:
            page = tx.groups.find(None if all_projects else actor.own_project, offset, limit)
            found = tx.groups.with_instances(page)
            obfuscation = obfuscation_for(tx, self.access, actor, actor.project_id)
            return [obfuscation.obfuscate_group(group) for group in found]

    def get(self, actor: Actor, group: str) -> Group:
        """Raises NotFound, also for another project's group."""
        with self.store.read() as tx:
            (found,) = tx.groups.with_instances([self.get_authorized(tx, actor, group, "show")])
            return obfuscation_for(tx, self.access, actor, found.project_id).obfuscate_group(found)

    def create(self, actor: Actor, new: NewGroup) -> Group:
        """Raises Invalid for bad policies, Forbidden for scopes that the actor may not use, and OverQuota."""
        with self.store.write() as tx:
            return self.create_in(tx, actor, new)

    def create_in(self, tx: Transaction, actor: Actor, new: NewGroup) -> Group:
        """Like `create`, in a transaction of the caller."""
        self.access.require(actor, f"{_RULE}create", Target(project_id=actor.project_id))
        obfuscation = obfuscation_for(tx, self.access, actor, actor.project_id)
        policies = PolicyParser(tx, self.access, actor, obfuscation).parse(new.policies, new.rules)
        self._reject_over_quota(tx, actor)
        group = Group(
            id=GroupId(self.new_uuid()),
            name=new.name,
            project_id=actor.own_project,
            user_id=actor.user_id,
            policies=policies,
            version=0,
            created_at=self.clock(),
        )
        tx.groups.add(group)
        _reject_missing_domains(tx, group)
        self.notifications.group_changed(tx, Event.GROUP_CREATED, group)
        return obfuscation.obfuscate_group(group)

    def update(self, actor: Actor, group: str, change: GroupChange) -> Group:
        """Change the name, the policies, or both; no server moves. Raises NotFound, Invalid, Forbidden."""
        with self.store.write() as tx:
            tx.groups.lock([GroupId(group)])
            (found,) = tx.groups.with_instances([self.get_authorized(tx, actor, group, "update")])
            obfuscation = obfuscation_for(tx, self.access, actor, found.project_id)
            policies = found.policies
            if change.policies is not None:
                policies = PolicyParser(tx, self.access, actor, obfuscation).parse(change.policies, change.rules or {})
            elif change.rules is not None:
                policies = with_rules(tuple(replace(p, limit=1, limited=False) for p in policies), change.rules)
                check_policies(policies, obfuscation.obfuscate_policy)
            changed = replace(found, name=change.name or found.name, policies=policies)
            if changed.name != found.name:
                tx.nova_mirror.reject(NovaKind.GROUP, found.id, found.name)
            tx.groups.update(changed, self.clock())
            if change.policies is not None:
                _reject_missing_domains(tx, changed)
            tx.groups.bump([found.id])
            self.notifications.group_changed(tx, Event.GROUP_UPDATED, changed)
        return obfuscation.obfuscate_group(changed)

    def delete(self, actor: Actor, group: str, *, gone_in_nova: bool = False) -> None:
        """Delete the group; its members remain, without a group. Raises NotFound.

        Raises ReadOnly for a group of Nova, unless it is gone there.
        """
        with self.store.write() as tx:
            if gone_in_nova:
                tx.nova_mirror.disown(NovaKind.GROUP, self.get_authorized(tx, actor, group, "delete").id)
            self.delete_in(tx, actor, group)

    def delete_in(self, tx: Transaction, actor: Actor, group: str) -> None:
        """Like `delete`, in a transaction of the caller."""
        found = self.get_authorized(tx, actor, group, "delete")
        tx.nova_mirror.reject(NovaKind.GROUP, found.id, found.name)
        tx.groups.lock([found.id])
        tx.groups.delete(found.id)
        self.notifications.group_changed(tx, Event.GROUP_DELETED, found)

    def get_authorized(self, tx: Transaction, actor: Actor, group: str, rule: str) -> Group:
        """Return a group with real identifiers. Raises NotFound if it is not visible, Forbidden if the rule denies."""
        found = tx.groups.by_id(group)
        target = None if found is None else Target(project_id=found.project_id)
        if found is None or target is None or not self.access.allows(actor, f"{_RULE}show", target):
            raise NotFound(f"Instance group {group} could not be found.")
        self.access.require(actor, _RULE + rule, target)
        return found

    def _reject_over_quota(self, tx: Transaction, actor: Actor) -> None:
        limit = self.quotas.limits_in(tx, actor.own_project)["server_groups"]
        if limit == UNLIMITED:
            return
        tx.claims.usage(actor.own_project, lock=True)  # serializes creations up to the commit
        if tx.groups.count(actor.own_project) >= limit:
            raise OverQuota("Quota exceeded, too many server groups.")


def _reject_missing_domains(tx: Transaction, group: Group) -> None:
    """Raise Conflict if a domain that a policy names has left its scope since the policy was read.

    The stored policies hold the scope's row, so that a domain leaves before this look, or finds the policies.
    """
    if any(policy.target is not None for policy in group.policies) and tx.groups.missing_domains(group.id):
        raise Conflict("A domain that a policy names was removed by another request.")
