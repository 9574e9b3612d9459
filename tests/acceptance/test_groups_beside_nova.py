"""Groups under one uuid in Nova and Covey, by the stock client with Covey's plugin, a real Keystone and its catalogue.

A second Covey is the Nova: it serves the same Compute API. `make conformance-nova` tells the story with a real one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.acceptance.keystone import Keystone, running_keystone
from tests.acceptance.processes import Cloud, Covey, Session, covey, running_covey

PASSWORDS = {"demo": "demo-s-secret", "other": "other-s-secret"}
NOVA_FLEET = """\
hosts:
  - {name: "node-[1-3]", vcpus: 8, memory_mb: 16384, disk_gb: 100}
flavors:
  - {id: "1", name: tiny, vcpus: 1, memory_mb: 512, disk_gb: 1}
images:
  - {name: linux}
scopes:
  - {name: rack}
"""
COVEY_FLEET = "scopes:\n  - {name: rack}\n  - {name: switch}\n"
RACKS = {"node-1": "rack-1", "node-2": "rack-1", "node-3": "rack-2"}
TIMEOUT_S = 60


@dataclass(frozen=True)
class Region:
    """A Keystone whose catalogue has Nova as compute, and Covey as placement and as covey."""

    keystone: Keystone
    nova: Covey
    covey: Covey
    directory: Path

    def token(self, user: str) -> str:
        password = PASSWORDS.get(user, self.keystone.admin_password)
        return str(self.keystone.session(user, password, user).get_token())

    def ask(self, user: str, method: str, url: str, body: object = None, **headers: str) -> requests.Response:
        named = {"X-Auth-Token": self.token(user)} | {name.replace("_", "-"): value for name, value in headers.items()}
        return requests.request(method, url, json=body, headers=named, timeout=TIMEOUT_S)

    def placement(self, method: str, path: str, body: object = None) -> Any:
        """Send a request of Nova to its Placement service."""
        url = f"{self.covey.url}/placement{path}"
        answer = self.ask("admin", method, url, body, OpenStack_API_Version="placement 1.36")
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def in_covey(self, user: str, method: str, path: str, body: object = None) -> requests.Response:
        url = f"{self.covey.url}/covey/v2.1{path}"
        return self.ask(user, method, url, body, OpenStack_API_Version="covey 2.1000")

    def in_nova(self, user: str, method: str, path: str, body: object = None) -> requests.Response:
        url = f"{self.nova.url}/compute/v2.1{path}"
        return self.ask(user, method, url, body, OpenStack_API_Version="compute 2.64")


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    directory = tmp_path_factory.mktemp("region")
    with running_keystone(tmp_path_factory.mktemp("keystone")) as keystone:
        for name, password in PASSWORDS.items():
            keystone.create_project(name)
            keystone.create_user(name, password, name, "member")
        with (
            _running(directory / "nova", keystone, NOVA_FLEET) as nova,
            _running(directory / "covey", keystone, COVEY_FLEET) as running,
        ):
            urls = {
                "compute": f"{nova.url}/compute/v2.1",
                "image": f"{nova.url}/image",
                "placement": f"{running.url}/placement",
                "covey": f"{running.url}/covey/v2.1",
            }
            for kind, url in urls.items():
                keystone.register_service(kind, kind, url)
            users = {"admin": ("admin", keystone.admin_password, "admin")}
            users |= {name: (name, password, name) for name, password in PASSWORDS.items()}
            keystone.clouds_yaml(directory / "clouds.yaml", users)
            made = Region(keystone, nova, running, directory)
            _add_computes(made)
            yield made


def _running(directory: Path, keystone: Keystone, fleet: str) -> Any:
    directory.mkdir()
    options = "\n".join(f"{name} = {value}" for name, value in keystone.authtoken_options().items())
    (directory / "covey.conf").write_text(f"[api]\nauth_strategy = keystone\n\n[keystone_authtoken]\n{options}\n")
    (directory / "fleet.yaml").write_text(fleet)
    files = ("--config-file", "covey.conf", "--fleet", "fleet.yaml")
    return running_covey(directory, "serve", *files, "--database", "sqlite:///covey.sqlite")


def _add_computes(region: Region) -> None:
    """Do what Nova does for its compute nodes and aggregates in its Placement service, and mirror it."""
    aggregates = {}
    for rack in sorted(set(RACKS.values())):
        made = region.in_nova("admin", "POST", "/os-aggregates", {"aggregate": {"name": rack}}).json()["aggregate"]
        metadata = {"set_metadata": {"metadata": {"policy_scope": "rack"}}}
        assert region.in_nova("admin", "POST", f"/os-aggregates/{made['id']}/action", metadata).ok
        aggregates[rack] = made["uuid"]
    for hypervisor in region.in_nova("admin", "GET", "/os-hypervisors").json()["hypervisors"]:
        uuid, name = hypervisor["id"], hypervisor["hypervisor_hostname"]
        region.placement("POST", "/resource_providers", {"name": name, "uuid": uuid})
        inventories = {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 16384}, "DISK_GB": {"total": 100}}
        body = {"inventories": inventories, "resource_provider_generation": 0}
        region.placement("PUT", f"/resource_providers/{uuid}/inventories", body)
        body = {"aggregates": [aggregates[RACKS[name]]], "resource_provider_generation": 1}
        region.placement("PUT", f"/resource_providers/{uuid}/aggregates", body)
    where = ("--url", f"{region.nova.url}/compute/v2.1", "--token", region.token("admin"))
    files = ("--config-file", "covey.conf", "--database", "sqlite:///covey.sqlite")
    done = covey(region.covey.directory, "sync", "nova", "--once", *where, *files)
    assert done.status == 0, done.stderr


@pytest.fixture(scope="module")
def admin(region: Region) -> Iterator[Session]:
    with Session(Cloud(region.directory / "clouds.yaml", "admin")) as session:
        yield session


@pytest.fixture(scope="module")
def member(region: Region) -> Iterator[Session]:
    with Session(Cloud(region.directory / "clouds.yaml", "demo")) as session:
        yield session


@pytest.fixture(scope="module")
def other(region: Region) -> Iterator[Session]:
    with Session(Cloud(region.directory / "clouds.yaml", "other")) as session:
        yield session


def boot(region: Region, session: Session, group: str, node: str) -> str:
    """Create a server in Nova, and claim its place as nova-scheduler does."""
    made = session.json(f"server create --flavor tiny --image linux --nic none --hint group={group} s")
    providers = region.placement("GET", f"/resource_providers?name={node}")["resource_providers"]
    told = region.in_nova("admin", "GET", f"/os-server-groups/{group}").json()["server_group"]
    told |= {"uuid": told.pop("id")}
    ranking = {"group": told, "instance_uuid": made["id"], "hosts": [providers[0]["uuid"]]}
    region.placement("POST", "/host_rankings", ranking)
    resources = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}
    body = {
        "allocations": {providers[0]["uuid"]: {"resources": resources}},
        "project_id": told["project_id"],
        "user_id": told["user_id"],
        "consumer_generation": None,
    }
    region.placement("PUT", f"/allocations/{made['id']}", body)
    return str(made["id"])


def test_group_has_members_in_nova_and_policies_in_covey(region: Region, member: Session) -> None:
    created = member.json("server group create --policy anti-affinity:rack --policy soft-affinity:switch web")
    assert created["policies"] == ["anti-affinity:rack", "soft-affinity:switch"]
    group = created["id"]
    in_nova = region.in_nova("demo", "GET", f"/os-server-groups/{group}").json()["server_group"]
    assert (in_nova["name"], in_nova["policy"], in_nova["rules"]) == ("web", "soft-anti-affinity", {})
    assert member.json("server group headroom web --flavor tiny")["count"] == 2

    server = boot(region, member, group, "node-1")
    assert member.json("server group headroom web --flavor tiny")["count"] == 1
    shown = member.json("server group show web")
    assert (shown["policy"], shown["members"]) == ("anti-affinity:rack, soft-affinity:switch", [server])
    rows = {row["Name"]: row for row in member.json("server group list")}
    assert (rows["web"]["Policy"], rows["web"]["Rules"]) == ("anti-affinity:rack, soft-affinity:switch", {})
    (audited,) = member.json("server group audit web")
    assert (audited["Server ID"], audited["Placements"].keys()) == (server, {"rack", "switch"})
    violated = member.json("server group audit web --violations")
    assert [row["Policy"] for row in violated] == ["soft-affinity:switch"], "no host is in a switch"

    member.json("server group set web --policy anti-affinity:rack --rule max_server_per_rack=2")
    assert member.json("server group show web")["rules"] == {"max_server_per_rack": 2}
    boot(region, member, group, "node-2")

    member.run("server group delete web")
    for ask in (region.in_nova, region.in_covey):
        assert ask("demo", "GET", f"/os-server-groups/{group}").status_code == 404


def test_group_of_another_project_does_not_exist(region: Region, member: Session, other: Session) -> None:
    group = member.json("server group create --policy anti-affinity:rack mine")["id"]
    plain = member.json("server group create --policy anti-affinity plain")["id"]
    for each in (group, plain):
        for command in (f"set {each} --policy affinity", f"audit {each}", f"headroom {each} --flavor tiny"):
            assert "No ServerGroup found for" in other.refusal(f"server group {command}")
        path = f"/os-server-groups/{each}"
        change = {"server_group": {"policies": ["affinity"]}}
        assert region.in_covey("other", "PUT", path, change).status_code == 404
        assert region.in_covey("other", "DELETE", path).status_code == 404
    assert member.json("server group show mine")["policy"] == "anti-affinity:rack"
    assert member.json("server group show plain")["policy"] == "anti-affinity"
    assert other.json("server group list") == []


def test_refused_policies_leave_no_group(region: Region, member: Session) -> None:
    said = member.refusal("server group create --policy anti-affinity:nowhere lost")
    assert "Policy scope 'nowhere' does not exist" in said
    assert "No server group was created: the one in Nova is deleted again." in said
    listed = region.in_nova("demo", "GET", "/os-server-groups").json()["server_groups"]
    assert "lost" not in {each["name"] for each in listed}


def test_client_that_ends_after_the_first_step_leaves_a_group_that_set_completes(
    region: Region, member: Session
) -> None:
    body = {"server_group": {"name": "half", "policy": "soft-anti-affinity"}}
    assert region.in_nova("demo", "POST", "/os-server-groups", body).ok
    assert member.json("server group show half")["policy"] == "soft-anti-affinity"
    assert member.json("server group set half --policy anti-affinity:rack")["policies"] == ["anti-affinity:rack"]
    assert member.json("server group show half")["policy"] == "anti-affinity:rack"


def test_hard_policy_that_nova_keeps_is_warned_of(member: Session) -> None:
    member.json("server group create --policy anti-affinity --policy anti-affinity:rack hard")
    said = member.text("server group set hard --policy affinity:rack")
    assert "Nova still enforces anti-affinity with max_server_per_host=1" in said


def test_scopes_and_drains_are_those_of_covey(admin: Session) -> None:
    assert {row["Name"] for row in admin.json("policy scope list")} == {"host", "rack", "switch"}
    admin.json("aggregate create --property a=b in-nova")
    said = admin.refusal("policy scope add aggregate switch rack-1")
    assert "belongs to Nova" in said
    assert "No Aggregate found for in-nova" in admin.refusal("policy scope add aggregate switch in-nova")
    assert admin.json("compute drain list") == []
