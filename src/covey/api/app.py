"""The route table: every URL of every API on one page."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import falcon
import msgspec
from falcon.media import JSONHandler

from covey.api import errors
from covey.api.authentication import Authenticator, Projects
from covey.api.clustering import discovery as clustering_discovery
from covey.api.clustering import errors as clustering_errors
from covey.api.clustering import microversions as clustering_versions
from covey.api.clustering.routes import routes as clustering_routes
from covey.api.compute import discovery as compute_discovery
from covey.api.compute import microversions
from covey.api.compute.aggregates import Aggregates
from covey.api.compute.explaining import PlacementExplain
from covey.api.compute.extra_specs import ExtraSpecs
from covey.api.compute.flavors import Flavors
from covey.api.compute.hosts import AvailabilityZones, Hypervisors
from covey.api.compute.hosts import Services as ComputeServices
from covey.api.compute.openapi import resource as compute_openapi
from covey.api.compute.policy_scopes import PolicyScopes
from covey.api.compute.projects import without_project
from covey.api.compute.quotas import Limits, QuotaClassSets, QuotaSets
from covey.api.compute.rebalances import Rebalances
from covey.api.compute.server_actions import InstanceActions, Migrations, ServerActions
from covey.api.compute.server_group_actions import ServerGroupActions
from covey.api.compute.server_groups import ServerGroups
from covey.api.compute.server_views import ServerView
from covey.api.compute.servers import Servers
from covey.api.compute.small import Extensions, KeyPairs
from covey.api.dashboard import session as dashboard_session
from covey.api.dashboard.answers import Guarded
from covey.api.dashboard.routes import routes as dashboard_routes
from covey.api.identity import projects as identity_api
from covey.api.image import discovery as image_discovery
from covey.api.image.images import Images
from covey.api.metrics import Metrics
from covey.api.middleware import RequestMiddleware
from covey.api.mounts import Mounts
from covey.api.operations import Health, Index, MetricsPage
from covey.api.placement import discovery as placement_discovery
from covey.api.placement import errors as placement_errors
from covey.api.placement import microversions as placement_versions
from covey.api.placement.aggregates import Aggregates as ProviderAggregates
from covey.api.placement.allocations import Allocations
from covey.api.placement.answers import typeless_when_empty
from covey.api.placement.candidates import AllocationCandidates
from covey.api.placement.inventories import Inventories
from covey.api.placement.reshaper import Reshaper
from covey.api.placement.resource_classes import ResourceClasses
from covey.api.placement.resource_providers import ResourceProviders
from covey.api.placement.traits import ProviderTraits, Traits
from covey.api.placement.usages import Usages
from covey.api.requests import Request
from covey.ports import Access, Clock, NewUuid
from covey.services import Services

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication


Api = falcon.App[Request, falcon.Response]
Route = tuple[str, object, str | None]

APIS = ("clustering", "compute", "image", "placement")


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator chose for the HTTP service."""

    max_limit: int
    max_body_bytes: int
    default_zone: str
    tells_counts: bool = True  # to tenants, of hosts
    public_url: str | None = None
    auth_strategy: str = "none"
    dashboard: bool = True
    max_streams: int = 16  # of the dashboard's events, in this process


@dataclass(frozen=True, slots=True)
class AppParts:
    """What the resources are built from."""

    services: Services
    ping: Callable[[], None]  # of the database; raises Unavailable
    access: Access
    clock: Clock
    new_uuid: NewUuid
    authenticate: Authenticator
    projects: Projects | None  # None where an identity service of its own knows the projects
    settings: Settings
    metrics: Metrics
    sign_in: dashboard_session.SignIn | None = None  # where tokens are given out to whoever has a password
    stopping: threading.Event = field(default_factory=threading.Event)  # set when requests should come to an end


def build(parts: AppParts, only: str | None = None) -> "WSGIApplication":
    """All APIs below their paths, or one of them alone at the root."""
    below: dict[str, WSGIApplication] = {"healthcheck": _health(parts), "metrics": _metrics(parts)}
    if only is not None:
        return Mounts(below, _BUILDERS[only](parts))
    below |= {name: builder(parts) for name, builder in _BUILDERS.items()}
    if parts.settings.dashboard:
        below["dashboard"] = _dashboard(parts)
    if parts.projects is not None:
        below["identity"] = _identity(parts, parts.projects)
    return Mounts(below, _plain([("/", Index(sorted(below)), None)]))


def _clustering(parts: AppParts) -> Api:
    edge = _edge(parts, "clustering", clustering_discovery.is_open, spoken=clustering_versions.SPOKEN)
    app = _app(edge, clustering_routes(parts), errors.plain_error, errors.no_such_route)
    clustering_errors.install(app)
    return app


def _compute(parts: AppParts) -> Api:
    services, settings = parts.services, parts.settings
    aggregates = Aggregates(services.aggregates)
    flavors = Flavors(services.flavors, parts.new_uuid, settings.max_limit)
    extra_specs = ExtraSpecs(services.flavors)
    hypervisors = Hypervisors(services.hosts, settings.max_limit)
    hosts = ComputeServices(services.hosts, settings.default_zone)
    zones = AvailabilityZones(services.hosts)
    quotas = QuotaSets(services.quotas)
    extensions = Extensions(parts.access)
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
        ("/os-keypairs", KeyPairs(parts.access), None),
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
        ServerView(parts.access, settings.default_zone, settings.tells_counts),
        settings.max_limit,
        services.explaining,
    )
    groups = ServerGroups(services.groups, settings.max_limit)
    rebalances = Rebalances(services.rebalances)
    group_actions = ServerGroupActions(services.memberships, services.previews, services.audits, rebalances.verbs)
    actions = InstanceActions(services.histories, parts.access, settings.max_limit)
    routes += [
        ("/servers", servers, None),
        ("/servers/detail", servers, "detail"),
        ("/servers/{key}", servers, "one"),
        ("/servers/{key}/action", ServerActions(services.moves, services.power, services.flavors), None),
        ("/servers/{key}/metadata", servers, "metadata"),
        ("/servers/{key}/metadata/{item}", servers, "meta"),
        ("/servers/{key}/os-instance-actions", actions, None),
        ("/servers/{key}/os-instance-actions/{request_id}", actions, "one"),
        ("/servers/{key}/placement", servers, "placement"),
        ("/servers/{key}/tags", servers, "tags"),
        ("/servers/{key}/tags/{tag}", servers, "tag"),
        ("/os-placement-explain", PlacementExplain(services.explaining), None),
        ("/os-migrations", Migrations(services.histories, settings.max_limit), None),
        ("/os-server-groups", groups, None),
        ("/os-server-groups/{key}", groups, "one"),
        ("/os-server-groups/{key}/action", group_actions, None),
        ("/os-server-groups/{key}/audit", group_actions, "audit"),
        ("/os-server-groups/{key}/rebalance", rebalances, None),
    ]
    scopes = PolicyScopes(services.scopes)
    routes += [
        ("/os-policy-scopes", scopes, None),
        ("/os-policy-scopes/{key}", scopes, "one"),
        ("/os-policy-scopes/{key}/action", scopes, "action"),
    ]
    routes.append((compute_openapi.PATH, compute_openapi.OpenApi(tuple(routes)), None))
    roots = frozenset(path.split("/")[1] for path, _, _ in routes)
    edge = _edge(
        parts,
        "compute",
        compute_discovery.is_open,
        spoken=microversions.SPOKEN,
        rewrite=partial(without_project, roots=roots),
        id_header="x-compute-request-id",
    )
    versions: list[Route] = [
        ("/", compute_discovery.Versions(), None),
        (compute_discovery.PREFIX, compute_discovery.OneVersion(), None),
    ]
    below = [(compute_discovery.PREFIX + path, resource, suffix) for path, resource, suffix in routes]
    app = _app(edge, [*versions, *below], errors.compute_fault, compute_discovery.no_route)
    app.add_error_handler(falcon.HTTPMethodNotAllowed, compute_discovery.wrong_method)
    return app


def _dashboard(parts: AppParts) -> Api:
    edge = _edge(parts, "dashboard", dashboard_session.is_open)
    edge = replace(edge, authenticate=dashboard_session.Unprompted(parts.authenticate))
    app = _app(edge, dashboard_routes(parts), errors.plain_error, errors.no_such_route)
    app.add_middleware(Guarded())
    return app


def _image(parts: AppParts) -> Api:
    versions = image_discovery.Versions()
    images = Images(parts.services.images, parts.clock, parts.new_uuid, parts.settings.max_limit)
    routes: list[Route] = [
        ("/", versions, None),
        ("/v2", versions, "one"),
        ("/v2/images", images, None),
        ("/v2/images/{key}", images, "one"),
        ("/v2/images/{key}/file", images, "file"),
        ("/v2/images/{key}/tags/{tag}", images, "tag"),
    ]
    edge = _edge(parts, "image", image_discovery.is_open)
    return _app(edge, routes, errors.plain_error, errors.no_such_route)


def _placement(parts: AppParts) -> "WSGIApplication":
    services, clock = parts.services.placement, parts.clock
    providers = ResourceProviders(services.providers, clock)
    inventories = Inventories(services.inventories, clock)
    classes = ResourceClasses(services.resource_classes, clock)
    traits = Traits(services.traits, clock)
    allocations = Allocations(services.allocations, clock)
    usages = Usages(services.usages, clock)
    routes: list[Route] = [
        ("/", placement_discovery.Versions(clock), None),
        ("/allocation_candidates", AllocationCandidates(services.candidates, clock), None),
        ("/allocations", allocations, None),
        ("/allocations/{consumer}", allocations, "one"),
        ("/reshaper", Reshaper(services.reshaper), None),
        ("/resource_classes", classes, None),
        ("/resource_classes/{name}", classes, "one"),
        ("/resource_providers", providers, None),
        ("/resource_providers/{key}", providers, "one"),
        ("/resource_providers/{key}/aggregates", ProviderAggregates(services.aggregates, clock), None),
        ("/resource_providers/{key}/allocations", allocations, "provider"),
        ("/resource_providers/{key}/inventories", inventories, None),
        ("/resource_providers/{key}/inventories/{kind}", inventories, "one"),
        ("/resource_providers/{key}/traits", ProviderTraits(services.traits, clock), None),
        ("/resource_providers/{key}/usages", usages, "provider"),
        ("/traits", traits, None),
        ("/traits/{name}", traits, "one"),
        ("/usages", usages, None),
    ]
    edge = _edge(
        parts,
        "placement",
        placement_discovery.is_open,
        spoken=placement_versions.SPOKEN,
        root_has_version=True,
        routes_options=True,
    )
    app = _app(edge, routes, errors.plain_error, errors.no_such_route)
    app.add_middleware(placement_errors.MethodPolicy(_methods(routes)))
    placement_errors.install(app)
    return typeless_when_empty(app)


def _methods(routes: Iterable[Route]) -> dict[str, list[str]]:
    """Which methods each route has."""
    verbs = ("GET", "POST", "PUT", "DELETE")
    return {
        path: [verb for verb in verbs if hasattr(resource, f"on_{verb.lower()}{f'_{suffix}' if suffix else ''}")]
        for path, resource, suffix in routes
    }


def _identity(parts: AppParts, projects: Projects) -> Api:
    versions = identity_api.Versions()
    lookup = identity_api.ProjectLookup(projects, parts.access)
    routes: list[Route] = [
        ("/", versions, None),
        ("/v3", versions, "one"),
        ("/v3/projects", lookup, None),
        ("/v3/projects/{key}", lookup, "one"),
    ]
    edge = _edge(parts, "identity", identity_api.is_open)
    return _app(edge, routes, errors.plain_error, errors.no_such_route)


def _health(parts: AppParts) -> Api:
    health = Health(parts.ping)
    return _plain([("/", health, None), ("/live", health, "live")])


def _metrics(parts: AppParts) -> Api:
    return _plain([("/", MetricsPage(parts.metrics), None)])


_BUILDERS: dict[str, Callable[[AppParts], "WSGIApplication"]] = {
    "clustering": _clustering,
    "compute": _compute,
    "image": _image,
    "placement": _placement,
}


def _edge(parts: AppParts, api: str, is_open: Callable[[Request], bool], **more: Any) -> RequestMiddleware:  # noqa: ANN401
    settings = parts.settings
    return RequestMiddleware(
        api,
        parts.authenticate,
        parts.metrics,
        is_open,
        max_body_bytes=settings.max_body_bytes,
        public_url=settings.public_url,
        **more,
    )


def _plain(routes: Iterable[Route]) -> Api:
    """An application that anybody may ask."""
    return _app(None, routes, errors.plain_error, errors.no_such_route)


def _app(
    edge: RequestMiddleware | None, routes: Iterable[Route], render: errors.Render, no_route: errors.NoRoute
) -> Api:
    app: Api = falcon.App(request_type=Request, middleware=[edge] if edge else [])
    app.req_options.strip_url_path_trailing_slash = True
    app.resp_options.media_handlers[falcon.MEDIA_JSON] = JSONHandler(dumps=msgspec.json.encode)
    errors.install(app, render, no_route)
    for path, resource, suffix in routes:
        app.add_route(path, resource, suffix=suffix)
    return app
