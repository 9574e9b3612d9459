"""`covey demo`: its printed commands work, and a second start continues its data."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from tests.acceptance.processes import (
    COMMAND_TIMEOUT_S,
    START_TIMEOUT_S,
    Cloud,
    Covey,
    Result,
    covey,
    environment,
    running_covey,
)

DEMO = ("demo", "--data-dir", "my demo")


def welcome_of(demo: Covey) -> str:
    """Return what the demo prints shortly after it is ready."""
    give_up_at = time.monotonic() + START_TIMEOUT_S
    while "Try, in another shell" not in demo.stdout and time.monotonic() < give_up_at:
        time.sleep(0.05)
    return demo.stdout


def users_in(welcome: str) -> dict[str, tuple[str, str]]:
    """Return each user's password and role."""
    rows = re.findall(r"^ +(\w+) +(\S+)   (\w+ of project \w+)$", welcome, re.MULTILINE)
    return {name: (password, role) for name, password, role in rows}


def commands_in(welcome: str) -> list[str]:
    _, _, listed = welcome.partition("Try, in another shell:\n")
    return [line.strip() for line in listed.splitlines() if line.strip()]


def in_a_shell(command: str, directory: Path) -> Result:
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=directory,
        env=environment(directory),
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_TIMEOUT_S,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def clouds_in(directory: Path) -> dict[str, Any]:
    clouds: dict[str, Any] = yaml.safe_load((directory / "my demo" / "clouds.yaml").read_text())["clouds"]
    return clouds


def exported(directory: Path) -> str:
    done = covey(directory, "fleet", "export", "--database", f"sqlite:///{directory / 'my demo' / 'covey.sqlite'}")
    assert done.status == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Covey]:
    with running_covey(tmp_path_factory.mktemp("first"), *DEMO, preloaded=False) as demo:
        yield demo


def test_demo_prints_its_url_and_users(first: Covey) -> None:
    assert f"http://127.0.0.1:{first.port}/" in welcome_of(first)
    users = users_in(welcome_of(first))
    assert {name: role for name, (_, role) in users.items()} == {
        "admin": "admin of project admin",
        "demo": "member of project demo",
        "other": "member of project other",
    }
    for name, (password, _) in users.items():
        answer = requests.get(f"{first.url}/compute/v2.1/limits", auth=(name, password), timeout=30)
        assert answer.status_code == 200


def test_printed_commands_work(first: Covey) -> None:
    commands = commands_in(welcome_of(first))
    assert len(commands) == 3
    answers = [in_a_shell(command, first.directory) for command in commands]
    assert [answer.status for answer in answers] == [0, 0, 0], answers
    hypervisors, aggregates, flavors = (answer.stdout for answer in answers)
    assert len(re.findall(r"\bnode-\d\d\b", hypervisors)) == 24
    assert "windows-licensed" in aggregates
    assert "tiny" in flavors


def test_demo_files_are_readable_by_their_owner_only(first: Covey) -> None:
    for name in ("clouds.yaml", "users.yaml"):
        assert (first.directory / "my demo" / name).stat().st_mode & 0o777 == 0o600
    assert (first.directory / "my demo").stat().st_mode & 0o777 == 0o700
    passwords = [cloud["auth"]["password"] for cloud in clouds_in(first.directory).values()]
    assert len(set(passwords)) == 3
    assert not any(password in (first.directory / "my demo" / "users.yaml").read_text() for password in passwords)


def test_demo_fleet_has_24_hosts_in_three_zones(first: Covey) -> None:
    database = f"sqlite:///{first.directory / 'my demo' / 'covey.sqlite'}"
    status = covey(first.directory, "status", "--json", "--database", database)
    assert status.status == 0
    report = json.loads(status.stdout)
    assert {key: report[key] for key in ("hosts", "zones", "flavors", "images", "warnings")} == {
        "hosts": 24,
        "zones": "az-1 (8), az-2 (8), nova (8)",
        "flavors": 5,
        "images": 4,
        "warnings": [],
    }


def test_second_start_continues_the_first(tmp_path: Path) -> None:
    with running_covey(tmp_path, *DEMO) as demo:
        assert "changes made" in demo.log
        welcome = welcome_of(demo)
        Cloud(tmp_path / "my demo" / "clouds.yaml", "admin").run("aggregate create --property shelf=3 'of my own'")
    clouds, users, fleet = clouds_in(tmp_path), (tmp_path / "my demo" / "users.yaml").read_bytes(), exported(tmp_path)
    assert "of my own" in fleet
    with running_covey(tmp_path, *DEMO, port=demo.port) as demo:
        assert users_in(welcome_of(demo)) == users_in(welcome)
        assert "changes made" not in demo.log
    assert clouds_in(tmp_path) == clouds
    assert (tmp_path / "my demo" / "users.yaml").read_bytes() == users
    assert exported(tmp_path) == fleet
