"""`covey demo --libvirt` on a real hypervisor, with the stock client."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.processes import Cloud, Session, environment
from tests.lab.hosts import Lab, wait_for

pytestmark = pytest.mark.needs_program("libvirt")

BIN = Path(sys.executable).parent


def servers(client: Session) -> dict[str, str]:
    """Return the status of each server, by its name."""
    return {each["Name"]: each["Status"] for each in client.json("server list")}


def test_demo_runs_its_groups_as_guests_of_this_machine(lab: Lab, tmp_path: Path) -> None:
    lab.power_cycle_unresponsive()
    host = lab.hosts[0]
    script = tmp_path / "openstack"
    script.write_text(f'#!/bin/sh\nexec {" ".join(host.inside(str(BIN / "openstack")))} "$@"\n')
    script.chmod(0o755)
    data = tmp_path / "data"
    command = host.inside(str(BIN / "covey"), "demo", "--libvirt", "--data-dir", str(data))
    with (tmp_path / "log").open("wb") as log:
        running = subprocess.Popen(command, env=environment(tmp_path), stdout=log, stderr=log)
    try:
        wait_for(lambda: b"Ctrl-C stops it" in (tmp_path / "log").read_bytes())
        with Session(Cloud(data / "clouds.yaml", "demo", script)) as client:
            wait_for(lambda: len(servers(client)) == 5, 60, 0.5)
            wait_for(lambda: set(servers(client).values()) == {"ACTIVE"}, 60, 0.5)
            assert sorted(servers(client)) == ["db-1", "db-2", "web-1", "web-2", "web-3"]
            groups = {each["Name"]: each["Policy"] for each in client.json("server group list")}
            assert groups == {"db": "affinity", "web": "soft-anti-affinity"}
            assert list(host.domains().values()) == [True] * 5
            wait_for(lambda: "A guest of the Covey demo has booted." in client.text("console log show web-3"), 60, 0.5)
            for each in client.json("server list"):
                client.run(f"server delete {each['ID']}")
            wait_for(lambda: not servers(client), 60, 0.5)
            assert host.domains() == {}
    finally:
        os.kill(host.pid_of("demo --libvirt"), signal.SIGTERM)
        running.wait(60)
    assert host.pids_of(str(data)) == []
