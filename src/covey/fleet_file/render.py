"""Renders a fleet file as YAML that `parse` reads back as the same values."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import yaml

from covey.fleet_file.problems import Plain
from covey.model.fleet_file import AggregateEntry, FlavorEntry, FleetFile, HostEntry, ImageEntry, ScopeEntry
from covey.model.inventory import NO_UNIT_LIMITS, Inventory

Entry: TypeAlias = dict[str, Plain]
_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})", re.DOTALL)


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes shared values in full, without anchors."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def render(fleet: FleetFile) -> str:
    """Return the fleet as YAML, such that `parse(render(fleet)) == fleet`."""
    sections: dict[str, list[Entry]] = {
        "hosts": [_host(run) for run in _runs(fleet.hosts)],
        "scopes": [_scope(scope) for scope in fleet.scopes],
        "aggregates": [_aggregate(aggregate) for aggregate in fleet.aggregates],
        "flavors": [_flavor(flavor) for flavor in fleet.flavors],
        "images": [_image(image) for image in fleet.images],
    }
    return "\n".join(_yaml({name: entries}) for name, entries in sections.items() if entries)


def _yaml(section: dict[str, list[Entry]]) -> str:
    # Without a flow style PyYAML writes collections without inner collections on one line.
    text: str = yaml.dump(
        section, Dumper=_Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True, width=120
    )
    return text


def _runs(hosts: Sequence[HostEntry]) -> Iterator[list[HostEntry]]:
    """Yield runs of hosts that a range can express: consecutive numbers, and otherwise equal."""
    run: list[HostEntry] = []
    for host in hosts:
        if run and not _continues(run, host):
            yield run
            run = []
        run.append(host)
    if run:
        yield run


def _continues(run: Sequence[HostEntry], host: HostEntry) -> bool:
    first = _NUMBERED.fullmatch(run[0].name)
    if first is None:
        return False
    stem, digits = first.groups()
    expected = stem + str(int(digits) + len(run)).zfill(len(digits))
    return host.name == expected and replace(host, name=run[0].name) == run[0]


def _host(run: Sequence[HostEntry]) -> Entry:
    host = run[0]
    entry: Entry = {
        "name": _range(host.name, len(run)),
        "vcpus": host.vcpus,
        "memory_mb": host.memory_mb,
        "disk_gb": host.disk_gb,
        "ratios": dict(host.ratios),
        "zone": host.zone,
        "traits": list[Plain](sorted(host.traits)),
        "domains": dict(host.domains),
    }
    entry = {key: value for key, value in entry.items() if value not in (None, [], {})}
    if host.inventories is not None:
        entry["inventories"] = {name: _inventory(each) for name, each in host.inventories.items()}
    return entry


def _inventory(inventory: Inventory) -> Entry:
    entry: Entry = {
        "reserved": inventory.reserved,
        **inventory.units._asdict(),
        "allocation_ratio": inventory.allocation_ratio,
    }
    default: Entry = {"reserved": 0, **NO_UNIT_LIMITS._asdict(), "allocation_ratio": 1.0}
    return {"total": inventory.total, **{key: value for key, value in entry.items() if value != default[key]}}


def _range(first: str, size: int) -> str:
    match = _NUMBERED.fullmatch(first)
    if match is None or size == 1:
        return first
    stem, digits = match.groups()
    last = str(int(digits) + size - 1).zfill(len(digits))
    return f"{stem}[{digits}-{last}]"


def _scope(scope: ScopeEntry) -> Entry:
    return {
        "name": scope.name,
        "allow_identifiers": scope.allow_identifiers,
        "obfuscate_identifiers": scope.obfuscate_identifiers,
    }


def _aggregate(aggregate: AggregateEntry) -> Entry:
    entry: Entry = {"name": aggregate.name, "zone": aggregate.zone, "scope": aggregate.scope}
    entry |= {"hosts": list[Plain](aggregate.hosts), "metadata": dict(aggregate.metadata)}
    return {key: value for key, value in entry.items() if value not in (None, {})}


def _flavor(flavor: FlavorEntry) -> Entry:
    entry: Entry = {"name": flavor.name}
    if flavor.id is not None:
        entry["id"] = flavor.id
    entry |= {"vcpus": flavor.vcpus, "memory_mb": flavor.memory_mb, "disk_gb": flavor.disk_gb}
    return entry | ({"extra_specs": dict(flavor.extra_specs)} if flavor.extra_specs else {})


def _image(image: ImageEntry) -> Entry:
    return {"name": image.name} | ({"properties": dict(image.properties)} if image.properties else {})
