"""Explaining: the same decision without the claim, host by host, for operators."""

from dataclasses import dataclass

from covey.model.access import Actor
from covey.model.claims import amounts_of
from covey.model.errors import Invalid
from covey.model.groups import GroupView
from covey.model.ids import GroupId, ProjectId
from covey.model.servers import Wanted
from covey.ports import Access, Store
from covey.scheduler.ask import Ask
from covey.scheduler.explain import explain, verdicts
from covey.services.live_fleet import LiveFleet
from covey.services.servers import Servers, image_traits


@dataclass(frozen=True, slots=True)
class Question:
    """A server that somebody might ask for."""

    flavor: str
    image: str | None = None
    group: str | None = None
    zone: str | None = None
    project_id: str | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """What would become of it: a sentence, and a sentence against each host that may not."""

    sentence: str
    hosts: dict[str, str | None]


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
        required, forbidden = image_traits(image)
        wanted = Wanted(zone=question.zone, image_required_traits=required, image_forbidden_traits=forbidden)
        project = ProjectId(question.project_id or actor.project_id)
        standing = self.servers.standing_for(project, flavor, wanted)
        with self.store.read() as tx:
            view = GroupView()
            if question.group is not None:
                group = tx.groups.by_id(question.group)
                if group is None:
                    message = f"Instance group {question.group} could not be found."
                    raise Invalid(message)
                view = tx.groups.states({GroupId(group.id): group.version})[group.id].view()
            ask = Ask(*amounts_of(flavor), standing=standing, group=view)
            with self.live.fresh(tx) as sight:
                return Told(explain(ask, sight.fleet).sentence(), verdicts(ask, sight.fleet))
