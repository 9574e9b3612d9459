"""Guest documents: servers as agents get them."""

from collections.abc import Mapping, Sequence

from covey.agent.guests import Guest, GuestFlavor, GuestImage, GuestKey, dump_guest
from covey.model.ids import ServerId
from covey.model.servers import BootData, Server, Task, VmState
from covey.storage.store import Transaction

_BEING_STARTED = {Task.SPAWNING, Task.UNSHELVING, Task.POWERING_ON, Task.REBOOTING, Task.REBOOTING_HARD}
_MOVING = {
    Task.MIGRATING,
    Task.RESIZE_PREP,
    Task.RESIZE_FINISH,
    Task.RESIZE_REVERTING,
    Task.REBUILDING,
}  # from host_id to migration_host_id
_ENDING = {Task.DELETING, Task.SHELVING, Task.SHELVING_OFFLOADING}


def guest_of(server: Server) -> Guest:
    """Return the document of a server, without its image's data and its boot data."""
    flavor, details = server.flavor, server.details
    return Guest(
        id=server.id,
        name=server.name,
        hostname=details.hostname or _hostname(server),
        project_id=server.project_id,
        user_id=server.user_id,
        flavor=GuestFlavor(flavor.name, flavor.vcpus, flavor.memory_mb, flavor.disk_gb),
        group_id=server.group_id,
        image=None if server.request.image_id is None else GuestImage(server.request.image_id),
        metadata=details.metadata,
        availability_zone=server.zone,
        power="running" if _should_run(server) else "shutdown",
    )


def _should_run(server: Server) -> bool:
    """Return whether a guest is to run; one that is paused, or being started, is."""
    return not server.power.is_off or server.task in _BEING_STARTED


def _hostname(server: Server) -> str:
    """Return a host name of the server's name, as Nova makes it: letters, digits and hyphens."""
    words = "".join(
        char if char.isascii() and (char.isalnum() or char in "-.") else "-" for char in server.name.lower()
    )
    return words.strip("-.")[:63] or f"server-{server.id}"


def complete(tx: Transaction, documents: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """Return guest documents with their images' data and their boot data."""
    wanted = {str(image["id"]) for each in documents if isinstance(image := each["image"], dict)}
    digests = tx.images.digests(wanted)
    boot_data = tx.agent_calls.boot_data([ServerId(str(each["id"])) for each in documents])
    return [
        {
            **each,
            "image": _with_data(each["image"], digests),
            **_booted(boot_data.get(ServerId(str(each["id"])), BootData())),
        }
        for each in documents
    ]


def _with_data(image: object, digests: Mapping[str, tuple[int | None, str | None, str | None]]) -> object:
    if not isinstance(image, dict) or image["id"] not in digests:  # deleted since: an agent may have it in its cache
        return image
    size, sha512, disk_format = digests[image["id"]]
    return GuestImage(image["id"], size, None if sha512 is None else "sha512", sha512, disk_format)


def _booted(data: BootData) -> dict[str, object]:
    key = GuestKey(data.key_name, data.public_key) if data.key_name and data.public_key else None
    return {"user_data": data.user_data, "keys": () if key is None else (key,)}


def document_of(server: Server) -> dict[str, object]:
    """Return the document of a server as JSON."""
    return dump_guest(guest_of(server))


def location_of(server: Server, host: int, name: str) -> str:
    """Return what a host with this id and name has of a server.

    `here`, `arriving` or `leaving`; `elsewhere` on another host, `shelved` on none. The source of a move that waits
    for its confirmation has nothing left. The host with the data of a shelved server keeps it until the server runs.
    """
    if server.host_id == host:
        if server.task in _ENDING or (server.task in _MOVING and server.migration_host_id is not None):
            return "leaving"
        return "arriving" if server.task in {Task.SPAWNING, Task.UNSHELVING} else "here"
    if server.migration_host_id == host and server.task in _MOVING:
        return "arriving"
    if server.placement.data_host == name:  # whatever its state: only a successful unshelve makes its data stale
        return "shelved"
    return "elsewhere" if server.host_id is not None or server.vm_state is not VmState.SHELVED_OFFLOADED else "shelved"
