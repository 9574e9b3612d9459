"""`covey fleet`: applies and exports fleet files."""

import json
import re
import time
from collections.abc import Iterator
from importlib import resources
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.processes import Result, covey
from tests.databases import PostgreSQL

HOST = "{name: NAME, vcpus: 8, memory_mb: 16384, disk_gb: 100, domains: {rack: rack-1}}"
SMALL = f"""\
hosts:
  - {HOST.replace("NAME", "one")}
  - {HOST.replace("NAME", "two")}
scopes:
  - {{name: rack}}
aggregates:
  - {{name: fast, hosts: [one], metadata: {{disk: ssd}}}}
flavors:
  - {{name: tiny, vcpus: 1, memory_mb: 512, disk_gb: 1}}
images:
  - {{name: linux}}
"""
# 10,000 hosts, and one rack name for each: the same 250 names, 40 times in order.
LARGE = f"""\
hosts:
  - name: host-[00001-10000]
    vcpus: 64
    memory_mb: 262144
    disk_gb: 4000
    zone: az-1
    domains:
      rack: {json.dumps(["rack-[001-250]"] * 40)}
scopes:
  - {{name: rack}}
"""


class Fleet:
    """The `covey fleet` command on one database."""

    def __init__(self, directory: Path, database: str) -> None:
        self.directory = directory
        self._database = ("--database", database)

    def apply(self, text: str, *options: str) -> Result:
        (self.directory / "fleet.yaml").write_text(text)
        return covey(self.directory, "fleet", "apply", "fleet.yaml", *options, *self._database)

    def applied(self, text: str, *options: str) -> Result:
        done = self.apply(text, *options)
        assert done.status == 0, done.stderr
        return done

    def export(self) -> str:
        done = covey(self.directory, "fleet", "export", *self._database)
        assert done.status == 0, done.stderr
        return done.stdout


def normalized(exported: str) -> dict[str, Any]:
    """Return the parsed file with sorted images."""
    document: dict[str, Any] = yaml.safe_load(exported)
    return {**document, "images": sorted(document["images"], key=itemgetter("name"))}


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path, f"sqlite:///{tmp_path / 'covey.sqlite'}")


@pytest.fixture(params=["sqlite", "postgresql"])
def fleet_of_either_kind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    if request.param == "sqlite":
        yield Fleet(tmp_path, f"sqlite:///{tmp_path / 'covey.sqlite'}")
        return
    with request.getfixturevalue("postgresql_server").fresh() as database:
        yield Fleet(tmp_path, database)


def test_fleet_file_is_diffed_applied_and_reapplied(fleet: Fleet) -> None:
    tried = fleet.applied(SMALL, "--dry-run")
    assert set(tried.stdout.splitlines()) == {
        "+ scope rack",
        "+ host one: 8 vcpus, 16384 MB, 100 GB",
        "+ host two: 8 vcpus, 16384 MB, 100 GB",
        "+ aggregate rack-1 (rack)",
        "+ aggregate fast",
        "+ disk=ssd in aggregate fast",
        "+ host one in aggregate fast",
        "+ host one in aggregate rack-1",
        "+ host two in aggregate rack-1",
        "+ flavor tiny: 1 vcpus, 512 MB, 1 GB",
        "+ image linux",
    }
    done = fleet.applied(SMALL)
    assert done.stdout == tried.stdout
    assert "11 changes made." in done.stderr
    again = fleet.applied(SMALL)
    assert (again.stdout, again.stderr) == ("", "fleet.yaml: nothing to change.\n")


def test_apply_changes_listed_objects_and_keeps_others(fleet: Fleet) -> None:
    fleet.applied(SMALL)
    changed = SMALL.replace("vcpus: 8", "vcpus: 16", 1).replace("disk: ssd", "disk: nvme").replace("[one]", "[two]")
    changed = changed.replace("  - {name: linux}\n", "")
    done = fleet.applied(changed)
    assert done.stdout.splitlines() == [
        "~ host one: VCPU 8 (x4) -> 16 (x4)",
        "+ disk=nvme in aggregate fast",
        "+ host two in aggregate fast",
        "- host one in aggregate fast",
    ]
    assert "Not in the file, and kept: 1 images. (--prune removes it.)" in done.stderr
    assert "linux" in fleet.export()

    pruned = fleet.applied(changed, "--prune")
    assert pruned.stdout.splitlines() == ["- image linux"]
    assert "linux" not in fleet.export()
    fleet.applied("", "--prune")
    assert fleet.applied("", "--prune").stderr == "fleet.yaml: nothing to change.\n"


def test_exported_fleet_recreates_the_fleet_in_another_database(
    tmp_path: Path, fleet: Fleet, postgresql_server: PostgreSQL
) -> None:
    (tmp_path / "origin").mkdir()
    with postgresql_server.fresh() as database:
        origin = Fleet(tmp_path / "origin", database)
        origin.applied((resources.files("covey.demo") / "fleet.yaml").read_text())
        exported = origin.export()
        assert origin.applied(exported).stderr == "fleet.yaml: nothing to change.\n"
    fleet.applied(exported)
    assert normalized(fleet.export()) == normalized(exported)


def test_changes_are_available_as_json(fleet: Fleet) -> None:
    tried = json.loads(fleet.applied(SMALL, "--dry-run", "--json").stdout)
    assert tried["applied"] is False
    assert len(tried["changes"]) == 11
    done = json.loads(fleet.applied(SMALL, "--json").stdout)
    assert done == {**tried, "applied": True}


def test_errors_show_file_line_and_column(fleet: Fleet) -> None:
    wrong = SMALL.replace("vcpus: 8", "vcpus: many", 1).replace("name: tiny", "nmae: tiny").replace("[one]", "[three]")
    done = fleet.apply(wrong)
    assert done.status == 1
    lines = done.stderr.splitlines()
    assert "fleet.yaml:2:24: hosts[0].vcpus: must be a whole number of at least 1, not 'many'" in lines
    assert any(re.fullmatch(r"fleet\.yaml:9:\d+: flavors\[0\].*did you mean 'name'\?", line) for line in lines)
    assert lines[-1].startswith("Problems: ")
    assert "host" not in fleet.export()


def test_fleet_file_is_read_from_standard_input(tmp_path: Path) -> None:
    database = ("--database", f"sqlite:///{tmp_path / 'covey.sqlite'}")
    assert covey(tmp_path, "fleet", "apply", "-", *database, stdin=SMALL).status == 0
    wrong = covey(tmp_path, "fleet", "apply", "-", *database, stdin="hosts: 3")
    assert wrong.status == 1
    assert re.match(r"\S+:1:8: hosts: ", wrong.stderr)


def test_fleet_of_ten_thousand_hosts_is_applied(fleet_of_either_kind: Fleet, request: pytest.FixtureRequest) -> None:
    """Prints the duration, which `pytest -rP` shows. The goal is under 20 seconds."""
    started = time.monotonic()
    done = fleet_of_either_kind.applied(LARGE)
    finished = time.monotonic()
    assert done.stdout.splitlines()[-1] == "… and 30212 more (--json shows all)"
    assert "Applying the fleet file" in done.stderr
    assert "30252 changes made." in done.stderr
    again = fleet_of_either_kind.applied(LARGE)
    print(f"{request.node.name}: {finished - started:.1f} s, then {time.monotonic() - finished:.1f} s")  # noqa: T201
    assert (again.stdout, again.stderr) == ("", "fleet.yaml: nothing to change.\n")
