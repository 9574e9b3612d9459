"""Servers without a valid host: the counted reasons, and the smallest changes that would make one fit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from covey.model.access import Actor
from covey.model.groups import GroupView
from covey.model.ids import GroupId
from covey.model.servers import FaultKind, Server, ServerFilter, VmState
from covey.ports import Access
from covey.scheduler.explain import Explanation, explain
from covey.scheduler.remedies import Remedy, remedies
from covey.scheduler.request_spec import RequestSpec
from covey.services.live_fleet import LiveFleet
from covey.services.servers import Servers
from covey.storage.store import Store, Transaction

_RULE = "os_compute_api:servers:detail"
_MAX_SERVERS = 200  # servers in ERROR to read

Counted = tuple[str, int | None]  # a reason, and how many hosts it excludes; None if the caller may not know


@dataclass(frozen=True, slots=True)
class Refusal:
    """A server and, if it was refused, the reasons that hold now and the changes that would help."""

    server: Server
    refused: bool
    fits_now: bool = False
    hosts: int | None = None
    reasons: Sequence[Counted] = ()
    changes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Refusals:
    """Runs the scheduler again without a claim. `detail` is how much tenants see: counts, reasons or none."""

    store: Store
    access: Access
    live: LiveFleet
    servers: Servers
    detail: str

    def refusals(self, actor: Actor) -> list[Server]:
        """Return the refused servers of the project, or of all projects for administrators, newest first."""
        all_projects = self.access.allows(actor, f"{_RULE}:get_all_tenants")
        filters = ServerFilter(vm_state=VmState.ERROR, limit=_MAX_SERVERS)
        found = self.servers.find(actor, filters, all_projects)
        return [server for server in found if is_refused(server)]

    def explain_refusal(self, actor: Actor, server: str) -> Refusal:
        """Raises NotFound, also for another project's server."""
        found = self.servers.get(actor, server, "covey:placement:show")
        if not is_refused(found):
            return Refusal(found, refused=False)
        detail = "counts" if self.access.allows(actor, "covey:placement:explain") else self.detail
        if detail == "none":
            return Refusal(found, refused=True)
        requirements = self.servers.requirements_for(found.project_id, found.flavor, found.request)
        requirements = replace(
            requirements, ignored_hosts=requirements.ignored_hosts | frozenset(found.placement.avoid)
        )
        with self.store.read() as tx:
            group = _group(tx, found)
            fleet = self.live.read(tx).fleet
        spec = RequestSpec.for_flavor(found.flavor, requirements, group, forced=found.request.forced)
        explanation = explain(spec, fleet)
        if detail == "reasons":
            return Refusal(found, refused=True, reasons=[(reason.many, None) for reason in explanation.reasons])
        fits = sum(reason.count for reason in explanation.reasons) < explanation.hosts
        changes = [] if fits else remedies(spec, fleet)
        return Refusal(
            found,
            refused=True,
            fits_now=fits,
            hosts=explanation.hosts,
            reasons=_counted(explanation),
            changes=_visible_changes(changes, operator=self.access.allows(actor, "covey:placement:explain")),
        )


def is_refused(server: Server) -> bool:
    """Return whether the server is in ERROR because no host was valid."""
    return server.host_id is None and server.fault is not None and server.fault.kind is FaultKind.NO_VALID_HOST


def _group(tx: Transaction, server: Server) -> GroupView:
    """Return the current state of the requested group; a server without a host is not a member."""
    hint = server.request.hints.get("group")
    name = hint[0] if isinstance(hint, list) and hint else hint
    found = tx.groups.by_id(name) if isinstance(name, str) else None
    if found is None or found.project_id != server.project_id:
        return GroupView()
    return tx.groups.states({GroupId(found.id): found.version})[found.id].view()


def _counted(explanation: Explanation) -> list[Counted]:
    """Return reasons whose counts add up to the number of hosts."""
    reasons: list[Counted] = [(r.one if r.count == 1 else r.many, r.count) for r in explanation.reasons]
    left = explanation.hosts - sum(reason.count for reason in explanation.reasons)
    return [*reasons, ("would take it now", left)] if left else reasons


def _visible_changes(changes: Sequence[Remedy], *, operator: bool) -> list[str]:
    return [remedy.words for remedy in changes if operator or not remedy.for_operators]
