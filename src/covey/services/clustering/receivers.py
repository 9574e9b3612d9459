"""Receivers: addresses that start an action on a cluster, for whoever knows them."""

from dataclasses import dataclass, field, replace

from covey.model.access import Actor, Target
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import Cluster
from covey.model.clustering.errors import missing
from covey.model.clustering.listing import Listing
from covey.model.clustering.owners import owner_of
from covey.model.clustering.receivers import WEBHOOK, Receiver
from covey.model.clustering.specs import Document
from covey.model.errors import Invalid
from covey.ports import Access, Clock, NewUuid
from covey.services.clustering.finding import allowed, specified
from covey.services.clustering.scaling import Scaling
from covey.services.clustering.visibility import listing_seen, project_seen
from covey.storage.store import Store, Transaction

_SHORT = 8  # letters of an id in the name of an action


@dataclass(frozen=True, slots=True)
class NewReceiver:
    """A webhook as a tenant asks for it."""

    name: str
    cluster: str
    action: Verb
    params: Document = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReceiverChange:
    """What a tenant wants to be otherwise; None leaves it."""

    name: str | None = None
    action: Verb | None = None
    params: Document | None = None


@dataclass(frozen=True, slots=True)
class Receivers:
    """What can be done with receivers."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid
    scaling: Scaling

    def page(self, actor: Actor, wanted: Listing) -> list[Receiver]:
        """Some of those that the actor may see. Raises Forbidden."""
        self.access.require(actor, "receivers:index", Target(project_id=actor.project_id))
        with self.store.read() as tx:
            return tx.clustering.receivers.page(listing_seen(self.access, actor, wanted))

    def get(self, actor: Actor, key: str) -> Receiver:
        """Raises NotFound, Ambiguous."""
        with self.store.read() as tx:
            return self._own(tx, actor, "receivers:get", key)

    def create(self, actor: Actor, new: NewReceiver) -> Receiver:
        """What it starts is done with the roles of the actor. Raises Invalid when there is no such cluster."""
        self.access.require(actor, "receivers:create", Target(project_id=actor.project_id))
        with self.store.write() as tx:
            cluster = specified("cluster", new.cluster, self._held_cluster(tx, actor, new.cluster))
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
            found = self._own(tx, actor, "receivers:update", key)
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
        """Nobody can call it any more."""
        with self.store.write() as tx:
            tx.clustering.receivers.delete(self._own(tx, actor, "receivers:delete", key).id)

    def trigger(self, receiver_id: str, given: Document) -> Action:
        """Start the action, on behalf of whoever made the receiver. Raises NotFound, Locked, Cooldown.

        The caller may be anybody, and so has to know the whole id.
        """
        with self.store.write() as tx:
            receiver = tx.clustering.receivers.by_id(receiver_id)
            if receiver is None or receiver.action is None:
                raise missing("receiver", receiver_id)
            actor = receiver.owner.with_roles(receiver.roles)
            self.access.require(actor, "webhooks:trigger", receiver.owner.target)
            cluster = None if receiver.cluster_id is None else tx.clustering.clusters.lock(receiver.cluster_id)
            if cluster is None:
                raise missing("receiver", receiver_id)
            name = f"webhook_{receiver.id[:_SHORT]}"
            inputs = {**receiver.params, **given}
            action = self.scaling.requests.accept(tx, actor, Verb(receiver.action), cluster, inputs, name)
            self.scaling.refuse_haste(tx, cluster, action.verb)
            return action

    def _own(self, tx: Transaction, actor: Actor, rule: str, key: str) -> Receiver:
        found = tx.clustering.receivers.one(key, project_seen(self.access, actor))
        return allowed(self.access, actor, rule, "receiver", key, found)

    def _held_cluster(self, tx: Transaction, actor: Actor, key: str) -> Cluster | None:
        found = tx.clustering.clusters.one(key, project_seen(self.access, actor))
        return None if found is None else tx.clustering.clusters.lock(found.id)
