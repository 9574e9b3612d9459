"""Explaining: the same decision without the claim, host by host, for operators."""

from dataclasses import dataclass

from covey.model.access import Actor
from covey.model.claims import amounts_of
from covey.model.errors import Invalid
from covey.model.groups import GroupView
from covey.model.ids import GroupId, ProjectId
from covey.model.servers import PlacementRequest, Server
from covey.ports import Access
from covey.scheduler.constraints.isolation import forbidden
from covey.scheduler.explain import explain, violations
from covey.scheduler.fleet import Fleet
from covey.scheduler.request_spec import RequestSpec
from covey.services.live_fleet import LiveFleet
from covey.services.servers import Servers, image_traits
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class Question:
    """A server that somebody might ask for."""

    flavor: str
    image: str | None = None
    group: str | None = None
    zone: str | None = None
    project_id: str | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of placement: an ask, and the aggregates that it may not enter, by uuid."""

    spec: RequestSpec
    forbidden: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """What would become of it: a sentence, a sentence against each host that may not, and what was asked."""

    sentence: str
    hosts: dict[str, str | None]
    query: Query


@dataclass(frozen=True, slots=True)
class Explaining:
    """Asks every host."""

    store: Store
    access: Access
    live: LiveFleet
    servers: Servers

    def ask(self, actor: Actor, question: Question) -> Told:
        """Raises Invalid for a flavor, image or group that is not there."""
        self.access.require(actor, "covey:placement:explain")
        flavor = self.servers.flavor_for(actor, question.flavor)
        image = self.servers.image_for(actor, question.image)
        required, unwanted = image_traits(image)
        wanted = PlacementRequest(zone=question.zone, image_required_traits=required, image_forbidden_traits=unwanted)
        project = ProjectId(question.project_id or actor.project_id)
        requirements = self.servers.requirements_for(project, flavor, wanted)
        with self.store.read() as tx:
            view = GroupView()
            if question.group is not None:
                group = tx.groups.by_id(question.group)
                if group is None:
                    raise Invalid(f"Instance group {question.group} could not be found.")
                view = tx.groups.states({GroupId(group.id): group.version})[group.id].view()
            spec = RequestSpec(*amounts_of(flavor), requirements=requirements, group=view)
            with self.live.fresh(tx) as snapshot:
                told = explain(spec, snapshot.fleet).sentence()
                return Told(told, violations(spec, snapshot.fleet), _query(spec, snapshot.fleet))

    def query_for(self, actor: Actor, server: Server) -> Query | None:
        """What would be asked for the server if it moved now; None for those who may not ask for explanations."""
        if not self.access.allows(actor, "covey:placement:explain"):
            return None
        requirements = self.servers.requirements_for(server.project_id, server.flavor, server.request)
        with self.store.read() as tx, self.live.fresh(tx) as snapshot:
            return _query(RequestSpec(*amounts_of(server.flavor), requirements=requirements), snapshot.fleet)


def _query(spec: RequestSpec, fleet: Fleet) -> Query:
    return Query(spec, tuple(sorted(aggregate.uuid for aggregate in forbidden(spec, fleet))))
