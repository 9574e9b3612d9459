"""Tenants set policies for their server groups in Nova. Nova decides whose a group is; a second Covey is that Nova."""

import ssl
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest

from covey import clock_and_ids, remote_api
from covey.model.groups import Group, GroupPolicy, PolicyKind
from covey.model.ids import GroupId, ProjectId, UserId
from covey.model.nova import NovaHost
from covey.services.nova_sync import NovaSync
from covey.services.nova_sync import nova as nova_api
from covey.storage.tables import instance_groups
from tests.acceptance.processes import free_port
from tests.build import NOW, a_host
from tests.databases import SQLite
from tests.functional.client import Answer, Client
from tests.functional.fleets import UNKNOWN_ID, BuildCloud, Cloud, cloud_on
from tests.functional.nova_consumers import Nova, nova_with_racks, violation
from tests.unit.agent.test_transport import certificate  # noqa: F401 -- a fixture

POLICIES = {"server_group": {"policies": ["anti-affinity:rack"], "rules": {"max_server_per_rack": 2}}}


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@dataclass
class Compute:
    """The Compute API that stands for Nova's, and how often it was asked."""

    cloud: Cloud
    url: str = ""
    asked: list[str] = field(default_factory=list)

    def __call__(self, environ: Any, start_response: Any) -> Any:
        self.asked.append(environ["PATH_INFO"])
        return self.cloud.service.app(environ, start_response)

    @property
    def alice(self) -> Client:
        return self.cloud.alice.at("2.64")

    def group(self, policy: str = "soft-anti-affinity") -> str:
        """Create a group of alice's project, web."""
        made = self.alice.post("/os-server-groups", {"server_group": {"name": "web", "policy": policy}})
        assert made.status == 200, made.text
        return str(made.json["server_group"]["id"])


@pytest.fixture
def compute(tmp_path: Path, sqlite_server: SQLite) -> Iterator[Compute]:
    directory = tmp_path / "nova"
    directory.mkdir()
    with sqlite_server.fresh(directory) as database, cloud_on(database, directory, [a_host("node-1")]) as cloud:
        served = Compute(cloud)
        with serving(served) as address:
            served.url = f"http://{address}/compute/v2.1"
            yield served


@contextmanager
def serving(compute: Compute, signed: Path | None = None) -> Iterator[str]:
    """Serve a Compute API, with a certificate by TLS; yield its address."""
    server = make_server("127.0.0.1", 0, compute, _Server, _Quiet)
    if signed is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(signed)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def nova(compute: Compute, build_cloud: BuildCloud) -> Nova:
    """Covey as the Placement service of that Nova."""
    return nova_with_racks(build_cloud(0, ("nova", "url", compute.url)))


def requests_for(client: Client, group: str) -> list[Answer]:
    """Send every request that names a group."""
    path = f"/os-server-groups/{group}"
    return [
        client.get(path),
        client.put(path, POLICIES),
        client.post(path, POLICIES),
        client.get(f"{path}/audit"),
        client.post(f"{path}/action", {"preview": {"flavor": "small"}}),
        client.post(f"{path}/action", {"headroom": {"flavor": "small"}}),
        client.post(f"{path}/action", {"rebalance": {"dry_run": True}}),
        client.post(f"{path}/action", {"add_instance": {"instance_id": UNKNOWN_ID}}),
        client.delete(path),
    ]


def test_policies_are_set_under_the_uuid_of_novas_group(nova: Nova, compute: Compute) -> None:
    group = compute.group()
    changed = nova.cloud.alice.put(f"/os-server-groups/{group}", POLICIES)
    assert changed.status == 200, changed.text
    shown = changed.json["server_group"]
    assert (shown["id"], shown["name"], shown["project_id"], shown["user_id"]) == (group, "web", "web", "alice")
    assert (shown["policies"], shown["rules"]) == (["anti-affinity:rack"], {"max_server_per_rack": 2})
    members = [nova.member(group, "soft-anti-affinity") for _ in range(3)]
    nova.place(members[0], "cn1")
    nova.place(members[1], "cn2")
    assert violation(nova.claim(members[2], "cn1")).endswith("its host already holds 2 of the group in its rack.")


def test_group_of_nova_without_policies_in_covey_has_novas(nova: Nova, compute: Compute) -> None:
    group = compute.group("anti-affinity")
    shown = nova.cloud.alice.get(f"/os-server-groups/{group}").json["server_group"]
    assert (shown["policies"], shown["rules"]) == (["anti-affinity"], {})
    assert nova.cloud.alice.get(f"/os-server-groups/{group}/audit").status == 200


def test_members_that_nova_lists_count_at_once(nova: Nova, compute: Compute) -> None:
    group = compute.group()
    member = compute.cloud.request_server(compute.cloud.alice, group=group)
    assert member.status == 202, member.text
    nova.place(member.json["server"]["id"], "cn1")
    changed = nova.cloud.alice.put(f"/os-server-groups/{group}", {"server_group": {"policies": ["anti-affinity:rack"]}})
    shown = nova.cloud.alice.get(f"/os-server-groups/{group}")
    (listed,) = nova.cloud.alice.get("/os-server-groups").json["server_groups"]
    for document in (changed.json["server_group"], shown.json["server_group"], listed):
        assert document["members"] == [member.json["server"]["id"]]
    violation(nova.claim(nova.member(group, "soft-anti-affinity"), "cn2"))


@pytest.mark.parametrize("known", [False, True], ids=["unknown to Covey", "known to Covey"])
def test_group_of_another_project_is_like_one_that_does_not_exist(nova: Nova, compute: Compute, *, known: bool) -> None:
    group = compute.group()
    if known:
        assert nova.cloud.alice.put(f"/os-server-groups/{group}", POLICIES).status == 200
    before, asked = nova.cloud.rows(instance_groups), len(compute.asked)
    answers, of_none = requests_for(nova.cloud.bob, group), requests_for(nova.cloud.bob, UNKNOWN_ID)
    assert {answer.status for answer in answers} == {404}
    assert [a.text.replace(group, UNKNOWN_ID) for a in answers] == [a.text for a in of_none]
    assert nova.cloud.rows(instance_groups) == before
    of_group = compute.asked[asked:].count(f"/compute/v2.1/os-server-groups/{group}")
    of_unknown = compute.asked[asked:].count(f"/compute/v2.1/os-server-groups/{UNKNOWN_ID}")
    assert of_group == of_unknown > 0, "the time of an answer depends on the questions to Nova alone"


def test_operator_sets_policies_of_a_tenants_group(nova: Nova, compute: Compute) -> None:
    group = compute.group()
    shown = nova.cloud.admin.put(f"/os-server-groups/{group}", POLICIES).json["server_group"]
    assert (shown["project_id"], shown["user_id"]) == ("web", "alice")
    assert nova.cloud.alice.get(f"/os-server-groups/{group}").status == 200


@pytest.mark.sqlite_only
def test_tenant_cannot_choose_the_uuid_of_a_new_group(nova: Nova, compute: Compute) -> None:
    body = {"server_group": {"name": "x", "policies": ["affinity"], "id": compute.group()}}
    assert nova.cloud.bob.post("/os-server-groups", body).status == 400


def test_nova_decides_whose_group_it_is(nova: Nova) -> None:
    group = GroupId(str(uuid.uuid4()))
    affinity = GroupPolicy(PolicyKind.AFFINITY)
    with nova.cloud.store.write() as tx:
        tx.groups.add(Group(group, "squatted", ProjectId("db"), UserId("bob"), (affinity,), 0, NOW))
    one, two = nova.member(group), nova.member(group)
    assert nova.cloud.bob.get(f"/os-server-groups/{group}").status == 404
    shown = nova.cloud.alice.get(f"/os-server-groups/{group}").json["server_group"]
    assert (shown["project_id"], shown["policies"]) == ("web", ["anti-affinity"])
    nova.place(one, "cn1")
    violation(nova.claim(two, "cn1"))


@pytest.mark.sqlite_only
def test_key_that_is_no_uuid_is_not_sent_to_nova(nova: Nova, compute: Compute) -> None:
    for key in ("..%2Fservers", "x", UNKNOWN_ID.replace("-", ""), "%2e%2e"):
        assert nova.cloud.alice.get(f"/os-server-groups/{key}").status == 404
    assert compute.asked == []


@pytest.mark.sqlite_only
def test_unreachable_nova_is_503_without_its_address(build_cloud: BuildCloud) -> None:
    port = free_port()
    cloud = build_cloud(0, ("nova", "url", f"http://127.0.0.1:{port}/v2.1"))
    answer = cloud.alice.put(f"/os-server-groups/{uuid.uuid4()}", POLICIES)
    assert (answer.status, str(port) in answer.text) == (503, False)
    assert answer.message == "Nova does not answer. Try again in a moment."
    assert not cloud.rows(instance_groups)


def test_requests_that_wait_for_nova_are_limited_for_each_project(nova: Nova, compute: Compute) -> None:
    groups, group = nova.cloud.assembled.services.nova_groups, compute.group()
    while groups.limit.take("web"):
        pass
    assert nova.cloud.alice.get(f"/os-server-groups/{group}").status == 503
    assert nova.cloud.admin.get(f"/os-server-groups/{group}").status == 200


def test_group_of_nova_is_deleted_once_it_is_gone_there(nova: Nova, compute: Compute) -> None:
    group = compute.group()
    path = f"/os-server-groups/{group}"
    assert nova.cloud.alice.put(path, POLICIES).status == 200
    kept = nova.cloud.alice.delete(path)
    assert (kept.status, "belongs to Nova" in kept.message) == (409, True)
    assert compute.alice.delete(path).status == 204
    assert nova.cloud.bob.delete(path).status == 404
    assert nova.cloud.alice.delete(path).status == 204
    assert nova.cloud.alice.get(path).status == 404


def test_name_and_members_of_novas_group_are_read_only(nova: Nova, compute: Compute) -> None:
    path = f"/os-server-groups/{compute.group()}"
    assert nova.cloud.alice.put(path, {"server_group": {"name": "other"}}).status == 409
    added = nova.cloud.alice.post(f"{path}/action", {"add_instance": {"instance_id": UNKNOWN_ID}})
    assert (added.status, "belongs to Nova" in added.message) == (409, True)


@pytest.mark.sqlite_only
def test_address_is_that_of_the_sync(compute: Compute, build_cloud: BuildCloud) -> None:
    nova, group = nova_with_racks(build_cloud(0)), compute.group()
    path = f"/os-server-groups/{group}"
    assert nova.cloud.alice.put(path, POLICIES).status == 404
    with nova.cloud.store.write() as tx:
        tx.nova_mirror.set_read(compute.url, NOW)
    assert nova.cloud.alice.put(path, POLICIES).status == 200


@pytest.mark.sqlite_only
@pytest.mark.parametrize("source", ["sync", "option"])
def test_address_of_one_project_serves_all(compute: Compute, build_cloud: BuildCloud, source: str) -> None:
    address = f"{compute.url}/5f705771d3ab4f3893ed5e9f2d9ea2f5"  # as older catalogues have it
    options = [("nova", "url", address)] if source == "option" else []
    nova, group = nova_with_racks(build_cloud(0, *options)), compute.group()
    if source == "sync":
        with nova.cloud.store.write() as tx:
            tx.nova_mirror.set_read(address, NOW)
    changed = nova.cloud.alice.put(f"/os-server-groups/{group}", POLICIES)
    assert changed.status == 200, changed.text


@pytest.mark.sqlite_only
@pytest.mark.parametrize("known", [True, False], ids=["in cafile", "unknown"])
def test_certificate_of_nova_is_checked_by_the_options(
    compute: Compute,
    build_cloud: BuildCloud,
    certificate: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    *,
    known: bool,
) -> None:
    if known:
        monkeypatch.setenv("OS_NOVA__CAFILE", str(certificate))
    with serving(compute, certificate) as address:
        nova = nova_with_racks(build_cloud(0, ("nova", "url", f"https://{address}/compute/v2.1")))
        changed = nova.cloud.alice.put(f"/os-server-groups/{compute.group()}", POLICIES)
    assert changed.status == (200 if known else 503), changed.text


def test_group_that_is_learned_while_nova_is_read_stays(nova: Nova, compute: Compute) -> None:
    early, store = compute.group(), nova.cloud.store
    assert nova.cloud.alice.put(f"/os-server-groups/{early}", POLICIES).status == 200
    late: list[str] = []

    class Reader(nova_api.Nova):
        def read(self, since: datetime | None = None) -> Any:
            cloud = super().read(since)
            late.append(compute.group())
            assert nova.cloud.alice.put(f"/os-server-groups/{late[-1]}", POLICIES).status == 200
            return cloud

    api = remote_api.connect("compute", url=compute.url, token="admin")
    mirror = NovaSync(store, Reader(api), clock_and_ids.now)
    mirror.run()
    for group in (early, *late):
        shown = nova.cloud.alice.get(f"/os-server-groups/{group}").json["server_group"]
        assert shown["policies"] == ["anti-affinity:rack"]
    assert compute.alice.delete(f"/os-server-groups/{late[0]}").status == 204
    mirror.run()
    known = {row.id for row in nova.cloud.rows(instance_groups)}
    assert (early in known, late[0] in known, late[1] in known) == (True, False, True)


def mirror(nova: Nova, **states: dict[str, Any]) -> None:
    """Give the computes memory and disk, and write what a sync reads of them."""
    sizes = {"VCPU": {"total": 100}, "MEMORY_MB": {"total": 102400}, "DISK_GB": {"total": 1000}}
    for key in nova.computes.values():
        nova._put(key, "inventories", {"inventories": sizes})
    up: dict[str, Any] = {"zone": "az-1", "disabled": False, "disabled_reason": None, "up": True}
    hosts = {key: NovaHost(key, name, name, **(up | states.get(name, {}))) for name, key in nova.computes.items()}
    with nova.cloud.store.write() as tx:
        tx.nova_mirror.set_hosts(hosts)


def act(client: Client, group: str, action: str, **more: Any) -> Any:
    answer = client.post(f"/os-server-groups/{group}/action", {action: {"flavor": "small"} | more})
    assert answer.status == 200, answer.text
    return answer.json[action]


def test_preview_and_headroom_count_the_instances_of_nova(nova: Nova, compute: Compute) -> None:
    mirror(nova)
    group, alice = compute.group(), nova.cloud.alice
    assert alice.put(f"/os-server-groups/{group}", {"server_group": {"policies": ["anti-affinity:rack"]}}).status == 200
    assert act(alice, group, "headroom")["count"] == 2
    placed = act(nova.cloud.admin, group, "preview", count=2)["placements"]
    assert len({place["rack"] for place in placed}) == 2
    nova.place(nova.member(group, "soft-anti-affinity"), "cn1")
    left = act(alice, group, "headroom")
    assert (left["count"], left["reason"]) == (
        1,
        "Of 4 hosts: 3 already hold 1 of the group in their rack, 1 is in no rack.",
    )
    mirror(nova, cn3={"disabled": True})
    left = act(alice, group, "headroom")
    assert left["count"] == 0
    assert left["reason"] == "Of 4 hosts: 2 already hold 1 of the group in their rack, 1 is disabled, 1 is in no rack."


def test_maximum_of_members_limits_previews_rankings_and_claims(compute: Compute, build_cloud: BuildCloud) -> None:
    limit = ("quota", "max_members_per_group", 2)
    nova = nova_with_racks(build_cloud(1, limit, ("nova", "url", compute.url)))
    mirror(nova)
    group, admin = compute.group(), nova.cloud.admin
    assert act(admin, group, "headroom")["count"] == 2
    one, two, three = (nova.member(group, "soft-anti-affinity") for _ in range(3))
    nova.place(one, "cn1")
    nova.place(two, "cn2")
    left = act(admin, group, "headroom")
    assert (left["count"], left["reason"]) == (0, "A group may have 2 members, which leaves 0 more.")
    assert act(admin, group, "preview", count=1)["fits"] == 0
    ranked = nova.rank(group, "soft-anti-affinity", three)
    why = "4 can't take another member of the group, which has its maximum of 2"
    assert (ranked["hosts"], ranked["refused"]) == ({}, [why])
    assert violation(nova.claim(three, "cn3")).endswith("it has its maximum of 2 members.")
    nova.leave(one)
    nova.place(one, "cn3")  # a move adds no member
    assert nova.rank(group, "soft-anti-affinity", two)["hosts"]
    nova.delete(two)
    nova.place(three, "cn2")


def test_preview_of_novas_group_has_novas_quota_and_compute_nodes(compute: Compute, build_cloud: BuildCloud) -> None:
    nova = nova_with_racks(build_cloud(3, ("nova", "url", compute.url)))
    mirror(nova, cn2={"up": False}, cn3={"zone": "az-2"})
    nova.cloud.set_quota(instances=0)
    compute.cloud.set_quota(instances=6)
    group = compute.group()
    assert compute.cloud.request_server(compute.cloud.alice).status == 202
    seen = act(nova.cloud.alice, group, "preview", count=9)
    assert (seen["fits"], seen["reason"]) == (5, "The quota leaves 5 more servers of this flavor.")
    shown = act(nova.cloud.admin, group, "preview", count=200)
    assert {place["host"] for place in shown["placements"]} == {"cn1", "cn3", "cn4"}
    (only,) = act(nova.cloud.admin, group, "preview", availability_zone="az-2")["placements"]
    assert only == {"host": "cn3"}
