"""A real Placement with every kind of object that `covey adopt` copies."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import requests

from tests.acceptance.processes import START_TIMEOUT_S, Failed, environment, free_port
from tests.environments import prepared

_ROOT = Path(__file__).parents[2]
_REQUIREMENTS = _ROOT / "tests" / "conformance" / "requirements.txt"
_OPTIONS = "[api]\nauth_strategy = noauth2\n[placement_database]\nconnection = sqlite:///{}\nsync_on_startup = true\n"
TOKEN = "admin"


def uuid(name: str) -> str:
    """Return the uuid of a provider, a consumer or an aggregate of this name."""
    return str(uuid5(NAMESPACE_DNS, name))


@dataclass(frozen=True)
class Placement:
    """A service of the Placement API: the original, or Covey."""

    url: str

    def get(self, path: str, version: str = "1.39") -> Any:
        """Return the body at a path."""
        return self._call("GET", path, None, version).json()

    def put(self, path: str, body: object = None, version: str = "1.39") -> None:
        self._call("PUT", path, body, version)

    def post(self, path: str, body: object, version: str = "1.39") -> None:
        self._call("POST", path, body, version)

    def delete(self, path: str) -> None:
        self._call("DELETE", path, None, "1.39")

    def provider(self, name: str, parent: str | None = None, **inventories: int | dict[str, Any]) -> str:
        """Create a provider with inventories; each has a total, or more."""
        created = {"name": name, "uuid": uuid(name), "parent_provider_uuid": parent and uuid(parent)}
        self.post("/resource_providers", created)
        has = {kind: one if isinstance(one, dict) else {"total": one} for kind, one in inventories.items()}
        self._part(name, "inventories", has)
        return uuid(name)

    def traits(self, name: str, *traits: str) -> None:
        """Set the traits of a provider."""
        self._part(name, "traits", list(traits))

    def aggregates(self, name: str, *aggregates: str) -> None:
        """Set the aggregates of a provider, by name."""
        self._part(name, "aggregates", [uuid(each) for each in aggregates])

    def allocate(self, consumer: str, project: str = "web", kind: str = "INSTANCE", **amounts: dict[str, int]) -> None:
        """Replace the allocations of a consumer: amounts by provider."""
        held = {uuid(name): {"resources": resources} for name, resources in amounts.items()}
        generation = self.get(f"/allocations/{uuid(consumer)}").get("consumer_generation")
        owner = {"project_id": project, "user_id": "alice", "consumer_type": kind, "consumer_generation": generation}
        self.put(f"/allocations/{uuid(consumer)}", {"allocations": held, **owner})

    def _part(self, name: str, part: str, value: object) -> None:
        path = f"/resource_providers/{uuid(name)}"
        generation = self.get(path)["generation"]
        self.put(f"{path}/{part}", {part: value, "resource_provider_generation": generation})

    def _call(self, method: str, path: str, body: object, version: str) -> requests.Response:
        headers = {"X-Auth-Token": TOKEN, "OpenStack-API-Version": f"placement {version}"}
        answer = requests.request(method, self.url + path, json=body, headers=headers, timeout=30)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer


@contextmanager
def running_placement(directory: Path) -> Iterator[Placement]:
    """Run a real Placement on SQLite. The first use installs it. Raises SubprocessError, Failed."""
    python = prepared(_ROOT / ".conformance", _REQUIREMENTS) / "python"
    (directory / "placement.conf").write_text(_OPTIONS.format(directory / "placement.sqlite"))
    port = free_port()
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [python, Path(__file__).with_name("serve_placement.py"), str(port)],
            cwd=directory,
            env=environment(directory, OS_PLACEMENT_CONFIG_DIR=str(directory)),
            stdout=log,
            stderr=log,
        )
    try:
        served = Placement(f"http://127.0.0.1:{port}")
        _wait_for(served, process, directory / "log")
        yield served
    finally:
        process.kill()
        process.wait()


def _wait_for(served: Placement, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            served.get("/")
        except requests.ConnectionError:
            time.sleep(0.1)
        else:
            return
    raise Failed(f"Placement does not answer.\n{log.read_text()[-2000:]}")


def fill(original: Placement) -> None:
    """Create nested trees, a sharing provider, custom names, aggregates, and a consumer of each microversion."""
    original.put("/traits/CUSTOM_GOLD")
    original.put("/traits/CUSTOM_UNUSED")
    original.put("/resource_classes/CUSTOM_LICENSE")
    for number in (1, 2):
        node = f"node{number}"
        original.provider(node, MEMORY_MB={"total": 65536, "reserved": 512, "allocation_ratio": 1.5}, CUSTOM_LICENSE=4)
        original.provider(f"numa{number}", node, VCPU={"total": 16, "allocation_ratio": 4.0, "max_unit": 8})
        original.provider(f"nic{number}", f"numa{number}", SRIOV_NET_VF={"total": 8, "step_size": 2, "min_unit": 2})
        original.traits(f"nic{number}", "CUSTOM_GOLD", "HW_NIC_SRIOV")
        original.aggregates(node, "rack", f"row{number}")
    original.provider("storage", DISK_GB={"total": 4000, "reserved": 100})
    original.traits("storage", "MISC_SHARES_VIA_AGGREGATE")
    original.aggregates("storage", "rack")
    original.provider("empty")
    _allocate_by_each_version(original)
    original.allocate("server", node1={"MEMORY_MB": 1024}, nic1={"SRIOV_NET_VF": 2}, storage={"DISK_GB": 20})
    original.allocate("server", numa1={"VCPU": 2}, node1={"MEMORY_MB": 2048}, storage={"DISK_GB": 20})
    original.allocate("licence", project="tools", kind="LICENSE", node2={"CUSTOM_LICENSE": 3})


def _allocate_by_each_version(original: Placement) -> None:
    """Write as clients of all ages do: without an owner, without a generation, without a type."""
    owner = {"project_id": "old", "user_id": "bob"}
    by_provider = {uuid("node1"): {"resources": {"MEMORY_MB": 64}}}
    listed = [{"resource_provider": {"uuid": uuid("node1")}, "resources": {"MEMORY_MB": 64}}]
    bodies: dict[str, dict[str, object]] = {
        "1.0": {"allocations": listed},
        "1.8": {"allocations": listed, **owner},
        "1.12": {"allocations": by_provider, **owner},
        "1.28": {"allocations": by_provider, **owner, "consumer_generation": None},
        "1.38": {"allocations": by_provider, **owner, "consumer_generation": None, "consumer_type": "MIGRATION"},
    }
    for version, body in bodies.items():
        original.put(f"/allocations/{uuid(version)}", body, version)
