"""The clustering services, which create actions, and the engine, which executes them."""

from dataclasses import dataclass
from typing import Self

from covey.model.clustering.sizes import Limits
from covey.ports import Access, Accounts, Clock, NewUuid
from covey.services.clustering.actions import Actions
from covey.services.clustering.bindings import Bindings
from covey.services.clustering.clusters import Clusters
from covey.services.clustering.dispatcher import Dispatcher
from covey.services.clustering.engines import Engines
from covey.services.clustering.events import Events
from covey.services.clustering.health_actions import HealthActions
from covey.services.clustering.membership import Membership
from covey.services.clustering.nodes import Nodes
from covey.services.clustering.policies import Policies
from covey.services.clustering.profiles import Profiles
from covey.services.clustering.receivers import Receivers
from covey.services.clustering.scaling import Scaling
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class Clustering:
    """All services of the Clustering API."""

    actions: Actions
    bindings: Bindings
    health_actions: HealthActions
    clusters: Clusters
    engines: Engines
    events: Events
    membership: Membership
    nodes: Nodes
    policies: Policies
    profiles: Profiles
    receivers: Receivers
    scaling: Scaling

    @classmethod
    def build(
        cls,
        store: Store,
        access: Access,
        accounts: Accounts,
        clock: Clock,
        new_uuid: NewUuid,
        default_zone: str,
        limits: Limits,
    ) -> Self:
        """Return the services on a store."""
        dispatcher = Dispatcher(clock, new_uuid, limits.action_timeout_s)
        scaling = Scaling(store, access, clock, dispatcher, limits)
        return cls(
            actions=Actions(store, access, dispatcher),
            bindings=Bindings(store, access, dispatcher),
            health_actions=HealthActions(store, access, dispatcher),
            clusters=Clusters(store, access, clock, new_uuid, dispatcher, limits),
            engines=Engines(store, access, clock),
            events=Events(store, access),
            membership=Membership(store, access, dispatcher, limits),
            nodes=Nodes(store, access, clock, new_uuid, dispatcher, limits),
            policies=Policies(store, access, clock, new_uuid, default_zone, limits.max_policies_per_project),
            profiles=Profiles(store, access, clock, new_uuid, limits.max_profiles_per_project),
            receivers=Receivers(store, access, clock, new_uuid, scaling, accounts, limits.max_receivers_per_project),
            scaling=scaling,
        )
