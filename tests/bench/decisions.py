"""The time of `decide()` in process, for one server and a batch of equal ones, and of the explanation of a refusal."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from covey.model.groups import GroupPolicy, GroupView, PolicyKind, ScopeRef
from covey.model.ids import ProjectId, ScopeId
from covey.model.resources import Resources, server_resources
from covey.scheduler.decide import Decision, decide
from covey.scheduler.explain import Explanation, explain, host_reasons
from covey.scheduler.fleet import Fleet
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from tests.bench import fleets
from tests.bench.table import Row, Target, percentile

Answer = TypeVar("Answer")

RACK, SWITCH = ScopeRef(ScopeId("rack"), "rack"), ScopeRef(ScopeId("switch"), "switch")
ANTI_AFFINITY = GroupPolicy(PolicyKind.ANTI_AFFINITY)
POLICIES: dict[str, tuple[GroupPolicy, ...]] = {
    "no policy": (),
    "anti-affinity": (ANTI_AFFINITY,),
    "3 policies": (
        ANTI_AFFINITY,
        GroupPolicy(PolicyKind.ANTI_AFFINITY, RACK, limit=2),
        GroupPolicy(PolicyKind.SOFT_AFFINITY, SWITCH),
    ),
}
BATCHES: dict[str, tuple[GroupPolicy, ...]] = {
    "host max 1, rack max 8": (ANTI_AFFINITY, GroupPolicy(PolicyKind.ANTI_AFFINITY, RACK, limit=8)),
    "soft-anti-affinity:rack": (GroupPolicy(PolicyKind.SOFT_ANTI_AFFINITY, RACK),),
    "3 soft policies": (
        GroupPolicy(PolicyKind.SOFT_AFFINITY, SWITCH),
        GroupPolicy(PolicyKind.SOFT_ANTI_AFFINITY, RACK),
        GroupPolicy(PolicyKind.SOFT_ANTI_AFFINITY),
    ),
}
# One thread that never waits: on an idle machine, the wall time is the CPU time.
ONE_TARGETS_US = {10_000: 100, 100_000: 700}
SCOPES_TARGET = 1.5
BATCH = 1_000
BATCH_TARGETS_US = {1_000: 5_000, 10_000: 5_000, 100_000: 20_000}
_EXPLAINED, _EXPLAIN_TARGET_US, _NEW_KIND_TARGET_US = 10_000, 1_000, 300
_LONGEST_S = 8.0  # for the repeats of one row


@dataclass(frozen=True, slots=True)
class Timing:
    """Wall and CPU seconds of each call."""

    wall: list[float]
    cpu: list[float]

    def row(self, what: str, note: str, *targets: Target) -> Row:
        return Row(
            what,
            p50_ms=percentile(self.wall, 0.5) * 1e3,
            p99_ms=percentile(self.wall, 0.99) * 1e3,
            cpu_us=self.cpu_us,
            targets=targets,
            note=f"{note}; n={len(self.wall)}",
        )

    @property
    def cpu_us(self) -> float:
        """The median, which other processes disturb less than the mean."""
        return percentile(self.cpu, 0.5) * 1e6


def timed(call: Callable[[int], Answer], repeats: int, after: Callable[[Answer], None]) -> Timing:
    """Time the calls but not `after`; the first call is a warm-up."""
    after(call(0))
    timing = Timing([], [])
    until = time.monotonic() + _LONGEST_S
    for i in range(1, repeats + 1):
        wall, cpu = time.perf_counter(), time.thread_time()
        decision = call(i)
        cpu_s, wall_s = time.thread_time() - cpu, time.perf_counter() - wall
        timing.cpu.append(cpu_s)
        timing.wall.append(wall_s)
        after(decision)
        if time.monotonic() > until:
            break
    return timing


def one_server(hosts: fleets.Hosts, fleet: Fleet, policies: tuple[GroupPolicy, ...], repeats: int) -> Timing:
    """Time decisions for groups of 20 in turn. Each takes its amounts, so that the next one sees other hosts."""
    requests = [_request(policies, group) for group in hosts.groups]

    def call(i: int) -> Decision:
        return decide(requests[i % len(requests)], fleet, seed=i)

    def place(decision: Decision) -> None:
        assert len(decision.chosen) == 1
        fleet.take_for(decision.chosen, fleets.AMOUNTS)

    return timed(call, repeats, place)


def batch(
    hosts: fleets.Hosts, fleet: Fleet, policies: tuple[GroupPolicy, ...], count: int, repeats: int, *, fresh: bool
) -> tuple[Timing, int]:
    """Time decisions for `count` servers, in empty groups or groups of 20; also return the fewest servers placed."""
    requests = [_request(policies, [] if fresh else group, count) for group in hosts.groups]
    placed: list[int] = []

    def call(i: int) -> Decision:
        return decide(requests[i % len(requests)], fleet, seed=i)

    return timed(call, repeats, lambda decision: placed.append(len(decision.chosen))), min(placed)


def _request(policies: tuple[GroupPolicy, ...], members: list[int], count: int = 1) -> RequestSpec:
    return RequestSpec(fleets.AMOUNTS, count=count, group=GroupView(policies, {row + 1: 1 for row in members}))


def explanations(hosts: fleets.Hosts, repeats: int) -> Iterator[Row]:
    """Yield a row for each refusal that is explained, and for requests of a kind that the fleet has not seen."""
    number, plain, trees = len(hosts.used), fleets.fleet(hosts), fleets.tree_fleet(hosts)
    full = {row + 1: 1 for row in range(0, number, fleets.HOSTS_PER_RACK)}
    rack = GroupView((GroupPolicy(PolicyKind.ANTI_AFFINITY, RACK),), full)
    card, many = fleets.AMOUNTS.with_amount(fleets.CARD, 1), fleets.AMOUNTS.with_amount(fleets.CARD, 9)
    both = HostRequirements(required_traits=frozenset(fleets.CARD_TRAITS))
    refused = {
        "no memory": (plain, RequestSpec(server_resources(1, 2**20, 20))),
        "all racks are full": (plain, RequestSpec(fleets.AMOUNTS, group=rack)),
        "two children each, no class": (trees, RequestSpec(many)),
        "two children each, not together": (trees, RequestSpec(card, requirements=both)),
    }
    target = _EXPLAIN_TARGET_US if number in ONE_TARGETS_US and number <= _EXPLAINED else None
    for name, (fleet, spec) in refused.items():
        timing = timed(lambda _, spec=spec, fleet=fleet: explain(spec, fleet), repeats, _assert_all_excluded)  # type: ignore[misc]
        yield timing.row(f"explain, {number:,} hosts, {name}", "counted", *_at_most(target))
    spec, fleet = refused["all racks are full"][1], plain
    timing = timed(lambda _: host_reasons(spec, fleet), max(5, repeats // 20), lambda _: None)
    yield timing.row(f"explain, {number:,} hosts, all racks are full, host by host", "for administrators")
    target = _NEW_KIND_TARGET_US if target else None
    for name, amounts, fleet in (
        ("plain", Resources({}), plain),
        ("two children each", Resources({fleets.CARD: 1}), trees),
    ):
        timing = timed(lambda i, amounts=amounts, fleet=fleet: _new_kind(i, amounts, fleet), repeats, lambda _: None)  # type: ignore[misc]
        yield timing.row(f"decide, {number:,} hosts, a new kind of request, {name}", "no policy", *_at_most(target))


def _new_kind(number: int, more: Resources, fleet: Fleet) -> Decision:
    size = Resources({**server_resources(1, 1000 + number, 20 + number), **more})
    return decide(RequestSpec(size, requirements=HostRequirements(ProjectId(f"project-{number}"))), fleet, seed=number)


def _assert_all_excluded(explanation: Explanation) -> None:
    assert sum(reason.count for reason in explanation.reasons) == explanation.hosts


def measure(sizes: tuple[int, ...], repeats: int, log: Callable[[str], None]) -> Iterator[Row]:
    """Yield a row for each request at each size, then the growth of CPU from the smallest fleet to the largest."""
    cpu: dict[tuple[str, int], tuple[float, int]] = {}  # and how many were placed
    for size in sizes:
        log(f"decide(): {size:,} hosts")
        hosts = fleets.hosts(size)
        for name, policies in POLICIES.items():
            timing = one_server(hosts, fleets.fleet(hosts), policies, repeats)
            cpu[name, size] = timing.cpu_us, 1
            yield timing.row(f"decide, {size:,} hosts, {name}", "group of 20", *_at_most(ONE_TARGETS_US.get(size)))
        share = cpu["3 policies", size][0] / cpu["anti-affinity", size][0]
        limit = (Target("ratio", at_most=SCOPES_TARGET),) if size in ONE_TARGETS_US else ()
        yield Row(f"three scopes / host scope alone, {size:,} hosts", ratio=share, targets=limit, note="of CPU")
        yield from explanations(hosts, repeats)
        fleet = fleets.fleet(hosts)
        for name, policies in BATCHES.items():
            timing, placed = batch(hosts, fleet, policies, BATCH, max(5, repeats // 20), fresh=True)
            cpu[name, size] = timing.cpu_us, placed
            what = f"decide, {size:,} hosts, batch of {BATCH:,}, {name}"
            yield timing.row(
                what, f"{placed:,} placed", *_at_most(BATCH_TARGETS_US.get(size) if placed == BATCH else None)
            )
    few, many = min(sizes), max(sizes)
    for name in {**POLICIES, **BATCHES} if few < many else ():
        (small, placed), (large, more_placed) = cpu[name, few], cpu[name, many]
        note = f"hosts grew x{many / few:.0f}" + (
            "" if placed == more_placed else f", and placed x{more_placed / placed:.3g}"
        )
        yield Row(f"growth of CPU, {few:,} to {many:,} hosts, {name}", ratio=large / small, note=note)


def _at_most(target_us: float | None) -> tuple[Target, ...]:
    return () if target_us is None else (Target("cpu_us", at_most=target_us),)
