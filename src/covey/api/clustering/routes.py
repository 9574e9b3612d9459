"""The routes of the Clustering API."""

from typing import TYPE_CHECKING

from covey.api.clustering.actions import Actions
from covey.api.clustering.bindings import Bindings
from covey.api.clustering.cluster_actions import ClusterActions
from covey.api.clustering.clusters import Clusters
from covey.api.clustering.discovery import PREFIX, Versions
from covey.api.clustering.events import Events
from covey.api.clustering.nodes import Nodes, NodeView
from covey.api.clustering.policies import Policies
from covey.api.clustering.profiles import Profiles
from covey.api.clustering.receivers import Receivers, Webhooks
from covey.api.clustering.services import BuildInfo, Services
from covey.api.clustering.types import Types
from covey.api.compute.server_views import ServerView
from covey.model.clustering.policy_types import POLICY_TYPES
from covey.model.clustering.profile_types import PROFILE_TYPES

if TYPE_CHECKING:
    from covey.api.app import AppParts, Route


def routes(parts: "AppParts") -> "list[Route]":
    """Return all routes."""
    services, access, versions = parts.services.clustering, parts.access, Versions()
    profiles, policies = Profiles(services.profiles), Policies(services.policies)
    profile_types = Types("profile_type", PROFILE_TYPES, access)
    policy_types = Types("policy_type", POLICY_TYPES, access)
    receivers = Receivers(services.receivers)
    view = NodeView(
        ServerView(access, parts.services.host_ids.of, parts.settings.default_zone, parts.settings.show_counts)
    )
    clusters, nodes = Clusters(services.clusters, view), Nodes(services.nodes, view)
    cluster_actions, bindings = ClusterActions(services), Bindings(services.bindings)
    actions, events = Actions(services.actions), Events(services.events)
    below: list[Route] = [
        ("/actions", actions, None),
        ("/actions/{key}", actions, "one"),
        ("/build-info", BuildInfo(access), None),
        ("/clusters", clusters, None),
        ("/clusters/{key}", clusters, "one"),
        ("/clusters/{key}/actions", cluster_actions, None),
        ("/clusters/{key}/attrs/{path}", clusters, "attrs"),
        ("/clusters/{key}/ops", cluster_actions, "ops"),
        ("/clusters/{key}/policies", bindings, None),
        ("/clusters/{key}/policies/{policy}", bindings, "one"),
        ("/events", events, None),
        ("/events/{key}", events, "one"),
        ("/nodes", nodes, None),
        ("/nodes/{key}", nodes, "one"),
        ("/nodes/{key}/actions", nodes, "actions"),
        ("/nodes/{key}/ops", nodes, "ops"),
        ("/policies", policies, None),
        ("/policies/validate", policies, "validate"),
        ("/policies/{key}", policies, "one"),
        ("/policy-types", policy_types, None),
        ("/policy-types/{name}", policy_types, "one"),
        ("/profiles", profiles, None),
        ("/profiles/validate", profiles, "validate"),
        ("/profiles/{key}", profiles, "one"),
        ("/profile-types", profile_types, None),
        ("/profile-types/{name}", profile_types, "one"),
        ("/profile-types/{name}/ops", profile_types, "operations"),
        ("/receivers", receivers, None),
        ("/receivers/{key}", receivers, "one"),
        ("/services", Services(services.engines), None),
        ("/webhooks/{key}/trigger", Webhooks(services.receivers), None),
    ]
    return [
        ("/", versions, None),
        ("/versions", versions, None),
        (PREFIX, versions, "one"),
        *((PREFIX + path, resource, suffix) for path, resource, suffix in below),
    ]
