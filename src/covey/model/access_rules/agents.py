"""The access rule of agents."""

from covey.model.access import AccessRule

AGENTS: tuple[AccessRule, ...] = (
    AccessRule(
        "agent:work",
        "role:service",
        "Act as the agent of a host. The first user who registers a host is bound to it: no other user acts for it.",
        (
            "PUT /agent/v1/hosts/{name}",
            "PUT /agent/v1/hosts/{name}/heartbeat",
            "GET /agent/v1/hosts/{name}/servers",
            "POST /agent/v1/hosts/{name}/orphans",
            "GET /agent/v1/hosts/{name}/calls",
            "PUT /agent/v1/hosts/{name}/calls/{id}",
            "POST /agent/v1/hosts/{name}/events",
            "GET /agent/v1/images/{id}/file",
        ),
    ),
)
