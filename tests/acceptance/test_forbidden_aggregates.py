"""Licensed hosts accept only licensed servers, with the `openstack` client."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.processes import Cloud, Failed, Session, covey, running_covey

PATIENCE_S = 60.0
POLL_S = 0.1
DATABASE = "sqlite:///covey.sqlite"
OPTION = {"OS_SCHEDULER__ENABLE_FORBIDDEN_AGGREGATES_FILTER": "true"}
TRAIT = "trait:CUSTOM_WINDOWS_LICENSED=required"
USERS = {"admin": ("ops", "admin"), "acme": ("acme", "member")}  # (project, role)
FLEET = """
hosts:
  - {name: "plain-[1-2]", vcpus: 128, memory_mb: 262144, disk_gb: 4000, ratios: {VCPU: 1.0}}
  - {name: "licensed-[1-2]", vcpus: 128, memory_mb: 524288, disk_gb: 8000, ratios: {VCPU: 1.0}}
aggregates:
  - {name: windows-hosts, hosts: [licensed-1, licensed-2]}
flavors:
  - {name: tiny, vcpus: 1, memory_mb: 512, disk_gb: 1}
images:
  - {name: windows}
  - {name: linux}
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("licensed")
    for name, (project, role) in USERS.items():
        done = covey(made, "user", "add", name, "--project", project, "--role", role, "--password", "secret")
        assert done.status == 0, done.stderr
    assert covey(made, "fleet", "apply", "-", "--database", DATABASE, stdin=FLEET).status == 0
    return made


@pytest.fixture(scope="module")
def sessions(directory: Path) -> Iterator[dict[str, Session]]:
    variables = OPTION | {"OS_QUOTA__INSTANCES": "-1", "OS_QUOTA__CORES": "-1", "OS_QUOTA__RAM": "-1"}
    with (
        running_covey(directory, "serve", "--database", DATABASE, variables=variables) as service,
        ExitStack() as stack,
    ):
        file = directory / "clouds.yaml"
        file.write_text(yaml.safe_dump({"clouds": {name: cloud(service.url, name) for name in USERS}}))
        yield {name: stack.enter_context(Session(Cloud(file, name))) for name in USERS}


def cloud(url: str, user: str) -> dict[str, Any]:
    return {
        "auth_type": "http_basic",
        "auth": {"username": user, "password": "secret", "endpoint": f"{url}/identity/v3"},
        "compute_endpoint_override": f"{url}/compute/v2.1",
        "image_endpoint_override": f"{url}/image",
        "identity_endpoint_override": f"{url}/identity/v3",
    }


def boot(tenant: Session, name: str, image: str, count: int = 1) -> set[str]:
    """Create servers and return their states once they are idle."""
    many = "" if count == 1 else f"--min {count} --max {count}"
    tenant.json(f"server create --image {image} --flavor tiny --no-network {many} {name}")
    deadline = time.monotonic() + PATIENCE_S
    states: set[str] = set()
    while time.monotonic() < deadline:
        rows = tenant.json(f"server list --no-name-lookup --name ^{name}")
        states = {row["Status"] for row in rows}
        if len(rows) == count and "BUILD" not in states:
            return states
        time.sleep(POLL_S)
    raise Failed(f"{name}: {states} after {PATIENCE_S:.0f} s")


def hosts(admin: Session, name: str) -> Counter[str]:
    """Return the number of servers with the name prefix on each kind of host."""
    rows = admin.json(f"server list --all-projects --long --no-name-lookup --name ^{name}")
    return Counter(row["Host"].rpartition("-")[0] for row in rows)


def test_unlicensed_servers_never_use_licensed_hosts(directory: Path, sessions: dict[str, Session]) -> None:
    admin, acme = sessions["admin"], sessions["acme"]
    # No isolation yet: licensed hosts accept any image.
    assert boot(acme, "early", "linux") == {"ACTIVE"}
    assert hosts(admin, "early") == {"licensed": 1}

    admin.run(f"image set --property {TRAIT} windows")
    admin.run(f"aggregate set --property {TRAIT} windows-hosts")

    # No host has the trait until the operator adds it.
    assert boot(acme, "hopeful", "windows") == {"ERROR"}
    message = acme.json("server show hopeful")["fault"]["message"]
    assert message == "No valid host was found. Of 4 hosts: 4 lack a required trait."

    dry = covey(directory, "manage", "placement", "sync_traits", "--dry-run", "--database", DATABASE)
    assert (dry.status, dry.stdout.splitlines()[-1]) == (0, "2 traits would be added.")
    synced = covey(directory, "manage", "placement", "sync_traits", "--database", DATABASE)
    assert synced.status == 0, synced.stderr
    assert synced.stdout.splitlines() == [
        "+ trait CUSTOM_WINDOWS_LICENSED",
        "+ trait CUSTOM_WINDOWS_LICENSED on licensed-1 (aggregate windows-hosts)",
        "+ trait CUSTOM_WINDOWS_LICENSED on licensed-2 (aggregate windows-hosts)",
        "2 traits added.",
    ]

    for batch in range(10):
        assert boot(acme, f"plain{batch}x", "linux", 20) == {"ACTIVE"}
    assert hosts(admin, "plain") == {"plain": 200}
    assert boot(acme, "paid", "windows", 20) == {"ACTIVE"}
    assert hosts(admin, "paid") == {"licensed": 20}

    # Only 56 more fit on the plain hosts; the 216 free slots of licensed hosts are forbidden.
    assert boot(acme, "late", "linux", 57) == {"ERROR"}
    assert (
        "2 are in an aggregate that requires traits the request does not ask for"
        in (acme.json("server show late-1")["fault"]["message"])
    )

    # `covey status` reports the server that was created before the isolation.
    early = acme.json("server show early")["id"]
    status = covey(directory, "status", "--json", "--database", DATABASE, **OPTION)
    report = json.loads(status.stdout)
    assert status.status == 1
    (message,) = report["servers_in_forbidden_aggregates"]
    assert (message["server"], message["host"].rpartition("-")[0], message["aggregates"]) == (
        early,
        "licensed",
        ["windows-hosts"],
    )
    sentence = f"1 server is in an aggregate that requires traits the server does not request: {early}."
    assert report["warnings"] == [sentence]
    assert sentence not in covey(directory, "status", "--database", DATABASE).stdout  # without the option
