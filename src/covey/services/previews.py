"""Previews: how many more servers of a flavor fit into a group, and where, without claiming anything."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from covey.model.access import Actor
from covey.model.groups import Group
from covey.model.servers import PlacementRequest
from covey.ports import Access
from covey.scheduler.decide import Decision, decide
from covey.scheduler.explain import Explanation, explain
from covey.scheduler.fleet import Fleet
from covey.scheduler.planning import reject_unknown_zone
from covey.scheduler.request_spec import RequestSpec
from covey.services.audits import MemberDomains, domains_of_hosts, scopes_of
from covey.services.groups import Groups
from covey.services.live_fleet import LiveFleet
from covey.services.obfuscation import obfuscation_for
from covey.services.servers import Servers, image_traits, reject_small_flavor
from covey.storage.store import Store, Transaction

MAX_COUNT = 10_000  # servers in one preview; also used to find how many fit
_SEED = 0  # equal requests get equal answers as long as the fleet does not change


@dataclass(frozen=True, slots=True)
class PreviewRequest:
    """Servers to preview."""

    flavor: str
    count: int
    image: str | None = None
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """The domains of the servers that fit, and the reason why the rest do not fit."""

    group: Group
    requested: int
    placements: Sequence[MemberDomains]
    reason: str | None
    proved: bool  # no more fit, up to the requested number; False if the search stopped at its limit

    @property
    def fits(self) -> int:
        return len(self.placements)


@dataclass(frozen=True, slots=True)
class Previews:
    """Runs the scheduler for a group and stores nothing."""

    store: Store
    access: Access
    groups: Groups
    servers: Servers
    live: LiveFleet
    tenant_message: Callable[[Explanation], str]

    def preview(self, actor: Actor, group: str, request: PreviewRequest) -> Preview:
        """Raises NotFound for an unknown group, Invalid for an unknown flavor, image or zone."""
        flavor = self.servers.flavor_for(actor, request.flavor)
        image = self.servers.image_for(actor, request.image)
        reject_small_flavor(flavor, image)
        required, forbidden = image_traits(image)
        with self.store.read() as tx:
            found = self.groups.get_authorized(tx, actor, group, "preview")
            placement = PlacementRequest(
                zone=request.zone, image_required_traits=required, image_forbidden_traits=forbidden
            )
            requirements = self.servers.requirements_for(found.project_id, flavor, placement)
            view = tx.groups.states({found.id: found.version})[found.id].view()
            spec = replace(RequestSpec.for_flavor(flavor, requirements, view), count=request.count)
            return self._decide(tx, actor, found, spec)

    def _decide(self, tx: Transaction, actor: Actor, group: Group, spec: RequestSpec) -> Preview:
        obfuscation = obfuscation_for(tx, self.access, actor, group.project_id)
        fleet = self.live.read(tx).fleet
        reject_unknown_zone(spec.requirements, fleet)
        decision = decide(spec, fleet, _SEED)
        reason = self._reason(spec, fleet, decision) if len(decision.chosen) < spec.count else None
        placements = list(domains_of_hosts(decision.chosen, scopes_of(group), fleet, obfuscation))
        return Preview(group, spec.count, placements, reason, decision.proved)

    def _reason(self, spec: RequestSpec, fleet: Fleet, decision: Decision) -> str:
        """Return why one more server does not fit; without the number that did fit if the caller set no count."""
        why = explain(spec, fleet, decision.chosen, proved=decision.proved)
        return self.tenant_message(replace(why, placed=0) if spec.count == MAX_COUNT else why)
