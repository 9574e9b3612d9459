"""Previews: the decision for more servers of a group, without the claim."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from covey.model.access import Actor
from covey.model.claims import amounts_of
from covey.model.groups import Group
from covey.model.ids import HostId
from covey.model.servers import PlacementRequest
from covey.ports import Access
from covey.scheduler.decide import decide
from covey.scheduler.explain import Explanation, explain
from covey.scheduler.fleet import Fleet
from covey.scheduler.planning import reject_unknown_zone
from covey.scheduler.request_spec import RequestSpec
from covey.services.audits import Destinations, places_of, scopes_of
from covey.services.groups import Groups
from covey.services.live_fleet import LiveFleet
from covey.services.obfuscation import disguise_for
from covey.services.servers import Servers, image_traits, refuse_small
from covey.storage.store import Store, Transaction

MOST = 10_000  # servers that are decided on: as many as anybody could want
_SEED = 0  # the same question gets the same answer, as long as nothing changed


@dataclass(frozen=True, slots=True)
class MoreServers:
    """Servers that somebody thinks of asking for."""

    flavor: str
    count: int
    image: str | None = None
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """How many of them fit, where those would go, and why the rest would not."""

    group: Group
    asked: int
    placements: Sequence[Destinations]
    reason: str | None

    @property
    def fits(self) -> int:
        return len(self.placements)


@dataclass(frozen=True, slots=True)
class Previews:
    """Decides on a copy of what everybody sees, and keeps nothing."""

    store: Store
    access: Access
    groups: Groups
    servers: Servers
    live: LiveFleet
    tell: Callable[[Explanation], str]

    def preview(self, actor: Actor, group: str, more: MoreServers) -> Preview:
        """Raises NotFound for the group, Invalid for what no boot would be let do: an unknown flavor, image or zone."""
        flavor = self.servers.flavor_for(actor, more.flavor)
        image = self.servers.image_for(actor, more.image)
        refuse_small(flavor, image)
        required, forbidden = image_traits(image)
        with self.store.read() as tx:
            found = self.groups.own(tx, actor, group, "preview")
            wanted = PlacementRequest(zone=more.zone, image_required_traits=required, image_forbidden_traits=forbidden)
            spec = RequestSpec(
                *amounts_of(flavor),
                count=more.count,
                minimum=1,
                requirements=self.servers.requirements_for(found.project_id, flavor, wanted),
                group=tx.groups.states({found.id: found.version})[found.id].view(),
            )
            return self._decided(tx, actor, found, spec)

    def _decided(self, tx: Transaction, actor: Actor, group: Group, spec: RequestSpec) -> Preview:
        obfuscation = disguise_for(tx, self.access, actor, group.project_id)
        with self.live.fresh(tx) as snapshot:
            reject_unknown_zone(spec.requirements, snapshot.fleet)
            chosen = decide(spec, snapshot.fleet, _SEED).chosen
            reason = self._reason(spec, snapshot.fleet, chosen) if len(chosen) < spec.count else None
            placements = list(places_of(chosen, scopes_of(group), snapshot.fleet, obfuscation))
            return Preview(group, spec.count, placements, reason)

    def _reason(self, spec: RequestSpec, fleet: Fleet, chosen: tuple[HostId, ...]) -> str:
        """What stands against one more; nobody asked for as many as there could be, so how many did fit is left out."""
        why = explain(spec, fleet, chosen)
        return self.tell(replace(why, placed=0) if spec.count == MOST else why)
