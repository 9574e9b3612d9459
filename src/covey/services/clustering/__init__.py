"""Clusters: what callers can ask for, and the engine that does it."""

from dataclasses import dataclass
from typing import Self

from covey.model.clustering.limits import Limits
from covey.ports import Access, Clock, NewUuid
from covey.services.clustering.actions import Actions
from covey.services.clustering.bindings import Bindings
from covey.services.clustering.clusters import Clusters
from covey.services.clustering.engines import Engines
from covey.services.clustering.events import Events
from covey.services.clustering.health_actions import HealthActions
from covey.services.clustering.membership import Membership
from covey.services.clustering.nodes import Nodes
from covey.services.clustering.policies import Policies
from covey.services.clustering.profiles import Profiles
from covey.services.clustering.receivers import Receivers
from covey.services.clustering.requests import Requests
from covey.services.clustering.scaling import Scaling
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class Clustering:
    """Everything that can be asked about clusters."""

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
    def on(
        cls, store: Store, access: Access, clock: Clock, new_uuid: NewUuid, default_zone: str, limits: Limits
    ) -> Self:
        """All of it on one store."""
        requests = Requests(clock, new_uuid, limits.timeout_s)
        scaling = Scaling(store, access, clock, requests, limits)
        return cls(
            actions=Actions(store, access, requests),
            bindings=Bindings(store, access, requests),
            health_actions=HealthActions(store, access, requests),
            clusters=Clusters(store, access, clock, new_uuid, requests, limits),
            engines=Engines(store, access, clock),
            events=Events(store, access),
            membership=Membership(store, access, requests, limits),
            nodes=Nodes(store, access, clock, new_uuid, requests, limits),
            policies=Policies(store, access, clock, new_uuid, default_zone),
            profiles=Profiles(store, access, clock, new_uuid),
            receivers=Receivers(store, access, clock, new_uuid, scaling),
            scaling=scaling,
        )
