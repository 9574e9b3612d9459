"""Covey's own part of a plan: its servers as members of groups that may move, and as servers that leave a host."""

from dataclasses import replace

from covey.model.claims import Allocations
from covey.model.errors import Invalid
from covey.model.ids import HostId
from covey.model.resources import Resources, resource_request
from covey.model.servers import HostRequirements, Server, VmState
from covey.scheduler.drain_planning import DrainCandidate
from covey.scheduler.rebalancing import Member
from covey.services.servers import Servers

_IDLE_STATES = {VmState.ACTIVE, VmState.STOPPED}


def is_movable(server: Server) -> bool:
    """Return whether a server may be moved: it is idle and unlocked, and its host is up."""
    return server.vm_state in _IDLE_STATES and server.task is None and not server.details.locked and server.host_up


def own_member(servers: Servers, server: Server, held: Allocations | None = None) -> Member:
    """Return a server that has a host as a member of a plan. A moving one counts on its destination. Raises Invalid."""
    request = replace(server.request, hosts=(), forced=False)  # as for every other move
    requirements = servers.requirements_for(server.project_id, server.flavor, request)
    needs = resource_request(server.flavor)
    movable = is_movable(server)
    return Member(server.id, _host_of(server), needs.amounts, requirements, movable, needs.groups, needs.isolate, held)


def own_member_or_fixed(servers: Servers, server: Server, held: Allocations | None) -> Member:
    """Return `own_member`; one that can't move if its flavor has an extra spec that Covey can't follow."""
    try:
        return own_member(servers, server, held)
    except Invalid:
        return _fixed(server, _host_of(server))


def own_candidate(servers: Servers, server: Server) -> DrainCandidate:
    """Return a server that has a host as one that leaves it."""
    host, obstacle = server.host_id, obstacle_of(server)
    assert host is not None
    try:
        member = replace(own_member(servers, server), host=host)
    except Invalid as error:  # an extra spec that Covey can't follow
        member, obstacle = _fixed(server, host), error.message
    return DrainCandidate(member, server.group_id, server.migration_host_id, obstacle, waits=server.task is not None)


def _host_of(server: Server) -> HostId:
    """Return the host on which a server counts: the destination of one that moves."""
    moving = server.migration_host_id is not None and server.vm_state is not VmState.RESIZED
    host = server.migration_host_id if moving else server.host_id
    assert host is not None
    return host


def _fixed(server: Server, host: HostId) -> Member:
    """Return a server that counts on its host and can't move."""
    return Member(server.id, host, Resources({}), HostRequirements(), movable=False)


def obstacle_of(server: Server) -> str | None:
    """Return why a server can't move to any host; None if it can."""
    if is_movable(server):
        return None
    if server.details.locked:
        return "It is locked."
    if server.vm_state is VmState.RESIZED:
        return "It waits until its resize or migration is confirmed or reverted."
    if server.task is not None:
        return f"It is busy: its task is {server.task}."
    if not server.host_up:
        return "Its host is down: evacuate it."
    return f"Its status is {server.status}; only ACTIVE and SHUTOFF servers move."
