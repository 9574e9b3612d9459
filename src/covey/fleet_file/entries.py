"""Turns each entry of a document into the values it stands for, and reports what is wrong inside it."""

from dataclasses import dataclass, field, replace

from covey.fleet_file.findings import Findings
from covey.fleet_file.names import Named, Rule, domain_fault, host_fault, spell_out, tally, trait_fault, zone_fault
from covey.fleet_file.ranges import MOST_NAMES
from covey.fleet_file.schema import AggregateDoc, FlavorDoc, HostDoc, ImageDoc, OneOrMore, ScopeDoc
from covey.fleet_file.wording import Path, Plain, quoted
from covey.model.fleet_file import FlavorEntry, HostEntry, ImageEntry, ScopeEntry

HOST_SCOPE = "host"
_RESERVED_METADATA = {"availability_zone": "zone", "policy_scope": "scope"}
_LONGEST_KEY = 255


@dataclass(frozen=True, slots=True)
class HostGroup:
    """The hosts of one entry, in columns: a zone, and a domain of each scope, for each name."""

    path: Path
    names: list[Named] = field(default_factory=list)
    zones: list[Named] = field(default_factory=list)
    domains: dict[str, list[Named]] = field(default_factory=dict)
    entries: tuple[HostEntry, ...] = ()


def read_host(doc: HostDoc, path: Path, room: int, findings: Findings) -> HostGroup:
    """Read one entry under `hosts`, which may make at most `room` more hosts."""
    _check_traits(doc.get("traits", []), (*path, "traits"), findings)
    size = tally(doc["name"], (*path, "name"), findings)
    if size > room:
        findings.at((*path, "name"), f"brings the file to more than {MOST_NAMES:,} hosts")
    if not 0 < size <= room:
        return HostGroup(path)
    names = spell_out(doc["name"], (*path, "name"), findings, host_fault)
    zones = _paired(doc["zone"], (*path, "zone"), zone_fault, size, findings) if "zone" in doc else []
    domains = {
        scope: _paired(value, (*path, "domains", scope), domain_fault, size, findings)
        for scope, value in doc.get("domains", {}).items()
    }
    group = HostGroup(path, names, zones, domains)
    return replace(group, entries=_hosts(doc, group)) if findings.sound(path) else group


def read_scope(doc: ScopeDoc, path: Path, findings: Findings) -> ScopeEntry:
    """Read one entry under `scopes`."""
    if doc["name"] == HOST_SCOPE:
        findings.at((*path, "name"), "the scope 'host' is always there; it can't be declared")
    return ScopeEntry(doc["name"], doc.get("allow_identifiers", False), doc.get("obfuscate_identifiers", False))


def read_metadata(doc: AggregateDoc, path: Path, findings: Findings) -> dict[str, str]:
    """Read the metadata of one entry under `aggregates`."""
    metadata = doc.get("metadata", {})
    for key in metadata.keys() & _RESERVED_METADATA.keys():
        instead = _RESERVED_METADATA[key]
        findings.at_key((*path, "metadata", key), f"metadata can't set {key}; use the key '{instead}:' instead")
    return _texts(metadata, (*path, "metadata"), findings)


def read_flavor(doc: FlavorDoc, path: Path, findings: Findings) -> FlavorEntry:
    """Read one entry under `flavors`."""
    return FlavorEntry(
        name=doc["name"],
        vcpus=int(doc["vcpus"]),
        memory_mb=int(doc["memory_mb"]),
        disk_gb=int(doc["disk_gb"]),
        extra_specs=_texts(doc.get("extra_specs", {}), (*path, "extra_specs"), findings),
        id=doc.get("id"),
    )


def read_image(doc: ImageDoc, path: Path, findings: Findings) -> ImageEntry:
    """Read one entry under `images`."""
    return ImageEntry(doc["name"], _texts(doc.get("properties", {}), (*path, "properties"), findings))


def _hosts(doc: HostDoc, group: HostGroup) -> tuple[HostEntry, ...]:
    sizes = int(doc["vcpus"]), int(doc["memory_mb"]), int(doc["disk_gb"])
    ratios = {resource: float(ratio) for resource, ratio in doc.get("ratios", {}).items()}
    traits = frozenset(doc.get("traits", []))
    zones: list[str | None] = [zone.text for zone in group.zones] or [None] * len(group.names)
    return tuple(
        HostEntry(
            name.text, *sizes, ratios, zone, traits, {scope: names[i].text for scope, names in group.domains.items()}
        )
        for i, (name, zone) in enumerate(zip(group.names, zones, strict=True))
    )


def _paired(value: OneOrMore, path: Path, rule: Rule, size: int, findings: Findings) -> list[Named]:
    """Give each of `size` hosts its name: the same for all, or one each in order."""
    found = tally(value, path, findings)
    if found not in (0, 1, size):
        message = f"{found} names for {size} host{'s'[: size > 1]}; write one name for all, or one for each"
        findings.at(path, message)
        return []
    names = spell_out(value, path, findings, rule) if found else []
    return names * size if found == 1 else names


def _check_traits(traits: list[str], path: Path, findings: Findings) -> None:
    for index, trait in enumerate(traits):
        if fault := trait_fault(trait):
            findings.at((*path, index), fault)


def _texts(values: dict[str, Plain], path: Path, findings: Findings) -> dict[str, str]:
    """Take each value as it was written: true is "true", 4 is "4" and 1.50 is "1.50"."""
    node = findings.document.node(path)
    texts = {key: node.children[key].text for key in values}
    for key, text in texts.items():
        if not 1 <= len(key) <= _LONGEST_KEY or not key.isprintable():
            findings.at_key((*path, key), f"key {quoted(key)} must be 1 to {_LONGEST_KEY} printable characters")
        if "\0" in text:
            findings.at((*path, key), "the character NUL can't be stored")
    return texts
