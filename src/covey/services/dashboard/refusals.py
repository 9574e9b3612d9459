"""Why a server was refused, counted, and the smallest change that would let it fit; or why it is where it is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from covey.model.access import Actor
from covey.model.claims import amounts_of
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
_MOST = 200  # servers in error that are looked at

Counted = tuple[str, int | None]  # a reason, and how many hosts it rules out, for who may know


@dataclass(frozen=True, slots=True)
class Refusal:
    """A server; and, where it has no place, what stands against one now, and what would help."""

    server: Server
    refused: bool
    fits_now: bool = False
    hosts: int | None = None
    reasons: Sequence[Counted] = ()
    changes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Refusals:
    """Asks the real decision again, and claims nothing. `tells` is how much tenants learn: counts, reasons or none."""

    store: Store
    access: Access
    live: LiveFleet
    servers: Servers
    tells: str

    def refusals(self, actor: Actor) -> list[Server]:
        """The project's servers that found no host, newest first; everybody's for those who may see all."""
        everywhere = self.access.allows(actor, f"{_RULE}:get_all_tenants")
        wanted = ServerFilter(vm_state=VmState.ERROR, limit=_MOST)
        found = self.servers.find(actor, wanted, everywhere=everywhere, rule="detail")
        return [server for server in found if is_refused(server)]

    def why(self, actor: Actor, server: str) -> Refusal:
        """Raises NotFound, also for another project's server."""
        found = self.servers.get(actor, server, "covey:placement:show")
        if not is_refused(found):
            return Refusal(found, refused=False)
        tells = "counts" if self.access.allows(actor, "covey:placement:explain") else self.tells
        if tells == "none":
            return Refusal(found, refused=True)
        requirements = self.servers.requirements_for(found.project_id, found.flavor, found.request)
        avoided = replace(requirements, other_hosts=requirements.other_hosts | frozenset(found.placement.avoid))
        with self.store.read() as tx:
            group = _group(tx, found)
            with self.live.fresh(tx) as snapshot:
                fleet = snapshot.fleet.copy()
        spec = RequestSpec(*amounts_of(found.flavor), requirements=avoided, group=group, forced=found.request.forced)
        told = explain(spec, fleet)
        if tells == "reasons":
            return Refusal(found, refused=True, reasons=[(reason.many, None) for reason in told.reasons])
        fits = sum(reason.count for reason in told.reasons) < told.hosts
        helpful = [] if fits else remedies(spec, fleet)
        return Refusal(
            found,
            refused=True,
            fits_now=fits,
            hosts=told.hosts,
            reasons=_counted(told),
            changes=_for(helpful, operator=self.access.allows(actor, "covey:placement:explain")),
        )


def is_refused(server: Server) -> bool:
    """Whether it is in error because no host would take it."""
    return server.host_id is None and server.fault is not None and server.fault.kind is FaultKind.NO_VALID_HOST


def _group(tx: Transaction, server: Server) -> GroupView:
    """The group that it asked for, as that is now; a server without a place is no member."""
    asked = server.request.hints.get("group")
    name = asked[0] if isinstance(asked, list) and asked else asked
    found = tx.groups.by_id(name) if isinstance(name, str) else None
    if found is None or found.project_id != server.project_id:
        return GroupView()
    return tx.groups.states({GroupId(found.id): found.version})[found.id].view()


def _counted(told: Explanation) -> list[Counted]:
    """Every host in one reason, so that the numbers add up."""
    reasons: list[Counted] = [(r.one if r.count == 1 else r.many, r.count) for r in told.reasons]
    left = told.hosts - sum(reason.count for reason in told.reasons)
    return [*reasons, ("would take it now", left)] if left else reasons


def _for(found: Sequence[Remedy], *, operator: bool) -> list[str]:
    return [remedy.words for remedy in found if operator or not remedy.for_operators]
