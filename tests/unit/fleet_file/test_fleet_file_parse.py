"""The values of valid fleet files."""

import time
from textwrap import dedent

import pytest

from covey.fleet_file import parse
from covey.model.fleet_file import AggregateEntry, FlavorEntry, FleetFile, HostEntry, ImageEntry, ScopeEntry
from covey.model.inventory import AllocationUnits, Inventory

SCOPES = "scopes: [{name: rack}, {name: switch}]\n"


def read(text: str) -> FleetFile:
    return parse(dedent(text), "fleet.yaml")


def hosts_of(fields: str) -> tuple[HostEntry, ...]:
    return read(f"hosts: [{{vcpus: 1, memory_mb: 1, disk_gb: 0, {fields}}}]\n{SCOPES}").hosts


EMPTY = {
    "no text": "",
    "only a comment": "# nothing yet\n",
    "only the start of a document": "---\n",
    "an empty mapping": "{}",
    "a byte order mark": "\ufeff",
    "sections without entries": "hosts:\nscopes: []\naggregates: ~\nflavors:\nimages:\n",
}


@pytest.mark.parametrize("text", EMPTY.values(), ids=EMPTY)
def test_empty_file_is_an_empty_fleet(text: str) -> None:
    assert read(text) == FleetFile()


def test_every_key_is_parsed() -> None:
    assert read("""
        hosts:
          - name: node-1
            vcpus: 32
            memory_mb: 131072
            disk_gb: 2000
            ratios: {VCPU: 4.0, MEMORY_MB: 1}
            zone: az-1
            traits: [CUSTOM_SSD, HW_CPU_X86_AVX2]
            domains: {rack: rack-1}
            inventories:
              CUSTOM_GPU: {total: 8, reserved: 1, min_unit: 2, max_unit: 4, step_size: 2, allocation_ratio: 2}
              PCPU: {total: 16}
        scopes:
          - {name: rack, allow_identifiers: true, obfuscate_identifiers: true}
          - {name: switch}
        aggregates:
          - {name: fast, hosts: [node-1], metadata: {ssd: true}}
          - {name: empty}
        flavors:
          - {name: small, id: "1", vcpus: 1, memory_mb: 2048, disk_gb: 0, extra_specs: {"hw:x": 4}}
        images:
          - {name: linux, properties: {os_version: 1.50}}
    """) == FleetFile(
        hosts=(
            HostEntry(
                name="node-1",
                vcpus=32,
                memory_mb=131072,
                disk_gb=2000,
                ratios={"VCPU": 4.0, "MEMORY_MB": 1.0},
                zone="az-1",
                traits=frozenset({"CUSTOM_SSD", "HW_CPU_X86_AVX2"}),
                domains={"rack": "rack-1"},
                inventories={
                    "CUSTOM_GPU": Inventory(8, 1, 2.0, units=AllocationUnits(2, 4, 2)),
                    "PCPU": Inventory(16),
                },
            ),
        ),
        scopes=(ScopeEntry("rack", allow_identifiers=True, obfuscate_identifiers=True), ScopeEntry("switch")),
        aggregates=(AggregateEntry("fast", ("node-1",), {"ssd": "true"}), AggregateEntry("empty")),
        flavors=(FlavorEntry("small", 1, 2048, 0, {"hw:x": "4"}, id="1"),),
        images=(ImageEntry("linux", {"os_version": "1.50"}),),
    )


def test_omitted_keys_have_defaults() -> None:
    assert hosts_of("name: n") == (HostEntry("n", 1, 1, 0),)


def test_size_without_a_fraction_is_an_integer() -> None:
    host = read("hosts: [{name: n, vcpus: 4.0, memory_mb: 1_024, disk_gb: 0}]").hosts[0]
    assert (host.vcpus, host.memory_mb) == (4, 1024)
    assert isinstance(host.vcpus, int)


PAIRS = {
    "one zone is for all": ('name: "n[1-2]", zone: az', [("n1", "az", {}), ("n2", "az", {})]),
    "a range of zones pairs up": ('name: "n[1-2]", zone: "az[1-2]"', [("n1", "az1", {}), ("n2", "az2", {})]),
    "a list of zones pairs up": ('name: "n[1-2]", zone: [b, a]', [("n1", "b", {}), ("n2", "a", {})]),
    "a list of names counts as one range": (
        'name: [x, "n[1-2]"], zone: ["a[1-2]", b]',
        [("x", "a1", {}), ("n1", "a2", {}), ("n2", "b", {})],
    ),
    "each scope pairs for itself": (
        'name: "n[1-2]", domains: {rack: "r[1-2]", switch: s}',
        [("n1", None, {"rack": "r1", "switch": "s"}), ("n2", None, {"rack": "r2", "switch": "s"})],
    ),
    "products pair in the same order": (
        'name: "r[1-2]-n[1-2]", domains: {rack: [r1, r1, r2, r2]}',
        [
            ("r1-n1", None, {"rack": "r1"}),
            ("r1-n2", None, {"rack": "r1"}),
            ("r2-n1", None, {"rack": "r2"}),
            ("r2-n2", None, {"rack": "r2"}),
        ],
    ),
}


@pytest.mark.parametrize(("fields", "expected"), PAIRS.values(), ids=PAIRS)
def test_lists_of_equal_length_are_paired(fields: str, expected: list[object]) -> None:
    assert [(host.name, host.zone, host.domains) for host in hosts_of(fields)] == expected


@pytest.mark.parametrize("hosts", ['"n[1-3]"', '["n[1-2]", n3]', "[n1, n2, n3]"])
def test_aggregate_lists_hosts_by_range(hosts: str) -> None:
    fleet = read(
        f'hosts: [{{name: "n[1-3]", vcpus: 1, memory_mb: 1, disk_gb: 0}}]\naggregates: [{{name: a, hosts: {hosts}}}]'
    )
    assert fleet.aggregates[0].hosts == ("n1", "n2", "n3")


TEXTS = {
    "true": "true",
    "yes": "yes",
    "4": "4",
    "1.5": "1.5",
    "1.50": "1.50",
    "007": "007",
    "2026-01-01": "2026-01-01",
    "'null'": "null",
    "''": "",
    "!!str 12": "12",
    "! 12": "12",
    "<<": "<<",
}


@pytest.mark.parametrize(("written", "text"), TEXTS.items(), ids=[f"{w} is {t!r}" for w, t in TEXTS.items()])
def test_property_keeps_its_written_text(written: str, text: str) -> None:
    assert read(f"images: [{{name: i, properties: {{p: {written}}}}}]").images[0].properties == {"p": text}


def test_key_keeps_its_written_text() -> None:
    assert read("images: [{name: i, properties: {1: x, yes: y}}]").images[0].properties == {"1": "x", "yes": "y"}


def test_anchors_aliases_and_merge_keys_work() -> None:
    fleet = read("""
        flavors:
          - &small {name: small, vcpus: 1, memory_mb: 1024, disk_gb: 10, extra_specs: &specs {a: b}}
          - {<<: *small, name: large, vcpus: 8}
          - {<<: [{name: both, disk_gb: 5}, *small], extra_specs: *specs}
    """)
    assert fleet.flavors == (
        FlavorEntry("small", 1, 1024, 10, {"a": "b"}),
        FlavorEntry("large", 8, 1024, 10, {"a": "b"}),
        FlavorEntry("both", 1, 1024, 5, {"a": "b"}),
    )


def test_maximum_sizes_are_allowed() -> None:
    most = 2_147_483_647
    flavor = read(f"flavors: [{{name: f, vcpus: {most}, memory_mb: {most}, disk_gb: {most}}}]").flavors[0]
    assert (flavor.vcpus, flavor.memory_mb, flavor.disk_gb) == (most, most, most)


def test_ten_thousand_hosts_parse_within_seconds() -> None:
    entry = "  - {{name: node-{0}, vcpus: 32, memory_mb: 1024, disk_gb: 0, zone: az, domains: {{rack: rack-{0}}}}}\n"
    text = SCOPES + "hosts:\n" + "".join(entry.format(number) for number in range(10_000))
    started_s = time.process_time()
    assert len(read(text).hosts) == 10_000
    assert time.process_time() - started_s < 10  # far above the usual time: only a complexity error fails
