"""The WSGI application: one Falcon application for each API, mounted below its path."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import falcon
import msgspec
from falcon.media import JSONHandler

from covey.api import errors
from covey.api.agent import resources as agent_api
from covey.api.authentication import Authenticator, Projects
from covey.api.clustering import discovery as clustering_discovery
from covey.api.clustering import errors as clustering_errors
from covey.api.clustering import microversions as clustering_versions
from covey.api.clustering.routes import routes as clustering_routes
from covey.api.compute import discovery as compute_discovery
from covey.api.compute import microversions as compute_versions
from covey.api.compute.routes import routes as compute_routes
from covey.api.cors import Cors
from covey.api.dashboard import session as dashboard_session
from covey.api.dashboard.responses import SecurityHeaders
from covey.api.dashboard.routes import routes as dashboard_routes
from covey.api.downloads import Downloads
from covey.api.health import Health, Index, MetricsPage, SharedPage, SharedPing
from covey.api.identity import projects as identity_api
from covey.api.image import discovery as image_discovery
from covey.api.image.images import Images
from covey.api.image.schema_documents import SchemaDocuments
from covey.api.metrics import Metrics
from covey.api.middleware import Mounts, RequestMiddleware, VersionedPaths
from covey.api.placement import discovery as placement_discovery
from covey.api.placement import errors as placement_errors
from covey.api.placement import microversions as placement_versions
from covey.api.placement.responses import typeless_when_empty
from covey.api.placement.routes import routes as placement_routes
from covey.api.requests import BodyReads, Request
from covey.ports import Access, Clock, NewUuid
from covey.services import Services

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication


Api = falcon.App[Request, falcon.Response]
Route = tuple[str, object, str | None]

APIS = ("clustering", "compute", "image", "placement")


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """The options of the HTTP service."""

    max_limit: int
    max_body_bytes: int
    default_zone: str
    show_counts: bool = True  # of hosts, in the faults that tenants see
    public_url: str | None = None
    auth_strategy: str = "none"
    dashboard: bool = True
    metrics: bool = True  # False where they have their own port
    placement_max_body_bytes: int = 8 << 20
    max_streams: int = 16  # event streams of the dashboard, in this process
    max_streams_per_project: int = 4


@dataclass(frozen=True, slots=True)
class AppParts:
    """What the resources are built from: services, ports and settings."""

    services: Services
    ping: Callable[[], None]  # pings the database; raises Unavailable
    access: Access
    clock: Clock
    new_uuid: NewUuid
    authenticate: Authenticator
    projects: Projects | None  # None where Keystone has the projects
    settings: ApiSettings
    metrics: Metrics
    sign_in: dashboard_session.SignIn | None = None  # exchanges a password for a token, with Keystone
    cors: Cors | None = None
    bodies: BodyReads = field(default_factory=BodyReads)
    agent_bodies: BodyReads = field(default_factory=BodyReads)
    downloads: Downloads = field(default_factory=Downloads)
    agent_downloads: Downloads = field(default_factory=Downloads)
    stopping: threading.Event = field(default_factory=threading.Event)  # set at shutdown


def build(parts: AppParts, only: str | None = None) -> "WSGIApplication":
    """Return the application of all APIs, each below its path, or of one API at the root.

    Health checks and metrics need no request slot.
    """
    guard = parts.bodies.request_slots.guard
    below: dict[str, WSGIApplication] = {"healthcheck": _health(parts)}
    if parts.settings.metrics:
        below["metrics"] = _metrics(parts)
    if only is not None:
        return Mounts(below, guard(_BUILDERS[only](parts)))
    below["agent"] = guard(_agent(parts))
    below |= {name: guard(builder(parts)) for name, builder in _BUILDERS.items()}
    below["covey"] = below["compute"]  # the service type of Covey's own features, for clouds whose compute is Nova
    if parts.settings.dashboard:
        below["dashboard"] = guard(_dashboard(parts))
    if parts.projects is not None:
        below["identity"] = guard(_identity(parts, parts.projects))
    return Mounts(below, _plain(parts, [("/", Index(sorted(below)), None)]))


def _agent(parts: AppParts) -> Api:
    middleware = _middleware(parts, "agent", agent_api.is_open, is_routine=agent_api.is_routine)
    most = parts.settings.placement_max_body_bytes  # console logs are long
    middleware = replace(middleware, max_body_bytes=most, bodies=parts.agent_bodies)
    routes = agent_api.routes(parts.services.agents, parts.agent_downloads, parts.authenticate)
    return _app(parts, middleware, routes, errors.plain_error, errors.no_such_route)


def _clustering(parts: AppParts) -> Api:
    middleware = _middleware(
        parts,
        "clustering",
        clustering_discovery.is_open,
        versions=clustering_versions.VERSIONS,
        loggable=clustering_discovery.loggable,
    )
    app = _app(parts, middleware, clustering_routes(parts), errors.plain_error, errors.no_such_route)
    clustering_errors.install(app)
    return app


def _compute(parts: AppParts) -> Api:
    routes = compute_routes(parts)
    roots = frozenset(path.split("/")[1] for path, _, _ in routes)
    paths = VersionedPaths(compute_discovery.PREFIX, compute_discovery.OPEN_PATHS, roots)
    middleware = _middleware(
        parts,
        "compute",
        paths.is_open,
        versions=compute_versions.VERSIONS,
        rewrite=paths.remove_project,
        id_header="x-compute-request-id",
    )
    versions: list[Route] = [
        ("/", compute_discovery.Versions(), None),
        (compute_discovery.PREFIX, compute_discovery.OneVersion(), None),
    ]
    below = [(compute_discovery.PREFIX + path, resource, suffix) for path, resource, suffix in routes]
    app = _app(parts, middleware, [*versions, *below], errors.compute_fault, compute_discovery.no_route)
    app.add_error_handler(falcon.HTTPMethodNotAllowed, compute_discovery.wrong_method)
    return app


def _dashboard(parts: AppParts) -> Api:
    middleware = _middleware(parts, "dashboard", dashboard_session.is_open)
    middleware = replace(middleware, authenticate=dashboard_session.WithoutBrowserPrompt(parts.authenticate))
    app = _app(parts, middleware, dashboard_routes(parts), errors.plain_error, errors.no_such_route)
    app.add_middleware(SecurityHeaders())
    return app


def _image(parts: AppParts) -> Api:
    versions = image_discovery.Versions()
    images = Images(parts.services.images, parts.clock, parts.new_uuid, parts.settings.max_limit, parts.downloads)
    routes: list[Route] = [
        ("/", versions, None),
        ("/v2", versions, "one"),
        ("/v2/images", images, None),
        ("/v2/images/{key}", images, "one"),
        ("/v2/images/{key}/file", images, "file"),
        ("/v2/images/{key}/tags/{tag}", images, "tag"),
        ("/v2/schemas/{key}", SchemaDocuments(), None),
    ]
    middleware = _middleware(parts, "image", image_discovery.is_open)
    return _app(parts, middleware, routes, errors.plain_error, errors.no_such_route)


def _placement(parts: AppParts) -> "WSGIApplication":
    routes = placement_routes(parts)
    middleware = _middleware(
        parts,
        "placement",
        placement_discovery.is_open,
        versions=placement_versions.VERSIONS,
        root_has_version=True,
        routes_options=True,
    )
    middleware = replace(middleware, max_body_bytes=parts.settings.placement_max_body_bytes)
    app = _app(parts, middleware, routes, errors.plain_error, errors.no_such_route)
    app.add_middleware(placement_errors.MethodPolicy(_methods(routes)))
    placement_errors.install(app)
    return typeless_when_empty(app)


def _methods(routes: Iterable[Route]) -> dict[str, list[str]]:
    """Return the methods of each route."""
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
    middleware = _middleware(parts, "identity", identity_api.is_open)
    return _app(parts, middleware, routes, errors.plain_error, errors.no_such_route)


def _health(parts: AppParts) -> Api:
    health = Health(SharedPing(parts.ping))
    return _plain(parts, [("/", health, None), ("/live", health, "live")])


def _metrics(parts: AppParts) -> Api:
    return _plain(parts, [("/", MetricsPage(SharedPage(parts.metrics.text)), None)])


_BUILDERS: dict[str, Callable[[AppParts], "WSGIApplication"]] = {
    "clustering": _clustering,
    "compute": _compute,
    "image": _image,
    "placement": _placement,
}


def _middleware(parts: AppParts, api: str, is_open: Callable[[Request], bool], **more: Any) -> RequestMiddleware:  # noqa: ANN401
    settings = parts.settings
    return RequestMiddleware(
        api,
        parts.authenticate,
        parts.metrics,
        is_open,
        max_body_bytes=settings.max_body_bytes,
        bodies=parts.bodies,
        max_limit=settings.max_limit,
        public_url=settings.public_url,
        allows_origin=None if parts.cors is None else parts.cors.allows,
        **more,
    )


def _plain(parts: AppParts, routes: Iterable[Route]) -> Api:
    """Return an application without authentication."""
    return _app(parts, None, routes, errors.plain_error, errors.no_such_route)


def _app(
    parts: AppParts,
    middleware: RequestMiddleware | None,
    routes: Iterable[Route],
    render: errors.Render,
    no_route: errors.NoRoute,
) -> Api:
    app: Api = falcon.App(request_type=Request, middleware=[part for part in (parts.cors, middleware) if part])
    app.req_options.strip_url_path_trailing_slash = True
    app.resp_options.media_handlers[falcon.MEDIA_JSON] = JSONHandler(dumps=msgspec.json.encode)
    errors.install(app, render, no_route)
    for path, resource, suffix in routes:
        app.add_route(path, resource, suffix=suffix)
    return app
