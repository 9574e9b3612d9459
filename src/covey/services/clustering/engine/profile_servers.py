"""The servers of nodes: how a profile describes them, and which server belongs to which node."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from covey.model.images import ImageFilter, boot_image
from covey.model.servers import BootData, Details, Server
from covey.model.zones import parse_availability_zone
from covey.services.servers import Servers
from covey.storage.store import Store, Transaction

SERVER_PROFILE = "os.nova.server"
CLUSTER_METADATA = ("cluster_id", "cluster_node_index")  # keys in the metadata of a member's server


@dataclass(frozen=True, slots=True)
class ProfileServers:
    """Builds server requests from profiles and the placements that policies decided."""

    store: Store
    servers: Servers

    def requests(
        self, actor: Actor, profile: Profile, nodes: Sequence[Node], request_id: str, now: datetime
    ) -> list[ServerRequest]:
        """Return one request for each run of nodes with equal placement, in the order of the nodes.

        Raises Invalid for a profile that is not a server profile or names an unknown resource.
        """
        if profile.type.rpartition("-")[0] != SERVER_PROFILE:
            raise Invalid(
                f"Nodes of the profile type {profile.type} cannot be created: only {SERVER_PROFILE} is supported."
            )
        template = _ServerTemplate.of(profile)
        flavor, image = self.flavor(actor, profile).id, self._image(actor, template.image)
        image, volume_backed = boot_image(image, template.devices) if template.devices else (image, False)
        return [
            replace(
                self._request(actor, template, flavor, image, list(group), request_id, now), volume_backed=volume_backed
            )
            for _, group in groupby(nodes, placement)
        ]

    def _request(
        self,
        actor: Actor,
        template: "_ServerTemplate",
        flavor: str,
        image: str | None,
        nodes: list[Node],
        request_id: str,
        now: datetime,
    ) -> ServerRequest:
        place = placement(nodes[0])
        requested_zone = place.get("zone") or template.zone
        zone, forced = (None, None) if requested_zone is None else parse_availability_zone(requested_zone)
        group = place.get("servergroup") or self._group(actor, template.hints.get("group"))
        return ServerRequest(
            project_id=actor.own_project,
            user_id=actor.user_id,
            name=nodes[0].name,
            flavor_ref=flavor,
            image_ref=image,
            details=template.details,
            request_id=request_id,
            now=now,
            seed=new_seed(),
            first_id=ServerId(new_uuid()),
            group_id=None if group is None else GroupId(group),
            same_host=_as_tuple(template.hints.get("same_host")),
            different_host=_as_tuple(template.hints.get("different_host")),
            hints={**template.hints, "group": group} if group else template.hints,
            zone=zone,
            forced_host=forced,
            boot=template.boot,
            count=len(nodes),
            minimum=len(nodes),
            names_and_metadata=tuple(
                (server_name(template.profile, node), {**template.details.metadata, **node_metadata(node)})
                for node in nodes
            ),
        )

    def flavor(self, actor: Actor, profile: Profile) -> Flavor:
        """Return the flavor that a profile names, by id or else by name. Raises Invalid."""
        key = str(profile.properties.get("flavor"))
        try:
            return self.servers.flavor_for(actor, key)
        except Invalid:
            with self.store.read() as tx:
                named = [f for f in tx.flavors.find(FlavorFilter(visible_to=actor.own_project)) if f.name == key]
            if not named:
                raise
            return named[0]

    def _image(self, actor: Actor, key: str | None) -> str | None:
        """Return the id of the image with that id or else that name. Raises Invalid."""
        if key is None:
            return None
        try:
            self.servers.image_for(actor, key)
        except (Invalid, NotFound):
            with self.store.read() as tx:
                named = tx.images.find(ImageFilter(names=(key,), visible_to=actor.own_project))
            if len(named) != 1:
                raise Invalid(f"{'No image has' if not named else 'Several images have'} the name {key}.") from None
            return named[0].id
        return key

    def _group(self, actor: Actor, key: object) -> str | None:
        """Return the server group that a hint names, by id or else by name. Raises Invalid."""
        if not isinstance(key, str) or not key:
            return None
        with self.store.read() as tx:
            found = tx.groups.by_id(key)
            if found is not None and found.project_id == actor.own_project:
                return found.id
            named = [group for group in tx.groups.find(actor.own_project) if group.name == key]
        if len(named) != 1:
            raise Invalid(f"{'No server group has' if not named else 'Several server groups have'} the name {key}.")
        return named[0].id


@dataclass(frozen=True, slots=True)
class _ServerTemplate:
    """The fields of a server request that a profile determines."""

    profile: Profile
    image: str | None
    zone: str | None
    details: Details
    boot: BootData | None = None
    hints: Document = field(default_factory=dict)
    devices: tuple[Mapping[str, object], ...] = ()  # block devices, one of which may be booted

    @classmethod
    def of(cls, profile: Profile) -> "_ServerTemplate":
        properties = profile.properties
        hints = properties.get("scheduler_hints")
        details = Details(
            metadata=profile_metadata(profile),
            key_name=_text(properties.get("key_name")),
            config_drive="True" if properties.get("config_drive") else "",
            reservation_id=new_reservation_id(),
            networks=properties.get("networks"),
        )
        return cls(
            profile=profile,
            image=_text(properties.get("image")),
            zone=_text(properties.get("availability_zone")),
            details=details,
            boot=None if (data := _text(properties.get("user_data"))) is None else BootData(data),
            hints=hints if isinstance(hints, Mapping) else {},
            devices=_maps(properties.get("block_device_mapping_v2")),
        )


def _maps(value: object) -> tuple[Mapping[str, object], ...]:
    return tuple(each for each in value if isinstance(each, Mapping)) if isinstance(value, list | tuple) else ()


def profile_metadata(profile: Profile) -> dict[str, str]:
    """Return the metadata that a profile gives all its servers."""
    metadata = profile.properties.get("metadata")
    return {str(key): str(value) for key, value in metadata.items()} if isinstance(metadata, Mapping) else {}


def server_name(profile: Profile, node: Node) -> str:
    """Return the name of a node's server."""
    return _text(profile.properties.get("name")) or node.name


def placement(node: Node) -> Mapping[str, str]:
    """Return the server group and zone that policies chose for a node."""
    found = node.data.get("placement")
    return {key: str(value) for key, value in found.items()} if isinstance(found, Mapping) else {}


def node_metadata(node: Node) -> dict[str, str]:
    """Return the metadata that identifies a server's node and cluster."""
    values = () if node.cluster_id is None else zip(CLUSTER_METADATA, (node.cluster_id, str(node.index)), strict=True)
    return {"cluster_node_id": node.id, **dict(values)}


def servers_of(tx: Transaction, nodes: Iterable[Node]) -> dict[str, Server]:
    """Return the servers of nodes by node id; a node without a server has no entry."""
    owners = {node.server_id: node.id for node in nodes if node.server_id is not None}
    return {owners[server.id]: server for server in tx.servers.by_ids(list(owners))}


def _text(value: object) -> str | None:
    return None if value is None or value == "" else str(value)


def _as_tuple(value: object) -> tuple[str, ...]:
    if not value:
        return ()
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)
