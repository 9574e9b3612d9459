"""Fleet files: an applied file leaves no difference, an export changes nothing, and any file can follow any other."""

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from covey.fleet_file import parse, render
from covey.model.fleet_file import AggregateEntry, FlavorEntry, FleetFile, HostEntry, ImageEntry, ScopeEntry
from covey.model.inventory import NO_UNIT_LIMITS, AllocationUnits, Inventory, ResourceClass
from covey.services.fleets import Fleets
from covey.storage import engine
from covey.storage.store import Store
from tests.budgets import examples
from tests.build import NOW
from tests.databases import SQLite

RATIOS = {ResourceClass.VCPU: 4.0, ResourceClass.MEMORY_MB: 1.0, ResourceClass.DISK_GB: 1.0}
HOSTS = [f"n{number}" for number in range(1, 6)]
ZONES, SCOPES, TRAITS = ["az-1", "az-2"], ["rack", "switch"], ["CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_AVX"]
LISTED = "listed"  # the file lists the host in an aggregate instead of naming the domain at the host

FEW = AllocationUnits(1, 4, 2)
sizes = st.integers(1, 2**31 - 1)
ratios = st.sampled_from([0.5, 1.0, 1.5, 16.0])
inventories = st.none() | st.dictionaries(
    st.sampled_from(["PCPU", "CUSTOM_GPU", "CUSTOM_FPGA"]),
    st.builds(Inventory, st.integers(4, 9), st.integers(0, 4), ratios, units=st.sampled_from([NO_UNIT_LIMITS, FEW])),
)
texts = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "1", "yes", "x y"]), max_size=2)


@st.composite
def fleet_files(draw: st.DrawFn) -> FleetFile:
    """Draw a valid fleet file: a host has at most one zone and one domain of each scope."""
    names = draw(st.lists(st.sampled_from(HOSTS), unique=True))
    scopes = draw(st.lists(st.sampled_from(SCOPES), unique=True))
    zones = {name: draw(st.sampled_from([None, *ZONES])) for name in names}
    domains = {
        (name, scope): draw(st.sampled_from([None, f"{scope}-1", f"{scope}-2", LISTED]))
        for name, scope in itertools.product(names, scopes)
    }
    hosts = tuple(
        HostEntry(
            name,
            draw(sizes),
            draw(sizes),
            draw(sizes),
            draw(st.dictionaries(st.sampled_from(list(ResourceClass)), ratios)),
            zones[name] if draw(st.booleans()) else None,
            frozenset(draw(st.sets(st.sampled_from(TRAITS)))),
            {s: d for s in scopes if (d := domains[name, s]) not in {None, LISTED}},
            draw(inventories),
        )
        for name in names
    )
    plain = [AggregateEntry("plain", tuple(names[:2]), draw(texts))]
    zoned = [AggregateEntry(f"in-{z}", tuple(n for n in names if zones[n] == z), draw(texts), z) for z in ZONES]
    scoped = [
        AggregateEntry(f"{s}-9", tuple(n for n in names if domains[n, s] == LISTED), draw(texts), None, s)
        for s in scopes
    ]
    return FleetFile(
        hosts,
        tuple(ScopeEntry(scope, draw(st.booleans()), draw(st.booleans())) for scope in scopes),
        tuple(entry for entry in plain + zoned + scoped if draw(st.booleans())),
        tuple(
            FlavorEntry(name, draw(sizes), draw(sizes), draw(sizes), draw(texts), draw(st.sampled_from([None, name])))
            for name in draw(st.sets(st.sampled_from(["small", "large"])))
        ),
        tuple(ImageEntry(name, draw(texts)) for name in draw(st.sets(st.sampled_from(["linux", "bsd"])))),
    )


@contextmanager
def empty_fleet(server: SQLite) -> Iterator[Fleets]:
    numbers = itertools.count(1)
    with tempfile.TemporaryDirectory() as directory, server.fresh(Path(directory)) as url:
        connected = engine.connect(url)
        yield Fleets(Store(connected), lambda: NOW, lambda: f"id-{next(numbers)}", RATIOS)
        connected.dispose()


def assert_no_difference(fleets: Fleets, file: FleetFile, *, prune: bool = False) -> None:
    assert fleets.compare(file, prune=prune).size == 0
    exported = fleets.export()
    assert fleets.compare(exported, prune=True).size == 0
    assert fleets.compare(parse(render(exported), "fleet.yaml"), prune=True).size == 0


@settings(max_examples=examples(50), deadline=None, derandomize=True)
@given(file=fleet_files())
def test_applied_file_leaves_no_difference_and_its_export_changes_nothing(
    sqlite_server: SQLite, file: FleetFile
) -> None:
    with empty_fleet(sqlite_server) as fleets:
        progress: list[int] = []
        applied = fleets.apply(file, progress.append)
        assert sum(progress) == applied.size
        assert_no_difference(fleets, file)


@settings(max_examples=examples(50), deadline=None, derandomize=True)
@given(first=fleet_files(), second=fleet_files())
def test_any_file_can_follow_any_other(sqlite_server: SQLite, first: FleetFile, second: FleetFile) -> None:
    with empty_fleet(sqlite_server) as fleets:
        fleets.apply(first, lambda _: None)
        fleets.apply(second, lambda _: None)
        assert_no_difference(fleets, second)


@settings(max_examples=examples(50), deadline=None, derandomize=True)
@given(first=fleet_files(), second=fleet_files())
def test_prune_leaves_only_objects_in_the_file(sqlite_server: SQLite, first: FleetFile, second: FleetFile) -> None:
    with empty_fleet(sqlite_server) as fleets:
        fleets.apply(first, lambda _: None)
        fleets.apply(second, lambda _: None, prune=True)
        assert_no_difference(fleets, second, prune=True)
