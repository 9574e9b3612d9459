"""Covey's own element in a domain's metadata: whose server it is, and which lease last changed it."""

from dataclasses import dataclass, replace
from xml.etree import ElementTree as ET

import libvirt

from covey.agent.guests import Guest

NAMESPACE = "urn:covey:server:1"
PREFIX = "covey"
_FIELDS = ("name", "project", "flavor", "group", "moving")
_NOT_FOUND = {libvirt.VIR_ERR_NO_DOMAIN_METADATA, libvirt.VIR_ERR_NO_DOMAIN}

ET.register_namespace(PREFIX, NAMESPACE)


@dataclass(frozen=True, slots=True)
class Metadata:
    """The epoch fences: a call with a smaller one belongs to a lease that has ended.

    `moving` is the destination of the last move: the guest may run there if it does not run here.
    """

    epoch: int
    name: str = ""
    project: str = ""
    flavor: str = ""
    group: str = ""
    moving: str = ""

    @classmethod
    def of(cls, guest: Guest, epoch: int) -> "Metadata":
        return cls(epoch, guest.name, guest.project_id, guest.flavor.name, guest.group_id or "")

    def element(self) -> ET.Element:
        fields = {name: getattr(self, name) for name in _FIELDS}
        found = {key: value for key, value in fields.items() if value}
        return ET.Element(f"{{{NAMESPACE}}}server", {"epoch": str(self.epoch), **found})


def read(domain: libvirt.virDomain) -> Metadata | None:
    """Return what Covey recorded of a domain; None for one that is not Covey's. Raises libvirtError."""
    try:
        text = domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, NAMESPACE)
    except libvirt.libvirtError as error:
        if error.get_error_code() in _NOT_FOUND:
            return None
        raise
    found = ET.fromstring(text)  # noqa: S314 -- libvirt wrote it
    return Metadata(int(found.get("epoch", "0")), **{name: found.get(name, "") for name in _FIELDS})


def write(domain: libvirt.virDomain, metadata: Metadata) -> None:
    """Record it in the definition, and in the running guest, whose next migration takes it along."""
    where = libvirt.VIR_DOMAIN_AFFECT_CONFIG
    if domain.isActive():
        where |= libvirt.VIR_DOMAIN_AFFECT_LIVE
    element = metadata.element()
    element.tag = "server"  # libvirt adds prefix and namespace
    text = ET.tostring(element, encoding="unicode")
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, text, PREFIX, NAMESPACE, where)


def mark(domain: libvirt.virDomain, address: str) -> None:
    """Record where the guest may run from now on if it does not run here; nowhere else with an empty address."""
    known = read(domain)
    if known is not None and known.moving != address:
        write(domain, replace(known, moving=address))
