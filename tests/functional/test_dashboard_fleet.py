"""The fleet map for operators and tenants, host details, and health."""

import pytest
import sqlalchemy as sa

from tests.build import NOW
from tests.functional.client import Client
from tests.functional.fleets import IMAGE, BuildCloud
from tests.functional.scopes import Scoped, scoped
from tests.functional.test_flavor_resources import set_specs
from tests.functional.test_placement import make, placement_client, provider_of, stock


@pytest.fixture
def racks(build_cloud: BuildCloud) -> Scoped:
    return scoped(build_cloud(5))


def dashboard(client: Client) -> Client:
    return client.below("/dashboard")


def test_operator_sees_all_hosts_and_servers_in_columns(racks: Scoped) -> None:
    group = racks.group("anti-affinity")
    first, second = racks.boot_on("node-1", group), racks.boot_on("node-4")
    racks.set_host("node-2", status="disabled", disabled_reason="fan")
    racks.set_down("node-3")
    seen = dashboard(racks.admin).get("/data/fleet", scope="rack").json
    hosts, servers = seen["hosts"], seen["servers"]
    assert (seen["scope"], set(seen["scopes"])) == ("rack", {"host", "rack", "zone", "row"})
    assert [seen["domains"][i] for i in hosts["domain"]] == ["rack-a", "rack-a", "rack-b", "rack-b", "rack-c"]
    assert [seen["domain_ids"][i] for i in hosts["domain"][::2]] == list(racks.domains["rack"].values())
    assert hosts["name"] == [f"node-{i}" for i in range(1, 6)]
    assert (hosts["state"], hosts["zone"]) == ([0, 1, 2, 0, 0], ["nova"] * 5)
    assert (hosts["vcpus_used"], hosts["vcpus"]) == ([1, 0, 0, 1, 0], [8] * 5)
    assert (hosts["memory_used"], hosts["disk"]) == ([1024, 0, 0, 1024, 0], [100] * 5)
    placed = dict(zip(servers["id"], zip(servers["host"], servers["group"], strict=True), strict=True))
    assert placed == {first: (0, 0), second: (3, -1)}
    assert seen["groups"] == [{"id": group, "name": "g"}]


def test_map_and_host_page_have_every_resource_class_with_child_providers(racks: Scoped) -> None:
    ledger = placement_client(racks)
    with racks.store.write() as tx:
        tx.resource_classes.add("CUSTOM_GPU", NOW)
    host = provider_of(racks, "node-2")
    stock(ledger, make(ledger, "card", host), CUSTOM_GPU=4)
    stock(ledger, provider_of(racks, "node-4"), CUSTOM_GPU=2, PCPU=8)
    set_specs(racks, **{"resources:CUSTOM_GPU": "3"})
    server = racks.boot()
    hosts = dashboard(racks.admin).get("/data/fleet", scope="rack").json["hosts"]
    assert hosts["others"] == {
        "CUSTOM_GPU": {"used": [0, 3, 0, 0, 0], "capacity": [0, 4, 0, 2, 0]},
        "PCPU": {"used": [0] * 5, "capacity": [0, 0, 0, 8, 0]},
    }
    assert (hosts["vcpus_used"], hosts["vcpus"]) == ([0, 1, 0, 0, 0], [8] * 5)
    page = dashboard(racks.admin).get("/data/hosts/node-2").json
    assert page["inventories"]["CUSTOM_GPU"]["used"] == 3
    (held,) = page["allocations"]
    assert (held["consumer"], held["name"]) == (server, "s")
    assert [*held["resources"].items()] == [("VCPU", 1), ("MEMORY_MB", 1024), ("DISK_GB", 10), ("CUSTOM_GPU", 3)]


def test_host_without_a_domain(racks: Scoped) -> None:
    assert dashboard(racks.admin).get("/data/fleet", scope="row").json["hosts"]["domain"] == [0, 1, 1, 1, -1]
    assert dashboard(racks.admin).get("/data/fleet", scope="host").json["hosts"]["domain"] == [0, 1, 2, 3, 4]


def test_tenant_sees_own_servers_and_no_host_names(racks: Scoped) -> None:
    group = racks.group("soft-affinity")
    mine = [racks.boot_on("node-1", group), racks.boot_on("node-2", group), racks.boot_on("node-5")]
    racks.boot(racks.bob)
    seen = dashboard(racks.alice).get("/data/fleet", scope="zone").json
    assert seen["servers"] == {"host": [0, 1, 2], "group": [0, 0, -1], "id": mine}
    assert seen["hosts"]["domain"] == [0, 0, 1]
    assert seen["domains"] == [racks.zone("zone-a"), racks.zone("zone-b")]
    assert len(set(seen["hosts"]["name"])) == 3
    assert not set(seen["hosts"]["name"]) & {f"node-{i}" for i in range(1, 6)}
    empty = ("state", "vcpus_used", "vcpus", "memory_used", "memory", "disk_used", "disk")
    assert all(seen["hosts"][column] == [] for column in empty)
    assert seen["hosts"]["others"] == {}


def test_preloaded_fleet_serves_the_first_request(racks: Scoped) -> None:
    racks.assembled.live.warm_up()
    asked: list[str] = []
    sa.event.listen(racks.connection, "before_cursor_execute", lambda *arguments: asked.append(arguments[2]))
    assert len(dashboard(racks.admin).get("/data/fleet").json["hosts"]["name"]) == 5
    assert asked
    assert not [statement for statement in asked if "inventories" in statement]


def test_map_is_cached_until_the_fleet_changes(racks: Scoped) -> None:
    admin = dashboard(racks.admin)
    group = racks.group("affinity")
    server = racks.boot(group=group)
    tag = ""

    def changed_by(what: str) -> None:
        nonlocal tag
        now = admin.sending(If_None_Match=tag).get("/data/fleet", scope="rack")
        assert now.status == 200, what
        tag = now.headers["etag"]
        assert admin.sending(If_None_Match=tag).get("/data/fleet", scope="rack").status == 304, what

    changed_by("the first look")
    racks.boot()
    changed_by("a server")
    racks.set_down("node-3")
    changed_by("a host's state")
    assert racks.alice.put(f"/os-server-groups/{group}", {"server_group": {"name": "new"}}).status == 200
    changed_by("a group's name")
    leave = {"remove_instance": {"instance_id": server}}
    assert racks.alice.post(f"/os-server-groups/{group}/action", leave).status == 200
    changed_by("who is in a group")
    assert racks.admin.post("/os-policy-scopes", {"policy_scope": {"name": "aisle"}}).status == 200
    changed_by("a scope")
    rack = racks.domains["rack"]["rack-a"]
    assert racks.admin.put(f"/os-aggregates/{rack}", {"aggregate": {"name": "new"}}).status == 200
    changed_by("a rack's name")


@pytest.mark.sqlite_only
def test_unknown_scope_is_rejected(racks: Scoped) -> None:
    answer = dashboard(racks.alice).get("/data/fleet", scope="moon")
    assert answer.status == 400
    assert answer.message.startswith("Scope 'moon' does not exist; use one of host, ")


def test_host_details(racks: Scoped) -> None:
    server = racks.boot_on("node-1", name="held")
    seen = dashboard(racks.admin).get("/data/hosts/node-1").json
    assert seen["domains"] == {"rack": "rack-a", "zone": "zone-a", "row": "row-a"}
    assert seen["inventories"]["VCPU"]["used"] == 1
    (held,) = seen["allocations"]
    assert (held["consumer"], held["name"], held["resources"]["MEMORY_MB"]) == (server, "held", 1024)
    assert dashboard(racks.admin).get("/data/hosts/nowhere").status == 404


def test_health_reports_problems(racks: Scoped) -> None:
    racks.set_host("node-2", status="disabled", disabled_reason="fan")
    racks.set_down("node-3")
    racks.request_server(racks.alice)
    racks.assembled.heartbeat.beat()
    seen = dashboard(racks.admin).get("/data/health").json
    assert (seen["hosts"], seen["disabled"]) == (5, [{"name": "node-2", "reason": "fan"}])
    assert seen["down"] == [{"name": "node-3", "forced": True}]
    assert seen["misplaced_hosts"] == [{"scope": "row", "no_domain": ["node-5"], "ambiguous": []}]
    assert [worker["up"] for worker in seen["workers"]] == [True]
    assert seen["jobs"]["waiting"] == 1
    assert seen["claims"]["requests"] == 1
    assert seen["claims"]["p50_ms"] is not None
    racks.settle()
    assert dashboard(racks.admin).get("/data/health").json["jobs"]["waiting"] == 0


def test_health_counts_claim_conflicts(racks: Scoped) -> None:
    racks.request_server(racks.alice)  # loads the fleet into memory
    with racks.connection.begin() as connection:  # four hosts lose their capacity without a change log entry
        full = "UPDATE inventories SET used = total WHERE provider_id IN (SELECT id FROM hosts WHERE name <> 'node-5')"
        connection.execute(sa.text(full))
    body = {"server": {"name": "late", "flavorRef": "small", "imageRef": IMAGE, "networks": "none"}}
    statuses = [racks.alice.post("/servers", body).status for _ in range(5)]
    assert statuses == [202] * 5
    assert dashboard(racks.admin).get("/data/health").json["claims"]["claim_conflicts"] >= 1


@pytest.mark.sqlite_only
@pytest.mark.parametrize("path", ["/data/hosts/node-1", "/data/hosts/nowhere", "/data/health"])
def test_tenants_cannot_read_hosts(racks: Scoped, path: str) -> None:
    answer = dashboard(racks.alice).get(path)
    assert (answer.status, answer.message) == (403, "Policy doesn't allow covey:dashboard:operate to be performed.")
