"""Domains: the XML of a guest, and the steps of verbs. Every step is idempotent: it checks the state first."""

import hashlib
import time
from dataclasses import dataclass
from xml.etree import ElementTree as ET

import libvirt

from covey.agent.guests import Guest
from covey.agent.hypervisor import HypervisorFault
from covey.agent.libvirt import metadata
from covey.agent.libvirt.disks import Files
from covey.agent.libvirt.metadata import Metadata

NAME_PREFIX = "covey-"
_POLL_S = 0.05
_UNDEFINE = (
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
)
_CRASHES = {libvirt.VIR_DOMAIN_SHUTOFF_CRASHED, libvirt.VIR_DOMAIN_SHUTOFF_DAEMON}
# The guest of an incoming migration is paused until it has arrived.
_STARTING = {libvirt.VIR_DOMAIN_PAUSED_STARTING_UP, libvirt.VIR_DOMAIN_PAUSED_MIGRATION}


@dataclass(frozen=True, slots=True)
class Platform:
    """What every guest of this host is made for."""

    virt_type: str
    arch: str
    cpu: ET.Element
    machine_type: str | None = None
    tb_cache_mb: int | None = None
    bridge: str | None = None


def domain_xml(guest: Guest, epoch: int, files: Files, platform: Platform) -> str:
    """Return the definition of a guest with its disks, a serial console and at most one network interface."""
    domain = ET.Element("domain", {"type": platform.virt_type})
    _add(domain, "name", f"{NAME_PREFIX}{guest.id}")
    _add(domain, "uuid", guest.id)
    _add(domain, "metadata").append(Metadata.of(guest, epoch).element())
    _add(domain, "memory", str(guest.flavor.memory_mb), unit="MiB")
    _add(domain, "vcpu", str(guest.flavor.vcpus))
    boot = _add(domain, "os")
    machine = {"machine": platform.machine_type} if platform.machine_type else {}
    _add(boot, "type", "hvm", arch=platform.arch, **machine)
    _add(boot, "boot", dev="hd")
    features = _add(domain, "features")
    _add(features, "acpi")
    _add(features, "apic")
    if platform.virt_type == "qemu" and platform.tb_cache_mb:
        _add(_add(features, "tcg"), "tb-cache", str(platform.tb_cache_mb), unit="MiB")
    domain.append(platform.cpu)
    for event, action in (("poweroff", "destroy"), ("reboot", "restart"), ("crash", "destroy")):
        _add(domain, f"on_{event}", action)
    domain.append(_devices(guest, files, platform))
    return ET.tostring(domain, encoding="unicode")


def _devices(guest: Guest, files: Files, platform: Platform) -> ET.Element:
    devices = ET.Element("devices")
    _add(devices, "controller", type="usb", model="none")
    _disk(devices, str(files.disk), "vda", "qcow2")
    if files.config_drive.exists():
        _add(_disk(devices, str(files.config_drive), "vdb", "raw"), "readonly")
    if platform.bridge:
        interface = _add(devices, "interface", type="bridge")
        _add(interface, "source", bridge=platform.bridge)
        _add(interface, "mac", address=mac_address(guest.id))
        _add(interface, "model", type="virtio")
    console = _add(devices, "serial", type="pty")
    _add(console, "log", file=str(files.console), append="on")
    _add(_add(devices, "rng", model="virtio"), "backend", "/dev/urandom", model="random")
    return devices


def _disk(devices: ET.Element, path: str, target: str, kind: str) -> ET.Element:
    disk = _add(devices, "disk", type="file", device="disk")
    _add(disk, "driver", name="qemu", type=kind, cache="none")
    _add(disk, "source", file=path)
    _add(disk, "target", dev=target, bus="virtio")
    return disk


def _add(parent: ET.Element, tag: str, text: str | None = None, **attributes: str) -> ET.Element:
    child = ET.SubElement(parent, tag, attributes)
    child.text = text
    return child


def mac_address(server: str) -> str:
    """Return the address of a server's interface: the same on every host, in QEMU's range."""
    return ":".join(("52", "54", "00", *(f"{byte:02x}" for byte in hashlib.sha256(server.encode()).digest()[:3])))


def find(connection: libvirt.virConnect, server: str) -> libvirt.virDomain | None:
    """Return the domain of a server. Raises libvirtError."""
    try:
        return connection.lookupByUUIDString(server)
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise


def power_of(domain: libvirt.virDomain) -> str:
    """Return the power state in the words of the port. Raises libvirtError."""
    state, reason = domain.state()
    match state:
        case libvirt.VIR_DOMAIN_PAUSED if reason in _STARTING:
            return "starting"
        case libvirt.VIR_DOMAIN_PAUSED | libvirt.VIR_DOMAIN_PMSUSPENDED:
            return "paused"
        case libvirt.VIR_DOMAIN_CRASHED:
            return "crashed"
        case libvirt.VIR_DOMAIN_SHUTOFF:
            return "crashed" if reason in _CRASHES else "shutdown"
        case _:
            return "running"


def start(domain: libvirt.virDomain, timeout_s: float) -> None:
    """Return when the guest runs. Raises libvirtError, and HypervisorFault if it does not come up in time.

    Active is not enough: a restarted libvirtd shows a guest that it had half started as paused, and then ends it.
    """
    deadline = time.monotonic() + timeout_s
    while (power := power_of(domain)) != "running":
        if time.monotonic() > deadline:
            raise HypervisorFault(f"The guest {domain.UUIDString()} does not come up; it is {power}.")
        if power == "paused":
            domain.resume()
        elif power != "starting":
            metadata.mark(domain, "")
            try:
                domain.create()
            except libvirt.libvirtError:
                if not domain.isActive():  # otherwise another call starts it, or libvirtd is about to end it
                    raise
        time.sleep(_POLL_S)


def stop(domain: libvirt.virDomain, timeout_s: float = 0.0) -> None:
    """Return when the guest does not run. It has the timeout to shut down by itself. Raises libvirtError."""
    if timeout_s and domain.isActive():
        _shut_down(domain, timeout_s)
    try:
        if domain.isActive():
            domain.destroy()
    except libvirt.libvirtError:
        if domain.isActive():
            raise


def _shut_down(domain: libvirt.virDomain, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    try:
        domain.shutdown()
    except libvirt.libvirtError:  # it ends by itself, or cannot be asked
        return
    while domain.isActive() and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def remove(domain: libvirt.virDomain) -> None:
    """Return when neither the guest nor its definition is left. Raises libvirtError."""
    try:
        stop(domain)
        domain.undefineFlags(_UNDEFINE)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
            raise
