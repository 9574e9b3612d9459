"""Explanations: the same decision without the claim, host by host, for operators."""

from dataclasses import dataclass

from covey.model.access import Actor
from covey.model.errors import Invalid
from covey.model.groups import GroupView
from covey.model.ids import GroupId, ProjectId
from covey.model.nova import NovaKind
from covey.model.servers import PlacementRequest, Server
from covey.ports import Access
from covey.scheduler.constraints.static import forbidden_aggregates
from covey.scheduler.explain import explain, host_reasons
from covey.scheduler.fleet import Fleet
from covey.scheduler.request_spec import RequestSpec
from covey.services.live_fleet import LiveFleet
from covey.services.nova_plans import NovaPlan
from covey.services.servers import Servers, image_traits
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """A hypothetical server request."""

    flavor: str
    image: str | None = None
    group: str | None = None
    zone: str | None = None
    project_id: str | None = None


@dataclass(frozen=True, slots=True)
class PlacementQuery:
    """The query that the scheduler evaluates: the request, and the uuids of its forbidden aggregates."""

    spec: RequestSpec
    forbidden: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlacementExplanation:
    """The outcome as a sentence, the reason against each rejected host (None: accepted), and the query."""

    sentence: str
    hosts: dict[str, str | None]
    query: PlacementQuery


@dataclass(frozen=True, slots=True)
class Explanations:
    """Runs the scheduler without claiming anything."""

    store: Store
    access: Access
    live: LiveFleet
    servers: Servers

    def explain(self, actor: Actor, request: ExplainRequest) -> PlacementExplanation:
        """Raises Forbidden, and Invalid for an unknown flavor, image or group.

        Members of a group of Nova go to the compute nodes that are mirrored.
        """
        self.access.require(actor, "covey:placement:explain")
        flavor = self.servers.flavor_for(actor, request.flavor)
        image = self.servers.image_for(actor, request.image)
        required, forbidden_traits = image_traits(image)
        placement = PlacementRequest(
            zone=request.zone, image_required_traits=required, image_forbidden_traits=forbidden_traits
        )
        project = ProjectId(request.project_id or actor.own_project)
        requirements = self.servers.requirements_for(project, flavor, placement)
        with self.store.read() as tx:
            view = GroupView()
            if request.group is not None:
                group = tx.groups.by_id(request.group)
                if group is None:
                    raise Invalid(f"Instance group {request.group} could not be found.")
                view = tx.groups.states({GroupId(group.id): group.version})[group.id].view()
            spec = RequestSpec.for_flavor(flavor, requirements, view)
            fleet = self.live.read(tx).fleet
            if request.group is not None and tx.nova_mirror.owns(NovaKind.GROUP, request.group):
                fleet = NovaPlan.read(tx, fleet).only_nova()
        return PlacementExplanation(explain(spec, fleet).sentence(), host_reasons(spec, fleet), _query(spec, fleet))

    def query_for(self, actor: Actor, server: Server) -> PlacementQuery | None:
        """Return the query for a move of the server, or None if the actor may not see explanations."""
        if not self.access.allows(actor, "covey:placement:explain"):
            return None
        requirements = self.servers.requirements_for(server.project_id, server.flavor, server.request)
        with self.store.read() as tx:
            fleet = self.live.read(tx).fleet
        return _query(RequestSpec.for_flavor(server.flavor, requirements), fleet)


def _query(spec: RequestSpec, fleet: Fleet) -> PlacementQuery:
    return PlacementQuery(spec, tuple(sorted(aggregate.uuid for aggregate in forbidden_aggregates(spec, fleet))))
