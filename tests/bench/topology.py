"""Structural changes: the CPU time to apply one, and the rate of boots beside many."""

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

from covey.assembly import assemble
from covey.bootstrap import Settings
from covey.clock_and_ids import now
from covey.model.groups import GroupPolicy, GroupView, PolicyKind, ScopeRef
from covey.model.hosts import Host
from covey.request_slots import RequestSlots
from covey.scheduler.decide import decide
from covey.scheduler.fleet import Fleet
from covey.scheduler.request_spec import RequestSpec
from covey.services.live_fleet import LiveFleet
from covey.storage import engine as databases
from covey.storage import schema
from covey.storage.store import Store
from tests.bench import boots, fleets
from tests.bench.backends import running_backend
from tests.bench.decisions import timed
from tests.bench.runs import Run
from tests.bench.table import Row, Target, percentile
from tests.contract.concurrency import OpenAccess

CHANGES_PER_S = 20
CONNECTIONS = 32
RATE_TARGET, P99_TARGET = 0.8, 2.0  # of boots beside changes, to boots without
LARGE = 100_000  # hosts
CHANGE_TARGET_US, LARGE_RATE_TARGET = 5_000, 1_200
CHANGES = 60  # of each kind
TRAIT = "CUSTOM_BENCH"


class Changer:
    """Changes the rack, a trait or the state of one random host in each transaction, as another process does."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rng = random.Random(fleets.SEED)  # noqa: S311 -- repeatable
        with store.read() as tx:
            self._hosts = tx.hosts.find()
            racks = [aggregate for aggregate in tx.aggregates.all() if aggregate.scope_name == "rack"]
        self.scope = ScopeRef(racks[0].scope, "rack") if racks[0].scope else None
        self._disabled = list[Host]()  # one at most, as it is to be enabled
        self._racks = [rack.id for rack in racks]
        self._rack_of = {host: rack.id for rack in racks for host in rack.hosts}
        self.kinds: dict[str, Callable[[], None]] = {
            "rack": self._change_rack,
            "trait": self._change_trait,
            "state": self._change_state,
        }

    @contextmanager
    def running(self, per_second: int) -> Iterator[list[float]]:
        """Make changes in turn at this rate, until the context ends. Yield the durations of all."""
        over, durations = threading.Event(), list[float]()

        def run() -> None:
            due = time.monotonic()
            for change in itertools.cycle(self.kinds.values()):
                if over.wait(max(0.0, due - time.monotonic())):
                    return
                started = time.monotonic()
                change()
                durations.append(time.monotonic() - started)
                due += 1 / per_second

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield durations
        finally:
            over.set()
            thread.join()

    def _change_rack(self) -> None:
        host, rack = self._rng.choice(self._hosts), self._rng.choice(self._racks)
        with self._store.write() as tx:
            tx.aggregates.remove_hosts([(self._rack_of[host.name], host.id)], now())
            tx.aggregates.add_hosts([(rack, host.id)], now())
        self._rack_of[host.name] = rack

    def _change_trait(self) -> None:
        row = self._rng.randrange(len(self._hosts))
        host = self._hosts[row]
        with self._store.write() as tx:
            if TRAIT in host.traits:
                tx.hosts.remove_traits([(host.id, TRAIT)])
            else:
                tx.hosts.add_traits([(host.id, TRAIT)])
        self._hosts[row] = replace(host, traits=host.traits ^ {TRAIT})

    def _change_state(self) -> None:
        """Disable a host, or enable it again, so that one at most is disabled."""
        host = self._disabled.pop() if self._disabled else replace(self._rng.choice(self._hosts), disabled=True)
        with self._store.write() as tx:
            tx.hosts.set_state(host, now())
        if host.disabled:
            self._disabled.append(replace(host, disabled=False))


# One change, in process


def apply_one(backend_url: str, hosts: int, repeats: int, log: Callable[[str], None]) -> Iterator[Row]:
    """Yield a row for each kind of change, applied by a process that reads the change log."""
    engine = databases.connect(backend_url)
    schema.upgrade(engine)
    store = Store(engine)
    log(f"topology: {hosts:,} hosts")
    fleets.add_to(store, hosts)
    live = assemble(Settings().load(), store, OpenAccess(), now, RequestSlots()).live
    changer = Changer(store)
    assert changer.scope is not None
    policies = GroupPolicy(PolicyKind.ANTI_AFFINITY), GroupPolicy(PolicyKind.ANTI_AFFINITY, changer.scope, limit=2)
    spec = RequestSpec(fleets.AMOUNTS, group=GroupView(policies, dict.fromkeys(range(1, fleets.MEMBERS + 1), 1)))

    alone = timed(lambda seed: decide(spec, _fresh(store, live), seed), repeats, lambda _: None)
    yield alone.row(f"decision, {hosts:,} hosts, no change", "rack and host anti-affinity; reads the change log")
    for kind, change in changer.kinds.items():
        yield _apply(kind, change, store, live, spec, repeats, hosts, alone.cpu_us)
    engine.dispose()


def _fresh(store: Store, live: LiveFleet) -> Fleet:
    with store.read() as tx, live.fresh(tx) as snapshot:
        return snapshot.fleet


def _apply(
    kind: str,
    change: Callable[[], None],
    store: Store,
    live: LiveFleet,
    spec: RequestSpec,
    repeats: int,
    hosts: int,
    alone_us: float,
) -> Row:
    """Time the fleet that applies a change; the decision after it fills caches again, so the note has its time."""
    decisions: list[float] = []

    def decide_and_change(fleet: Fleet) -> None:
        started = time.thread_time()
        decide(spec, fleet, seed=len(decisions))
        decisions.append(time.thread_time() - started)
        change()

    change()
    timing = timed(lambda _: _fresh(store, live), repeats, decide_and_change)
    targets = (Target("cpu_us", at_most=CHANGE_TARGET_US),) if hosts == LARGE else ()
    note = f"the next decision {median(decisions) * 1e6:.0f} us, {alone_us:.0f} us without a change"
    return timing.row(f"change of a {kind} applied, {hosts:,} hosts", note, *targets)


# Boots beside changes, over HTTP


def boots_beside(bench: boots.Bench, sizes: boots.Sizes, log: Callable[[str], None]) -> Iterator[Row]:
    """Yield boots without changes and beside them, in alternate rounds."""
    engine = databases.connect(bench.backend.url, pool_size=2)
    changer, name = Changer(Store(engine)), bench.backend.name
    bench.boot(CONNECTIONS, sizes.warm_up)
    bench.analyze()
    without, beside = list[Run](), list[Run]()
    durations: list[float] = []
    for number in range(sizes.rounds):
        without.append(bench.boot(CONNECTIONS, sizes.boots))
        with changer.running(CHANGES_PER_S) as made:
            beside.append(bench.boot(CONNECTIONS, sizes.boots))
        durations += made
        log(f"{name}: round {number + 1}: {without[-1].rate:.0f} boots/s, {beside[-1].rate:.0f} beside changes")
    engine.dispose()
    yield boots.row_of(f"{name}, boots, {CONNECTIONS} connections", without, ())
    p99 = median(percentile(run.latencies_ms, 0.99) for run in without)
    row = boots.row_of(f"{name}, boots beside {CHANGES_PER_S} structural changes a second", beside, ())
    seconds = sum(run.seconds + run.settled_s for run in beside)
    yield replace(
        row,
        ratio=median(run.rate for run in beside) / median(run.rate for run in without),
        targets=(Target("ratio", at_least=RATE_TARGET), Target("p99_ms", at_most=P99_TARGET * p99)),
        note=f"{len(durations) / seconds:.1f} changes/s, each {median(durations) * 1e3:.1f} ms; {row.note}",
    )
    yield boots.checks_row(bench, sizes)


def boots_among_many(bench: boots.Bench, sizes: boots.Sizes, log: Callable[[str], None]) -> Iterator[Row]:
    """Yield boots in a large fleet."""
    bench.boot(CONNECTIONS, sizes.warm_up)
    bench.analyze()
    kept = [bench.boot(CONNECTIONS, sizes.boots) for _ in range(sizes.rounds)]
    log(f"{bench.backend.name}: {[round(run.rate) for run in kept]} boots/s")
    target = Target("per_second", at_least=LARGE_RATE_TARGET)
    yield boots.row_of(f"{bench.backend.name}, large fleet, boots, {CONNECTIONS} connections", kept, (target,))


def measure(
    names: Sequence[str],
    sizes: boots.Sizes,
    settings: str,
    parent: Path | None,
    describe: Callable[[str], None],
    log: Callable[[str], None],
    large: int = LARGE,
) -> Iterator[Row]:
    """Yield rows for each database: a change applied at `large` hosts, boots beside changes, boots at `large` hosts."""
    for name in names:
        with running_backend(name, parent) as (backend, _):
            for row in apply_one(backend.url, large, CHANGES, log):
                yield replace(row, what=f"{backend.name}, {row.what}")
        for hosts, part in ((sizes.hosts, boots_beside), (large, boots_among_many)):
            with (
                running_backend(name, parent) as (backend, directory),
                boots.running_bench(backend, directory, replace(sizes, hosts=hosts), settings) as bench,
            ):
                describe(f"{backend.name}, {hosts:,} hosts: {backend.about}")
                yield from part(bench, sizes, log)
