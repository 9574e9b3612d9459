"""The demo fleet has the structure that the tutorial describes."""

from collections import Counter
from importlib.resources import files

import pytest

from covey.fleet_file import parse, render
from covey.model.fleet_file import FleetFile, ScopeEntry


@pytest.fixture(scope="module", name="fleet")
def demo_fleet() -> FleetFile:
    return parse((files("covey") / "demo" / "fleet.yaml").read_text(encoding="utf-8"), "fleet.yaml")


def test_demo_fleet_has_24_equal_hosts(fleet: FleetFile) -> None:
    assert [host.name for host in fleet.hosts] == [f"node-{number:02}" for number in range(1, 25)]
    assert {(host.vcpus, host.memory_mb, host.disk_gb) for host in fleet.hosts} == {(32, 131072, 2000)}


@pytest.mark.parametrize(
    ("scope", "domains"),
    [
        ("rack", {f"rack-{number}": 3 for number in range(1, 9)}),
        ("switch", {f"switch-{number}": 6 for number in range(1, 5)}),
        ("maintenance_zone", {f"mz-{number}": 8 for number in range(1, 4)}),
    ],
)
def test_every_host_has_a_domain_of_each_scope(fleet: FleetFile, scope: str, domains: dict[str, int]) -> None:
    assert Counter(host.domains[scope] for host in fleet.hosts) == domains


def test_rack_has_one_switch_and_all_maintenance_zones(fleet: FleetFile) -> None:
    for rack in {host.domains["rack"] for host in fleet.hosts}:
        inside = [host.domains for host in fleet.hosts if host.domains["rack"] == rack]
        assert len({domains["switch"] for domains in inside}) == 1
        assert len({domains["maintenance_zone"] for domains in inside}) == 3


def test_availability_zones_are_not_maintenance_zones(fleet: FleetFile) -> None:
    assert Counter(host.zone for host in fleet.hosts) == {"az-1": 8, "az-2": 8, None: 8}
    assert len({(host.zone, host.domains["maintenance_zone"]) for host in fleet.hosts}) == 9


def test_only_maintenance_zones_have_obfuscated_identifiers(fleet: FleetFile) -> None:
    assert fleet.scopes == (
        ScopeEntry("rack"),
        ScopeEntry("switch"),
        ScopeEntry("maintenance_zone", allow_identifiers=True, obfuscate_identifiers=True),
    )


def test_two_hosts_are_licensed_and_one_of_them_is_in_no_zone(fleet: FleetFile) -> None:
    (licensed,) = fleet.aggregates
    assert licensed.metadata == {"trait:CUSTOM_WINDOWS_LICENSED": "required"}
    carrying = [host for host in fleet.hosts if "CUSTOM_WINDOWS_LICENSED" in host.traits]
    assert licensed.hosts == tuple(host.name for host in carrying)
    assert [host.zone for host in carrying] == ["az-2", None]


def test_some_hosts_have_fast_disks(fleet: FleetFile) -> None:
    assert sum("CUSTOM_SSD" in host.traits for host in fleet.hosts) == 4


def test_flavors_and_images_match_the_tutorial(fleet: FleetFile) -> None:
    assert [flavor.name for flavor in fleet.flavors] == ["tiny", "small", "medium", "large", "windows"]
    assert [image.name for image in fleet.images] == ["linux-server", "linux-minimal", "database", "windows-server"]
    assert fleet.flavors[-1].extra_specs == {"trait:CUSTOM_WINDOWS_LICENSED": "required"}
    assert fleet.images[-1].properties == {"trait:CUSTOM_WINDOWS_LICENSED": "required"}


def test_demo_fleet_round_trips(fleet: FleetFile) -> None:
    assert parse(render(fleet), "rendered") == fleet
