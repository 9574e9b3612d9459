"""The dashboard in a real browser: maps, rebalances, refusals, clusters, and tenant isolation."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests
from playwright.sync_api import Browser, expect

from tests.acceptance import storm
from tests.acceptance.browser import Tab, chromium, signed_in_tab
from tests.acceptance.processes import Cloud, Covey, running_covey

pytestmark = pytest.mark.needs_program("chromium")

GROUPS = "/compute/v2.1/os-server-groups"
SERVERS = "/compute/v2.1/servers"
# Slow steps, so that the page shows progress.
VARIABLES = {f"OS_QUOTA__{name}": limit for name, limit in storm.UNLIMITED.items()} | {
    "OS_DRIVER__LATENCY_S": "0.2",
    "OS_WORKER__POLL_INTERVAL_S": "0.05",
}


@dataclass(frozen=True)
class Caller:
    """A user of the demo, by HTTP."""

    covey: Covey
    name: str

    @property
    def password(self) -> str:
        return Cloud(self.covey.directory / "data" / "clouds.yaml", self.name).credentials()["password"]

    def ask(self, method: str, path: str, body: object = None) -> Any:
        apis = {"clustering": "clustering 1.14", "placement": "placement 1.39"}
        api = apis.get(path.split("/")[1], "compute 2.1000")
        answer = requests.request(
            method,
            f"{self.covey.url}{path}",
            json=body,
            auth=(self.name, self.password),
            headers={"OpenStack-API-Version": api},
            timeout=60,
        )
        assert answer.ok, answer.text
        return answer.json() if answer.content else None

    def group(self, name: str, *policies: str) -> str:
        made = self.ask("POST", GROUPS, {"server_group": {"name": name, "policies": policies}})
        return str(made["server_group"]["id"])

    def boot(self, name: str, count: int, group: str | None = None) -> None:
        """Boot servers, and wait until they run."""
        flavors = self.ask("GET", "/compute/v2.1/flavors")["flavors"]
        images = self.ask("GET", "/image/v2/images")["images"]
        flavor = next(each["id"] for each in flavors if each["name"] == "small")
        body: dict[str, Any] = {
            "server": {
                "name": name,
                "flavorRef": flavor,
                "imageRef": next(each["id"] for each in images if each["name"] == "linux-server"),
                "networks": "none",
                "min_count": count,
                "max_count": count,
            }
        }
        hints = {} if group is None else {"os:scheduler_hints": {"group": group}}
        self.ask("POST", SERVERS, body | hints)
        storm.wait_until(lambda: not self.ask("GET", f"{SERVERS}?status=BUILD")["servers"], f"{name} runs")


@dataclass(frozen=True)
class DemoCloud:
    """A demo with servers: a group with violations, a full group, and a group without any."""

    covey: Covey
    together: str  # anti-affinity, and all members on one host
    full: str
    loose: str

    def caller(self, name: str) -> Caller:
        return Caller(self.covey, name)


@pytest.fixture(scope="module")
def demo_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoCloud]:
    arguments = ("demo", "--data-dir", "data")
    with running_covey(tmp_path_factory.mktemp("dashboard"), *arguments, variables=VARIABLES) as covey:
        demo = Caller(covey, "demo")
        together, full = demo.group("database", "affinity"), demo.group("quorum", "anti-affinity:switch")
        loose = demo.group("web", "soft-anti-affinity:rack")
        demo.boot("db", 4, together)
        demo.boot("vote", 4, full)
        demo.boot("web", 9, loose)
        demo.boot("alone", 6)
        Caller(covey, "other").boot("batch", 12)
        demo.ask("PUT", f"{GROUPS}/{together}", {"server_group": {"policies": ["anti-affinity:rack"]}})
        yield DemoCloud(covey, together, full, loose)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def signed_in(demo_cloud: DemoCloud, browser: Browser, request: pytest.FixtureRequest) -> Iterator[Tab]:
    """Return the tab of the user that the test names."""
    caller = demo_cloud.caller(request.param)
    with signed_in_tab(browser, demo_cloud.covey.url, caller.name, caller.password) as tab:
        yield tab


operator = pytest.mark.parametrize("signed_in", ["admin"], indirect=True, ids=["operator"])
tenant = pytest.mark.parametrize("signed_in", ["demo"], indirect=True, ids=["tenant"])


def test_wrong_password_is_reported_on_the_form(demo_cloud: DemoCloud, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(f"{demo_cloud.covey.url}/dashboard")
    tab = Tab(demo_cloud.covey.url, page)
    page.get_by_label("Name").fill("admin")
    page.get_by_label("Password").fill("not this one")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("password is wrong")
    tab.pictures("sign-in")
    page.close()


@operator
def test_map_shows_every_host_by_mouse_keyboard_and_screen_reader(signed_in: Tab) -> None:
    page = signed_in.page
    expect(page.get_by_text("24 hosts, 35 servers")).to_be_visible()
    page.get_by_label("Group by").select_option("rack")
    page.get_by_label("Find").fill("node-07")
    expect(page.get_by_text("1 host found")).to_be_visible()
    page.get_by_label("Find").fill("")
    signed_in.pictures("fleet")
    chart = page.get_by_role("application", name="Map of the fleet")
    chart.focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("status").filter(has_text="rack: rack-1")).to_have_count(1)
    page.get_by_text("Show as a table").click()
    expect(page.get_by_role("table").locator("tbody tr")).to_have_count(8)
    chart.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="node-01")).to_be_visible()
    expect(page.get_by_text("of 128", exact=False).first).to_be_visible()
    signed_in.pictures("host")
    signed_in.open("health")
    expect(page.get_by_text("All 24 hosts are up and enabled.")).to_be_visible()
    signed_in.pictures("health")


@operator
def test_map_and_host_page_show_custom_resource_classes(signed_in: Tab, demo_cloud: DemoCloud) -> None:
    admin, page = demo_cloud.caller("admin"), signed_in.page
    admin.ask("PUT", "/placement/resource_classes/CUSTOM_GPU")
    (host,) = admin.ask("GET", "/placement/resource_providers?name=node-01")["resource_providers"]
    body = {"resource_provider_generation": host["generation"], "total": 6, "resource_class": "CUSTOM_GPU"}
    admin.ask("POST", f"/placement/resource_providers/{host['uuid']}/inventories", body)
    signed_in.open("fleet")
    page.get_by_label("Color by").select_option("CUSTOM_GPU")
    page.get_by_text("Show as a table").click()
    expect(page.get_by_role("columnheader", name="CUSTOM_GPU used")).to_be_visible()
    signed_in.open("hosts/node-01")
    expect(page.get_by_text("0 of 6")).to_be_visible()


@operator
def test_rebalance_removes_a_violation_without_a_reload(signed_in: Tab, demo_cloud: DemoCloud) -> None:
    page = signed_in.page
    page.evaluate("window.sameDocument = true")
    page.get_by_role("complementary", name="Legend").get_by_role("link", name=re.compile("violation")).click()
    expect(page.get_by_role("heading", name="Rebalance database")).to_be_visible()
    expect(page.get_by_text("Plan: 3 moves")).to_be_visible()
    expect(page.get_by_text("After, by rack")).to_be_visible()
    signed_in.pictures("rebalance-plan")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text(re.compile("of 3 moves done"))).to_be_visible()
    expect(page.get_by_text("The group has no violations.")).to_be_visible()
    expect(page.get_by_text("3 of 3 moves done")).to_be_visible()
    signed_in.pictures("rebalance-done")
    page.get_by_role("link", name="Fleet").click()
    expect(page.get_by_role("button", name="database")).to_be_visible()
    expect(page.get_by_role("link", name=re.compile("violation"))).to_have_count(0)
    assert page.evaluate("window.sameDocument")
    audit = demo_cloud.caller("admin").ask("GET", f"{GROUPS}/{demo_cloud.together}/audit?violations=true")
    assert audit["server_group_policy_audit"]["violations"] == []
    signed_in.open("rebalance")
    expect(page.get_by_text("No group violates a hard policy.")).to_be_visible()
    signed_in.pictures("rebalance")


@tenant
def test_tenant_sees_why_a_full_group_refuses_a_server(signed_in: Tab, demo_cloud: DemoCloud) -> None:
    page = signed_in.page
    signed_in.open(f"groups/{demo_cloud.full}")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("0 of 3 fit")).to_be_visible()
    page.get_by_role("link", name="Boot a member").click()
    page.get_by_label("Name").fill("fifth")
    page.get_by_label("Image").select_option("linux-server")
    signed_in.pictures("boot")
    page.get_by_role("button", name="Boot").click()
    expect(page.get_by_role("heading", name="fifth")).to_be_visible()
    expect(page.get_by_text("hosts in total")).to_be_visible()
    expect(page.get_by_text("The server would fit if 1 more were allowed behind one switch.")).to_be_visible()
    counts = [int(text) for text in page.locator(".reasons li:not(.sum) .number").all_text_contents()]
    assert sum(counts) == 24
    signed_in.pictures("server-refused")
    signed_in.open("servers")
    expect(page.get_by_role("region", name="Refused servers").get_by_role("link", name="fifth")).to_be_visible()
    signed_in.pictures("servers")
    page.get_by_role("region", name="Servers", exact=True).get_by_role("link", name="alone-1").click()
    expect(page.get_by_text("Host id:")).to_be_visible()
    signed_in.pictures("server-placed")


@tenant
def test_policy_editor_previews_violations_before_saving(signed_in: Tab, demo_cloud: DemoCloud) -> None:
    page = signed_in.page
    signed_in.open(f"groups/{demo_cloud.loose}")
    page.get_by_role("button", name="Edit policies").click()
    expect(page.get_by_text("as few as possible in one rack")).to_have_count(2)
    page.get_by_label("Type").select_option("anti-affinity")
    preview = page.get_by_role("status", name="Preview")
    expect(preview).to_contain_text("at most 1 in one rack")
    expect(preview).to_contain_text("would cause")
    signed_in.pictures("group-edited")
    page.get_by_label("Limit").fill("2")
    expect(preview).to_contain_text("would not violate these policies")
    kept = demo_cloud.caller("demo").ask("GET", f"{GROUPS}/{demo_cloud.loose}")["server_group"]["policies"]
    assert kept == ["soft-anti-affinity:rack"]
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".words")).to_have_text("at most 2 in one rack")
    signed_in.pictures("group")


@tenant
def test_cluster_scales_out_by_a_click(signed_in: Tab, demo_cloud: DemoCloud) -> None:
    page, demo = signed_in.page, demo_cloud.caller("demo")
    spec = {"type": "os.nova.server", "version": "1.0", "properties": {"flavor": "small", "image": "linux-server"}}
    profile = demo.ask("POST", "/clustering/v1/profiles", {"profile": {"name": "web", "spec": spec}})["profile"]
    wanted = {"name": "workers", "profile_id": profile["id"], "desired_capacity": 1, "max_size": 2}
    cluster = demo.ask("POST", "/clustering/v1/clusters", {"cluster": wanted})["cluster"]
    signed_in.open("clusters")
    expect(page.get_by_role("region", name="Clusters").get_by_text("ACTIVE")).to_be_visible()
    signed_in.pictures("clusters")
    signed_in.open(f"clusters/{cluster['id']}")
    page.get_by_role("button", name="Add a node").click()
    expect(page.get_by_label("Number of nodes")).to_have_text("2")
    expect(page.get_by_role("region", name="Nodes").get_by_text("ACTIVE")).to_have_count(2)
    expect(page.get_by_role("region", name="Actions").get_by_text("SUCCEEDED")).to_have_count(2)
    page.get_by_role("button", name="Add a node").click()
    expect(page.get_by_text(re.compile("action failed|max"))).not_to_have_count(0)
    signed_in.pictures("cluster")


@tenant
def test_page_polls_without_a_stream_and_retries_after_an_error(signed_in: Tab, demo_cloud: DemoCloud) -> None:
    page = signed_in.page
    page.route("**/dashboard/events", lambda route: route.fulfill(status=503, headers={"Retry-After": "5"}))
    page.route("**/dashboard/data/groups", lambda route: route.abort())
    page.reload()
    signed_in.open("groups")
    expect(page.get_by_text("polling")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    page.unroute("**/dashboard/data/groups")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("link", name="quorum")).to_be_visible()
    name = "<b onmouseover=alert(1)>newcomer</b>"
    demo_cloud.caller("demo").group(name, "affinity:rack")
    expect(page.get_by_role("link", name=name)).to_be_visible()
    signed_in.complaints.clear()  # the browser reports the failures that this test causes


def _has_received(tab: Tab, thing: str) -> bool:
    tab.page.wait_for_timeout(100)  # lets the browser deliver events
    return thing in "".join(tab.heard)


@tenant
def test_no_page_discloses_the_topology_to_a_tenant(signed_in: Tab, demo_cloud: DemoCloud) -> None:
    demo, other = demo_cloud.caller("demo"), demo_cloud.caller("other")
    own = [each["id"] for each in demo.ask("GET", f"{SERVERS}?limit=3")["servers"]]
    expect(signed_in.page.get_by_text("live", exact=True)).to_be_visible()
    other.boot("batch-new", 1)
    demo.boot("mine", 1)
    mine = demo.ask("GET", f"{SERVERS}?name=mine")["servers"][0]["id"]
    others = [each["id"] for each in other.ask("GET", SERVERS)["servers"]]
    for server in others[1], mine:
        demo_cloud.caller("admin").ask("POST", f"{SERVERS}/{server}/action", {"migrate": None})
    storm.wait_until(lambda: _has_received(signed_in, mine), "an event of a server that an operator migrates")
    pages = ["fleet", "fleet?scope=host", "groups", "servers", "rebalance", "clusters", "boot", "health"]
    pages += ["hosts/node-01", f"groups/{demo_cloud.full}", f"rebalance/{demo_cloud.together}"]
    pages += [f"servers/{server}" for server in (*own, others[0])]
    for where in pages:
        signed_in.open(where)
        if where in {"groups", "fleet"}:
            signed_in.pictures(f"tenant-{where}")
    received = signed_in.received()
    for shown in (*own, "at most 1 behind one switch", '"smallest_changes"', '"moves"'):
        assert shown in received
    for secret in (r"node-\d\d\b", r"rack-\d", r"switch-\d", r"mz-\d", r"batch-\w", *others[1:]):
        assert not re.search(secret, received), secret
    signed_in.complaints.clear()  # the browser reports the 404 of another project's server
