"""The Placement API together with compute, which Placement's own suites do not cover."""

import threading
from typing import Any

import pytest
import sqlalchemy as sa

from covey.storage import tables
from tests.build import NOW, a_host
from tests.functional.client import Answer, Client
from tests.functional.conftest import Build
from tests.functional.fleets import IMAGE, BuildCloud, Cloud

UNKNOWN_ID = "99999999-9999-9999-9999-999999999999"
ME = {"project_id": "web", "user_id": "alice"}


def placement_client(cloud: Cloud, version: str = "1.39", who: str = "admin:operators") -> Client:
    return cloud.service.as_(who).below("/placement").sending(OpenStack_API_Version=f"placement {version}")


def provider_of(cloud: Cloud, name: str) -> str:
    (found,) = placement_client(cloud).get("/resource_providers", name=name).json["resource_providers"]
    return str(found["uuid"])


def make(client: Client, name: str, parent: str | None = None) -> str:
    made = client.post("/resource_providers", {"name": name, "parent_provider_uuid": parent})
    assert made.status == 200, made.text
    return str(made.json["uuid"])


def stock(client: Client, key: str, **has: int) -> None:
    for kind, total in has.items():
        body = {"resource_class": kind, "total": total}
        assert client.post(f"/resource_providers/{key}/inventories", body).status == 201


def put(client: Client, consumer: str, generation: int | None, **by_provider: Any) -> Answer:
    allocations = {key.replace("_", "-"): {"resources": resources} for key, resources in by_provider.items()}
    body = {"allocations": allocations, "consumer_generation": generation, "consumer_type": "TEST", **ME}
    return client.put(f"/allocations/{consumer}", body)


def check_usages(cloud: Cloud) -> None:
    """Assert that usages equal the sums of allocations."""
    held: dict[tuple[int, str], int] = {}
    for row in cloud.rows(tables.allocations):
        held[row.provider_id, row.resource_class] = held.get((row.provider_id, row.resource_class), 0) + row.used
    used = {(row.provider_id, row.resource_class): row.used for row in cloud.rows(tables.inventories)}
    assert held == {key: amount for key, amount in used.items() if amount}


def test_host_is_a_root_provider_with_its_inventories(cloud: Cloud) -> None:
    key = provider_of(cloud, "node-1")
    shown = placement_client(cloud).get(f"/resource_providers/{key}").json
    assert (shown["parent_provider_uuid"], shown["root_provider_uuid"]) == (None, key)
    assert {"rel": "usages", "href": f"/placement/resource_providers/{key}/usages"} in shown["links"]
    has = placement_client(cloud).get(f"/resource_providers/{key}/inventories").json["inventories"]
    assert has.keys() == {"VCPU", "MEMORY_MB", "DISK_GB"}


@pytest.mark.parametrize(
    ("verb", "body"),
    [("delete", None), ("put", {"name": "other"}), ("put", {"name": "node-1", "parent_provider_uuid": "node-2"})],
    ids=["delete", "rename", "change parent"],
)
def test_placement_cannot_delete_a_host(cloud: Cloud, verb: str, body: Any) -> None:
    key = provider_of(cloud, "node-1")
    if body and "parent_provider_uuid" in body:
        body = body | {"parent_provider_uuid": provider_of(cloud, "node-2")}
    answer = placement_client(cloud).ask(verb.upper(), f"/resource_providers/{key}", json=body)
    assert answer.status == 409
    assert "host" in answer.json["errors"][0]["detail"]
    assert provider_of(cloud, "node-1") == key


def test_allocations_of_a_server_show_its_owner(cloud: Cloud) -> None:
    server = cloud.boot()
    host = provider_of(cloud, str(cloud.host(server)))
    shown = placement_client(cloud).get(f"/allocations/{server}").json
    assert shown["allocations"][host]["resources"] == {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10}
    assert (shown["consumer_type"], shown["project_id"]) == ("INSTANCE", "web")
    usages = placement_client(cloud).get("/usages", project_id="web").json["usages"]
    assert usages == {"INSTANCE": {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10, "consumer_count": 1}}


def test_migration_holds_the_source_allocation(cloud: Cloud) -> None:
    server = cloud.boot()
    source = provider_of(cloud, str(cloud.host(server)))
    before = placement_client(cloud).get(f"/allocations/{server}").json["consumer_generation"]
    cloud.run_action(
        cloud.admin, server, "migrate", {}
    )  # until it is confirmed, the move has allocations on both hosts
    after = placement_client(cloud).get(f"/allocations/{server}").json
    assert source not in after["allocations"]
    assert after["consumer_generation"] > before
    (move,) = placement_client(cloud).get(f"/resource_providers/{source}/allocations").json["allocations"]
    assert placement_client(cloud).get(f"/allocations/{move}").json["consumer_type"] == "MIGRATION"


def test_deleting_a_server_deletes_all_its_allocations(cloud: Cloud) -> None:
    server = cloud.boot()
    held = placement_client(cloud).get(f"/allocations/{server}").json
    host = next(iter(held["allocations"]))
    card = make(placement_client(cloud), "card", host)
    stock(placement_client(cloud), card, VGPU=4)
    resources = {host: {"resources": held["allocations"][host]["resources"]}, card: {"resources": {"VGPU": 3}}}
    body = {**held, "allocations": resources}
    assert placement_client(cloud).put(f"/allocations/{server}", body).status == 204
    assert cloud.admin.delete(f"/servers/{server}").status == 204
    while cloud.assembled.worker().run_once():
        pass
    check_usages(cloud)
    assert placement_client(cloud).get(f"/resource_providers/{card}/usages").json["usages"] == {"VGPU": 0}


def test_placement_allocations_reduce_compute_capacity_immediately(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(1)
    assert cloud.status(cloud.boot()) == "ACTIVE"  # loads the fleet into memory
    host = provider_of(cloud, "node-1")
    # 7 VCPUs are all that the server left free.
    assert put(placement_client(cloud), UNKNOWN_ID, None, **{host: {"VCPU": 7}}).status == 204
    answer = cloud.alice.post(
        "/servers", {"server": {"name": "s", "flavorRef": "small", "imageRef": IMAGE, "networks": "none"}}
    )
    assert cloud.status(answer.json["server"]["id"]) == "ERROR"
    assert placement_client(cloud).delete(f"/allocations/{UNKNOWN_ID}").status == 204
    assert cloud.status(cloud.boot()) == "ACTIVE"


def test_compute_respects_a_reduced_inventory(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(1)
    first = cloud.boot()
    host = provider_of(cloud, "node-1")
    has = placement_client(cloud).get(f"/resource_providers/{host}/inventories").json
    has["inventories"]["VCPU"] |= {"total": 1, "allocation_ratio": 1.0, "max_unit": 1}
    assert placement_client(cloud).put(f"/resource_providers/{host}/inventories", has).status == 200
    assert cloud.status(cloud.request_server(cloud.alice).json["server"]["id"]) == "ERROR"
    cloud.delete(first)
    assert cloud.status(cloud.boot()) == "ACTIVE"


def test_huge_capacity_is_handled(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(1)
    host = provider_of(cloud, "node-1")
    has = placement_client(cloud).get(f"/resource_providers/{host}/inventories").json
    has["inventories"]["VCPU"]["allocation_ratio"] = 3.4e38
    assert placement_client(cloud).put(f"/resource_providers/{host}/inventories", has).status == 200
    assert cloud.status(cloud.boot()) == "ACTIVE"


@pytest.mark.sqlite_only
def test_zero_allocation_ratio_is_rejected(cloud: Cloud) -> None:
    key = make(placement_client(cloud), "shelf")
    body = {"resource_class": "VCPU", "total": 1, "allocation_ratio": 0}
    answer = placement_client(cloud).post(f"/resource_providers/{key}/inventories", body)
    assert (answer.status, "allocation_ratio" in answer.text) == (400, True)


@pytest.mark.sqlite_only
def test_decimal_number_is_not_an_amount(cloud: Cloud) -> None:
    key = make(placement_client(cloud), "shelf")
    stock(placement_client(cloud), key, VCPU=8)
    assert put(placement_client(cloud), UNKNOWN_ID, None, **{key: {"VCPU": 1.0}}).status == 400
    assert put(placement_client(cloud), UNKNOWN_ID, None, **{key: {"VCPU": 10**30}}).status == 409
    check_usages(cloud)


def test_compute_aggregates_are_placement_aggregates(cloud: Cloud) -> None:
    made = cloud.admin.post("/os-aggregates", {"aggregate": {"name": "ssd"}}).json["aggregate"]
    host = provider_of(cloud, "node-1")
    generation = placement_client(cloud).get(f"/resource_providers/{host}").json["generation"]
    action = f"/os-aggregates/{made['id']}/action"
    assert cloud.admin.post(action, {"add_host": {"host": "node-1"}}).status == 200
    shown = placement_client(cloud).get(f"/resource_providers/{host}/aggregates").json
    assert (shown["aggregates"], shown["resource_provider_generation"]) == ([made["uuid"]], generation + 1)
    listed = placement_client(cloud).get("/resource_providers", member_of=made["uuid"]).json["resource_providers"]
    assert [each["name"] for each in listed] == ["node-1"]
    assert cloud.admin.post(action, {"remove_host": {"host": "node-1"}}).status == 200
    assert placement_client(cloud).get(f"/resource_providers/{host}/aggregates").json["aggregates"] == []


def test_deleting_an_aggregate_removes_hosts_added_outside_covey(cloud: Cloud) -> None:
    made = cloud.admin.post("/os-aggregates", {"aggregate": {"name": "ssd"}}).json["aggregate"]
    host, shelf = provider_of(cloud, "node-1"), make(placement_client(cloud), "shelf")
    for key in (host, shelf):
        assert placement_client(cloud, "1.1").put(f"/resource_providers/{key}/aggregates", [made["uuid"]]).status == 200
    assert cloud.admin.delete(f"/os-aggregates/{made['id']}").status == 200
    assert placement_client(cloud).get(f"/resource_providers/{host}/aggregates").json["aggregates"] == []
    assert placement_client(cloud).get(f"/resource_providers/{shelf}/aggregates").json["aggregates"] == [made["uuid"]]


def test_deleting_a_host_deletes_its_child_providers(cloud: Cloud) -> None:
    host = provider_of(cloud, "node-1")
    cell = make(placement_client(cloud), "cell", host)
    stock(placement_client(cloud), make(placement_client(cloud), "card", cell), VGPU=1)
    service = cloud.admin.get("/os-services", host="node-1").json["services"][0]["id"]
    assert cloud.admin.delete(f"/os-services/{service}").status == 204
    names = {each["name"] for each in placement_client(cloud).get("/resource_providers").json["resource_providers"]}
    assert names == {"node-2", "node-3"}


def test_host_traits_are_known(build_cloud: BuildCloud) -> None:
    cloud = build_cloud([a_host("node-1", 8, 16384, 100, "CUSTOM_SSD")])
    assert placement_client(cloud).get("/traits/CUSTOM_SSD").status == 204
    listed = placement_client(cloud).get("/resource_providers", required="CUSTOM_SSD").json["resource_providers"]
    assert [each["name"] for each in listed] == ["node-1"]


def test_resource_class_in_use_can_be_renamed(cloud: Cloud) -> None:
    client = placement_client(cloud)
    with cloud.store.write() as tx:
        tx.resource_classes.add("CUSTOM_OLD", NOW)
    key = make(client, "shelf")
    stock(client, key, CUSTOM_OLD=5)
    assert put(client, UNKNOWN_ID, None, **{key: {"CUSTOM_OLD": 2}}).status == 204
    assert placement_client(cloud, "1.6").put("/resource_classes/CUSTOM_OLD", {"name": "CUSTOM_NEW"}).status == 200
    assert client.get(f"/allocations/{UNKNOWN_ID}").json["allocations"][key]["resources"] == {"CUSTOM_NEW": 2}
    check_usages(cloud)


def test_provider_tree_moves_with_its_descendants(cloud: Cloud) -> None:
    client = placement_client(cloud)
    a, b = make(client, "a"), make(client, "b")
    child = make(client, "child", a)
    grandchild = make(client, "grandchild", child)
    assert client.put(f"/resource_providers/{child}", {"name": "child", "parent_provider_uuid": b}).status == 200
    assert client.get(f"/resource_providers/{grandchild}").json["root_provider_uuid"] == b
    loop = client.put(f"/resource_providers/{b}", {"name": "b", "parent_provider_uuid": grandchild})
    assert (loop.status, "loop" in loop.text) == (400, True)
    assert client.put(f"/resource_providers/{child}", {"name": "child", "parent_provider_uuid": None}).status == 200
    listed = client.get("/resource_providers", in_tree=grandchild).json["resource_providers"]
    assert {each["name"] for each in listed} == {"child", "grandchild"}


def test_one_concurrent_writer_wins_each_consumer_generation(cloud: Cloud) -> None:
    key = make(placement_client(cloud), "shelf")
    stock(placement_client(cloud), key, VCPU=100)
    statuses: list[int] = []

    def write(amount: int) -> None:
        statuses.append(put(placement_client(cloud), UNKNOWN_ID, None, **{key: {"VCPU": amount}}).status)

    _run_concurrently(write, range(1, 9))
    assert sorted(statuses) == [204] + [409] * 7
    check_usages(cloud)


def test_concurrent_claims_never_exceed_capacity(cloud: Cloud) -> None:
    key = make(placement_client(cloud), "shelf")
    stock(placement_client(cloud), key, VCPU=5)
    statuses: list[int] = []

    def write(number: int) -> None:
        consumer = f"{number:08d}-0000-0000-0000-000000000000"
        statuses.append(put(placement_client(cloud), consumer, None, **{key: {"VCPU": 1}}).status)

    _run_concurrently(write, range(8))
    assert sorted(statuses) == [204] * 5 + [409] * 3
    check_usages(cloud)


def test_writers_with_different_lock_orders_all_succeed(cloud: Cloud) -> None:
    keys = [make(placement_client(cloud), f"shelf-{n}") for n in range(4)]
    for key in keys:
        stock(placement_client(cloud), key, VCPU=100, MEMORY_MB=100)
    statuses: list[int] = []

    def write(number: int) -> None:
        consumer = f"{number:08d}-0000-0000-0000-000000000000"
        order = keys[number % 4 :] + keys[: number % 4]
        generation: int | None = None
        for _ in range(5):
            want = {key: {"VCPU": 1, "MEMORY_MB": 1} for key in order}
            statuses.append(put(placement_client(cloud), consumer, generation, **want).status)
            generation = (generation or 0) + 1

    _run_concurrently(write, range(8))
    assert set(statuses) == {204}
    check_usages(cloud)


def _run_concurrently(write: Any, arguments: Any) -> None:
    threads = [threading.Thread(target=write, args=(argument,)) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_rejected_write_leaves_no_consumer(cloud: Cloud) -> None:
    key = make(placement_client(cloud), "shelf")
    stock(placement_client(cloud), key, VCPU=1)
    assert put(placement_client(cloud), UNKNOWN_ID, None, **{key: {"VCPU": 2}}).status == 409
    assert cloud.rows(tables.consumers) == []
    assert put(placement_client(cloud), UNKNOWN_ID, None, **{key: {"VCPU": 1}}).status == 204


def test_emptying_an_unknown_consumer_creates_none(cloud: Cloud) -> None:
    assert put(placement_client(cloud), UNKNOWN_ID, None).status == 204
    assert cloud.rows(tables.consumers) == []


def test_tenants_read_usages_of_their_own_project_only(cloud: Cloud) -> None:
    alice = placement_client(cloud, who="alice:web")
    assert alice.get("/usages", project_id="web").status == 200
    assert alice.get("/usages", project_id="db").status == 403
    assert alice.get("/resource_providers").status == 403
    assert alice.get("/allocation_candidates", resources="VCPU:1").status == 403


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("method", "path", "version"),
    [
        ("POST", "/allocations", "1.39"),
        ("PUT", f"/allocations/{UNKNOWN_ID}", "1.39"),
        ("PUT", "/allocations/no-uuid", "1.39"),
        ("POST", "/host_rankings", "1.39"),
        ("POST", "/reshaper", "1.39"),
        ("POST", "/resource_classes", "1.39"),
        ("PUT", "/resource_classes/CUSTOM_A", "1.6"),
        ("POST", "/resource_providers", "1.39"),
        ("PUT", f"/resource_providers/{UNKNOWN_ID}", "1.39"),
        ("PUT", f"/resource_providers/{UNKNOWN_ID}/aggregates", "1.39"),
        ("POST", f"/resource_providers/{UNKNOWN_ID}/inventories", "1.39"),
        ("PUT", f"/resource_providers/{UNKNOWN_ID}/inventories", "1.39"),
        ("PUT", f"/resource_providers/{UNKNOWN_ID}/inventories/VCPU", "1.39"),
        ("PUT", f"/resource_providers/{UNKNOWN_ID}/traits", "1.39"),
    ],
)
def test_forbidden_request_gets_403_before_its_body_is_read(cloud: Cloud, method: str, path: str, version: str) -> None:
    alice = placement_client(cloud, version, who="alice:web")
    assert alice.ask(method, path, body=b"no JSON").status == 403


@pytest.mark.sqlite_only
def test_links_work_for_a_single_api(build: Build) -> None:
    alone = build(only_api="placement").as_("admin").below("").sending(OpenStack_API_Version="placement 1.39")
    made = alone.post("/resource_providers", {"name": "shelf"})
    assert made.json["links"][0]["href"] == f"/resource_providers/{made.json['uuid']}"
    assert made.headers["location"].startswith("http")


@pytest.mark.sqlite_only
def test_deeply_nested_body_is_rejected(cloud: Cloud) -> None:
    client = placement_client(cloud).sending(Content_Type="application/json")
    assert client.ask("POST", "/resource_providers", body=b"[" * 50_000).status == 400


def test_database_rejects_a_parent_in_another_tree(cloud: Cloud) -> None:
    with pytest.raises(sa.exc.IntegrityError), cloud.connection.begin() as connection:
        connection.execute(sa.update(tables.resource_providers).values(parent_id=tables.resource_providers.c.id))


def test_compute_respects_unit_constraints_of_inventories(cloud: Cloud) -> None:
    for host, units in {"node-1": {"step_size": 2}, "node-2": {"min_unit": 2}, "node-3": {"max_unit": 1}}.items():
        path = f"/resource_providers/{provider_of(cloud, host)}/inventories"
        has = placement_client(cloud).get(path).json
        has["inventories"]["VCPU"] |= units
        assert placement_client(cloud).put(path, has).status == 200
    assert cloud.hosts(cloud.boot() for _ in range(3)) == ["node-3"] * 3
    assert "node-3" not in cloud.hosts(cloud.boot(flavorRef="big") for _ in range(4))
    lost = cloud.boot(availability_zone="nova:node-3", flavorRef="big", client=cloud.admin)
    assert "1 does not allow this allocation size" in cloud.show(lost)["fault"]["message"]
