"""From a profile to requests for servers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby

from covey.clock_and_ids import new_reservation_id, new_seed, new_uuid
from covey.model.access import Actor
from covey.model.claims import ServerRequest
from covey.model.clustering.clusters import Node
from covey.model.clustering.specs import Document, Profile
from covey.model.errors import Invalid, NotFound
from covey.model.flavors import Flavor, FlavorFilter
from covey.model.ids import GroupId, ServerId
from covey.model.images import ImageFilter
from covey.model.servers import Details
from covey.model.zones import parse_availability_zone
from covey.services.servers import Servers
from covey.storage.store import Store

SERVER = "os.nova.server"
OF_CLUSTER = ("cluster_id", "cluster_node_index")  # what servers know of the cluster that they are in


@dataclass(frozen=True, slots=True)
class ProfileServers:
    """Asks for servers as a profile describes them, wherever policies want them."""

    store: Store
    servers: Servers

    def requests(
        self, actor: Actor, profile: Profile, nodes: Sequence[Node], request_id: str, now: datetime
    ) -> list[ServerRequest]:
        """One for each kind of place, with all nodes that go there. Raises Invalid for what nobody can make.

        The servers come in the order of the nodes, if nodes of one place stand together.
        """
        if profile.type.rpartition("-")[0] != SERVER:
            raise Invalid(f"Nodes of the profile type {profile.type} can't be created here: only {SERVER} can.")
        made = _Description.of(profile)
        flavor, image = self.flavor(actor, profile).id, self._image(actor, made.image)
        return [
            self._request(actor, made, flavor, image, list(some), request_id, now)
            for _, some in groupby(nodes, placement)
        ]

    def _request(
        self,
        actor: Actor,
        made: "_Description",
        flavor: str,
        image: str | None,
        nodes: list[Node],
        request_id: str,
        now: datetime,
    ) -> ServerRequest:
        place = placement(nodes[0])
        requested_zone = place.get("zone") or made.zone
        zone, forced = (None, None) if requested_zone is None else parse_availability_zone(requested_zone)
        group = place.get("servergroup") or self._group(actor, made.hints.get("group"))
        return ServerRequest(
            project_id=actor.project_id,
            user_id=actor.user_id,
            name=nodes[0].name,
            flavor_ref=flavor,
            image_ref=image,
            details=made.details,
            request_id=request_id,
            now=now,
            seed=new_seed(),
            first_id=ServerId(new_uuid()),
            group_id=None if group is None else GroupId(group),
            same_host=_several(made.hints.get("same_host")),
            different_host=_several(made.hints.get("different_host")),
            hints={**made.hints, "group": group} if group else made.hints,
            zone=zone,
            forced_host=forced,
            count=len(nodes),
            minimum=len(nodes),
            names_and_metadata=tuple(
                (name_of(made.profile, node), {**made.details.metadata, **about(node)}) for node in nodes
            ),
        )

    def flavor(self, actor: Actor, profile: Profile) -> Flavor:
        """The one that a profile names, by id, then by name. Raises Invalid."""
        key = str(profile.properties.get("flavor"))
        try:
            return self.servers.flavor_for(actor, key)
        except Invalid:
            with self.store.read() as tx:
                named = [f for f in tx.flavors.find(FlavorFilter(visible_to=actor.project_id)) if f.name == key]
            if not named:
                raise
            return named[0]

    def _image(self, actor: Actor, key: str | None) -> str | None:
        """By id, then by name. Raises Invalid."""
        if key is None:
            return None
        try:
            self.servers.image_for(actor, key)
        except (Invalid, NotFound):
            with self.store.read() as tx:
                named = tx.images.find(ImageFilter(names=(key,), visible_to=actor.project_id))
            if len(named) != 1:
                raise Invalid(f"There {'is no image' if not named else 'are several images'} called {key}.") from None
            return named[0].id
        return key

    def _group(self, actor: Actor, key: object) -> str | None:
        """The server group that a hint names, by id, then by name. Raises Invalid."""
        if not isinstance(key, str) or not key:
            return None
        with self.store.read() as tx:
            found = tx.groups.by_id(key)
            if found is not None and found.project_id == actor.project_id:
                return found.id
            named = [group for group in tx.groups.find(actor.project_id) if group.name == key]
        if len(named) != 1:
            raise Invalid(f"There {'is no server group' if not named else 'are several server groups'} called {key}.")
        return named[0].id


@dataclass(frozen=True, slots=True)
class _Description:
    """What a profile says of its servers."""

    profile: Profile
    image: str | None
    zone: str | None
    details: Details
    hints: Document = field(default_factory=dict)

    @classmethod
    def of(cls, profile: Profile) -> "_Description":
        said = profile.properties
        hints = said.get("scheduler_hints")
        details = Details(
            metadata=metadata_of(profile),
            key_name=_text(said.get("key_name")),
            config_drive="True" if said.get("config_drive") else "",
            reservation_id=new_reservation_id(),
            networks=said.get("networks"),
        )
        return cls(
            profile=profile,
            image=_text(said.get("image")),
            zone=_text(said.get("availability_zone")),
            details=details,
            hints=hints if isinstance(hints, Mapping) else {},
        )


def metadata_of(profile: Profile) -> dict[str, str]:
    """What a profile says of all its servers."""
    said = profile.properties.get("metadata")
    return {str(key): str(value) for key, value in said.items()} if isinstance(said, Mapping) else {}


def name_of(profile: Profile, node: Node) -> str:
    """How the server of a node is called."""
    return _text(profile.properties.get("name")) or node.name


def placement(node: Node) -> Mapping[str, str]:
    """Where policies want a node to be."""
    found = node.data.get("placement")
    return {key: str(value) for key, value in found.items()} if isinstance(found, Mapping) else {}


def about(node: Node) -> dict[str, str]:
    """What a server knows of the node that it is."""
    of_cluster = () if node.cluster_id is None else zip(OF_CLUSTER, (node.cluster_id, str(node.index)), strict=True)
    return {"cluster_node_id": node.id, **dict(of_cluster)}


def _text(value: object) -> str | None:
    return None if value is None or value == "" else str(value)


def _several(value: object) -> tuple[str, ...]:
    if not value:
        return ()
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)
