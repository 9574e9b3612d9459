"""`covey sync nova` mirrors a cloud over the Compute API. A second Covey is the Nova: it serves the same API."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests

from covey import clock_and_ids, remote_api
from covey.model.errors import ReadOnly, Unavailable
from covey.model.flavors import FlavorFilter
from covey.model.ids import FlavorId, GroupId, ScopeId
from covey.model.nova import NovaKind, NovaServer
from covey.model.scopes import Scope
from covey.services.nova_sync import NovaSync
from covey.services.nova_sync.nova import Nova
from covey.services.overview import get_overview
from covey.storage.store import Store
from tests.acceptance.processes import (
    BESIDE_PYTHON,
    START_TIMEOUT_S,
    STOP_TIMEOUT_S,
    Covey,
    covey,
    environment,
    free_port,
    running_covey,
)
from tests.acceptance.rabbitmq import running_rabbitmq
from tests.build import a_host

TOKEN = "admin"
OPTIONS = "[api]\nauth_strategy = none\n[log]\nlevel = warning\n"
SPECS = {"quota:cpu_shares": "64", "trait:CUSTOM_SSD": "required", "trait:CUSTOM_OLD": "forbidden"}
FLEET = f"""
hosts:
  - {{name: "node-[1-3]", vcpus: 8, memory_mb: 8192, disk_gb: 100, zone: az-1, traits: [CUSTOM_SSD]}}
scopes:
  - {{name: rack}}
aggregates:
  - {{name: fast, hosts: [node-1], metadata: {{ssd: "true"}}}}
flavors:
  - {{id: "1", name: small, vcpus: 1, memory_mb: 512, disk_gb: 1, extra_specs: {json.dumps(SPECS)}}}
images:
  - {{name: linux}}
"""


@dataclass
class Cloud:
    """The service that stands for Nova."""

    running: Covey

    @property
    def url(self) -> str:
        return f"{self.running.url}/compute/v2.1"

    def call(self, method: str, path: str, body: object = None, version: str = "2.90") -> Any:
        answer = self._answer(method, path, body, version)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def refusal(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        """Return the status and the message of a request that fails."""
        answer = self._answer(method, path, body, "2.90")
        (error,) = answer.json().values()
        return answer.status_code, error["message"]

    def _answer(self, method: str, path: str, body: object, version: str) -> requests.Response:
        headers = {"X-Auth-Token": TOKEN, "OpenStack-API-Version": f"compute {version}"}
        return requests.request(method, self.url + path, json=body, headers=headers, timeout=30)

    def aggregate(self, name: str, **metadata: str) -> dict[str, Any]:
        """Create an aggregate, or set its metadata."""
        found = {each["name"]: each for each in self.call("GET", "/os-aggregates")["aggregates"]}
        if name not in found:
            self.call("POST", "/os-aggregates", {"aggregate": {"name": name}})
            return self.aggregate(name, **metadata)
        action = {"set_metadata": {"metadata": metadata}}
        changed: dict[str, Any] = self.call("POST", f"/os-aggregates/{found[name]['id']}/action", action)["aggregate"]
        return changed

    def group(self, name: str, policy: str = "anti-affinity") -> str:
        body = {"server_group": {"name": name, "policy": policy}}
        created: str = self.call("POST", "/os-server-groups", body)["server_group"]["id"]
        return created

    def boot(self, name: str, group: str | None = None) -> str:
        listed = requests.get(f"{self.running.url}/image/v2/images", headers={"X-Auth-Token": TOKEN}, timeout=30)
        image = listed.json()["images"][0]["id"]
        server = {"name": name, "flavorRef": "1", "imageRef": image, "networks": "none"}
        body = {"server": server, **({"os:scheduler_hints": {"group": group}} if group else {})}
        created: str = self.call("POST", "/servers", body)["server"]["id"]
        return created


@pytest.fixture(scope="module")
def nova(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    directory = tmp_path_factory.mktemp("nova")
    (directory / "covey.conf").write_text(OPTIONS)
    (directory / "fleet.yaml").write_text(FLEET)
    serve = ("serve", "--config-file", "covey.conf", "--fleet", "fleet.yaml", "--database", "sqlite:///nova.sqlite")
    with running_covey(directory, *serve) as running:
        yield Cloud(running)


@pytest.fixture
def mirror(nova: Cloud, store: Store) -> NovaSync:
    return NovaSync(store, Nova(remote_api.connect("compute", url=nova.url, token=TOKEN)), clock_and_ids.now)


def rows(store: Store) -> Any:
    """Return hosts, servers, aggregates, flavors and groups of the mirror, by name."""
    with store.read() as tx:
        return {
            "hosts": {each.name: each for each in tx.nova_mirror.hosts().values()},
            "servers": {each.name: each for each in tx.nova_mirror.servers().values()},
            "aggregates": {each.name: each for each in tx.aggregates.all()},
            "flavors": {each.name: each for each in tx.flavors.find(FlavorFilter(is_public=None))},
            "groups": {each.name: each for each in tx.groups.find(None)},
        }


def test_cloud_is_mirrored(nova: Cloud, mirror: NovaSync, store: Store) -> None:
    name = clock_and_ids.random_uuid()  # the cloud is that of all tests
    group = nova.group(name, "soft-anti-affinity")
    server = nova.boot(name, group)
    uuid = nova.aggregate("fast")["uuid"]
    report = mirror.run()
    found = rows(store)
    assert report.counts["hosts"] == len(found["hosts"]) == 3
    assert (found["hosts"]["node-1"].zone, found["hosts"]["node-1"].up) == ("az-1", True)
    assert (found["aggregates"]["fast"].uuid, found["aggregates"]["fast"].metadata) == (uuid, {"ssd": "true"})
    assert (found["flavors"]["small"].memory_mb, found["flavors"]["small"].extra_specs) == (
        512,
        SPECS,
    )
    mirrored = found["servers"][name]
    assert (mirrored.id, mirrored.locked, mirrored.zone) == (server, False, None)
    assert mirrored.traits == "!CUSTOM_OLD,CUSTOM_SSD"
    assert found["groups"][name].id == group
    with store.read() as tx:
        assert tx.group_consumers.members(GroupId(group)) == [server]


def test_run_without_a_change_writes_nothing(mirror: NovaSync) -> None:
    mirror.run()
    assert mirror.run().changes == 0


def test_changes_and_deletions_are_mirrored(nova: Cloud, mirror: NovaSync, store: Store) -> None:
    nova.aggregate("temporary")
    group, server = nova.group("short"), nova.boot("short-1")
    service = nova.call("GET", "/os-services?host=node-3")["services"][0]["id"]
    mirror.run()
    found = nova.call("GET", "/os-aggregates")["aggregates"]
    temporary = next(each["id"] for each in found if each["name"] == "temporary")
    nova.call("DELETE", f"/os-aggregates/{temporary}")
    nova.call("DELETE", f"/os-server-groups/{group}")
    nova.call("DELETE", f"/servers/{server}")
    nova.call("PUT", f"/os-services/{service}", {"status": "disabled", "disabled_reason": "repair"})
    nova.aggregate("fast", ssd="false", availability_zone="az-1")
    mirror.run()
    mirrored = rows(store)
    assert "temporary" not in mirrored["aggregates"]
    assert "short" not in mirrored["groups"]
    assert (mirrored["hosts"]["node-3"].disabled, mirrored["hosts"]["node-3"].disabled_reason) == (True, "repair")
    assert (mirrored["aggregates"]["fast"].metadata, mirrored["aggregates"]["fast"].zone) == ({"ssd": "false"}, "az-1")
    nova.call("PUT", f"/os-services/{service}", {"status": "enabled"})


def test_reading_of_changes_keeps_other_servers_until_the_next_full_one(
    nova: Cloud, mirror: NovaSync, store: Store
) -> None:
    nova.boot(clock_and_ids.random_uuid())
    mirror.run()
    phantom = NovaServer(clock_and_ids.random_uuid(), "phantom", "web", "alice", "ACTIVE", None)
    with store.write() as tx:
        tx.nova_mirror.change_servers({phantom.id: phantom}, ())
    name = clock_and_ids.random_uuid()
    nova.boot(name)
    assert mirror.run().changes >= 1
    assert {name, "phantom"} <= rows(store)["servers"].keys()
    mirror.full_interval = timedelta()
    mirror.run()
    assert name in rows(store)["servers"]
    assert "phantom" not in rows(store)["servers"]


def test_server_that_a_reading_of_changes_shows_as_deleted_is_deleted(store: Store) -> None:
    servers = {each: NovaServer(each, each, "web", "alice", "ACTIVE", None) for each in ("kept", "gone")}
    with store.write() as tx:
        tx.nova_mirror.set_servers(servers)
        assert tx.nova_mirror.change_servers({}, ["gone", "unknown"]) == 1
        assert tx.nova_mirror.servers().keys() == {"kept"}


def test_exchanged_names_are_mirrored(nova: Cloud, mirror: NovaSync, store: Store) -> None:
    one, two = nova.aggregate("name-a"), nova.aggregate("name-b")
    flavors = {"exchange-a": "name-a", "exchange-b": "name-b"}
    _add_flavors(nova, flavors)
    mirror.run()
    for aggregate, name in ((one, "name-c"), (two, "name-a"), (one, "name-b")):
        nova.call("PUT", f"/os-aggregates/{aggregate['id']}", {"aggregate": {"name": name}})
    for flavor in flavors:
        nova.call("DELETE", f"/flavors/{flavor}")
    _add_flavors(nova, {"exchange-a": "name-b", "exchange-b": "name-a"})
    mirror.run()
    found = rows(store)
    assert (found["aggregates"]["name-a"].uuid, found["aggregates"]["name-b"].uuid) == (two["uuid"], one["uuid"])
    assert (found["flavors"]["name-a"].id, found["flavors"]["name-b"].id) == ("exchange-b", "exchange-a")
    for flavor in flavors:
        nova.call("DELETE", f"/flavors/{flavor}")


def _add_flavors(nova: Cloud, names: dict[str, str]) -> None:
    for flavor, name in names.items():
        nova.call("POST", "/flavors", {"flavor": {"id": flavor, "name": name, "vcpus": 1, "ram": 512, "disk": 1}})


def test_projects_of_a_private_flavor_are_mirrored(nova: Cloud, mirror: NovaSync, store: Store) -> None:
    def projects() -> list[str]:
        with store.read() as tx:
            return sorted(tx.flavors.access(FlavorId("vip 1")))

    size = {"vcpus": 1, "ram": 512, "disk": 1, "os-flavor-access:is_public": False}
    nova.call("POST", "/flavors", {"flavor": {"id": "vip 1", "name": "vip", **size}})
    path = f"/flavors/{quote('vip 1', safe='')}"
    for project in ("web", "db"):
        nova.call("POST", f"{path}/action", {"addTenantAccess": {"tenant": project}})
    mirror.run()
    assert projects() == ["db", "web"]
    assert mirror.run().changes == 0
    nova.call("POST", f"{path}/action", {"removeTenantAccess": {"tenant": "db"}})
    mirror.full_interval = timedelta()
    assert mirror.run().changes == 1
    assert projects() == ["web"]
    nova.call("DELETE", path)
    mirror.run()
    assert projects() == []


def test_object_with_a_name_that_covey_uses_itself_stops_no_other(nova: Cloud, mirror: NovaSync, store: Store) -> None:
    of_nova, own = nova.aggregate("fast")["uuid"], clock_and_ids.random_uuid()
    nova.aggregate("other")
    with store.write() as tx:
        (key,) = tx.aggregates.add([(own, "fast", None, None)], clock_and_ids.now())
        tx.hosts.add([a_host("node-2")], clock_and_ids.now())
    report = mirror.run()
    found = rows(store)
    assert (found["aggregates"]["fast"].uuid, sorted(found["hosts"])) == (own, ["node-1", "node-3"])
    assert {"other", "small"} <= found["aggregates"].keys() | found["flavors"].keys()
    host, aggregate = report.warnings
    assert host.startswith("The compute node node-2 of Nova (")
    assert "is not mirrored: Covey's own host has its name" in host
    assert f"The aggregate fast of Nova ({of_nova}) is not mirrored: Covey has another one, {own}" in aggregate
    with store.read() as tx:
        state = tx.nova_mirror.state()
    assert state is not None
    assert (state.error, state.warnings) == (None, report.warnings)
    assert aggregate in get_overview(store, "nova").warnings
    with store.write() as tx:
        tx.aggregates.delete([key])
        tx.hosts.delete([host.id for host in tx.hosts.find()])
    assert mirror.run().warnings == ()
    found = rows(store)
    assert (found["aggregates"]["fast"].uuid, len(found["hosts"])) == (of_nova, 3)
    assert not [each for each in get_overview(store, "nova").warnings if "fast" in each]


def test_members_of_a_group_that_nova_deleted_are_in_no_group(nova: Cloud, mirror: NovaSync, store: Store) -> None:
    name = clock_and_ids.random_uuid()
    group = nova.group(name)
    server = nova.boot(name, group)
    mirror.run()
    with store.read() as tx:
        assert tx.group_consumers.find([server])[server].group == group
    nova.call("DELETE", f"/os-server-groups/{group}")
    mirror.run()
    with store.read() as tx:
        assert tx.group_consumers.find([server]) == {}
        assert tx.groups.by_id(group) is None


def test_policy_scope_of_an_aggregate_makes_it_a_domain(nova: Cloud, mirror: NovaSync, store: Store) -> None:
    nova.aggregate("rack-1", policy_scope="rack")
    assert mirror.run().warnings == ("Aggregates of Nova have the policy_scope rack, which is no scope of Covey's.",)
    with store.write() as tx:
        tx.scopes.add([Scope(ScopeId(clock_and_ids.new_uuid()), "rack", True, False, clock_and_ids.random_uuid())])
    assert mirror.run().warnings == ()
    assert rows(store)["aggregates"]["rack-1"].scope_name == "rack"


def test_group_with_a_policy_that_nova_does_not_have_is_left_out(nova: Cloud, mirror: NovaSync, store: Store) -> None:
    name = clock_and_ids.random_uuid()
    body = {"server_group": {"name": name, "policies": ["anti-affinity:rack"]}}
    group = nova.call("POST", "/os-server-groups", body, version="2.1000")["server_group"]["id"]
    expected = "Groups with the policy anti-affinity:rack are not mirrored: Nova has no such policy."
    assert expected in mirror.run().warnings
    assert name not in rows(store)["groups"]
    nova.call("DELETE", f"/os-server-groups/{group}")


def test_object_of_nova_is_read_only(mirror: NovaSync, store: Store) -> None:
    mirror.run()
    aggregate = rows(store)["aggregates"]["fast"]
    with store.read() as tx, pytest.raises(ReadOnly) as refused:
        tx.nova_mirror.reject(NovaKind.AGGREGATE, aggregate.uuid, aggregate.name)
    expected = f"The aggregate fast belongs to Nova: `openstack aggregate` changes it at {mirror.nova.url}."
    assert refused.value.message.startswith(expected)


def test_requests_to_change_what_belongs_to_nova_are_refused(
    nova: Cloud, mirror: NovaSync, database: str, tmp_path: Path
) -> None:
    group = nova.group("kept")
    mirror.run()
    (tmp_path / "covey.conf").write_text(OPTIONS)
    with running_covey(tmp_path, "serve", "--config-file", "covey.conf", "--database", database) as running:
        copy = Cloud(running)
        aggregate = next(a for a in copy.call("GET", "/os-aggregates")["aggregates"] if a["name"] == "fast")
        refusals = [
            copy.refusal("PUT", f"/os-aggregates/{aggregate['id']}", {"aggregate": {"name": "other"}}),
            copy.refusal(
                "POST", f"/os-aggregates/{aggregate['id']}/action", {"set_metadata": {"metadata": {"a": "b"}}}
            ),
            copy.refusal("DELETE", "/flavors/1"),
            copy.refusal("POST", "/flavors/1/os-extra_specs", {"extra_specs": {"a": "b"}}),
            copy.refusal("DELETE", f"/os-server-groups/{group}"),
        ]
        assert [status for status, _ in refusals] == [409] * 5
        *of_operators, of_a_tenant = [message for _, message in refusals]
        assert all(f"at {nova.url}. Covey mirrors it." in message for message in of_operators)
        assert "`openstack server group` changes it. Covey mirrors it." in of_a_tenant
        policies = {"server_group": {"policies": ["anti-affinity"], "rules": {"max_server_per_host": 3}}}
        changed = copy.call("POST", f"/os-server-groups/{group}", policies, "2.1000")["server_group"]
        assert changed["rules"] == {"max_server_per_host": 3}
    assert mirror.run().changes == 0


def test_command_reads_once_and_status_shows_the_age(nova: Cloud, database: str, tmp_path: Path) -> None:
    done = covey(tmp_path, "sync", "nova", "--once", "--url", nova.url, "--token", TOKEN, "--database", database)
    assert done.status == 0, done.stderr
    assert done.stdout.startswith("Mirrored: 3 hosts, ")
    assert f"nova: {nova.url}, read " in covey(tmp_path, "status", "--database", database).stdout


@pytest.mark.sqlite_only
def test_credentials_are_those_of_the_configuration(nova: Cloud, database: str, tmp_path: Path) -> None:
    options = f"[nova]\nauth_type = admin_token\nendpoint = {nova.url}\ntoken = {TOKEN}\n"
    (tmp_path / "covey.conf").write_text(options)
    done = covey(tmp_path, "sync", "nova", "--once", "--config-file", "covey.conf", "--database", database)
    assert (done.status, done.stdout[:18]) == (0, "Mirrored: 3 hosts,"), done.stderr


@pytest.mark.sqlite_only
def test_status_warns_when_nova_was_not_read_for_long(store: Store, database: str, tmp_path: Path) -> None:
    with store.write() as tx:
        tx.nova_mirror.set_read("http://nova.example", clock_and_ids.now() - timedelta(hours=1))
    warnings = json.loads(covey(tmp_path, "status", "--json", "--database", database).stdout)["warnings"]
    assert "Nova was last read 60 minutes ago: is `covey sync nova` running?" in warnings


@pytest.mark.sqlite_only
@pytest.mark.needs_program("rabbitmq")
def test_notification_of_nova_causes_a_reading(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, database: str, store: Store
) -> None:
    with running_rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as broker:
        options = f"[DEFAULT]\ntransport_url = {broker.url}\n{OPTIONS}[notifications]\ndriver = messagingv2\n"
        (tmp_path / "covey.conf").write_text(options)
        (tmp_path / "fleet.yaml").write_text(FLEET)
        serve = ("serve", "--config-file", "covey.conf", "--fleet", "fleet.yaml", "--database", "sqlite:///n.sqlite")
        with running_covey(tmp_path, *serve) as running, syncing(tmp_path, Cloud(running), database):
            wait_for(lambda: "node-1" in rows(store)["hosts"])
            Cloud(running).group("announced")
            wait_for(lambda: "announced" in rows(store)["groups"])


@contextmanager
def syncing(directory: Path, nova: Cloud, database: str) -> Iterator[None]:
    """Run the command with an interval that is longer than the test. SIGTERM must end it with status 0."""
    where = ("--url", nova.url, "--token", TOKEN, "--database", database, "--config-file", "covey.conf")
    process = subprocess.Popen(
        [BESIDE_PYTHON / "covey", "sync", "nova", "--notifications", "--interval", "3600", *where],
        cwd=directory,
        env=environment(directory),
    )
    try:
        yield
        process.terminate()
        assert process.wait(STOP_TIMEOUT_S) == 0
    finally:
        process.kill()
        process.wait()


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_outage_is_recorded_and_the_next_run_resumes(mirror: NovaSync, store: Store) -> None:
    mirror.run()
    away = remote_api.connect("compute", url=f"http://127.0.0.1:{free_port()}/v2.1", token=TOKEN)
    with pytest.raises(Unavailable):
        NovaSync(store, Nova(away), clock_and_ids.now).run()
    with store.read() as tx:
        state = tx.nova_mirror.state()
    assert state is not None
    assert (state.read_at is not None, "cannot be reached" in str(state.error)) == (True, True)
    mirror.run()
    with store.read() as tx:
        state = tx.nova_mirror.state()
    assert state is not None
    assert state.error is None
