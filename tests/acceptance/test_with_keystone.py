"""auth_strategy=keystone with a real Keystone and its catalogue."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from playwright.sync_api import expect

from tests.acceptance.browser import Tab, chromium
from tests.acceptance.clustering_client import clustering
from tests.acceptance.keystone import Keystone, running_keystone
from tests.acceptance.processes import Cloud, Covey, Session, running_covey

PASSWORDS = {"demo": "demo-s-secret", "other": "other-s-secret"}
FLEET = """\
hosts:
  - {name: "host-[1-4]", vcpus: 8, memory_mb: 16384, disk_gb: 100, zone: az-1}
flavors:
  - {name: tiny, vcpus: 1, memory_mb: 512, disk_gb: 1}
images:
  - {name: linux}
"""
TIMEOUT_S = 60


@dataclass(frozen=True)
class Region:
    """A Keystone, and a Covey in its catalogue."""

    keystone: Keystone
    covey: Covey
    clouds: Path
    stop_keystone: Callable[[], None]

    def cloud(self, user: str) -> Cloud:
        return Cloud(self.clouds, user)

    def token(self, user: str) -> str:
        password = PASSWORDS.get(user, self.keystone.admin_password)
        token = self.keystone.session(user, password, user).get_token()
        assert token
        return token

    def get(self, path: str, **headers: str) -> requests.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return requests.get(f"{self.covey.url}{path}", headers=named, timeout=TIMEOUT_S)


@contextmanager
def running_region(directory: Path, keystone: Keystone, stop_keystone: Callable[[], None]) -> Iterator[Region]:
    """Run Covey and a Keystone with two projects and their members, and register Covey in the catalogue."""
    for name, password in PASSWORDS.items():
        keystone.create_project(name)
        keystone.create_user(name, password, name, "member")
    options = "\n".join(f"{name} = {value}" for name, value in keystone.authtoken_options().items())
    config = directory / "covey.conf"
    config.write_text(f"[api]\nauth_strategy = keystone\n\n[keystone_authtoken]\n{options}\n")
    (directory / "fleet.yaml").write_text(FLEET)
    arguments = ("--config-file", str(config), "--database", f"sqlite:///{directory}/covey.sqlite")
    with running_covey(directory / "covey", "serve", "--fleet", str(directory / "fleet.yaml"), *arguments) as covey:
        keystone.register_service("compute", "covey", f"{covey.url}/compute/v2.1")
        keystone.register_service("image", "covey-images", f"{covey.url}/image")
        keystone.register_service("placement", "covey-placement", f"{covey.url}/placement")
        keystone.register_service("clustering", "covey-clustering", f"{covey.url}/clustering")
        users = {name: (name, password, name) for name, password in PASSWORDS.items()}
        keystone.clouds_yaml(directory / "clouds.yaml", {"admin": ("admin", keystone.admin_password, "admin"), **users})
        yield Region(keystone, covey, directory / "clouds.yaml", stop_keystone)


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    with ExitStack() as keystone_stack:
        keystone = keystone_stack.enter_context(running_keystone(tmp_path_factory.mktemp("keystone")))
        with running_region(tmp_path_factory.mktemp("region"), keystone, keystone_stack.close) as region:
            yield region


@pytest.fixture(scope="module")
def admin(region: Region) -> Iterator[Session]:
    with Session(region.cloud("admin")) as session:
        yield session


@pytest.fixture(scope="module")
def member(region: Region) -> Iterator[Session]:
    with Session(region.cloud("demo")) as session:
        yield session


@pytest.fixture(scope="module")
def other(region: Region) -> Iterator[Session]:
    with Session(region.cloud("other")) as session:
        yield session


def names(rows: list[dict[str, str]]) -> set[str]:
    return {row["Name"] for row in rows}


def test_operator_workflow(admin: Session) -> None:
    catalogue = {row["Name"]: row["Type"] for row in admin.json("catalog list")}
    assert catalogue["covey"] == "compute"
    assert len(admin.json("hypervisor list")) == 4
    assert admin.json("hypervisor show host-1")["aggregates"] == ["az-1"]

    admin.json("aggregate create --property shelf=3 keystone")
    assert admin.json("aggregate add host keystone host-2")["hosts"] == ["host-2"]
    assert admin.json("aggregate remove host keystone host-2")["hosts"] == []
    admin.run("aggregate delete keystone")

    admin.run("compute service set --disable --disable-reason broken host-3 nova-compute")
    assert [row["Status"] for row in admin.json("compute service list --host host-3")] == ["disabled"]
    admin.run("compute service set --enable host-3 nova-compute")
    assert len(admin.json("availability zone list --compute --long")) == 4

    assert admin.json("flavor create --ram 64 --vcpus 1 --disk 1 --property a=b keystone")["properties"] == {"a": "b"}
    admin.run("flavor delete keystone")


def test_plugin_uses_compute_where_the_catalogue_has_no_covey(member: Session) -> None:
    created = member.json("server group create --policy anti-affinity:host --policy soft-affinity wide")
    assert created["policies"] == ["anti-affinity", "soft-affinity"]
    assert member.json("server group show wide")["policy"] == "anti-affinity, soft-affinity"
    assert member.json("server group headroom wide --flavor tiny")["count"] == 4
    member.run("server group delete wide")
    assert member.json("server group list") == []


def test_dashboard_exchanges_a_password_for_a_token(region: Region) -> None:
    form = {"name": "demo", "password": PASSWORDS["demo"], "project": "demo", "domain": "Default"}
    page = f"{region.covey.url}/dashboard"
    assert requests.get(f"{page}/session", timeout=TIMEOUT_S).json()["auth"] == "keystone"
    signed_in = requests.post(f"{page}/session", json=form, timeout=TIMEOUT_S)
    assert (signed_in.status_code, signed_in.headers["Cache-Control"]) == (200, "no-store")
    me = region.get("/dashboard/data/me", X_Auth_Token=signed_in.json()["token"]).json()
    assert (me["user"], me["project"], me["is_admin"], me["auth"]) == ("demo", "demo", False, "keystone")
    for wrong in ({"password": "guess"}, {"project": "other"}, {"domain": "nowhere"}):
        refused = requests.post(f"{page}/session", json=form | wrong, timeout=TIMEOUT_S)
        assert (refused.status_code, PASSWORDS["demo"] in refused.text) == (401, False)
    assert requests.post(f"{page}/session", json={"name": "demo"}, timeout=TIMEOUT_S).status_code == 400
    assert PASSWORDS["demo"] not in region.covey.log


@pytest.mark.needs_program("chromium")
def test_browser_signs_in_reloads_and_signs_out(region: Region) -> None:
    with chromium() as browser:
        tab = Tab(region.covey.url, browser.new_page())
        page, signed_in = tab.page, tab.page.get_by_role("heading", name="Your servers")
        page.goto(f"{region.covey.url}/dashboard/")
        expect(page.get_by_label("Domain")).to_have_value("Default")
        for field, text in {"Name": "demo", "Password": "a guess", "Project": "demo"}.items():
            page.get_by_label(field).fill(text)
        page.get_by_role("button", name="Sign in").click()
        wrong = page.get_by_role("alert").get_by_text("The name, the password, the project or the domain is wrong.")
        expect(wrong).to_be_visible()
        tab.pictures("sign-in-keystone")
        assert [said for said in tab.complaints if "401" not in said] == []  # the browser logs the rejected request
        tab.complaints.clear()

        page.get_by_label("Password").fill(PASSWORDS["demo"])
        page.get_by_role("button", name="Sign in").click()
        expect(signed_in).to_be_visible()
        page.reload()
        expect(signed_in).to_be_visible()
        expect(page.get_by_text("No servers.")).to_be_visible()
        expect(page.locator("#who")).to_contain_text("live")
        expect(page.get_by_role("link", name="Health")).to_have_count(0)

        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in to Covey")).to_be_visible()
        page.reload()
        expect(page.get_by_label("Password")).to_have_value("")
        assert page.evaluate("sessionStorage.length + document.cookie.length") == 0
        assert not tab.complaints


def test_member_workflow(region: Region, member: Session) -> None:
    assert names(member.json("flavor list")) == {"tiny"}
    assert names(member.json("image list")) == {"linux"}
    assert [row["Zone Name"] for row in member.json("availability zone list --compute")] == ["az-1"]
    cloud = region.cloud("demo")
    assert cloud.json("image create --property 'note=two words' mine", stdin=b"data")["status"] == "active"
    member.run("image set --property note=one mine")
    member.run("image delete mine")
    for command in ("hypervisor list", "aggregate list", "flavor delete tiny", "compute service list"):
        said = member.refusal(command)
        assert "403" in said
        assert "Policy doesn't allow os_compute_api:os-" in said


def test_quotas_and_limits_use_the_project_of_the_token(admin: Session, member: Session) -> None:
    admin.run("quota set --server-groups 5 demo")
    quota = {row["Resource"]: row["Limit"] for row in member.json("quota show")}
    assert quota["server-groups"] == 5
    absolute = {row["Name"]: row["Value"] for row in member.json("limits show --absolute")}
    assert (absolute["max_server_groups"], absolute["server_groups_used"]) == (5, 0)
    admin.run("quota delete --compute demo")
    quota = {row["Resource"]: row["Limit"] for row in admin.json("quota show --compute demo")}
    assert quota["server-groups"] == 10


def test_projects_are_isolated(admin: Session, member: Session, other: Session) -> None:
    admin.json("flavor create --ram 64 --vcpus 1 --disk 1 --private --project other secret")
    other.json(f"image create --private --file {__file__} hidden")
    assert "secret" in names(other.json("flavor list"))
    assert "No Flavor found for secret" in member.refusal("flavor show secret")
    assert "No Image found for hidden" in member.refusal("image show hidden")
    admin.run("flavor set --project demo secret")
    assert "secret" in names(member.json("flavor list"))
    admin.run("flavor delete secret")
    other.run("image delete hidden")


def test_domain_and_system_tokens_own_nothing(region: Region) -> None:
    keystone, url = region.keystone, region.covey.url
    domain = keystone.create_domain("east")
    user = keystone.create_user("dora", "dora-s-secret", "demo", "member")
    keystone.grant_without_project(user, "member", domain)
    keystone.grant_without_project(user, "member")
    (image,) = region.get("/image/v2/images?name=linux", X_Auth_Token=region.token("demo")).json()["images"]
    group = {"name": "g", "policies": ["anti-affinity"]}
    for scope in ("east", None):
        headers = {"X-Auth-Token": keystone.token_without_project("dora", "dora-s-secret", scope)}
        deleted = requests.delete(f"{url}/image/v2/images/{image['id']}", headers=headers, timeout=TIMEOUT_S)
        created = requests.post(
            f"{url}/compute/v2.1/os-server-groups", json={"server_group": group}, headers=headers, timeout=TIMEOUT_S
        )
        listed = requests.get(f"{url}/compute/v2.1/servers", headers=headers, timeout=TIMEOUT_S)
        assert (deleted.status_code, created.status_code, listed.status_code) == (403, 403, 403)
    assert region.get(f"/image/v2/images/{image['id']}", X_Auth_Token=region.token("demo")).status_code == 200


def test_clustering_endpoint_is_in_the_catalogue(region: Region) -> None:
    member = clustering(region.cloud("demo"))
    assert member.json("cluster list") == []
    assert "403" in member.refusal("cluster service list")


def test_webhook_of_a_disabled_user_is_refused(region: Region) -> None:
    keystone, api = region.keystone, f"{region.covey.url}/clustering/v1"
    user = keystone.create_user("walt", "walt-s-secret", "demo", "member")
    token = keystone.session("walt", "walt-s-secret", "demo").get_token()

    def create(kind: str, **fields: Any) -> dict[str, Any]:
        answer = requests.post(
            f"{api}/{kind}s", json={kind: fields}, headers={"X-Auth-Token": str(token)}, timeout=TIMEOUT_S
        )
        assert answer.ok, answer.text
        found: dict[str, Any] = answer.json()[kind]
        return found

    spec = {"type": "os.nova.server", "version": "1.0", "properties": {"flavor": "tiny"}}
    profile = create("profile", name="p", spec=spec)["id"]
    cluster = create("cluster", name="walts", profile_id=profile, desired_capacity=0)["id"]
    hook = create("receiver", name="hook", type="webhook", cluster_id=cluster, action="CLUSTER_SCALE_OUT")

    def trigger() -> int:
        answer = requests.post(hook["channel"]["alarm_url"], timeout=TIMEOUT_S)
        return 202 if answer.status_code == 409 else answer.status_code  # 409: an earlier action still runs

    assert trigger() == 503  # Covey's own user may not list roles yet
    keystone.grant(keystone.service_user_id(), "service", "admin")
    time.sleep(1)  # Keystone's tokens have a resolution of a second
    assert trigger() == 202
    keystone.set_enabled(user, enabled=False)
    assert trigger() == 403
    keystone.set_enabled(user, enabled=True)
    assert trigger() == 202


def test_request_without_a_token_is_401(region: Region) -> None:
    for path in ("/compute/v2.1/flavors", "/image/v2/images"):
        answer = region.get(path)
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == f"Keystone uri='{region.keystone.auth_url}'"
    assert region.get("/compute/v2.1/flavors", X_Auth_Token="made-up").status_code == 401
    assert region.get("/compute/v2.1").status_code == 200


def test_identity_headers_of_the_caller_are_ignored(region: Region) -> None:
    forged = {
        "X_Identity_Status": "Confirmed",
        "X_Roles": "admin",
        "X_User_Id": "admin",
        "X_Project_Id": "admin",
        "X_Is_Admin_Project": "True",
        "X_Service_Roles": "service",
    }
    assert region.get("/compute/v2.1/os-hypervisors", **forged).status_code == 401
    assert region.get("/compute/v2.1/os-hypervisors", X_Auth_Token="made-up", **forged).status_code == 401
    token = region.token("demo")
    assert region.get("/compute/v2.1/os-hypervisors", X_Auth_Token=token, **forged).status_code == 403
    assert region.get("/compute/v2.1/os-hypervisors", X_Auth_Token=region.token("admin")).status_code == 200


def test_log_has_no_secrets(region: Region) -> None:
    token = region.token("demo")
    assert region.get("/compute/v2.1/flavors", X_Auth_Token=token).status_code == 200
    secrets = (token, region.keystone.admin_password, region.keystone.service_password, *PASSWORDS.values())
    assert not [secret for secret in secrets if secret in region.covey.log]


def test_unreachable_keystone_is_503(region: Region) -> None:
    """Must be the last test of this file: it stops Keystone."""
    seen, unseen = region.token("demo"), region.token("other")
    assert region.get("/compute/v2.1/flavors", X_Auth_Token=seen).status_code == 200
    region.stop_keystone()
    answer = region.get("/compute/v2.1/flavors", X_Auth_Token=unseen)
    assert answer.status_code == 503
    assert answer.json()["serviceUnavailable"]["message"].startswith("The identity service does not answer.")
    assert (
        region.get("/compute/v2.1/flavors", X_Auth_Token=seen).status_code == 200
    )  # the middleware caches valid tokens
    assert region.get("/compute/v2.1/flavors").status_code == 401
    assert region.get("/healthcheck").status_code == 200
