"""What the host offers: the platform of its guests, inventory and CPU traits, from libvirt's capabilities."""

import os
import re
from functools import cache
from xml.etree import ElementTree as ET

import libvirt
import os_traits

from covey.agent.libvirt.disks import GIB
from covey.agent.libvirt.domains import Platform
from covey.agent.libvirt.settings import LibvirtSettings

_TRAIT = "HW_CPU_X86_"
# Where the trait's name is not libvirt's name of the feature.
_NAMES = {
    "aes": "AESNI",
    "amd-no-ssb": "AMD_NO_SSB",
    "amd-ssbd": "AMD_SSBD",
    "bmi1": "BMI",
    "fma": "FMA3",
    "gfni": "AVX512GFNI",
    "hle": "TSX",
    "ibpb": "AMD_IBPB",
    "md-clear": "INTEL_MD_CLEAR",
    "pcid": "INTEL_PCID",
    "pclmuldq": "CLMUL",
    "pni": "SSE3",
    "rtm": "TSX",
    "sha-ni": "SHA",
    "spec-ctrl": "INTEL_SPEC_CTRL",
    "ssbd": "INTEL_SSBD",
    "vaes": "AVX512VAES",
    "virt-ssbd": "AMD_VIRT_SSBD",
    "vpclmulqdq": "AVX512VPCLMULQDQ",
}


def platform(connection: libvirt.virConnect, settings: LibvirtSettings) -> Platform:
    """Return what guests of this host are made for. Raises libvirtError."""
    capabilities = _parse(connection.getCapabilities())
    arch = capabilities.findtext("host/cpu/arch", "x86_64")
    types = {found.get("type") for found in capabilities.iterfind(f"guest/arch[@name='{arch}']/domain")}
    virt_type = settings.virt_type
    if virt_type == "auto":
        virt_type = "kvm" if "kvm" in types else "qemu"
    return Platform(
        virt_type,
        arch,
        _cpu(virt_type, settings.cpu_model),
        settings.machine_type,
        settings.tb_cache_mb,
        settings.bridge,
    )


def _cpu(virt_type: str, model: str | None) -> ET.Element:
    """Return the guests' CPU: the named model, or the host's; emulation has no use for the host's."""
    if model is None and virt_type == "kvm":
        return ET.Element("cpu", {"mode": "host-model"})
    cpu = ET.Element("cpu", {"mode": "custom", "match": "exact"})
    ET.SubElement(cpu, "model").text = model or "qemu64"
    return cpu


def inventories(connection: libvirt.virConnect, settings: LibvirtSettings) -> dict[str, int]:
    """Return the host's totals. Raises libvirtError and OSError."""
    settings.instances.mkdir(mode=0o711, parents=True, exist_ok=True)
    storage = os.statvfs(settings.instances)
    # The memory of NUMA cells, which getInfo adds up, may change while the host runs.
    memory_kib = connection.getMemoryStats(libvirt.VIR_NODE_MEMORY_STATS_ALL_CELLS)["total"]
    return {
        "VCPU": connection.getInfo()[2],
        "MEMORY_MB": memory_kib >> 10,
        "DISK_GB": storage.f_blocks * storage.f_frsize // GIB,
    }


def traits(connection: libvirt.virConnect, platform: Platform) -> frozenset[str]:
    """Return the CPU features that guests see, as traits. Raises libvirtError."""
    if platform.arch != "x86_64":
        return frozenset()
    return frozenset(filter(None, map(_trait, _features(connection, platform))))


def _features(connection: libvirt.virConnect, platform: Platform) -> set[str]:
    """Return libvirt's names of the features of the guests' CPU."""
    cpu = ET.Element("cpu")
    model = platform.cpu.findtext("model")
    if model is None:
        offered = connection.getDomainCapabilities(None, platform.arch, platform.machine_type, platform.virt_type)
        found = _parse(offered).find("cpu/mode[@name='host-model']")
        cpu.extend(found if found is not None else ())
    else:
        ET.SubElement(cpu, "arch").text = platform.arch
        ET.SubElement(cpu, "model").text = model
    expanded = connection.baselineHypervisorCPU(
        None,
        platform.arch,
        platform.machine_type,
        platform.virt_type,
        [ET.tostring(cpu, encoding="unicode")],
        libvirt.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES,
    )
    present = (found for found in _parse(expanded).iterfind("feature") if found.get("policy") != "disable")
    return {found.get("name", "") for found in present}


def _trait(feature: str) -> str | None:
    name = _TRAIT + _NAMES.get(feature, re.sub("[^A-Z0-9]", "", feature.upper()))
    return name if name in _known() else None


@cache
def _known() -> frozenset[str]:
    return frozenset(os_traits.get_traits(_TRAIT))


def _parse(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 -- libvirt wrote it
