"""Server groups: what belongs together, and what must stay apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from covey.model.access import Actor, Target
from covey.model.errors import NotFound, OverQuota
from covey.model.groups import Group, with_rules
from covey.model.ids import GroupId
from covey.model.quotas import UNLIMITED
from covey.ports import Access, Clock, NewUuid
from covey.services.announcements import Announcements, Event
from covey.services.obfuscation import disguise_for
from covey.services.policies import Reader
from covey.services.quotas import Quotas
from covey.storage.store import Store, Transaction

_RULE = "os_compute_api:os-server-groups:"


@dataclass(frozen=True, slots=True)
class NewGroup:
    """A group as a tenant asks for it; policies are in the words of the tenant."""

    name: str
    policies: tuple[str, ...]
    rules: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class GroupChange:
    """What a tenant wants to be otherwise; None leaves it. New policies come with their own rules, or have none."""

    name: str | None = None
    policies: tuple[str, ...] | None = None
    rules: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Groups:
    """What can be done with server groups."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid
    quotas: Quotas
    announcements: Announcements

    def find(self, actor: Actor, *, everywhere: bool, offset: int, limit: int) -> Sequence[Group]:
        """The project's groups; an administrator may ask for everybody's."""
        self.access.require(actor, f"{_RULE}index", Target(project_id=actor.project_id))
        everywhere = everywhere and self.access.allows(actor, f"{_RULE}index:all_projects")
        with self.store.read() as tx:
            found = tx.groups.find(None if everywhere else actor.project_id, offset, limit)
            obfuscation = disguise_for(tx, self.access, actor, actor.project_id)  # who sees other projects' sees all
            return [obfuscation.group(group) for group in found]

    def get(self, actor: Actor, group: str) -> Group:
        """Raises NotFound, also for another project's group."""
        with self.store.read() as tx:
            found = self.own(tx, actor, group, "show")
            return disguise_for(tx, self.access, actor, found.project_id).group(found)

    def create(self, actor: Actor, new: NewGroup) -> Group:
        """Raises Invalid for policies that make no sense, OverQuota when there are enough groups."""
        with self.store.write() as tx:
            return self.create_in(tx, actor, new)

    def create_in(self, tx: Transaction, actor: Actor, new: NewGroup) -> Group:
        """The same, as part of something larger."""
        self.access.require(actor, f"{_RULE}create", Target(project_id=actor.project_id))
        obfuscation = disguise_for(tx, self.access, actor, actor.project_id)
        policies = Reader(tx, self.access, actor, obfuscation).read(new.policies, new.rules)
        self._refuse_over_quota(tx, actor)
        group = Group(
            id=GroupId(self.new_uuid()),
            name=new.name,
            project_id=actor.project_id,
            user_id=actor.user_id,
            policies=policies,
            version=0,
            created_at=self.clock(),
        )
        tx.groups.add(group)
        self.announcements.group(tx, Event.GROUP_CREATED, group)
        return obfuscation.group(group)

    def update(self, actor: Actor, group: str, change: GroupChange) -> Group:
        """A new name, new policies, or both. Its servers stay where they are, whatever that breaks. Raises Invalid."""
        with self.store.write() as tx:
            tx.groups.lock([GroupId(group)])
            found = self.own(tx, actor, group, "update")
            obfuscation = disguise_for(tx, self.access, actor, found.project_id)
            policies = found.policies
            if change.policies is not None:
                policies = Reader(tx, self.access, actor, obfuscation).read(change.policies, change.rules or {})
            elif change.rules is not None:
                policies = with_rules(tuple(replace(p, limit=1, limited=False) for p in policies), change.rules)
            changed = replace(found, name=change.name or found.name, policies=policies)
            tx.groups.update(changed, self.clock())
            tx.groups.bump([found.id])
            self.announcements.group(tx, Event.GROUP_UPDATED, changed)
        return obfuscation.group(changed)

    def delete(self, actor: Actor, group: str) -> None:
        """Its members stay as they are, in no group. Raises NotFound."""
        with self.store.write() as tx:
            self.delete_in(tx, actor, group)

    def delete_in(self, tx: Transaction, actor: Actor, group: str) -> None:
        """The same, as part of something larger."""
        found = self.own(tx, actor, group, "delete")
        tx.groups.lock([found.id])
        tx.groups.delete(found.id)
        self.announcements.group(tx, Event.GROUP_DELETED, found)

    def own(self, tx: Transaction, actor: Actor, group: str, rule: str) -> Group:
        """A group that the actor may see, as it is stored. Raises NotFound, and Forbidden when the rule says no."""
        found = tx.groups.by_id(group)
        target = None if found is None else Target(project_id=found.project_id)
        if found is None or target is None or not self.access.allows(actor, f"{_RULE}show", target):
            raise NotFound(f"Instance group {group} could not be found.")
        self.access.require(actor, _RULE + rule, target)
        return found

    def _refuse_over_quota(self, tx: Transaction, actor: Actor) -> None:
        limit = self.quotas.limits_in(tx, actor.project_id)["server_groups"]
        if limit == UNLIMITED:
            return
        tx.claims.usage(actor.project_id, lock=True)  # one at a time, where there is a limit
        if tx.groups.count(actor.project_id) >= limit:
            raise OverQuota("Quota exceeded, too many server groups.")
