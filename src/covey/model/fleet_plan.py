"""Computes the changes that make the service match a fleet file. Pure: state and file in, a plan out."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

from covey.model.aggregates import Aggregate
from covey.model.flavors import Flavor
from covey.model.fleet_file import FleetFile, HostEntry, ImageEntry, ScopeEntry
from covey.model.hosts import Host
from covey.model.ids import FlavorId
from covey.model.images import Image
from covey.model.inventory import NO_UNIT_LIMITS, Inventory, ResourceClass
from covey.model.resources import class_position
from covey.model.scopes import Scope

Ratios = Mapping[ResourceClass, float]
Inventories = Mapping[str, Inventory]  # by resource class


@dataclass(frozen=True, slots=True)
class FleetState:
    """The objects of the service that a fleet file can describe."""

    hosts: tuple[Host, ...] = ()
    scopes: tuple[Scope, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    flavors: tuple[Flavor, ...] = ()
    images: tuple[Image, ...] = ()

    @property
    def size(self) -> int:
        """The number of objects."""
        return sum(len(getattr(self, section.name)) for section in fields(self))


@dataclass(frozen=True, slots=True)
class DesiredAggregate:
    """An aggregate as the file describes it; metadata of None is left unchanged."""

    name: str
    hosts: frozenset[str]
    zone: str | None = None
    scope: str | None = None
    metadata: Mapping[str, str] | None = None


@dataclass(slots=True)
class FleetPlan:
    """All changes by kind. Objects are referred to by name, since some do not exist yet."""

    new_scopes: list[ScopeEntry] = field(default_factory=list)
    changed_scopes: list[tuple[Scope, Scope]] = field(default_factory=list)
    new_hosts: list[tuple[HostEntry, Inventories]] = field(default_factory=list)
    changed_hosts: list[tuple[Host, Inventories]] = field(default_factory=list)
    new_traits: list[tuple[str, str]] = field(default_factory=list)
    removed_traits: list[tuple[str, str]] = field(default_factory=list)
    new_aggregates: list[DesiredAggregate] = field(default_factory=list)
    changed_zones: list[tuple[Aggregate, str | None]] = field(default_factory=list)
    changed_domains: list[tuple[Aggregate, str | None]] = field(default_factory=list)
    changed_metadata: list[tuple[str, Mapping[str, str | None]]] = field(default_factory=list)
    new_members: list[tuple[str, str]] = field(default_factory=list)
    removed_members: list[tuple[str, str]] = field(default_factory=list)
    new_flavors: list[Flavor] = field(default_factory=list)
    changed_flavors: list[tuple[Flavor, Flavor]] = field(default_factory=list)
    new_images: list[ImageEntry] = field(default_factory=list)
    changed_images: list[tuple[Image, Image]] = field(default_factory=list)
    removed: FleetState = field(default_factory=FleetState)
    left_alone: FleetState = field(default_factory=FleetState)  # objects that are not in the file

    @property
    def size(self) -> int:
        """The number of changes."""
        lists = (getattr(self, section.name) for section in fields(self))
        return sum(len(value) for value in lists if isinstance(value, list)) + self.removed.size


def plan_changes(
    file: FleetFile, state: FleetState, default_ratios: Ratios, new_uuid: Callable[[], str], *, prune: bool = False
) -> FleetPlan:
    """Return the changes that make the service match the file; `prune` also removes objects that are not in it."""
    plan = FleetPlan()
    _plan_scopes(file, state, plan)
    _plan_hosts(file, state, default_ratios, plan)
    _plan_aggregates(file, state, plan)
    _plan_removed_members(file, state, plan)
    _plan_flavors(file, state, new_uuid, plan)
    _plan_images(file, state, plan)
    unlisted = _unlisted(file, state)
    plan.removed, plan.left_alone = (unlisted, FleetState()) if prune else (FleetState(), unlisted)
    return plan


def desired_aggregates(file: FleetFile) -> dict[str, DesiredAggregate]:
    """Return every aggregate of the file by name: those it lists, and the zones and domains of its hosts."""
    zones: dict[str, set[str]] = {}
    domains: dict[tuple[str, str], set[str]] = {}
    for host in file.hosts:
        if host.zone is not None:
            zones.setdefault(host.zone, set()).add(host.name)
        for scope, domain in host.domains.items():
            domains.setdefault((scope, domain), set()).add(host.name)
    found = {name: DesiredAggregate(name, frozenset(hosts), zone=name) for name, hosts in zones.items()}
    found |= {name: DesiredAggregate(name, frozenset(h), scope=scope) for (scope, name), h in domains.items()}
    for entry in file.aggregates:
        found[entry.name] = DesiredAggregate(
            entry.name, frozenset(entry.hosts), entry.zone, entry.scope, entry.metadata
        )
    return found


def inventories(entry: HostEntry, defaults: Ratios) -> dict[str, Inventory]:
    """Return the inventories of a host of the file."""
    totals = {
        ResourceClass.VCPU: entry.vcpus,
        ResourceClass.MEMORY_MB: entry.memory_mb,
        ResourceClass.DISK_GB: entry.disk_gb,
    }
    sizes = {
        str(kind): Inventory(total, allocation_ratio=entry.ratios.get(kind, defaults[kind]))
        for kind, total in totals.items()
    }
    return sizes | dict(entry.inventories or {})


def _plan_scopes(file: FleetFile, state: FleetState, plan: FleetPlan) -> None:
    current = {scope.name: scope for scope in state.scopes}
    for entry in file.scopes:
        scope = current.get(entry.name)
        if scope is None:
            plan.new_scopes.append(entry)
            continue
        desired = replace(
            scope, allow_identifiers=entry.allow_identifiers, obfuscate_identifiers=entry.obfuscate_identifiers
        )
        if desired != scope:
            plan.changed_scopes.append((scope, desired))


def _plan_hosts(file: FleetFile, state: FleetState, defaults: Ratios, plan: FleetPlan) -> None:
    current = {host.name: host for host in state.hosts}
    for entry in file.hosts:
        desired = inventories(entry, defaults)
        host = current.get(entry.name)
        if host is None:
            plan.new_hosts.append((entry, desired))
            continue
        kept = _kept(entry, desired, host.inventories)
        if kept != host.inventories:
            plan.changed_hosts.append((host, kept))
        plan.new_traits += [(host.name, trait) for trait in sorted(entry.traits - host.traits)]
        plan.removed_traits += [(host.name, trait) for trait in sorted(host.traits - entry.traits)]


def _kept(entry: HostEntry, desired: Inventories, current: Inventories) -> dict[str, Inventory]:
    """Return the inventories that a host has after the file is applied.

    A file sets no used amounts. Of VCPU, MEMORY_MB and DISK_GB it sets neither reserved amounts nor allocation units,
    and a size of 0 requires no inventory.
    """
    kept = dict(current) if entry.inventories is None else {}
    for kind, inventory in desired.items():
        has = current.get(kind)
        if kind in set(ResourceClass):
            if has is not None:
                kept[kind] = replace(inventory, reserved=has.reserved, used=has.used, units=has.units)
            elif inventory.total:
                kept[kind] = inventory
        else:
            kept[kind] = inventory if has is None else replace(inventory, used=has.used)
    return kept


def _plan_aggregates(file: FleetFile, state: FleetState, plan: FleetPlan) -> None:
    current = {aggregate.name: aggregate for aggregate in state.aggregates}
    scopes = {scope.id: scope.name for scope in state.scopes}
    for desired in desired_aggregates(file).values():
        aggregate = current.get(desired.name)
        if aggregate is None:
            plan.new_aggregates.append(desired)
        elif aggregate.zone != desired.zone:
            plan.changed_zones.append((aggregate, desired.zone))
        if aggregate is not None and (scopes[aggregate.scope] if aggregate.scope else None) != desired.scope:
            plan.changed_domains.append((aggregate, desired.scope))
        hosts = frozenset(aggregate.hosts) if aggregate else frozenset()
        plan.new_members += [(desired.name, host) for host in sorted(desired.hosts - hosts)]
        plan.removed_members += [(desired.name, host) for host in sorted(hosts - desired.hosts)]
        changes = _metadata_changes(aggregate.metadata if aggregate else {}, desired.metadata)
        if changes:
            plan.changed_metadata.append((desired.name, changes))


def _plan_removed_members(file: FleetFile, state: FleetState, plan: FleetPlan) -> None:
    """A host that the file puts into a zone or domain leaves its old one, also where the file does not list that."""
    desired = desired_aggregates(file)
    scopes = {scope.id: scope.name for scope in state.scopes}
    placed = {(a.scope, host) for a in desired.values() if a.scope for host in a.hosts}
    zones = {host: a.zone for a in desired.values() if a.zone for host in a.hosts}
    for aggregate in state.aggregates:
        if aggregate.name in desired:
            continue
        scope = scopes[aggregate.scope] if aggregate.scope else None
        plan.removed_members += [
            (aggregate.name, host)
            for host in aggregate.hosts
            if (scope, host) in placed or (aggregate.zone and zones.get(host, aggregate.zone) != aggregate.zone)
        ]


def _plan_flavors(file: FleetFile, state: FleetState, new_uuid: Callable[[], str], plan: FleetPlan) -> None:
    current = {flavor.name: flavor for flavor in state.flavors}
    for entry in file.flavors:
        old = current.get(entry.name)
        blank = old or Flavor(id=FlavorId(entry.id or new_uuid()), name=entry.name, vcpus=1, memory_mb=1, disk_gb=0)
        desired = replace(
            blank,
            vcpus=entry.vcpus,
            memory_mb=entry.memory_mb,
            disk_gb=entry.disk_gb,
            extra_specs=dict(entry.extra_specs),
        )
        if old is None:
            plan.new_flavors.append(desired)
        elif desired != old:
            plan.changed_flavors.append((old, desired))


def _plan_images(file: FleetFile, state: FleetState, plan: FleetPlan) -> None:
    current = {image.name: image for image in state.images}
    for entry in file.images:
        old = current.get(entry.name)
        if old is None:
            plan.new_images.append(entry)
        elif dict(old.properties) != dict(entry.properties):
            plan.changed_images.append((old, replace(old, properties=dict(entry.properties))))


def _unlisted(file: FleetFile, state: FleetState) -> FleetState:
    hosts = {entry.name for entry in file.hosts}
    scopes = {entry.name for entry in file.scopes}
    aggregates = desired_aggregates(file)
    flavors = {entry.name for entry in file.flavors}
    images = {entry.name for entry in file.images}
    return FleetState(
        hosts=tuple(host for host in state.hosts if host.name not in hosts),
        scopes=tuple(scope for scope in state.scopes if scope.name not in scopes),
        aggregates=tuple(aggregate for aggregate in state.aggregates if aggregate.name not in aggregates),
        flavors=tuple(flavor for flavor in state.flavors if flavor.name not in flavors),
        images=tuple(image for image in state.images if image.name not in images),
    )


def describe(plan: FleetPlan) -> Iterator[str]:
    """Yield one line for each change: + adds, ~ changes, - removes."""
    yield from (f"+ scope {entry.name}" for entry in plan.new_scopes)
    yield from (f"~ scope {old.name}: {_difference(old, new)}" for old, new in plan.changed_scopes)
    for e, _ in plan.new_hosts:
        others = "".join(f", {kind} {_inventory(each)}" for kind, each in (e.inventories or {}).items())
        yield f"+ host {e.name}: {e.vcpus} vcpus, {e.memory_mb} MB, {e.disk_gb} GB{others}"
    yield from (f"~ host {host.name}: {_capacity(host.inventories, new)}" for host, new in plan.changed_hosts)
    yield from (f"+ trait {trait} on host {host}" for host, trait in plan.new_traits)
    yield from (f"- trait {trait} on host {host}" for host, trait in plan.removed_traits)
    yield from (f"+ aggregate {_title(desired)}" for desired in plan.new_aggregates)
    yield from (f"~ aggregate {a.name}: zone {a.zone or 'none'} -> {zone or 'none'}" for a, zone in plan.changed_zones)
    yield from (f"~ aggregate {a.name}: scope -> {scope or 'none'}" for a, scope in plan.changed_domains)
    for name, changes in plan.changed_metadata:
        yield from (f"+ {key}={value} in aggregate {name}" for key, value in changes.items() if value is not None)
        yield from (f"- {key} in aggregate {name}" for key, value in changes.items() if value is None)
    yield from (f"+ host {host} in aggregate {name}" for name, host in plan.new_members)
    yield from (f"- host {host} in aggregate {name}" for name, host in plan.removed_members)
    yield from (f"+ flavor {f.name}: {f.vcpus} vcpus, {f.memory_mb} MB, {f.disk_gb} GB" for f in plan.new_flavors)
    yield from (f"~ flavor {old.name}: {_difference(old, new)}" for old, new in plan.changed_flavors)
    yield from (f"+ image {entry.name}" for entry in plan.new_images)
    yield from (f"~ image {old.name}: {_difference(old, new)}" for old, new in plan.changed_images)
    for section in fields(plan.removed):
        yield from (f"- {section.name.removesuffix('s')} {item.name}" for item in getattr(plan.removed, section.name))


def _metadata_changes(current: Mapping[str, str], desired: Mapping[str, str] | None) -> dict[str, str | None]:
    if desired is None:
        return {}
    removed: dict[str, str | None] = {key: None for key in current if key not in desired}
    return removed | {key: value for key, value in desired.items() if current.get(key) != value}


def _title(desired: DesiredAggregate) -> str:
    if desired.zone is not None:
        return f"{desired.name} (availability zone {desired.zone})"
    return f"{desired.name} ({desired.scope})" if desired.scope else desired.name


def _capacity(old: Inventories, new: Inventories) -> str:
    return ", ".join(
        f"{kind} {_inventory(old.get(kind))} -> {_inventory(new.get(kind))}"
        for kind in sorted(old.keys() | new.keys(), key=class_position)
        if old.get(kind) != new.get(kind)
    )


def _inventory(inventory: Inventory | None) -> str:
    if inventory is None:
        return "none"
    details = [f"x{inventory.allocation_ratio:g}"]
    if inventory.reserved:
        details.append(f"{inventory.reserved} reserved")
    if inventory.units != NO_UNIT_LIMITS:
        units = inventory.units
        details.append(f"{units.min_unit} to {units.max_unit} by {units.step_size}")
    return f"{inventory.total} ({', '.join(details)})"


def _difference(old: object, new: object) -> str:
    slots: tuple[str, ...] = type(old).__slots__  # type: ignore[attr-defined]
    pairs = ((name, getattr(old, name), getattr(new, name)) for name in slots)
    return ", ".join(f"{name} {before} -> {after}" for name, before, after in pairs if before != after)
