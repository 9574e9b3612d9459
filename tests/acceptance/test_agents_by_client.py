"""Hosts with agents, as users and operators see them: the stock client, metrics, and the dashboard."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
import sqlalchemy as sa
import yaml

from covey.model.work import Job, JobKind
from covey.storage.engine import connect
from covey.storage.store import Store
from tests.acceptance.processes import Cloud, Session
from tests.agent_lab import TIMEOUT_S, AgentLab, wait_until
from tests.databases import SQLite

DATA = b"a disk" * 100_000


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, sqlite_server: SQLite) -> Iterator[AgentLab]:
    directory = tmp_path_factory.mktemp("agents")
    with sqlite_server.fresh(directory) as database:
        lab = AgentLab(directory / "lab", database)
        try:
            lab.service.start()
            lab.prepare()
            lab.started("node-1", "node-2")
            yield lab
        finally:
            lab.close()


@pytest.fixture(scope="module")
def client(lab: AgentLab) -> Iterator[Session]:
    entry = {
        "auth_type": "admin_token",
        "auth": {"endpoint": f"{lab.url}/placement", "token": "admin:operators"},
        "compute_endpoint_override": f"{lab.url}/compute/v2.1",
        "image_endpoint_override": f"{lab.url}/image",
        "identity_endpoint_override": f"{lab.url}/identity/v3",
    }
    file = lab.directory / "clouds.yaml"
    file.write_text(yaml.safe_dump({"clouds": {"admin": entry}}))
    with Session(Cloud(file, "admin")) as session:
        yield session


def test_image_is_uploaded_booted_and_saved(client: Session, lab: AgentLab, tmp_path: Path) -> None:
    disk, saved = tmp_path / "disk.raw", tmp_path / "saved.raw"
    disk.write_bytes(DATA)
    made = client.json(f"image create --file {disk} --disk-format raw --container-format bare uploaded")
    assert client.json("image show uploaded")["status"] == "active"
    server = client.json(f"server create --image {made['id']} --flavor small --no-network by-image")
    lab.wait_for(server["id"], "ACTIVE")
    client.run(f"image save --file {saved} uploaded")
    assert saved.read_bytes() == DATA


def test_image_without_data_is_refused(client: Session, lab: AgentLab) -> None:
    fields = {"name": "empty", "disk_format": "raw", "container_format": "bare"}
    image = lab.ask("POST", "/image/v2/images", fields)["id"]
    refusal = client.refusal(f"server create --image {image} --flavor small --no-network no-data")
    assert f"Image {image} is not active." in refusal


def test_key_pair_is_created_and_given_to_a_server(client: Session, lab: AgentLab, tmp_path: Path) -> None:
    client.json(f"keypair create --private-key {tmp_path / 'key'} laptop")
    assert "PRIVATE KEY" in (tmp_path / "key").read_text()
    assert [row["Name"] for row in client.json("keypair list")] == ["laptop"]
    server = client.json("server create --image linux --flavor small --key-name laptop --no-network with-key")
    assert lab.wait_for(server["id"], "ACTIVE")["key_name"] == "laptop"
    client.run("keypair delete laptop")


def test_console_log_is_that_of_the_guest(client: Session, lab: AgentLab) -> None:
    server = lab.booted("speaks", "node-1")
    assert server in client.text("console log show speaks")
    assert len(client.text("console log show --lines 1 speaks").strip().splitlines()) == 1


def test_metrics_count_agents_by_state_and_parked_jobs(lab: AgentLab) -> None:
    connected = connect(lab.database)
    with Store(connected).write() as tx:
        tx.work.add(JobKind.EVACUATE_HOST, "no such host", after_s=3600)
        epoch = tx.work.epochs(["no such host"])["no such host"]
        tx.work.park(Job(JobKind.EVACUATE_HOST, "no such host", epoch=epoch), "it failed")
    agent = lab.agent("node-3")
    agent.start()
    agent.wait_for("agent.up")
    agent.kill()

    def metrics() -> str:
        return requests.get(f"{lab.url}/metrics", timeout=TIMEOUT_S).text

    def count(name: str) -> float:
        found = re.search(rf"^{name} ([0-9.]+)$", metrics(), re.MULTILINE)
        return float(found[1]) if found else -1

    wait_until(lambda: count('covey_agents{state="down"}') == 1, "the agent that was killed is counted")
    assert (count('covey_agents{state="up"}'), count('covey_agents{state="starting"}')) == (2, 0)
    lab.service.kill()  # the next one reports parked jobs at its start
    lab.service.start()
    wait_until(lambda: count("covey_jobs_parked") == 1, "the parked job is counted")
    with connected.begin() as connection:
        connection.execute(sa.text("DELETE FROM work WHERE server_id = 'no such host'"))
    connected.dispose()
