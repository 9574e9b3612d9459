"""Rendered fleet files parse to the same values."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from covey.fleet_file import FleetFileError, parse, render
from covey.fleet_file.schema import MAX_SIZE
from covey.model.fleet_file import AggregateEntry, FlavorEntry, FleetFile, HostEntry, ImageEntry, ScopeEntry
from covey.model.inventory import AllocationUnits, Inventory

HOST_NAMES = st.from_regex(r"[a-z0-9._-]{0,6}[0-9]{0,3}", fullmatch=True).filter(bool)
SCOPE_NAMES = st.from_regex(r"[A-Za-z0-9_.-]{1,8}", fullmatch=True).filter(lambda name: name != "host")
ANY_NAME = st.text(min_size=1, max_size=20).filter(lambda name: name.isprintable() and name == name.strip())
PLACE_NAMES = ANY_NAME.filter(lambda name: not set(name) & set("[]:"))
SIZES = st.integers(1, MAX_SIZE)
RATIOS = st.dictionaries(st.sampled_from(["VCPU", "MEMORY_MB", "DISK_GB"]), st.floats(1e-9, 1e9))
TRAITS = st.frozensets(st.sampled_from(["CUSTOM_SSD", "CUSTOM_1", "HW_CPU_X86_AVX2"]))
VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])) | st.sampled_from(
    ["true", "1.50", "~"]
)
INVENTORIES = st.none() | st.dictionaries(
    st.sampled_from(["PCPU", "VGPU", "CUSTOM_GPU", "CUSTOM_1_A"]),
    st.builds(
        Inventory,
        st.integers(9, MAX_SIZE),
        st.integers(0, 9),
        st.sampled_from([1.0, 0.5, 16.0]),
        units=st.builds(AllocationUnits, st.integers(1, 3), st.integers(3, MAX_SIZE), st.integers(1, 9)),
    ),
)
KEYS = ANY_NAME.filter(lambda key: key not in {"availability_zone", "policy_scope"})
TEXTS = st.dictionaries(KEYS, VALUES, max_size=3)


@st.composite
def fleets(draw: st.DrawFn) -> FleetFile:
    """Draw a valid fleet; in particular, all aggregates have different names."""
    scopes = draw(st.lists(SCOPE_NAMES, unique=True, max_size=3))
    places = iter(draw(st.lists(PLACE_NAMES, unique=True, min_size=12, max_size=12)))
    zones = [None, next(places), next(places)]
    domains = {scope: [next(places), next(places)] for scope in scopes}
    hosts = tuple(
        HostEntry(
            name,
            *draw(st.tuples(SIZES, SIZES, st.integers(0, MAX_SIZE))),
            ratios=draw(RATIOS),
            zone=draw(st.sampled_from(zones)),
            traits=draw(TRAITS),
            domains=draw(st.fixed_dictionaries({}, optional={s: st.sampled_from(d) for s, d in domains.items()})),
            inventories=draw(INVENTORIES),
        )
        for name in draw(st.lists(HOST_NAMES, unique=True, max_size=4))
    )
    names = [host.name for host in hosts]
    members = st.lists(st.sampled_from(names), unique=True) if names else st.just([])
    flavors = draw(st.lists(ANY_NAME, unique=True, max_size=3))
    switches = st.booleans()
    return FleetFile(
        hosts,
        tuple(ScopeEntry(scope, draw(switches), draw(switches)) for scope in scopes),
        tuple(AggregateEntry(next(places), tuple(draw(members)), draw(TEXTS)) for _ in range(2)),
        tuple(
            FlavorEntry(f, draw(SIZES), draw(SIZES), 0, draw(TEXTS), draw(st.sampled_from([None, f"id {i}"])))
            for i, f in enumerate(flavors)
        ),
        tuple(ImageEntry(i, draw(TEXTS)) for i in draw(st.lists(ANY_NAME, unique=True, max_size=3))),
    )


@given(fleets())
def test_rendered_fleet_parses_to_the_same_values(fleet: FleetFile) -> None:
    assert parse(render(fleet), "rendered") == fleet


@given(st.text(st.sampled_from("hosts:\n- {}[]name,&*<!'\"?|>a1") | st.characters(), max_size=60))
def test_any_text_parses_or_has_problems(text: str) -> None:
    try:
        parse(text, "any")
    except FleetFileError as error:
        fleet_error = error
    else:
        return
    assert len(str(fleet_error).splitlines()) == len(fleet_error.problems) > 0


@given(st.integers(0, 1200), st.integers(1, 30), st.integers(0, 4), st.integers(0, 1))
def test_numbered_neighbours_render_as_a_range(first: int, size: int, width: int, others: int) -> None:
    host = HostEntry("n", 1, 1, 0)
    alike = [replace(host, name=f"n{number:0{width}}") for number in range(first, first + size)]
    fleet = FleetFile((*alike, replace(host, name="last", vcpus=2)) if others else tuple(alike))
    text = render(fleet)
    assert text.count("name:") == 1 + others
    assert parse(text, "rendered") == fleet


def test_different_neighbours_render_separately() -> None:
    host = HostEntry("n1", 1, 1, 0)
    fleet = FleetFile(
        (host, replace(host, name="n2", vcpus=2), replace(host, name="n4", vcpus=2), replace(host, name="x"))
    )
    assert render(fleet) == (
        "hosts:\n"
        "- {name: n1, vcpus: 1, memory_mb: 1, disk_gb: 0}\n"
        "- {name: n2, vcpus: 2, memory_mb: 1, disk_gb: 0}\n"
        "- {name: n4, vcpus: 2, memory_mb: 1, disk_gb: 0}\n"
        "- {name: x, vcpus: 1, memory_mb: 1, disk_gb: 0}\n"
    )


def test_empty_fleet_renders_as_an_empty_text() -> None:
    assert render(FleetFile()) == ""


def test_shared_mappings_render_without_anchors() -> None:
    domains = {"rack": "r1"}
    hosts = (HostEntry("a", 1, 1, 0, domains=domains), HostEntry("b", 1, 1, 0, domains=domains))
    assert "&" not in render(FleetFile(hosts, (ScopeEntry("rack"),)))
