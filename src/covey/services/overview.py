"""The state of the fleet at a glance, and what in it wants an operator's attention."""

from collections import Counter
from dataclasses import dataclass

from covey.model.flavors import FlavorFilter
from covey.model.images import ImageFilter
from covey.ports import Store


@dataclass(frozen=True, slots=True)
class Overview:
    """Counts, and sentences about what looks wrong."""

    hosts: int
    disabled: int
    down: int
    zones: tuple[tuple[str, int], ...]
    aggregates: int
    scopes: tuple[tuple[str, int], ...]
    flavors: int
    images: int
    warnings: tuple[str, ...]


def overview(store: Store, default_zone: str) -> Overview:
    """Look at everything once."""
    with store.read() as tx:
        hosts, aggregates, scopes = tx.hosts.find(), tx.aggregates.all(), tx.scopes.all()
        flavors, images = tx.flavors.find(FlavorFilter(is_public=None)), tx.images.find(ImageFilter())
    domains = Counter(aggregate.scope for aggregate in aggregates if aggregate.scope)
    zones = Counter(host.zone or default_zone for host in hosts)
    warnings = []
    if not hosts:
        warnings.append("There are no hosts yet: `covey fleet apply FILE` brings them in.")
    if not flavors:
        warnings.append("There are no flavors, so no server can be asked for.")
    warnings += [f"The scope {scope.name} has no domains." for scope in scopes if not domains[scope.id]]
    return Overview(
        hosts=len(hosts),
        disabled=sum(host.disabled for host in hosts),
        down=sum(not host.up for host in hosts),
        zones=tuple(sorted(zones.items())),
        aggregates=len(aggregates),
        scopes=tuple((scope.name, domains[scope.id]) for scope in scopes),
        flavors=len(flavors),
        images=len(images),
        warnings=tuple(warnings),
    )
