"""Counts of the fleet, and warnings for operators; `covey status` prints them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from covey.model.agents import Agent, AgentState, RunningMigration
from covey.model.compute_nodes import ComputeNode
from covey.model.flavors import FlavorFilter
from covey.model.groups import Group
from covey.model.ids import GroupId
from covey.model.images import ImageFilter
from covey.model.nova import SyncState
from covey.model.scopes import DomainProblems
from covey.model.work import ParkedJob
from covey.scheduler.fleet import Fleet
from covey.services.audits import find_violations
from covey.services.domains import check_domains
from covey.services.misplaced_servers import MisplacedServer, find_misplaced_servers
from covey.storage.store import Store, Transaction

_MAX_NAMES = 5  # names in one warning
_MAX_PARKED = 100  # jobs that are listed


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
    missing_domains: tuple[tuple[GroupId, str], ...] = ()  # group and policy
    groups: int = 0
    violations: tuple[tuple[GroupId, str], ...] = ()  # of hard policies: the group, and a sentence
    parked_jobs: tuple[ParkedJob, ...] = ()  # the oldest ones
    nova: SyncState | None = None
    nodes: tuple[ComputeNode, ...] = ()  # that the mirror of Nova has
    instances: int = 0  # that the mirror of Nova has
    agents: tuple[Agent, ...] = ()
    migrations: tuple[RunningMigration, ...] = ()


def get_overview(store: Store, default_zone: str, *, isolate_aggregates: bool = False) -> Overview:
    """Read the state in one transaction. With `isolate_aggregates`, it includes misplaced servers."""
    with store.read() as tx:
        hosts, aggregates, scopes = tx.hosts.find(), tx.aggregates.all(), tx.scopes.all()
        nodes = [node for node in tx.compute_nodes.all() if node.is_mirrored]
        problems = check_domains(tx, [host.name for host in hosts], nodes, aggregates)
        flavors, images = tx.flavors.find(FlavorFilter(is_public=None)), tx.images.find(ImageFilter())
        misplaced = find_misplaced_servers(tx) if isolate_aggregates else []
        missing_domains = tx.groups.missing_domains()
        has_providers = tx.providers.exist()
        agents, migrations = tx.agents.all(), tx.agent_calls.migrations()
        parked, parked_count = tx.work.parked(_MAX_PARKED), tx.work.count_parked()
        nova, instances = tx.nova_mirror.state(), tx.nova_mirror.count_servers()
        groups = tx.groups.find(None)
        violations = list(_hard_violations(tx, groups))
    domains = Counter(aggregate.scope for aggregate in aggregates if aggregate.scope)
    zones = Counter(host.zone or default_zone for host in hosts)
    warnings = []
    if not hosts and not has_providers:
        warnings.append("The fleet has no hosts; `covey fleet apply FILE` adds them.")
    if not flavors and (hosts or not has_providers):  # without hosts, others use the Placement API alone
        warnings.append("The fleet has no flavors, so no server can be created.")
    warnings += [f"The scope {scope.name} has no domains." for scope in scopes if not domains[scope.id]]
    warnings += [sentence for problem in problems for sentence in _sentences(problem)]
    if misplaced:
        number = "1 server is" if len(misplaced) == 1 else f"{len(misplaced)} servers are"
        ids = _list_names([server.server for server in misplaced])
        warnings.append(f"{number} in an aggregate that requires traits the server does not request: {ids}.")
    if missing_domains:
        number = "1 policy names" if len(missing_domains) == 1 else f"{len(missing_domains)} policies name"
        listed = _list_names([f"{policy} of the server group {group}" for group, policy in missing_domains])
        warnings.append(f"{number} a domain that does not exist: {listed}.")
    silent = [agent.host_name for agent in agents if agent.state is AgentState.DOWN]
    if silent:
        number = "1 agent does" if len(silent) == 1 else f"{len(silent)} agents do"
        warnings.append(f"{number} not report: {_list_names(silent)}. The hosts take no servers.")
    if parked:
        number = "1 job is" if parked_count == 1 else f"{parked_count} jobs are"
        listed = _list_names([f"{job.kind} of {job.subject_id} ({job.error})" for job in parked], parked_count)
        warnings.append(f"{number} parked after repeated failures: {listed}. `covey manage retry_jobs` tries again.")
    if nova is not None and nova.error is not None:
        warnings.append(f"Nova could not be read: {nova.error}")
    if nova is not None:
        warnings += nova.warnings[:_MAX_NAMES]
        rest = len(nova.warnings) - _MAX_NAMES
        warnings += [f"{rest} more warnings of `covey sync nova`; its log has them all."] if rest > 0 else []
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
        domain_problems=tuple(problems),
        misplaced_servers=tuple(misplaced),
        missing_domains=tuple(missing_domains),
        groups=len(groups),
        violations=tuple(violations),
        parked_jobs=tuple(parked),
        nova=nova,
        nodes=tuple(nodes),
        instances=instances,
        agents=tuple(agents),
        migrations=tuple(migrations),
    )


def _hard_violations(tx: Transaction, groups: Sequence[Group]) -> Iterator[tuple[GroupId, str]]:
    """Yield what does not hold, group by group. It is no warning: tenants may break the policies of their groups."""
    if groups:
        member_hosts, fleet = tx.groups.member_hosts([group.id for group in groups]), Fleet(*tx.fleet_records.all())
        for group, violated in find_violations(tx, groups, member_hosts, fleet).items():
            yield from ((group, each.sentence) for each in violated if not each.soft)


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


def _list_names(names: Sequence[str], total: int | None = None) -> str:
    rest = (len(names) if total is None else total) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {rest} more" if rest > 0 else "")
