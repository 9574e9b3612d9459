"""The dashboard of a Nova cloud, and drains, in a real browser."""

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from covey import clock_and_ids
from covey.model.agents import AgentState, CallState, NewCall, Registration, Report, Verb
from covey.model.hosts import NewHost
from covey.model.ids import HostId, ServerId, UserId
from covey.model.nova import NovaHost, NovaServer
from covey.storage import engine
from covey.storage.store import Store
from tests.acceptance import storm
from tests.acceptance.browser import Tab, chromium, signed_in_tab
from tests.acceptance.processes import Covey, running_covey
from tests.acceptance.test_dashboard import SERVERS, VARIABLES, Caller

pytestmark = pytest.mark.needs_program("chromium")

GROUP = str(uuid.UUID(int=77))
URL = "http://nova.example.org/v2.1"
CROWD = 24  # servers that leave four at a time, so that a drain of them takes a while
SLOW = VARIABLES | {"OS_DRIVER__LATENCY_S": "1.0"}
RACKS = {"cn-1": "rack-1", "cn-2": "rack-1", "cn-3": "rack-2", "cn-4": "rack-2"}


@dataclass(frozen=True)
class NovaCloud:
    """A demo that is also the Placement service of a Nova: computes in racks, a group with a violation, a refusal."""

    covey: Covey
    placed: list[str]
    refused: str

    def caller(self, name: str) -> Caller:
        return Caller(self.covey, name)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NovaCloud]:
    arguments = ("demo", "--data-dir", "data")
    with running_covey(tmp_path_factory.mktemp("nova"), *arguments, variables=SLOW) as covey:
        admin, demo = Caller(covey, "admin"), Caller(covey, "demo")
        computes = {name: add_compute(admin, name, rack) for name, rack in RACKS.items()}
        owner = demo.ask("GET", "/dashboard/data/me")
        placed = [str(uuid.uuid4()) for _ in range(3)]
        for instance, name in zip(placed, RACKS, strict=False):
            rank(admin, computes, instance, "soft-anti-affinity", owner)
            claim(admin, instance, computes[name], owner)
        policies = {"server_group": {"policies": ["anti-affinity:rack"]}}
        demo.ask("PUT", f"/compute/v2.1/os-server-groups/{GROUP}", policies)
        refused = str(uuid.uuid4())
        assert rank(admin, computes, refused, "soft-anti-affinity", owner)["hosts"] == []
        mirror(
            covey, computes, {**dict(zip(placed, ("web-1", "web-2", "web-3"), strict=True)), refused: "web-4"}, owner
        )
        demo.boot("own", 6)
        yield NovaCloud(covey, placed, refused)


def add_compute(admin: Caller, name: str, rack: str) -> str:
    """Register a compute node in a rack, as nova-compute does."""
    aggregates = admin.ask("GET", "/compute/v2.1/os-aggregates")["aggregates"]
    key = str(admin.ask("POST", "/placement/resource_providers", {"name": name})["uuid"])
    amounts = {"VCPU": 16, "MEMORY_MB": 32768, "DISK_GB": 500}
    inventories = {kind: {"total": total} for kind, total in amounts.items()}
    path = f"/placement/resource_providers/{key}"
    admin.ask("PUT", f"{path}/inventories", {"inventories": inventories, "resource_provider_generation": 0})
    mine = [each["uuid"] for each in aggregates if each["name"] == rack]
    admin.ask("PUT", f"{path}/aggregates", {"aggregates": mine, "resource_provider_generation": 1})
    return key


def rank(admin: Caller, computes: dict[str, str], instance: str, policy: str, owner: dict[str, Any]) -> Any:
    """Ask for hosts, as the filter in nova-scheduler does."""
    group = {"uuid": GROUP, "policy": policy, "members": [], "name": "shop", **_ids(owner)}
    body = {"group": group, "hosts": [*computes.values()], "instance_uuid": instance}
    return admin.ask("POST", "/placement/host_rankings", body)


def claim(admin: Caller, instance: str, compute: str, owner: dict[str, Any]) -> None:
    allocations = {compute: {"resources": {"VCPU": 4, "MEMORY_MB": 8192, "DISK_GB": 40}}}
    body = {"allocations": allocations, "consumer_generation": None, "consumer_type": "INSTANCE", **_ids(owner)}
    admin.ask("PUT", f"/placement/allocations/{instance}", body)


def mirror(covey: Covey, computes: dict[str, str], names: dict[str, str], owner: dict[str, Any]) -> None:
    """Write what `covey sync nova` reads: cn-2 is disabled, cn-4 is down, the server web-4 is in ERROR."""
    hosts = [
        NovaHost(key, name, name, "az-9", name == "cn-2", "broken fan" if name == "cn-2" else None, name != "cn-4")
        for name, key in computes.items()
    ]
    servers = [
        NovaServer(key, name, owner["project_id"], "someone", "ERROR" if name == "web-4" else "ACTIVE", None)
        for key, name in names.items()
    ]
    connected = engine.connect(f"sqlite:///{covey.directory / 'data' / 'covey.sqlite'}")
    with Store(connected).write() as tx:
        tx.nova_mirror.set_hosts({each.uuid: each for each in hosts})
        tx.nova_mirror.set_servers({each.id: each for each in servers})
        tx.nova_mirror.set_read(URL, clock_and_ids.now())
    connected.dispose()


def _ids(owner: dict[str, Any]) -> dict[str, str]:
    return {"project_id": owner["project_id"], "user_id": "someone"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def signed_in(cloud: NovaCloud, browser: Browser, request: pytest.FixtureRequest) -> Iterator[Tab]:
    caller = cloud.caller(request.param)
    with signed_in_tab(browser, cloud.covey.url, caller.name, caller.password) as tab:
        yield tab


operator = pytest.mark.parametrize("signed_in", ["admin"], indirect=True, ids=["operator"])
tenant = pytest.mark.parametrize("signed_in", ["demo"], indirect=True, ids=["tenant"])


@operator
def test_map_has_compute_nodes_of_nova_in_their_racks(signed_in: Tab, cloud: NovaCloud) -> None:
    page = signed_in.page
    expect(page.get_by_text("28 hosts, 9 servers")).to_be_visible()
    page.get_by_label("Group by").select_option("rack")
    expect(page.get_by_role("link", name=re.compile("1 violation"))).to_be_visible()
    page.get_by_label("Find").fill("cn-2")
    expect(page.get_by_text("1 host found")).to_be_visible()
    signed_in.pictures("nova-fleet")
    signed_in.open("hosts/cn-2")
    expect(page.get_by_role("heading", name="cn-2")).to_be_visible()
    expect(page.get_by_text("broken fan")).to_be_visible()
    expect(page.get_by_role("link", name="web-2")).to_be_visible()
    signed_in.pictures("nova-host")
    signed_in.open(f"groups/{GROUP}")
    expect(page.get_by_role("heading", name="shop")).to_be_visible()
    expect(page.get_by_text("2 members are in one rack; the limit is 1")).to_be_visible()
    signed_in.pictures("nova-group")
    page.get_by_role("link", name="Plan a rebalance").click()
    expect(page.get_by_role("heading", name="Rebalance shop")).to_be_visible()
    expect(page.get_by_text("No moves can remove these violations", exact=False)).to_be_visible()
    signed_in.open(f"groups/{GROUP}")
    page.get_by_role("link", name="web-1").first.click()
    expect(page.get_by_text("in Nova")).to_be_visible()
    expect(page.get_by_role("link", name="cn-1")).to_be_visible()
    signed_in.open(f"servers/{cloud.refused}")
    expect(page.get_by_text("already hold 1 of the group in their rack", exact=False).first).to_be_visible()


@operator
def test_health_shows_the_mirror_of_nova(signed_in: Tab) -> None:
    page = signed_in.page
    signed_in.open("health")
    expect(page.get_by_role("heading", name="Mirror of Nova")).to_be_visible()
    expect(page.get_by_text(URL)).to_be_visible()
    expect(page.get_by_text("its compute service in Nova is down")).to_be_visible()
    expect(page.get_by_text("broken fan")).to_be_visible()
    signed_in.pictures("nova-health")


@tenant
def test_tenant_sees_why_nova_found_no_host_and_no_compute_node(signed_in: Tab) -> None:
    page = signed_in.page
    signed_in.open("servers")
    refused = page.get_by_role("region", name="Refused servers")
    expect(refused.get_by_role("link", name="web-4")).to_be_visible()
    expect(page.get_by_role("region", name="Servers in Nova").get_by_role("link", name="web-1")).to_be_visible()
    signed_in.pictures("nova-servers")
    refused.get_by_role("link", name="web-4").click()
    expect(page.get_by_text("The policies of its server group admit no host", exact=False)).to_be_visible()
    expect(page.get_by_text("hosts in total")).to_be_visible()
    signed_in.pictures("nova-refusal")
    signed_in.open("fleet")
    signed_in.open(f"groups/{GROUP}")
    expect(page.get_by_role("link", name="web-1").first).to_be_visible()
    found = [name for name in RACKS if name in signed_in.received()]
    assert not found


@operator
def test_drain_is_planned_started_and_undone(signed_in: Tab, cloud: NovaCloud) -> None:
    page = signed_in.page
    server = cloud.caller("admin").ask("GET", "/compute/v2.1/servers/detail?all_tenants=1&limit=1")["servers"][0]
    host = server["OS-EXT-SRV-ATTR:host"]
    signed_in.open(f"hosts/{host}")
    page.get_by_role("link", name="Drain", exact=True).click()
    expect(page.get_by_role("heading", name=re.compile(f"moves? to empty host {host}"))).to_be_visible()
    expect(page.get_by_text("All servers can be moved.")).to_be_visible()
    signed_in.pictures("drain-plan")
    page.get_by_role("button", name="Start drain").click()
    expect(page.get_by_role("heading", name=f"Drain of host {host}")).to_be_visible()
    expect(page.locator(".heading").get_by_text("done", exact=True)).to_be_visible()
    signed_in.pictures("drain-done")
    on_host = cloud.caller("admin").ask("GET", f"/compute/v2.1/servers?all_tenants=1&host={host}")["servers"]
    assert on_host == []
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".heading").get_by_text("undone", exact=True)).to_be_visible()
    assert {each["status"] for each in _services(cloud, host)} == {"enabled"}


@operator
def test_running_drain_of_a_rack_is_cancelled(signed_in: Tab, cloud: NovaCloud) -> None:
    page = signed_in.page
    fill(cloud.caller("admin"), "node-24", CROWD)
    signed_in.open("fleet?scope=rack")
    page.get_by_text("Show as a table").click()
    page.get_by_role("row", name=re.compile("^rack-8")).get_by_role("link", name="Drain").click()
    expect(page.get_by_role("heading", name=re.compile(r"^Plan: \d+ moves to empty rack rack-8$"))).to_be_visible()
    page.get_by_role("button", name="Start drain").click()
    expect(page.get_by_role("heading", name="Drain of rack rack-8")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".heading").get_by_text("cancelled", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    page.get_by_role("link", name="All drains").click()
    expect(page.get_by_role("row", name=re.compile("rack rack-8 cancelled"))).to_be_visible()
    signed_in.pictures("drains")


def fill(admin: Caller, host: str, count: int) -> None:
    """Boot servers on one host, and wait until they run."""
    flavors = admin.ask("GET", "/compute/v2.1/flavors")["flavors"]
    server = {
        "name": "crowd",
        "flavorRef": next(each["id"] for each in flavors if each["name"] == "small"),
        "imageRef": next(
            i["id"] for i in admin.ask("GET", "/image/v2/images")["images"] if i["name"] == "linux-server"
        ),
        "networks": "none",
        "availability_zone": f"nova:{host}",
        "min_count": count,
    }
    admin.ask("POST", SERVERS, {"server": server})
    storm.wait_until(lambda: not admin.ask("GET", f"{SERVERS}?status=BUILD&all_tenants=1")["servers"], "they run")


@operator
def test_health_shows_agents_and_running_migrations(signed_in: Tab, cloud: NovaCloud) -> None:
    admin = cloud.caller("admin")
    hosts = {name: add_host_with_agent(cloud.covey, name) for name in ("real-1", "real-2")}
    migrating = add_migration(cloud.covey, hosts["real-1"], "real-2", percent=40)
    page = signed_in.page
    signed_in.open("fleet")
    signed_in.open("health")
    agents = page.get_by_role("table", name="Agents")
    expect(agents.get_by_role("row", name=re.compile(r"real-1 up [0-9.]+ s ago QEMU 1\.0"))).to_be_visible()
    expect(agents.get_by_role("row", name=re.compile("real-2 up"))).to_be_visible()
    running = page.get_by_role("table", name="Running migrations")
    expect(running.get_by_role("row", name=re.compile(f"{migrating} real-1 real-2 live .*40 %"))).to_be_visible()
    expect(running.get_by_role("progressbar")).to_have_attribute("value", "40")
    expect(page.get_by_text("Agents up")).to_be_visible()
    signed_in.pictures("agents-health")
    for host in hosts:
        admin.ask("DELETE", f"/compute/v2.1/os-services/{service_of(admin, host)}")


def service_of(admin: Caller, host: str) -> str:
    (found,) = admin.ask("GET", f"/compute/v2.1/os-services?host={host}")["services"]
    return str(found["id"])


def add_host_with_agent(covey: Covey, name: str) -> HostId:
    """Write what the registration of an agent writes, and its report that it is up."""
    connected = engine.connect(f"sqlite:///{covey.directory / 'data' / 'covey.sqlite'}")
    with Store(connected).write() as tx:
        tx.hosts.add([NewHost(clock_and_ids.new_uuid(), name, {})], clock_and_ids.now())
        host = tx.hosts.by_name(name)
        assert host is not None
        tx.agents.add(host.id, UserId(name), Registration("QEMU", "1.0", "10.0.0.1", frozenset(), None))
        tx.agents.set_state(host.id, AgentState.UP)
    connected.dispose()
    return host.id


def add_migration(covey: Covey, source: HostId, destination: str, percent: int) -> str:
    """Write a call of a live migration, which its agent has reported so far. Return the server's id."""
    server = ServerId(str(uuid.uuid4()))
    arguments = {"live": True, "destination": {"name": destination, "address": destination}}
    connected = engine.connect(f"sqlite:///{covey.directory / 'data' / 'covey.sqlite'}")
    with Store(connected).write() as tx:
        (call,) = tx.agent_calls.add([NewCall(source, server, None, Verb.MIGRATE, 7, arguments, {})], 60)
        report = Report(7, CallState.RUNNING, {"percent": percent})
        assert tx.agent_calls.report([(call, "real-1", UserId("real-1"), report)], 60) == [False]
    connected.dispose()
    return server


def _services(cloud: NovaCloud, host: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cloud.caller("admin").ask("GET", f"/compute/v2.1/os-services?host={host}")["services"]
    return found
