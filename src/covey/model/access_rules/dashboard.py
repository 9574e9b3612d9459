"""The access rule of the dashboard's operator view. Its other data follows the rules of the APIs."""

from covey.model.access import AccessRule
from covey.model.access_rules.basics import ADMIN

DASHBOARD: tuple[AccessRule, ...] = (
    AccessRule(
        "covey:dashboard:operate",
        ADMIN,
        "See every host and server, the fleet's health, and the events of all projects on the dashboard.",
        (
            "GET /dashboard/data/fleet",
            "GET /dashboard/data/hosts/{name}",
            "GET /dashboard/data/health",
            "GET /dashboard/events",
        ),
    ),
)
