"""`covey simulate`: its summary, JSON, recording and plots."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from covey.cli.main import covey
from covey.cli.simulate import plots
from tests.build import NOW
from tests.functional.fleets import Cloud
from tests.functional.test_flavor_resources import set_specs
from tests.functional.test_placement import make, placement_client, provider_of, stock

FLEET = """
hosts:
  - {name: "a[1-4]", vcpus: 8, memory_mb: 16384, disk_gb: 100, zone: az-1, domains: {rack: "r[1-4]"}}
  - {name: "b[1-4]", vcpus: 8, memory_mb: 16384, disk_gb: 100, zone: az-2, domains: {rack: "r[1-4]"}}
scopes:
  - {name: rack}
flavors:
  - {name: small, vcpus: 1, memory_mb: 512, disk_gb: 1}
"""
SECTIONS = {"use", "skew", "refusals", "scaling"}


def simulate(*arguments: str | Path) -> Result:
    return CliRunner().invoke(covey, ["simulate", *map(str, arguments)])


def document(*arguments: str | Path) -> dict[str, Any]:
    done = simulate(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))


def test_what_if_writes_json_plots_and_a_recording(tmp_path: Path) -> None:
    fleet, stream, drawn = tmp_path / "fleet.yaml", tmp_path / "stream.jsonl", tmp_path / "plots"
    fleet.write_text(FLEET)
    results = document(
        fleet, "--boots", "150", "--drain", "r3", "--record", stream, "--plots", drawn, "--scaling", "--sizes", "30,60"
    )
    assert results["fleet"] == {"hosts": 8, "zones": ["az-1", "az-2"], "scopes": {"rack": 4}, "servers": 0, "groups": 0}
    before, after = results["runs"]["baseline"], results["runs"]["--drain r3"]
    assert before["servers"]["asked"] == after["servers"]["asked"] == 150
    assert after["servers"]["moved"] > 0
    assert before["groups"]["breaking_hard_policies"] == after["groups"]["breaking_hard_policies"] == 0
    assert [each["hosts"] for each in results["scaling"]] == [30, 60]
    assert {path.name for path in drawn.iterdir()} == {f"{name}.{kind}" for name in SECTIONS for kind in ("svg", "png")}
    assert b"what if: --drain r3" in (drawn / "refusals.svg").read_bytes()

    again = document(fleet, "--replay", stream, "--drain", "r3")
    for name, run in again["runs"].items():
        del run["decision_cpu_ms"], results["runs"][name]["decision_cpu_ms"]
        assert run == results["runs"][name]


def test_summary_shows_both_runs_side_by_side() -> None:
    done = simulate("--hosts", "30", "--boots", "100", "--lose", "zone-b", "--policies", "anti-affinity:rack=9")
    assert done.exit_code == 0, done.output
    assert "30 hosts in 3 zones; domains: 3 of rack, 3 of zone\nwhat if: --lose zone-b\n" in done.stdout
    asked = next(line for line in done.stdout.splitlines() if line.startswith("servers requested"))
    assert asked.split()[-2:] == ["100", "100"]
    assert "\n  lost with their hosts " in done.stdout
    assert done.stderr == ""  # no progress bar without a terminal


def test_missing_matplotlib_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "is_available", lambda: False)
    done = simulate("--hosts", "3", "--boots", "5", "--plots", tmp_path / "plots")
    assert done.exit_code == 0
    assert "pip install 'covey[plots]'" in done.stderr
    assert "servers requested" in done.stdout
    assert not (tmp_path / "plots").exists()


def test_from_service_only_reads_the_database(cloud: Cloud, database: str) -> None:
    group = cloud.group("anti-affinity")
    servers = [cloud.boot(group=group) for _ in range(2)]
    home = cloud.host(servers[0])
    results = document("--from-service", "--database", database, "--boots", "0", "--lose", str(home), "--evacuate")
    assert (results["fleet"]["servers"], results["fleet"]["groups"]) == (2, 1)
    now, then = results["runs"]["baseline"], results["runs"][f"--lose {home}"]
    assert (now["servers"]["running"], now["groups"]["whole"]) == (2, 1)
    assert (then["servers"]["moved"], then["servers"]["lost"], then["groups"]["breaking_hard_policies"]) == (1, 0, 0)
    assert cloud.host(servers[0]) == home
    cloud.check()


def test_conflicting_options_are_rejected(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET)
    cases = {
        ("--hosts", "10", fleet): "--hosts applies to a synthetic fleet only",
        ("--from-service", fleet): "exclude each other",
        ("--replay", fleet, "--boots", "3"): "--boots applies to a generated workload",
        ("--hosts", "2"): "every zone needs a host",
        ("--host-size", "1,2"): "is not a list of 3 comma-separated",
    }
    for arguments, complaint in cases.items():
        done = simulate(*arguments)
        assert (done.exit_code, complaint in done.output) == (2, True), done.output
    fleet.write_text(FLEET.partition("flavors:")[0])
    assert "no flavors" in str(simulate(fleet).exception)
    fleet.write_text("flavors:" + FLEET.partition("flavors:")[2])
    assert "no hosts" in str(simulate(fleet).exception)


def test_unknown_place_is_reported_with_known_ones(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET)
    wrong = simulate(fleet, "--drain", "r9")
    assert "Unknown aggregate, zone or host 'r9'. Known: az-1, az-2, r1, r2, r3 and 1 more." in str(wrong.exception)


GPU_FLEET = """
hosts:
  - {name: "plain[1-2]", vcpus: 64, memory_mb: 65536, disk_gb: 1000}
  - {name: "gpu[1-2]", vcpus: 64, memory_mb: 65536, disk_gb: 1000, traits: [CUSTOM_FAST],
     inventories: {CUSTOM_GPU: {total: 5, reserved: 1, max_unit: 2}}}
flavors:
  - {name: gpu, vcpus: 1, memory_mb: 512, disk_gb: 1,
     extra_specs: {"resources:CUSTOM_GPU": 2, "trait:CUSTOM_FAST": required}}
"""


def test_every_resource_class_of_the_fleet_is_counted_and_shown(tmp_path: Path) -> None:
    fleet, stream = tmp_path / "fleet.yaml", tmp_path / "stream.jsonl"
    fleet.write_text(GPU_FLEET)
    options: list[str | Path] = [fleet, "--boots", "10", "--policies", "none", "--churn", "0"]
    run = document(*options, "--record", stream)["runs"]["baseline"]
    assert (run["servers"]["placed"], run["servers"]["refused"]) == (4, 6)
    assert [each["reason"] for each in run["refusals"]] == ["hosts lack CUSTOM_GPU"]
    assert run["use"]["nova"]["CUSTOM_GPU"] == 1
    assert [*run["history"]["use"]["nova"]] == ["VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_GPU"]
    assert "usage at the end: VCPUs, memory, disk, CUSTOM_GPU\n" in simulate(*options).stdout
    boots = [json.loads(line)["boot"] for line in stream.read_text().splitlines()]
    assert {json.dumps(each["resources"]) for each in boots} == {'{"CUSTOM_GPU": 2}'}
    assert document(fleet, "--replay", stream)["runs"]["baseline"]["servers"] == run["servers"]


ODD_FLEET = """
hosts:
  - {name: "plain[1-2]", vcpus: 64, memory_mb: 65536, disk_gb: 1000, inventories: {CUSTOM_GPU: {total: 4}}}
  - {name: "fast[1-2]", vcpus: 64, memory_mb: 65536, disk_gb: 1000, traits: [CUSTOM_FAST]}
flavors:
  - {name: pages, vcpus: 1, memory_mb: 512, disk_gb: 1, extra_specs: {"hw:mem_page_size": large}}
"""
SLOW = '  - {name: slow, vcpus: 1, memory_mb: 32768, disk_gb: 1, extra_specs: {"trait:CUSTOM_FAST": forbidden}}\n'
APART = """  - {name: apart, vcpus: 1, memory_mb: 512, disk_gb: 1, extra_specs: {
      "resources1:CUSTOM_GPU": 1, "resources2:CUSTOM_GPU": 1, group_policy: isolate}}
"""


@pytest.mark.parametrize(("flavor", "placed"), [(SLOW, 4), (APART, 0), (APART.replace("isolate", "none"), 4)])
def test_forbidden_traits_and_granular_groups_of_flavors_are_simulated(
    tmp_path: Path, flavor: str, placed: int
) -> None:
    fleet, stream = tmp_path / "fleet.yaml", tmp_path / "stream.jsonl"
    fleet.write_text(ODD_FLEET + flavor)
    options: list[str | Path] = [fleet, "--boots", "6", "--policies", "none", "--churn", "0"]
    run = document(*options, "--record", stream)["runs"]["baseline"]
    assert (run["servers"]["placed"], run["servers"]["refused"]) == (placed, 6 - placed)
    assert document(fleet, "--replay", stream)["runs"]["baseline"]["servers"] == run["servers"]
    assert (
        "The flavor pages is left out. The flavor's extra spec hw:mem_page_size=large asks for a placement"
        in simulate(*options).stderr
    )


def test_granular_traits_open_an_isolated_aggregate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_SCHEDULER__ENABLE_FORBIDDEN_AGGREGATES_FILTER", "true")
    fleet = tmp_path / "fleet.yaml"
    licensed = 'aggregates:\n  - {name: fast, hosts: ["fast[1-2]"], metadata: {"trait:CUSTOM_FAST": required}}\n'
    granular = """  - {name: fast, vcpus: 1, memory_mb: 32768, disk_gb: 1, extra_specs: {
      "resources:VCPU": 0, "resources1:VCPU": 1, "trait1:CUSTOM_FAST": required}}
"""
    fleet.write_text(ODD_FLEET + granular + licensed)
    run = document(fleet, "--boots", "6", "--policies", "none", "--churn", "0")["runs"]["baseline"]
    assert (run["servers"]["placed"], run["servers"]["refused"]) == (4, 2)


def test_servers_of_child_providers_are_moved_with_what_they_hold(cloud: Cloud, database: str) -> None:
    ledger = placement_client(cloud)
    with cloud.store.write() as tx:
        tx.resource_classes.add("CUSTOM_GPU", NOW)
    for name, gpus in (("node-1", 2), ("node-2", 1), ("node-3", 1)):
        stock(ledger, make(ledger, f"card-of-{name}", provider_of(cloud, name)), CUSTOM_GPU=gpus)
    set_specs(cloud, **{"resources:CUSTOM_GPU": "1"})
    servers = [cloud.boot_on("node-1") for _ in range(2)]
    cloud.boot_on("node-2")
    drained = document("--from-service", "--database", database, "--boots", "0", "--drain", "node-1")
    after = drained["runs"]["--drain node-1"]
    assert (after["servers"]["moved"], after["servers"]["stuck"]) == (1, 1)  # one card is free elsewhere
    assert after["use"]["nova"]["CUSTOM_GPU"] == 0.75
    assert set(cloud.hosts(servers)) == {"node-1"}
