"""Server groups: what belongs together, and what must stay apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from covey.model.access import Actor, Target
from covey.model.errors import Invalid, NotFound, OverQuota
from covey.model.groups import HOST, Group, GroupPolicy, PolicyKind, ScopeRef, check_policies, with_rules
from covey.model.ids import GroupId
from covey.model.quotas import UNLIMITED
from covey.model.scopes import HOST_SCOPE
from covey.ports import Access, Clock, NewUuid, Store, Transaction
from covey.services.announcements import Announcements
from covey.services.quotas import Quotas

_RULE = "os_compute_api:os-server-groups:"


@dataclass(frozen=True, slots=True)
class NewGroup:
    """A group as a tenant asks for it; policies are in the words of the tenant."""

    name: str
    policies: tuple[str, ...]
    rules: Mapping[str, int]


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
            return tx.groups.find(None if everywhere else actor.project_id, offset, limit)

    def get(self, actor: Actor, group: str) -> Group:
        """Raises NotFound, also for another project's group."""
        with self.store.read() as tx:
            return self._own(tx, actor, group, "show")

    def create(self, actor: Actor, new: NewGroup) -> Group:
        """Raises Invalid for policies that make no sense, OverQuota when there are enough groups."""
        self.access.require(actor, f"{_RULE}create", Target(project_id=actor.project_id))
        with self.store.write() as tx:
            policies = with_rules(tuple(_policy(tx, text) for text in new.policies), new.rules)
            check_policies(policies)
            limit = self.quotas.limits_in(tx, actor.project_id)["server_groups"]
            tx.claims.usage(actor.project_id, lock=limit != UNLIMITED)  # one at a time, where there is a limit
            if limit != UNLIMITED and tx.groups.count(actor.project_id) >= limit:
                message = "Quota exceeded, too many server groups."
                raise OverQuota(message)
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
            self.announcements.group(tx, "server_group.create", group)
        return group

    def delete(self, actor: Actor, group: str) -> None:
        """Its members stay as they are, in no group. Raises NotFound."""
        with self.store.write() as tx:
            found = self._own(tx, actor, group, "delete")
            tx.groups.lock([found.id])
            tx.groups.delete(found.id)
            self.announcements.group(tx, "server_group.delete", found)

    def _own(self, tx: Transaction, actor: Actor, group: str, rule: str) -> Group:
        found = tx.groups.by_id(group)
        target = None if found is None else Target(project_id=found.project_id)
        if found is None or target is None or not self.access.allows(actor, f"{_RULE}show", target):
            message = f"Instance group {group} could not be found."
            raise NotFound(message)
        self.access.require(actor, _RULE + rule, target)
        return found


def _policy(tx: Transaction, text: str) -> GroupPolicy:
    """A policy from TYPE[:SCOPE]. Raises Invalid."""
    kind, _, scope = text.partition(":")
    if kind not in set(PolicyKind):
        message = f"The policy {text!r} begins with none of {', '.join(PolicyKind)}."
        raise Invalid(message)
    return GroupPolicy(PolicyKind(kind), _scope(tx, scope or HOST_SCOPE))


def _scope(tx: Transaction, name: str) -> ScopeRef:
    if name == HOST_SCOPE:
        return HOST
    found = next((scope for scope in tx.scopes.all() if scope.name == name), None)
    if found is None:
        message = f"There is no policy scope {name!r}."
        raise Invalid(message)
    return ScopeRef(found.id, found.name)
