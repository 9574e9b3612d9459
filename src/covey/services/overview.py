"""The state of the fleet at a glance, and what in it wants an operator's attention."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from covey.model.flavors import FlavorFilter
from covey.model.images import ImageFilter
from covey.model.scopes import Misplaced, misplaced
from covey.services.misplaced_servers import MisplacedServer, misplaced_servers
from covey.storage.store import Store

_TOLD = 5  # hosts by name, in a sentence


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
    misplaced: tuple[Misplaced, ...] = ()
    misplaced_servers: tuple[MisplacedServer, ...] = ()


def overview(store: Store, default_zone: str, *, isolates: bool = False) -> Overview:
    """Look at everything once; at servers in forbidden aggregates where aggregates keep requests out."""
    with store.read() as tx:
        hosts, aggregates, scopes = tx.hosts.find(), tx.aggregates.all(), tx.scopes.all()
        in_use = tx.scopes.in_use()
        flavors, images = tx.flavors.find(FlavorFilter(is_public=None)), tx.images.find(ImageFilter())
        astray = misplaced_servers(tx) if isolates else []
    domains = Counter(aggregate.scope for aggregate in aggregates if aggregate.scope)
    zones = Counter(host.zone or default_zone for host in hosts)
    warnings = []
    if not hosts:
        warnings.append("There are no hosts yet: `covey fleet apply FILE` brings them in.")
    if not flavors:
        warnings.append("There are no flavors, so no server can be asked for.")
    warnings += [f"The scope {scope.name} has no domains." for scope in scopes if not domains[scope.id]]
    names = [host.name for host in hosts]
    wrong = [misplaced(each, names, aggregates) for each in scopes if domains[each.id] or each.id in in_use]
    warnings += [sentence for each in wrong for sentence in _sentences(each)]
    if astray:
        number = "1 server is" if len(astray) == 1 else f"{len(astray)} servers are"
        told = _told([stray.server for stray in astray])
        warnings.append(f"{number} in an aggregate that requires traits not asked for: {told}.")
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
        misplaced=tuple(each for each in wrong if each.nowhere or each.ambiguous),
        misplaced_servers=tuple(astray),
    )


def _sentences(wrong: Misplaced) -> Iterator[str]:
    if wrong.nowhere:
        yield f"{_counted(wrong.nowhere)} in no domain of the scope {wrong.scope}: {_told(wrong.nowhere)}."
    if wrong.ambiguous:
        told = _told([f"{host} ({', '.join(domains)})" for host, domains in wrong.ambiguous])
        yield (
            f"{_counted(wrong.ambiguous)} in more than one domain of the scope {wrong.scope}, "
            f"so out of reach of its policies: {told}."
        )


def _counted(hosts: Sequence[object]) -> str:
    return "1 host is" if len(hosts) == 1 else f"{len(hosts)} hosts are"


def _told(names: Sequence[str]) -> str:
    rest = len(names) - _TOLD
    return ", ".join(names[:_TOLD]) + (f" and {rest} more" if rest > 0 else "")
