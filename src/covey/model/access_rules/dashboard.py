"""Who sees the whole fleet on the dashboard. All else there goes by the rules of the APIs."""

from covey.model.access import AccessRule
from covey.model.access_rules.basics import ADMIN

DASHBOARD: tuple[AccessRule, ...] = (
    AccessRule(
        "covey:dashboard:operate",
        ADMIN,
        "See every host and server on the dashboard, the fleet's health, and news of everything.",
        (
            "GET /dashboard/data/fleet",
            "GET /dashboard/data/hosts/{name}",
            "GET /dashboard/data/health",
            "GET /dashboard/events",
        ),
    ),
)
