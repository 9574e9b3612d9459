"""Counts of the fleet, and warnings for operators; `covey status` prints them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from covey.model.flavors import FlavorFilter
from covey.model.images import ImageFilter
from covey.model.scopes import DomainProblems, find_domain_problems
from covey.services.misplaced_servers import MisplacedServer, find_misplaced_servers
from covey.storage.store import Store

_MAX_NAMES = 5  # names in one warning


@dataclass(frozen=True, slots=True)
class Overview:
    """Counts and warnings."""

    hosts: int
    disabled: int
    down: int
    zones: tuple[tuple[str, int], ...]
    aggregates: int
    scopes: tuple[tuple[str, int], ...]
    flavors: int
    images: int
    warnings: tuple[str, ...]
    domain_problems: tuple[DomainProblems, ...] = ()
    misplaced_servers: tuple[MisplacedServer, ...] = ()


def get_overview(store: Store, default_zone: str, *, isolate_aggregates: bool = False) -> Overview:
    """Read the state in one transaction. With `isolate_aggregates`, it includes misplaced servers."""
    with store.read() as tx:
        hosts, aggregates, scopes = tx.hosts.find(), tx.aggregates.all(), tx.scopes.all()
        in_use = tx.scopes.in_use()
        flavors, images = tx.flavors.find(FlavorFilter(is_public=None)), tx.images.find(ImageFilter())
        misplaced = find_misplaced_servers(tx) if isolate_aggregates else []
    domains = Counter(aggregate.scope for aggregate in aggregates if aggregate.scope)
    zones = Counter(host.zone or default_zone for host in hosts)
    warnings = []
    if not hosts:
        warnings.append("The fleet has no hosts; `covey fleet apply FILE` adds them.")
    if not flavors:
        warnings.append("The fleet has no flavors, so no server can be created.")
    warnings += [f"The scope {scope.name} has no domains." for scope in scopes if not domains[scope.id]]
    names = [host.name for host in hosts]
    problems = [
        find_domain_problems(scope, names, aggregates) for scope in scopes if domains[scope.id] or scope.id in in_use
    ]
    warnings += [sentence for problem in problems for sentence in _sentences(problem)]
    if misplaced:
        number = "1 server is" if len(misplaced) == 1 else f"{len(misplaced)} servers are"
        ids = _list_names([server.server for server in misplaced])
        warnings.append(f"{number} in an aggregate that requires traits the server does not request: {ids}.")
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
        domain_problems=tuple(problem for problem in problems if problem.no_domain or problem.ambiguous),
        misplaced_servers=tuple(misplaced),
    )


def _sentences(problems: DomainProblems) -> Iterator[str]:
    if problems.no_domain:
        listed = _list_names(problems.no_domain)
        yield f"{_counted(problems.no_domain)} in no domain of the scope {problems.scope}: {listed}."
    if problems.ambiguous:
        listed = _list_names([f"{host} ({', '.join(domains)})" for host, domains in problems.ambiguous])
        yield (
            f"{_counted(problems.ambiguous)} in more than one domain of the scope {problems.scope}, "
            f"so excluded by its policies: {listed}."
        )


def _counted(hosts: Sequence[object]) -> str:
    return "1 host is" if len(hosts) == 1 else f"{len(hosts)} hosts are"


def _list_names(names: Sequence[str]) -> str:
    rest = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {rest} more" if rest > 0 else "")
