"""People who type `openstack cluster ...`, and the service that they type it at."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import sqlalchemy as sa
import yaml

from covey.storage import engine
from tests.acceptance.clustering_client import clustering
from tests.acceptance.processes import Cloud, Session, covey, running_covey
from tests.acceptance.storm import wait_until

USERS = {"admin": ("ops", "admin"), "acme": ("acme", "member")}  # (project, role)
PLENTY = dict.fromkeys(("INSTANCES", "CORES", "RAM", "SERVER_GROUP_MEMBERS"), "-1")


@dataclass(frozen=True)
class Destination:
    """A running service, and the clouds.yaml of its users."""

    url: str
    clouds: Path
    rows: sa.Engine

    def cloud(self, user: str) -> Cloud:
        return clustering(Cloud(self.clouds, user))


@dataclass(frozen=True)
class Person:
    """Somebody at a prompt, with files for specifications. What the client does not show is asked of the API."""

    place: Destination
    user: str
    say: Session

    def profile(self, name: str, **properties: Any) -> None:
        said = {"flavor": "tiny", "image": "linux"} | properties
        self._spec("profile", name, {"type": "os.nova.server", "version": 1.0, "properties": said})

    def policy(self, name: str, properties: dict[str, Any], kind: str = "affinity", version: float = 1.0) -> None:
        said = {"type": f"senlin.policy.{kind}", "version": version, "properties": properties}
        self._spec("policy", name, said)

    def cluster(self, name: str, profile: str, nodes: int = 0) -> None:
        self.say.json(f"cluster create --profile {profile} --desired-capacity {nodes} {name}")
        self.made(name)

    def made(self, cluster: str) -> dict[str, Any]:
        """A cluster when its first nodes are there."""
        wait_until(lambda: self.show(cluster)["status"] not in {"INIT", "CREATING"}, f"{cluster} is made")
        return self.show(cluster)

    def show(self, cluster: str) -> dict[str, Any]:
        found: dict[str, Any] = self.say.json(f"cluster show {cluster}")
        return found

    def begin(self, command: str) -> str:
        """The action that a command begins."""
        said = self.say.text(f"cluster {command}")
        found = re.search(r"action:? ([0-9a-f-]{36})", said)
        assert found is not None, said
        return found[1]

    def do(self, command: str) -> dict[str, Any]:
        """What became of the action that a command began."""
        return self.action(self.begin(command))

    def works(self, command: str) -> dict[str, Any]:
        action = self.do(command)
        assert action["status"] == "SUCCEEDED", action
        return action

    def fails(self, command: str) -> str:
        """Why what a command began did not work out."""
        action = self.do(command)
        assert action["status"] == "FAILED", action
        return str(action["status_reason"])

    def action(self, key: str) -> dict[str, Any]:
        """An action when it is over."""
        over = {"SUCCEEDED", "FAILED", "CANCELLED"}
        wait_until(lambda: self.ask(f"/actions/{key}")["action"]["status"] in over, f"{key} is over")
        found: dict[str, Any] = self.ask(f"/actions/{key}")["action"]
        return found

    def binding(self, cluster: str, policy: str) -> dict[str, Any]:
        """What a cluster remembers of a policy."""
        found: dict[str, Any] = self.say.json(f"cluster policy binding show --policy {policy} {cluster}")["data"]
        return found

    def group_of(self, cluster: str, policy: str) -> str:
        return str(self.binding(cluster, policy)["AffinityPolicy"]["data"]["servergroup_id"])

    def groups(self) -> set[str]:
        return {row["ID"] for row in self.say.json("server group list")}

    def servers(self, cluster: str) -> list[str]:
        """The servers of a cluster's nodes, in the order in which the nodes came."""
        return [row["physical_id"] for row in self.say.json(f"cluster members list --full-id {cluster}")]

    def delete(self, cluster: str) -> None:
        self.say.text(f"cluster delete --force {cluster}")
        wait_until(lambda: cluster not in {row["name"] for row in self.say.json("cluster list")}, f"{cluster} is gone")

    def ask(self, path: str) -> dict[str, Any]:
        """The API's own answer."""
        auth = self.place.cloud(self.user).credentials()
        headers = {"OpenStack-API-Version": "clustering 1.14"}
        who = (auth["username"], auth["password"])
        answer = requests.get(f"{self.place.url}/clustering/v1{path}", auth=who, headers=headers, timeout=30)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def _spec(self, noun: str, name: str, spec: dict[str, Any]) -> None:
        file = self.place.clouds.parent / f"{name}.yaml"
        file.write_text(yaml.safe_dump(spec))
        self.say.json(f"cluster {noun} create --spec-file {file} {name}")


@contextmanager
def a_place(directory: Path, database: str, fleet: Mapping[str, Any]) -> Iterator[Destination]:
    """A service with that fleet, an operator and a tenant."""
    for name, (project, role) in USERS.items():
        done = covey(directory, "user", "add", name, "--project", project, "--role", role, "--password", "secret")
        assert done.status == 0, done.stderr
    (directory / "fleet.yaml").write_text(yaml.safe_dump(dict(fleet)))
    done = covey(directory, "fleet", "apply", "fleet.yaml", "--database", database)
    assert done.status == 0, done.stderr
    variables = {f"OS_QUOTA__{name}": limit for name, limit in PLENTY.items()}
    with running_covey(directory, "serve", "--database", database, variables=variables) as service:
        file = directory / "clouds.yaml"
        file.write_text(yaml.safe_dump({"clouds": {name: _cloud(service.url, name) for name in USERS}}))
        rows = engine.connect(database)
        yield Destination(service.url, file, rows)
        rows.dispose()


def _cloud(url: str, user: str) -> dict[str, Any]:
    return {
        "auth_type": "http_basic",
        "auth": {"username": user, "password": "secret", "endpoint": f"{url}/identity/v3"},
        "compute_endpoint_override": f"{url}/compute/v2.1",
        "image_endpoint_override": f"{url}/image",
        "clustering_endpoint_override": f"{url}/clustering/v1",
        "identity_endpoint_override": f"{url}/identity/v3",
    }
