"""The routes of the Compute API, below /v2.1."""

from typing import TYPE_CHECKING

from covey.api.compute.aggregates import Aggregates
from covey.api.compute.drains import Drains
from covey.api.compute.extensions import Extensions
from covey.api.compute.extra_specs import ExtraSpecs
from covey.api.compute.flavors import Flavors
from covey.api.compute.hosts import AvailabilityZones, Hypervisors, Services
from covey.api.compute.keypairs import KeyPairs
from covey.api.compute.openapi.document import PATH as OPENAPI_PATH
from covey.api.compute.openapi.document import OpenApi
from covey.api.compute.placement_explain import PlacementExplain
from covey.api.compute.policy_scopes import PolicyScopes
from covey.api.compute.quotas import Limits, QuotaClassSets, QuotaSets
from covey.api.compute.rebalances import Rebalances
from covey.api.compute.server_actions import InstanceActions, Migrations, ServerActions
from covey.api.compute.server_group_actions import ServerGroupActions
from covey.api.compute.server_groups import ServerGroups
from covey.api.compute.server_migrations import ServerMigrations
from covey.api.compute.server_views import ServerView
from covey.api.compute.servers import Servers

if TYPE_CHECKING:
    from covey.api.app import AppParts, Route


def routes(parts: "AppParts") -> "list[Route]":
    """Return every path with the resource that serves it."""
    services, settings = parts.services, parts.settings
    aggregates = Aggregates(services.aggregates)
    flavors = Flavors(services.flavors, parts.new_uuid, settings.max_limit)
    extra_specs = ExtraSpecs(services.flavors)
    hypervisors = Hypervisors(services.hosts, settings.max_limit, parts.clock)
    hosts = Services(services.hosts, settings.default_zone)
    zones = AvailabilityZones(services.hosts)
    quotas = QuotaSets(services.quotas)
    extensions = Extensions(parts.access)
    key_pairs = KeyPairs(services.key_pairs, settings.max_limit)
    routes: list[Route] = [
        ("/os-aggregates", aggregates, None),
        ("/os-aggregates/{key}", aggregates, "one"),
        ("/os-aggregates/{key}/action", aggregates, "action"),
        ("/os-aggregates/{key}/images", aggregates, "images"),
        ("/os-availability-zone", zones, None),
        ("/os-availability-zone/detail", zones, "detail"),
        ("/extensions", extensions, None),
        ("/extensions/{key}", extensions, "one"),
        ("/flavors", flavors, None),
        ("/flavors/detail", flavors, "detail"),
        ("/flavors/{key}", flavors, "one"),
        ("/flavors/{key}/action", flavors, "action"),
        ("/flavors/{key}/os-flavor-access", flavors, "access"),
        ("/flavors/{key}/os-extra_specs", extra_specs, None),
        ("/flavors/{key}/os-extra_specs/{spec}", extra_specs, "one"),
        ("/os-hypervisors", hypervisors, None),
        ("/os-hypervisors/detail", hypervisors, "detail"),
        ("/os-hypervisors/statistics", hypervisors, "statistics"),
        ("/os-hypervisors/{key}", hypervisors, "one"),
        ("/os-hypervisors/{key}/uptime", hypervisors, "uptime"),
        ("/os-hypervisors/{key}/search", hypervisors, "search"),
        ("/os-hypervisors/{key}/servers", hypervisors, "servers"),
        ("/os-keypairs", key_pairs, None),
        ("/os-keypairs/{key}", key_pairs, "one"),
        ("/limits", Limits(services.quotas), None),
        ("/os-quota-class-sets/{key}", QuotaClassSets(services.quotas), None),
        ("/os-quota-sets/{key}", quotas, None),
        ("/os-quota-sets/{key}/defaults", quotas, "defaults"),
        ("/os-quota-sets/{key}/detail", quotas, "detail"),
        ("/os-services", hosts, None),
        ("/os-services/{key}", hosts, "one"),
    ]
    servers = Servers(
        services.servers,
        ServerView(parts.access, services.host_ids.of, settings.default_zone, settings.show_counts),
        settings.max_limit,
        services.explanations,
        services.instances,
        parts.clock,
    )
    groups = ServerGroups(services.groups, services.nova_groups, settings.max_limit)
    rebalances = Rebalances(services.rebalances)
    group_actions = ServerGroupActions(
        services.memberships,
        services.previews,
        services.audits,
        services.group_evacuations,
        services.nova_groups,
        rebalances.verbs,
    )
    server_actions = ServerActions(
        services.moves, services.shelving, services.power, services.flavors, services.servers, services.consoles
    )
    server_migrations = ServerMigrations(services.live_migrations)
    actions = InstanceActions(services.instance_actions, parts.access, settings.max_limit)
    routes += [
        ("/servers", servers, None),
        ("/servers/detail", servers, "detail"),
        ("/servers/{key}", servers, "one"),
        ("/servers/{key}/action", server_actions, None),
        ("/servers/{key}/migrations", server_migrations, None),
        ("/servers/{key}/migrations/{migration}", server_migrations, "one"),
        ("/servers/{key}/metadata", servers, "metadata"),
        ("/servers/{key}/metadata/{item}", servers, "meta"),
        ("/servers/{key}/os-instance-actions", actions, None),
        ("/servers/{key}/os-instance-actions/{request_id}", actions, "one"),
        ("/servers/{key}/placement", servers, "placement"),
        ("/servers/{key}/tags", servers, "tags"),
        ("/servers/{key}/tags/{tag}", servers, "tag"),
        ("/os-placement-explain", PlacementExplain(services.explanations), None),
        ("/os-migrations", Migrations(services.instance_actions, settings.max_limit), None),
        ("/os-server-groups", groups, None),
        ("/os-server-groups/{key}", groups, "one"),
        ("/os-server-groups/{key}/action", group_actions, None),
        ("/os-server-groups/{key}/audit", group_actions, "audit"),
        ("/os-server-groups/{key}/rebalance", rebalances, None),
    ]
    scopes, drains = PolicyScopes(services.scopes), Drains(services.drains, settings.max_limit)
    routes += [
        ("/os-policy-scopes", scopes, None),
        ("/os-policy-scopes/{key}", scopes, "one"),
        ("/os-policy-scopes/{key}/action", scopes, "action"),
        ("/os-drains", drains, None),
        ("/os-drains/{key}", drains, "one"),
        ("/os-drains/{key}/action", drains, "action"),
    ]
    routes.append((OPENAPI_PATH, OpenApi(tuple(routes)), None))
    return routes
