"""Users of `openstack cluster ...`, and the service that they use."""

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
UNLIMITED = dict.fromkeys(("INSTANCES", "CORES", "RAM", "SERVER_GROUP_MEMBERS"), "-1")


@dataclass(frozen=True)
class Deployment:
    """A running service, and the clouds.yaml of its users."""

    url: str
    clouds: Path
    rows: sa.Engine

    def cloud(self, user: str) -> Cloud:
        return clustering(Cloud(self.clouds, user))


@dataclass(frozen=True)
class CliUser:
    """A user of the command line client. What the client does not show is read from the API."""

    deployment: Deployment
    user: str
    cli: Session

    def profile(self, name: str, **properties: Any) -> None:
        properties = {"flavor": "tiny", "image": "linux"} | properties
        self._spec("profile", name, {"type": "os.nova.server", "version": 1.0, "properties": properties})

    def policy(self, name: str, properties: dict[str, Any], kind: str = "affinity", version: float = 1.0) -> None:
        spec = {"type": f"senlin.policy.{kind}", "version": version, "properties": properties}
        self._spec("policy", name, spec)

    def cluster(self, name: str, profile: str, nodes: int = 0) -> None:
        self.cli.json(f"cluster create --profile {profile} --desired-capacity {nodes} {name}")
        self.wait_created(name)

    def wait_created(self, cluster: str) -> dict[str, Any]:
        """Wait until a cluster is created, and return it."""
        wait_until(lambda: self.show(cluster)["status"] not in {"INIT", "CREATING"}, f"{cluster} is created")
        return self.show(cluster)

    def show(self, cluster: str) -> dict[str, Any]:
        found: dict[str, Any] = self.cli.json(f"cluster show {cluster}")
        return found

    def start(self, command: str) -> str:
        """Run a command that starts an action; return the action's id."""
        output = self.cli.text(f"cluster {command}")
        found = re.search(r"action:? ([0-9a-f-]{36})", output)
        assert found is not None, output
        return found[1]

    def do(self, command: str) -> dict[str, Any]:
        """Run a command that starts an action; return the finished action."""
        return self.action(self.start(command))

    def succeeds(self, command: str) -> dict[str, Any]:
        action = self.do(command)
        assert action["status"] == "SUCCEEDED", action
        return action

    def fails(self, command: str) -> str:
        """Run a command whose action fails; return the reason."""
        action = self.do(command)
        assert action["status"] == "FAILED", action
        return str(action["status_reason"])

    def action(self, key: str) -> dict[str, Any]:
        """Wait until an action is finished, and return it."""
        final = {"SUCCEEDED", "FAILED", "CANCELLED"}
        wait_until(lambda: self.get(f"/actions/{key}")["action"]["status"] in final, f"{key} is finished")
        found: dict[str, Any] = self.get(f"/actions/{key}")["action"]
        return found

    def binding(self, cluster: str, policy: str) -> dict[str, Any]:
        """Return the data of a binding."""
        found: dict[str, Any] = self.cli.json(f"cluster policy binding show --policy {policy} {cluster}")["data"]
        return found

    def group_of(self, cluster: str, policy: str) -> str:
        return str(self.binding(cluster, policy)["AffinityPolicy"]["data"]["servergroup_id"])

    def groups(self) -> set[str]:
        return {row["ID"] for row in self.cli.json("server group list")}

    def servers(self, cluster: str) -> list[str]:
        """Return the servers of a cluster's nodes in the order of the nodes."""
        return [row["physical_id"] for row in self.cli.json(f"cluster members list --full-id {cluster}")]

    def delete(self, cluster: str) -> None:
        self.cli.text(f"cluster delete --force {cluster}")
        wait_until(
            lambda: cluster not in {row["name"] for row in self.cli.json("cluster list")}, f"{cluster} is deleted"
        )

    def get(self, path: str) -> dict[str, Any]:
        """Return a response of the API."""
        auth = self.deployment.cloud(self.user).credentials()
        headers = {"OpenStack-API-Version": "clustering 1.14"}
        credentials = (auth["username"], auth["password"])
        answer = requests.get(
            f"{self.deployment.url}/clustering/v1{path}", auth=credentials, headers=headers, timeout=30
        )
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def _spec(self, noun: str, name: str, spec: dict[str, Any]) -> None:
        file = self.deployment.clouds.parent / f"{name}.yaml"
        file.write_text(yaml.safe_dump(spec))
        self.cli.json(f"cluster {noun} create --spec-file {file} {name}")


@contextmanager
def running_deployment(directory: Path, database: str, fleet: Mapping[str, Any]) -> Iterator[Deployment]:
    """Run a service with that fleet, an operator and a tenant."""
    for name, (project, role) in USERS.items():
        done = covey(directory, "user", "add", name, "--project", project, "--role", role, "--password", "secret")
        assert done.status == 0, done.stderr
    (directory / "fleet.yaml").write_text(yaml.safe_dump(dict(fleet)))
    done = covey(directory, "fleet", "apply", "fleet.yaml", "--database", database)
    assert done.status == 0, done.stderr
    variables = {f"OS_QUOTA__{name}": limit for name, limit in UNLIMITED.items()}
    with running_covey(directory, "serve", "--database", database, variables=variables) as service:
        file = directory / "clouds.yaml"
        file.write_text(yaml.safe_dump({"clouds": {name: _cloud(service.url, name) for name in USERS}}))
        rows = engine.connect(database)
        yield Deployment(service.url, file, rows)
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
