"""Groups on the dashboard, and the explanations of refused servers."""

from typing import Any

import pytest

from covey.model.event_feed import Subject
from tests.functional.client import Client
from tests.functional.fleets import UNKNOWN_ID, BuildCloud, Cloud
from tests.functional.rows import all_rows
from tests.functional.scopes import Scoped, scoped


@pytest.fixture
def racks(build_cloud: BuildCloud) -> Scoped:
    return scoped(build_cloud(5))


def dashboard(client: Client) -> Client:
    return client.below("/dashboard")


def test_groups_show_policies_in_words_and_violations(racks: Scoped) -> None:
    kept = racks.group("anti-affinity:rack", "soft-affinity:zone", max_server_per_rack=2)
    broken = racks.group("anti-affinity:rack", "soft-anti-affinity")
    bobs = racks.group("affinity", client=racks.bob)
    racks.boot_on("node-1", kept)
    for _ in range(2):
        racks.boot_on("node-1", broken)
    mine = {group["id"]: group for group in dashboard(racks.alice).get("/data/groups").json["groups"]}
    assert mine.keys() == {kept, broken}
    assert mine[kept]["words"] == "at most 2 in one rack; in one zone if possible"
    assert (mine[kept]["violations"], mine[kept]["members"]) == (0, 1)
    assert (mine[broken]["violations"], mine[broken]["hard_violations"]) == (2, 1)
    all_groups = dashboard(racks.admin).get("/data/groups").json
    assert {group["id"] for group in all_groups["groups"]} == {kept, broken, bobs}
    page = dashboard(racks.admin).get("/data/groups", offset="1", limit="1").json
    assert ([group["id"] for group in page["groups"]], page["more"]) == ([broken], True)
    racks.run_action(racks.admin, racks.boot_on("node-2", kept), "migrate", {"host": "node-5"})
    racks.boot_on("node-2", kept)
    racks.boot_on("node-2", kept)  # three in the rack now; the older counts are no longer shown
    again = {group["id"]: group for group in dashboard(racks.alice).get("/data/groups").json["groups"]}
    assert again[kept]["hard_violations"] == 1


@pytest.mark.sqlite_only
def test_policy_words_use_the_tenants_identifiers(racks: Scoped) -> None:
    zone = racks.zone("zone-a")
    group = racks.group(f"affinity:zone:{zone}", "soft-anti-affinity:row:" + racks.domains["row"]["row-b"])
    seen = dashboard(racks.alice).get(f"/data/groups/{group}").json
    assert seen["words"] == f"only in zone {zone}; not in row {racks.domains['row']['row-b']} if possible"
    real = racks.domains["zone"]["zone-a"]
    assert dashboard(racks.admin).get(f"/data/groups/{group}").json["words"].startswith(f"only in zone {real};")


def test_group_details(racks: Scoped) -> None:
    group = racks.group("anti-affinity:rack")
    first, second = racks.boot_on("node-1", group, name="a"), racks.boot_on("node-2", group, name="b")
    seen = dashboard(racks.admin).get(f"/data/groups/{group}").json
    rack = racks.domains["rack"]["rack-a"]
    assert [(member["id"], member["name"], member["status"]) for member in seen["members"]] == [
        (first, "a", "ACTIVE"),
        (second, "b", "ACTIVE"),
    ]
    assert seen["members"][1]["places"] == {
        "rack": rack,
        "host": "node-2",
        "zone": racks.domains["zone"]["zone-a"],
        "row": racks.domains["row"]["row-b"],
    }
    assert [(v["policy"], v["domain"], set(v["members"])) for v in seen["violations"]] == [
        ("anti-affinity:rack", rack, {first, second})
    ]
    assert (seen["domain_names"][rack], seen["rebalance"]) == ("rack-a", None)
    assert racks.admin.post(f"/os-server-groups/{group}/action", {"rebalance": {}}).status == 202
    mine = dashboard(racks.alice).get(f"/data/groups/{group}").json
    assert (mine["rebalance"]["status"], len(mine["rebalance"]["moves"])) == ("running", 1)
    assert mine["domain_names"] == {}
    assert dashboard(racks.bob).get(f"/data/groups/{group}").status == 404


def test_policy_preview_changes_nothing(racks: Scoped) -> None:
    group = racks.group("affinity")
    members = {racks.boot_on("node-1", group), racks.boot_on("node-1", group)}
    before = all_rows(racks.connection)
    body = {"policies": ["anti-affinity:rack"], "rules": {"max_server_per_rack": 1}}
    tried = dashboard(racks.alice).post(f"/data/groups/{group}/preview-policies", body)
    assert tried.status == 200
    assert tried.json["words"] == "at most 1 in one rack"
    (violation,) = tried.json["violations"]
    assert set(violation["members"]) == members
    assert violation["domain"] != racks.domains["rack"]["rack-a"]
    fine = dashboard(racks.alice).post(f"/data/groups/{group}/preview-policies", {"policies": ["affinity:zone"]})
    assert fine.json["violations"] == []
    assert all_rows(racks.connection) == before
    assert dashboard(racks.bob).post(f"/data/groups/{group}/preview-policies", body).status == 404


def refused(cloud: Cloud, **fields: Any) -> str:
    server = cloud.boot(**fields)
    assert cloud.status(server) == "ERROR"
    return server


def explain_placement(client: Client, server: str) -> dict[str, Any]:
    answer = dashboard(client).get(f"/data/servers/{server}/why")
    assert answer.status == 200, answer.text
    explanation: dict[str, Any] = answer.json
    return explanation


@pytest.mark.sqlite_only
def test_refusal_shows_counted_reasons_and_smallest_changes(racks: Scoped) -> None:
    group = racks.group("anti-affinity:rack")
    for host in ("node-1", "node-3"):
        racks.boot_on(host, group)
    racks.set_host("node-5", status="disabled")
    server = refused(racks, group=group)
    explanation = explain_placement(racks.admin, server)
    assert explanation["reasons"] == [
        {"reason": "already hold 1 of the group in their rack", "hosts": 4},
        {"reason": "is disabled", "hosts": 1},
    ]
    assert sum(reason["hosts"] for reason in explanation["reasons"]) == explanation["hosts"] == 5
    assert explanation["smallest_changes"] == ["if 1 more were allowed in one rack", "if node-5 were enabled"]
    assert explanation["group_id"] == group
    mine = explain_placement(racks.alice, server)
    assert mine["reasons"] == explanation["reasons"]
    assert mine["smallest_changes"] == ["if 1 more were allowed in one rack"]
    assert [each["id"] for each in dashboard(racks.alice).get("/data/refusals").json["refusals"]] == [server]
    assert dashboard(racks.bob).get("/data/refusals").json["refusals"] == []
    assert dashboard(racks.bob).get(f"/data/servers/{server}/why").status == 404
    racks.set_host("node-5", status="enabled")
    now = explain_placement(racks.alice, server)
    assert (now["fits_now"], now["smallest_changes"]) == (True, [])
    assert now["reasons"][-1] == {"reason": "would take it now", "hosts": 1}


@pytest.mark.sqlite_only
def test_smallest_change_of_a_slightly_too_large_server(racks: Scoped) -> None:
    assert explain_placement(racks.alice, refused(racks, flavorRef="giant"))["smallest_changes"] == ["with 1 VCPU less"]


def test_placement_of_a_server_is_explained(racks: Scoped) -> None:
    explanation = explain_placement(racks.admin, racks.boot_on("node-2"))
    assert (explanation["refused"], explanation["placement"]["host"]) == (False, "node-2")
    assert dashboard(racks.alice).get(f"/data/servers/{UNKNOWN_ID}/why").status == 404


@pytest.mark.sqlite_only
@pytest.mark.parametrize(("tells", "reasons"), [("reasons", [{"reason": "lack VCPUs", "hosts": None}]), ("none", [])])
def test_explain_to_tenants_limits_reasons(build_cloud: BuildCloud, tells: str, reasons: list[dict[str, Any]]) -> None:
    cloud = build_cloud(3, ("api", "explain_to_tenants", tells))
    server = refused(cloud, flavorRef="giant")
    explanation = explain_placement(cloud.alice, server)
    assert (explanation["reasons"], explanation["smallest_changes"], explanation["hosts"]) == (reasons, [], None)
    assert explain_placement(cloud.admin, server)["smallest_changes"] == ["with 1 VCPU less"]


def test_events_follow_many_groups_with_large_versions(cloud: Cloud) -> None:
    """Versions of groups are random numbers of 62 bits, whose sum is no integer of the database."""
    groups = [cloud.group("anti-affinity") for _ in range(8)]
    for group in groups:
        cloud.boot(group=group)

    def markers() -> set[Any]:
        with cloud.store.read() as tx:
            return {marker for marker in tx.dashboard.markers() if marker.subject is Subject.GROUPS}

    before = markers()
    cloud.boot(group=groups[0])
    assert markers() != before
