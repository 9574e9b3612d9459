"""Groups under one uuid in Nova and Covey, through the real `openstack` client with Covey's plugin.

`groups_of_tenants(tenant)` is called as every story is, with the laboratory's tenant, after the scopes `rack` and
`switch` exist. It registers the service type `covey` in the catalogue, creates two projects of its own, and mirrors
Nova once, from which Covey also learns Nova's address. It runs the `openstack` of this repository's environment.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import requests

from tests.acceptance.processes import Cloud, covey
from tests.conformance.nova.cloud import Lab
from tests.conformance.nova.tenant import Tenant

_PASSWORDS = {"web-team": "web-secret", "db-team": "db-secret"}
_TIMEOUT_S = 60


@dataclass(frozen=True)
class Team:
    """A tenant of its own project, with the stock client and with Covey's API."""

    lab: Lab
    name: str
    clouds: Path

    @property
    def client(self) -> Cloud:
        return Cloud(self.clouds, self.name)

    def boot(self, group: str, count: int) -> list[str]:
        """Create servers one after the other, as `openstack server create --hint group=...` does."""
        create = f"server create --flavor small --image linux --nic none --hint group={group}"
        return [str(self.client.json(f"{create} s-{time.monotonic_ns()}")["id"]) for _ in range(count)]

    def ask_covey(self, method: str, path: str, body: object = None) -> requests.Response:
        token = self.lab.keystone.session(self.name, _PASSWORDS[self.name], self.name).get_token()
        headers = {"X-Auth-Token": str(token), "OpenStack-API-Version": "covey 2.1000"}
        url = f"{self.lab.covey_url}/covey/v2.1{path}"
        return requests.request(method, url, json=body, headers=headers, timeout=_TIMEOUT_S)


def groups_of_tenants(tenant: Tenant) -> str:
    """A tenant's group has policies in Covey and members in Nova; another tenant can do nothing with its uuid."""
    tenant.lab.keystone.register_service("covey", "covey", f"{tenant.lab.covey_url}/covey/v2.1")
    web, db = _teams(tenant.lab)
    _mirror(tenant.lab)
    racks = len(set(tenant.domains["rack"].values()))
    created = web.client.json("server group create --policy anti-affinity:rack --policy soft-affinity:switch web")
    assert created["policies"] == ["anti-affinity:rack", "soft-affinity:switch"], created
    group = str(created["id"])
    assert _in_nova(tenant, group)["policy"] == "soft-anti-affinity"
    assert web.client.json("server group headroom web --flavor small")["count"] == racks

    servers = web.boot(group, racks + 1)
    tenant.wait(servers)
    active = tenant.active(servers)
    assert set(tenant.spread(active, "rack").values()) == {1}, tenant.spread(active, "rack")
    assert len(active) == racks, [tenant.show(server)["status"] for server in servers]
    assert web.client.json("server group show web")["policy"] == "anti-affinity:rack, soft-affinity:switch"
    violated = {row["Policy"] for row in web.client.json("server group audit web --violations")}
    assert violated <= {"soft-affinity:switch"}, violated  # the racks are behind several switches
    assert {row["Server ID"] for row in web.client.json("server group audit web")} >= set(active)
    assert web.client.json("server group headroom web --flavor small")["count"] == 0

    _other_tenant_is_refused(db, group)
    web.client.json("server group set web --policy anti-affinity:rack --rule max_server_per_rack=2")
    more = web.boot(group, 1)
    tenant.wait(more)
    assert tenant.active(more) == more, "a policy that is changed applies to the next boot"

    _refused_policies_leave_no_group(web)
    tenant.delete([*servers, *more])
    web.client.run("server group delete web")
    assert web.client.json("server group list") == []
    assert web.ask_covey("GET", f"/os-server-groups/{group}").status_code == 404
    return f"{racks} ACTIVE in {racks} racks, 1 refused, 1 more after a change; other tenants get 404"


def _other_tenant_is_refused(db: Team, group: str) -> None:
    path, policies = f"/os-server-groups/{group}", {"server_group": {"policies": ["affinity"]}}
    answers = [
        db.ask_covey("PUT", path, policies),
        db.ask_covey("GET", path),
        db.ask_covey("GET", f"{path}/audit"),
        db.ask_covey("DELETE", path),
    ]
    assert [answer.status_code for answer in answers] == [404] * 4, [answer.text for answer in answers]


def _refused_policies_leave_no_group(web: Team) -> None:
    said = web.client.refusal("server group create --policy anti-affinity:nowhere lost")
    assert "No server group was created" in said, said
    assert [row["Name"] for row in web.client.json("server group list")] == ["web"]


def _in_nova(tenant: Tenant, group: str) -> dict[str, object]:
    answer = tenant.cloud.compute.get(f"/os-server-groups/{group}", microversion="2.64")
    found: dict[str, object] = answer.json()["server_group"]
    return found


def _teams(lab: Lab) -> list[Team]:
    for name, password in _PASSWORDS.items():
        lab.keystone.create_project(name)
        lab.keystone.create_user(name, password, name, "member")
    directory = lab.directory / "teams"
    directory.mkdir()
    users = {name: (name, password, name) for name, password in _PASSWORDS.items()}
    lab.keystone.clouds_yaml(directory / "clouds.yaml", users)
    return [Team(lab, name, directory / "clouds.yaml") for name in _PASSWORDS]


def _mirror(lab: Lab) -> None:
    """Mirror Nova once: a preview needs its flavors and its compute nodes."""
    token = lab.keystone.session("admin", lab.keystone.admin_password, "admin").get_token()
    where = ("--url", f"http://127.0.0.1:{lab.nova_port}/v2.1", "--token", str(token))
    options = [option for option in lab.covey_options if option != "--fleet" and not option.endswith("fleet.yaml")]
    done = covey(lab.directory, "sync", "nova", "--once", *where, *options)
    assert done.status == 0, done.stderr
