"""Receivers: list, show, create, update, delete and trigger."""

from dataclasses import dataclass, field, replace

from covey.model.access import Actor, Target
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.errors import not_found
from covey.model.clustering.owners import owner_of
from covey.model.clustering.paging import PageQuery
from covey.model.clustering.receivers import WEBHOOK, Receiver
from covey.model.clustering.specs import Document
from covey.model.errors import Invalid
from covey.ports import Access, Accounts, Clock, NewUuid
from covey.services.clustering.lookup import (
    reject_over_quota,
    require_access,
    specified_cluster,
    visible_page,
    visible_project,
)
from covey.services.clustering.scaling import Scaling
from covey.storage.store import Store, Transaction

_SHORT_ID = 8  # characters of an id in the name of an action


@dataclass(frozen=True, slots=True)
class NewReceiver:
    """A request for a webhook."""

    name: str
    cluster: str
    action: Verb
    params: Document = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReceiverChange:
    """The fields to update; None keeps the current value."""

    name: str | None = None
    action: Verb | None = None
    params: Document | None = None


@dataclass(frozen=True, slots=True)
class Receivers:
    """Requests about receivers."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid
    scaling: Scaling
    accounts: Accounts
    max_of_project: int

    def page(self, actor: Actor, query: PageQuery) -> list[Receiver]:
        """Return a page of those that the actor may see. Raises Forbidden."""
        self.access.require(actor, "receivers:index", Target(project_id=actor.project_id))
        with self.store.read() as tx:
            return tx.clustering.receivers.page(visible_page(self.access, actor, query))

    def get(self, actor: Actor, key: str) -> Receiver:
        """Raises NotFound, Ambiguous, Forbidden."""
        with self.store.read() as tx:
            return self._find(tx, actor, "receivers:get", key)

    def create(self, actor: Actor, new: NewReceiver) -> Receiver:
        """Create a receiver whose action runs with the actor's roles.

        Raises Invalid for an unknown cluster, OverQuota.
        """
        self.access.require(actor, "receivers:create", Target(project_id=actor.project_id))
        with self.store.write() as tx:
            reject_over_quota(tx, actor, tx.clustering.receivers.count, "receivers", self.max_of_project)
            cluster = specified_cluster(tx, self.access, actor, new.cluster)
            self.access.require(actor, "clusters:action", cluster.owner.target)
            receiver = Receiver(
                id=self.new_uuid(),
                name=new.name,
                type=WEBHOOK,
                owner=owner_of(actor),
                created_at=self.clock(),
                cluster_id=cluster.id,
                action=new.action,
                params=new.params,
                roles=actor.roles,
            )
            tx.clustering.receivers.add(receiver)
            return receiver

    def update(self, actor: Actor, key: str, change: ReceiverChange) -> Receiver:
        """Raises Invalid when nothing would change."""
        with self.store.write() as tx:
            found = self._find(tx, actor, "receivers:update", key)
            changed = replace(
                found,
                name=found.name if change.name is None else change.name,
                action=found.action if change.action is None else change.action,
                params=found.params if change.params is None else change.params,
            )
            if changed == found:
                raise Invalid("No property needs an update.")
            changed = replace(changed, updated_at=self.clock())
            tx.clustering.receivers.update(changed)
            return changed

    def delete(self, actor: Actor, key: str) -> None:
        """Delete a receiver; its webhook stops working."""
        with self.store.write() as tx:
            tx.clustering.receivers.delete(self._find(tx, actor, "receivers:delete", key).id)

    def require(self, receiver_id: str) -> None:
        """Raise NotFound unless the receiver can start an action."""
        with self.store.read_once() as tx:
            _triggerable(tx, receiver_id)

    def trigger(self, receiver_id: str, given: Document) -> Action:
        """Start the action on behalf of the receiver's creator, with those of the creator's roles that remain.

        The caller is not authenticated, so it must send the whole id. Raises NotFound, Forbidden for a creator who
        may no longer start the action, Locked, Cooldown.
        """
        with self.store.read_once() as tx:
            receiver, _ = _triggerable(tx, receiver_id)
        owner = receiver.owner
        actor = owner.with_roles(self.accounts.remaining_roles(owner.user_id, owner.project_id, receiver.roles))
        self.access.require(actor, "webhooks:trigger", owner.target)
        with self.store.write() as tx:
            receiver, verb = _triggerable(tx, receiver_id)
            cluster = None if receiver.cluster_id is None else tx.clustering.clusters.lock(receiver.cluster_id)
            if cluster is None:
                raise not_found("receiver", receiver_id)
            self.access.require(actor, "clusters:action", cluster.owner.target)
            name = f"webhook_{receiver.id[:_SHORT_ID]}"
            inputs = {**receiver.params, **given}
            action = self.scaling.dispatcher.start_action(tx, actor, verb, cluster, inputs, name)
            self.scaling.reject_cooldown(tx, cluster, verb)
            return action

    def _find(self, tx: Transaction, actor: Actor, rule: str, key: str) -> Receiver:
        found = tx.clustering.receivers.one(key, visible_project(self.access, actor))
        return require_access(self.access, actor, rule, "receiver", key, found)


def _triggerable(tx: Transaction, receiver_id: str) -> tuple[Receiver, Verb]:
    receiver = tx.clustering.receivers.by_id(receiver_id)
    if receiver is None or receiver.action is None:
        raise not_found("receiver", receiver_id)
    return receiver, Verb(receiver.action)
