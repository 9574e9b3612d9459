"""What has to change so that the service matches a fleet file. Pure: state and file in, a plan out."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

from covey.model.aggregates import Aggregate
from covey.model.flavors import Flavor
from covey.model.fleet_file import FleetFile, HostEntry, ImageEntry, ScopeEntry
from covey.model.hosts import Host
from covey.model.ids import FlavorId
from covey.model.images import Image
from covey.model.inventory import Inventory, ResourceClass
from covey.model.scopes import Scope

Ratios = Mapping[ResourceClass, float]
Inventories = Mapping[ResourceClass, Inventory]


@dataclass(frozen=True, slots=True)
class FleetState:
    """What the service has of the things that a fleet file speaks of."""

    hosts: tuple[Host, ...] = ()
    scopes: tuple[Scope, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    flavors: tuple[Flavor, ...] = ()
    images: tuple[Image, ...] = ()

    @property
    def size(self) -> int:
        """How many things these are."""
        return sum(len(getattr(self, each.name)) for each in fields(self))


@dataclass(frozen=True, slots=True)
class WantedAggregate:
    """An aggregate as the file wants it; metadata of None is nobody's business."""

    name: str
    hosts: frozenset[str]
    zone: str | None = None
    scope: str | None = None
    metadata: Mapping[str, str] | None = None


@dataclass(slots=True)
class FleetPlan:
    """Every change, by kind. Names stand for things, since some do not exist yet."""

    new_scopes: list[ScopeEntry] = field(default_factory=list)
    changed_scopes: list[tuple[Scope, Scope]] = field(default_factory=list)
    new_hosts: list[tuple[HostEntry, Inventories]] = field(default_factory=list)
    changed_hosts: list[tuple[Host, Inventories]] = field(default_factory=list)
    new_traits: list[tuple[str, str]] = field(default_factory=list)
    gone_traits: list[tuple[str, str]] = field(default_factory=list)
    new_aggregates: list[WantedAggregate] = field(default_factory=list)
    changed_zones: list[tuple[Aggregate, str | None]] = field(default_factory=list)
    changed_domains: list[tuple[Aggregate, str | None]] = field(default_factory=list)
    changed_metadata: list[tuple[str, Mapping[str, str | None]]] = field(default_factory=list)
    new_members: list[tuple[str, str]] = field(default_factory=list)
    gone_members: list[tuple[str, str]] = field(default_factory=list)
    new_flavors: list[Flavor] = field(default_factory=list)
    changed_flavors: list[tuple[Flavor, Flavor]] = field(default_factory=list)
    new_images: list[ImageEntry] = field(default_factory=list)
    changed_images: list[tuple[Image, Image]] = field(default_factory=list)
    removed: FleetState = field(default_factory=FleetState)
    left_alone: FleetState = field(default_factory=FleetState)  # the file does not name it

    @property
    def size(self) -> int:
        """How many changes there are."""
        lists = (getattr(self, each.name) for each in fields(self))
        return sum(len(value) for value in lists if isinstance(value, list)) + self.removed.size


def plan(
    file: FleetFile, state: FleetState, default_ratios: Ratios, new_uuid: Callable[[], str], *, prune: bool = False
) -> FleetPlan:
    """The changes that make the service match the file; what it does not name goes only if asked to."""
    made = FleetPlan()
    _plan_scopes(file, state, made)
    _plan_hosts(file, state, default_ratios, made)
    _plan_aggregates(file, state, made)
    _plan_departures(file, state, made)
    _plan_flavors(file, state, new_uuid, made)
    _plan_images(file, state, made)
    unlisted = _unlisted(file, state)
    made.removed, made.left_alone = (unlisted, FleetState()) if prune else (FleetState(), unlisted)
    return made


def wanted_aggregates(file: FleetFile) -> dict[str, WantedAggregate]:
    """Every aggregate that the file speaks of: its own list, and the zones and domains of its hosts."""
    zones: dict[str, set[str]] = {}
    domains: dict[tuple[str, str], set[str]] = {}
    for host in file.hosts:
        if host.zone is not None:
            zones.setdefault(host.zone, set()).add(host.name)
        for scope, domain in host.domains.items():
            domains.setdefault((scope, domain), set()).add(host.name)
    found = {name: WantedAggregate(name, frozenset(hosts), zone=name) for name, hosts in zones.items()}
    found |= {name: WantedAggregate(name, frozenset(h), scope=scope) for (scope, name), h in domains.items()}
    for entry in file.aggregates:
        found[entry.name] = WantedAggregate(entry.name, frozenset(entry.hosts), entry.zone, entry.scope, entry.metadata)
    return found


def inventories(entry: HostEntry, defaults: Ratios) -> dict[ResourceClass, Inventory]:
    """What a declared host has."""
    totals = {
        ResourceClass.VCPU: entry.vcpus,
        ResourceClass.MEMORY_MB: entry.memory_mb,
        ResourceClass.DISK_GB: entry.disk_gb,
    }
    return {
        kind: Inventory(total, allocation_ratio=entry.ratios.get(kind, defaults[kind]))
        for kind, total in totals.items()
    }


def _plan_scopes(file: FleetFile, state: FleetState, made: FleetPlan) -> None:
    have = {scope.name: scope for scope in state.scopes}
    for entry in file.scopes:
        scope = have.get(entry.name)
        if scope is None:
            made.new_scopes.append(entry)
            continue
        wanted = replace(
            scope, allow_identifiers=entry.allow_identifiers, obfuscate_identifiers=entry.obfuscate_identifiers
        )
        if wanted != scope:
            made.changed_scopes.append((scope, wanted))


def _plan_hosts(file: FleetFile, state: FleetState, defaults: Ratios, made: FleetPlan) -> None:
    have = {host.name: host for host in state.hosts}
    for entry in file.hosts:
        wanted = inventories(entry, defaults)
        host = have.get(entry.name)
        if host is None:
            made.new_hosts.append((entry, wanted))
            continue
        # What is reserved and what is used is not the file's to say.
        kept = {
            kind: replace(i, reserved=_had(host, kind).reserved, used=_had(host, kind).used)
            for kind, i in wanted.items()
        }
        if kept != host.inventories:
            made.changed_hosts.append((host, kept))
        made.new_traits += [(host.name, trait) for trait in sorted(entry.traits - host.traits)]
        made.gone_traits += [(host.name, trait) for trait in sorted(host.traits - entry.traits)]


def _plan_aggregates(file: FleetFile, state: FleetState, made: FleetPlan) -> None:
    have = {aggregate.name: aggregate for aggregate in state.aggregates}
    scopes = {scope.id: scope.name for scope in state.scopes}
    for wanted in wanted_aggregates(file).values():
        aggregate = have.get(wanted.name)
        if aggregate is None:
            made.new_aggregates.append(wanted)
        elif aggregate.zone != wanted.zone:
            made.changed_zones.append((aggregate, wanted.zone))
        if aggregate is not None and (scopes[aggregate.scope] if aggregate.scope else None) != wanted.scope:
            made.changed_domains.append((aggregate, wanted.scope))
        hosts = frozenset(aggregate.hosts) if aggregate else frozenset()
        made.new_members += [(wanted.name, host) for host in sorted(wanted.hosts - hosts)]
        made.gone_members += [(wanted.name, host) for host in sorted(hosts - wanted.hosts)]
        changes = _changes(aggregate.metadata if aggregate else {}, wanted.metadata)
        if changes:
            made.changed_metadata.append((wanted.name, changes))


def _plan_departures(file: FleetFile, state: FleetState, made: FleetPlan) -> None:
    """A host that the file puts somewhere leaves where it was, also an aggregate that the file does not name."""
    wanted = wanted_aggregates(file)
    scopes = {scope.id: scope.name for scope in state.scopes}
    placed = {(each.scope, host) for each in wanted.values() if each.scope for host in each.hosts}
    zones = {host: each.zone for each in wanted.values() if each.zone for host in each.hosts}
    for aggregate in state.aggregates:
        if aggregate.name in wanted:
            continue
        scope = scopes[aggregate.scope] if aggregate.scope else None
        made.gone_members += [
            (aggregate.name, host)
            for host in aggregate.hosts
            if (scope, host) in placed or (aggregate.zone and zones.get(host, aggregate.zone) != aggregate.zone)
        ]


def _plan_flavors(file: FleetFile, state: FleetState, new_uuid: Callable[[], str], made: FleetPlan) -> None:
    have = {flavor.name: flavor for flavor in state.flavors}
    for entry in file.flavors:
        old = have.get(entry.name)
        blank = old or Flavor(id=FlavorId(entry.id or new_uuid()), name=entry.name, vcpus=1, memory_mb=1, disk_gb=0)
        wanted = replace(
            blank,
            vcpus=entry.vcpus,
            memory_mb=entry.memory_mb,
            disk_gb=entry.disk_gb,
            extra_specs=dict(entry.extra_specs),
        )
        if old is None:
            made.new_flavors.append(wanted)
        elif wanted != old:
            made.changed_flavors.append((old, wanted))


def _plan_images(file: FleetFile, state: FleetState, made: FleetPlan) -> None:
    have = {image.name: image for image in state.images}
    for entry in file.images:
        old = have.get(entry.name)
        if old is None:
            made.new_images.append(entry)
        elif dict(old.properties) != dict(entry.properties):
            made.changed_images.append((old, replace(old, properties=dict(entry.properties))))


def _unlisted(file: FleetFile, state: FleetState) -> FleetState:
    hosts = {entry.name for entry in file.hosts}
    scopes = {entry.name for entry in file.scopes}
    aggregates = wanted_aggregates(file)
    flavors = {entry.name for entry in file.flavors}
    images = {entry.name for entry in file.images}
    return FleetState(
        hosts=tuple(host for host in state.hosts if host.name not in hosts),
        scopes=tuple(scope for scope in state.scopes if scope.name not in scopes),
        aggregates=tuple(aggregate for aggregate in state.aggregates if aggregate.name not in aggregates),
        flavors=tuple(flavor for flavor in state.flavors if flavor.name not in flavors),
        images=tuple(image for image in state.images if image.name not in images),
    )


def describe(made: FleetPlan) -> Iterator[str]:
    """The changes, a line each: + is new, ~ changes, - goes."""
    yield from (f"+ scope {entry.name}" for entry in made.new_scopes)
    yield from (f"~ scope {old.name}: {_difference(old, new)}" for old, new in made.changed_scopes)
    yield from (f"+ host {e.name}: {e.vcpus} vcpus, {e.memory_mb} MB, {e.disk_gb} GB" for e, _ in made.new_hosts)
    yield from (f"~ host {host.name}: {_capacity(host.inventories, new)}" for host, new in made.changed_hosts)
    yield from (f"+ trait {trait} on host {host}" for host, trait in made.new_traits)
    yield from (f"- trait {trait} on host {host}" for host, trait in made.gone_traits)
    yield from (f"+ aggregate {_title(wanted)}" for wanted in made.new_aggregates)
    yield from (f"~ aggregate {a.name}: zone {a.zone or 'none'} -> {zone or 'none'}" for a, zone in made.changed_zones)
    yield from (f"~ aggregate {a.name}: scope -> {scope or 'none'}" for a, scope in made.changed_domains)
    for name, changes in made.changed_metadata:
        yield from (f"+ {key}={value} in aggregate {name}" for key, value in changes.items() if value is not None)
        yield from (f"- {key} in aggregate {name}" for key, value in changes.items() if value is None)
    yield from (f"+ host {host} in aggregate {name}" for name, host in made.new_members)
    yield from (f"- host {host} in aggregate {name}" for name, host in made.gone_members)
    yield from (f"+ flavor {f.name}: {f.vcpus} vcpus, {f.memory_mb} MB, {f.disk_gb} GB" for f in made.new_flavors)
    yield from (f"~ flavor {old.name}: {_difference(old, new)}" for old, new in made.changed_flavors)
    yield from (f"+ image {entry.name}" for entry in made.new_images)
    yield from (f"~ image {old.name}: {_difference(old, new)}" for old, new in made.changed_images)
    for each in fields(made.removed):
        yield from (f"- {each.name.removesuffix('s')} {gone.name}" for gone in getattr(made.removed, each.name))


def _had(host: Host, kind: ResourceClass) -> Inventory:
    return host.inventories.get(kind, Inventory(0))


def _changes(have: Mapping[str, str], wanted: Mapping[str, str] | None) -> dict[str, str | None]:
    if wanted is None:
        return {}
    gone: dict[str, str | None] = {key: None for key in have if key not in wanted}
    return gone | {key: value for key, value in wanted.items() if have.get(key) != value}


def _title(wanted: WantedAggregate) -> str:
    if wanted.zone is not None:
        return f"{wanted.name} (availability zone {wanted.zone})"
    return f"{wanted.name} ({wanted.scope})" if wanted.scope else wanted.name


def _capacity(old: Inventories, new: Inventories) -> str:
    return ", ".join(
        f"{kind} {_inventory(old[kind]) if kind in old else 'none'} -> {_inventory(i)}"
        for kind, i in new.items()
        if old.get(kind) != i
    )


def _inventory(has: Inventory) -> str:
    return f"{has.total} (x{has.allocation_ratio:g})"


def _difference(old: object, new: object) -> str:
    slots: tuple[str, ...] = type(old).__slots__  # type: ignore[attr-defined]
    pairs = ((name, getattr(old, name), getattr(new, name)) for name in slots)
    return ", ".join(f"{name} {before} -> {after}" for name, before, after in pairs if before != after)
