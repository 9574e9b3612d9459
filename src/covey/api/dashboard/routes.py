"""The routes of the dashboard."""

from typing import TYPE_CHECKING

from covey.api.compute.server_views import ServerView
from covey.api.dashboard.assets import Assets
from covey.api.dashboard.events import Events
from covey.api.dashboard.fleet import Fleet, HealthPage, Hosts, Me
from covey.api.dashboard.groups import Groups
from covey.api.dashboard.refusals import Refusals
from covey.api.dashboard.session import Session
from covey.request_slots import FairLimit

if TYPE_CHECKING:
    from covey.api.app import AppParts, Route


def routes(parts: "AppParts") -> "list[Route]":
    """Return every path with the resource that serves it."""
    services, settings = parts.services.dashboard, parts.settings
    assets = Assets()
    groups = Groups(services.groups, settings.max_limit)
    streams = FairLimit(settings.max_streams, settings.max_streams_per_project)
    refusals = Refusals(
        services.refusals,
        parts.services.instances,
        ServerView(parts.access, parts.services.host_ids.of, settings.default_zone, settings.show_counts),
        settings.max_limit,
    )
    return [
        ("/", assets, None),
        ("/assets/{name}", assets, "one"),
        ("/assets/{name}/{inner}", assets, "inner"),
        ("/session", Session(settings.auth_strategy, parts.sign_in), None),
        ("/events", Events(services.changes, streams, parts.stopping, parts.authenticate), None),
        ("/data/me", Me(services.fleet, settings.auth_strategy), None),
        ("/data/fleet", Fleet(services.fleet), None),
        ("/data/hosts/{name}", Hosts(services.fleet), None),
        ("/data/health", HealthPage(services.health, parts.metrics), None),
        ("/data/groups", groups, None),
        ("/data/groups/{key}", groups, "one"),
        ("/data/groups/{key}/preview-policies", groups, "preview"),
        ("/data/refusals", refusals, "refusals"),
        ("/data/instances", refusals, "instances"),
        ("/data/servers/{key}/why", refusals, "one"),
    ]
