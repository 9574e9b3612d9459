"""Turns the entries of a document into values, and reports the problems of each."""

from dataclasses import dataclass, field, replace

from covey.fleet_file.document import ProblemCollector
from covey.fleet_file.names import (
    MAX_NAMES,
    Named,
    Rule,
    count_names,
    domain_error,
    expand_names,
    host_error,
    resource_class_error,
    trait_error,
    zone_error,
)
from covey.fleet_file.problems import Path, Plain, quoted
from covey.fleet_file.schema import AggregateDoc, FlavorDoc, HostDoc, ImageDoc, InventoryDoc, OneOrMore, ScopeDoc
from covey.model.fleet_file import FlavorEntry, HostEntry, ImageEntry, ScopeEntry
from covey.model.inventory import NO_UNIT_LIMITS, AllocationUnits, Inventory

HOST_SCOPE = "host"
_RESERVED_METADATA = {"availability_zone": "zone", "policy_scope": "scope"}
_MAX_KEY_LENGTH = 255


@dataclass(frozen=True, slots=True)
class HostRange:
    """The hosts of one entry, in columns: for each name a zone, and a domain of each scope."""

    path: Path
    names: list[Named] = field(default_factory=list)
    zones: list[Named] = field(default_factory=list)
    domains: dict[str, list[Named]] = field(default_factory=dict)
    entries: tuple[HostEntry, ...] = ()


def read_host(doc: HostDoc, path: Path, room: int, problems: ProblemCollector) -> HostRange:
    """Read an entry under `hosts`, which may define at most `room` hosts."""
    _check_traits(doc.get("traits", []), (*path, "traits"), problems)
    _check_inventories(doc.get("inventories", {}), (*path, "inventories"), problems)
    size = count_names(doc["name"], (*path, "name"), problems)
    if size > room:
        problems.at((*path, "name"), f"brings the file to more than {MAX_NAMES:,} hosts")
    if not 0 < size <= room:
        return HostRange(path)
    names = expand_names(doc["name"], (*path, "name"), problems, host_error)
    zones = _paired(doc["zone"], (*path, "zone"), zone_error, size, problems) if "zone" in doc else []
    domains = {
        scope: _paired(value, (*path, "domains", scope), domain_error, size, problems)
        for scope, value in doc.get("domains", {}).items()
    }
    found = HostRange(path, names, zones, domains)
    return replace(found, entries=_hosts(doc, found)) if problems.is_clean(path) else found


def read_scope(doc: ScopeDoc, path: Path, problems: ProblemCollector) -> ScopeEntry:
    """Read one entry under `scopes`."""
    if doc["name"] == HOST_SCOPE:
        problems.at((*path, "name"), "the scope 'host' is built in; it can't be declared")
    return ScopeEntry(doc["name"], doc.get("allow_identifiers", False), doc.get("obfuscate_identifiers", False))


def read_metadata(doc: AggregateDoc, path: Path, problems: ProblemCollector) -> dict[str, str]:
    """Read the metadata of one entry under `aggregates`."""
    metadata = doc.get("metadata", {})
    for key in metadata.keys() & _RESERVED_METADATA.keys():
        instead = _RESERVED_METADATA[key]
        problems.at_key((*path, "metadata", key), f"metadata can't set {key}; use the key '{instead}:' instead")
    return _texts(metadata, (*path, "metadata"), problems)


def read_flavor(doc: FlavorDoc, path: Path, problems: ProblemCollector) -> FlavorEntry:
    """Read one entry under `flavors`."""
    return FlavorEntry(
        name=doc["name"],
        vcpus=int(doc["vcpus"]),
        memory_mb=int(doc["memory_mb"]),
        disk_gb=int(doc["disk_gb"]),
        extra_specs=_texts(doc.get("extra_specs", {}), (*path, "extra_specs"), problems),
        id=doc.get("id"),
    )


def read_image(doc: ImageDoc, path: Path, problems: ProblemCollector) -> ImageEntry:
    """Read one entry under `images`."""
    return ImageEntry(doc["name"], _texts(doc.get("properties", {}), (*path, "properties"), problems))


def _hosts(doc: HostDoc, found: HostRange) -> tuple[HostEntry, ...]:
    sizes = int(doc["vcpus"]), int(doc["memory_mb"]), int(doc["disk_gb"])
    ratios = {resource: float(ratio) for resource, ratio in doc.get("ratios", {}).items()}
    traits = frozenset(doc.get("traits", []))
    inventories = (
        {name: _inventory(each) for name, each in doc["inventories"].items()} if "inventories" in doc else None
    )
    zones: list[str | None] = [zone.text for zone in found.zones] or [None] * len(found.names)
    return tuple(
        HostEntry(
            name.text,
            *sizes,
            ratios,
            zone,
            traits,
            {scope: names[i].text for scope, names in found.domains.items()},
            inventories,
        )
        for i, (name, zone) in enumerate(zip(found.names, zones, strict=True))
    )


def _paired(value: OneOrMore, path: Path, rule: Rule, size: int, problems: ProblemCollector) -> list[Named]:
    """Return a name for each of `size` hosts: one for all, or one for each in order."""
    found = count_names(value, path, problems)
    if found not in (0, 1, size):
        message = f"{found} names for {size} host{'s'[: size > 1]}; write one name for all, or one for each"
        problems.at(path, message)
        return []
    names = expand_names(value, path, problems, rule) if found else []
    return names * size if found == 1 else names


def _check_traits(traits: list[str], path: Path, problems: ProblemCollector) -> None:
    for index, trait in enumerate(traits):
        if fault := trait_error(trait):
            problems.at((*path, index), fault)


def _check_inventories(inventories: dict[str, InventoryDoc], path: Path, problems: ProblemCollector) -> None:
    for name, doc in inventories.items():
        if fault := resource_class_error(name):
            problems.at_key((*path, name), fault)
        inventory = _inventory(doc)
        if inventory.reserved > inventory.total:
            problems.at((*path, name, "reserved"), f"must not exceed the total of {inventory.total}")
        if inventory.units.min_unit > inventory.units.max_unit:
            problems.at((*path, name, "min_unit"), f"must not exceed the max_unit of {inventory.units.max_unit}")


def _inventory(doc: InventoryDoc) -> Inventory:
    default = NO_UNIT_LIMITS
    units = (
        doc.get("min_unit", default.min_unit),
        doc.get("max_unit", default.max_unit),
        doc.get("step_size", default.step_size),
    )
    return Inventory(
        int(doc["total"]),
        int(doc.get("reserved", 0)),
        float(doc.get("allocation_ratio", 1.0)),
        units=AllocationUnits(*map(int, units)),
    )


def _texts(values: dict[str, Plain], path: Path, problems: ProblemCollector) -> dict[str, str]:
    """Return each value as it is written: true is "true", 4 is "4" and 1.50 is "1.50"."""
    node = problems.document.node(path)
    texts = {key: node.children[key].text for key in values}
    for key, text in texts.items():
        if not 1 <= len(key) <= _MAX_KEY_LENGTH or not key.isprintable():
            problems.at_key((*path, key), f"key {quoted(key)} must be 1 to {_MAX_KEY_LENGTH} printable characters")
        if "\0" in text:
            problems.at((*path, key), "the character NUL can't be stored")
    return texts
