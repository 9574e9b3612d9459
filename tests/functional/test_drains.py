"""Drains of hosts and domains: plan, execution, cancellation, undo and recovery."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from covey.assembly import Assembled
from covey.model.work import JobKind
from tests.build import a_host
from tests.functional.client import Answer, Client
from tests.functional.fleets import UNKNOWN_ID, BuildCloud, Cloud, FailingDriver
from tests.functional.scopes import add_scope

RACKS = {"rack-1": ["node-1", "node-2"], "rack-2": ["node-3", "node-4"], "rack-3": ["node-5", "node-6"]}


@pytest.fixture
def racks(build_cloud: BuildCloud) -> Cloud:
    """Three racks of two hosts each."""
    cloud = build_cloud(6)
    add_scope(cloud, "rack", RACKS)
    return cloud


def asked(client: Client, domain: str, scope: str | None = None, **fields: Any) -> Answer:
    return client.post(
        "/os-drains", {"drain": {"domain": domain, **({} if scope is None else {"scope": scope}), **fields}}
    )


def planned(cloud: Cloud, domain: str, scope: str | None = None) -> dict[str, Any]:
    answer = asked(cloud.admin, domain, scope, dry_run=True)
    assert answer.status == 200, answer.text
    plan: dict[str, Any] = answer.json["drain"]
    return plan


def started(cloud: Cloud, domain: str, scope: str | None = None) -> dict[str, Any]:
    answer = asked(cloud.admin, domain, scope)
    assert answer.status == 202, answer.text
    drain: dict[str, Any] = answer.json["drain"]
    return drain


def shown(cloud: Cloud, drain: dict[str, Any]) -> dict[str, Any]:
    answer = cloud.admin.get(f"/os-drains/{drain['id']}")
    assert answer.status == 200, answer.text
    found: dict[str, Any] = answer.json["drain"]
    return found


def act(cloud: Cloud, drain: dict[str, Any], action: str) -> Answer:
    return cloud.admin.post(f"/os-drains/{drain['id']}/action", {action: {}})


def finish(cloud: Cloud, drain: dict[str, Any]) -> dict[str, Any]:
    """Run jobs until the drain has nothing left to do."""
    for _ in range(100):
        cloud.settle()
        if not cloud.jobs():
            return shown(cloud, drain)
        cloud.time.advance(60)
    raise AssertionError(shown(cloud, drain))


def drained(cloud: Cloud, domain: str, scope: str | None = None) -> dict[str, Any]:
    return finish(cloud, started(cloud, domain, scope))


def disabled(cloud: Cloud) -> dict[str, str]:
    """Return the reason of each disabled host."""
    services = cloud.admin.get("/os-services").json["services"]
    return {each["host"]: each["disabled_reason"] for each in services if each["status"] == "disabled"}


def rack_of(host: str | None) -> str:
    return next(rack for rack, hosts in RACKS.items() if host in hosts)


def test_dry_run_returns_the_moves_and_changes_nothing(racks: Cloud) -> None:
    servers = [racks.boot_on(host) for host in ("node-5", "node-6", "node-6")]
    racks.boot_on("node-1")
    plan = planned(racks, "rack-3", "rack")
    assert (plan["scope"], plan["domain"], plan["hosts"]) == ("rack", "rack-3", RACKS["rack-3"])
    assert (plan["dry_run"], plan["left"]) == (True, [])
    assert {move["instance_id"]: move["from"] for move in plan["moves"]} == dict(
        zip(servers, ("node-5", "node-6", "node-6"), strict=True)
    )
    assert {rack_of(move["to"]) for move in plan["moves"]} <= {"rack-1", "rack-2"}
    assert racks.hosts(servers) == ["node-5", "node-6", "node-6"]
    assert not disabled(racks)
    assert not racks.jobs()
    assert racks.admin.get("/os-drains").json == {"drains": []}


def test_drained_host_is_empty_disabled_and_takes_no_new_server(cloud: Cloud) -> None:
    servers = [cloud.boot_on("node-1") for _ in range(5)]
    drain = started(cloud, "node-1")
    assert (drain["scope"], drain["status"], drain["moves_planned"]) == ("host", "running", 5)
    assert disabled(cloud) == {"node-1": f"drained by {drain['id']}"}
    assert "node-1" not in cloud.hosts(cloud.boot() for _ in range(3))
    over = finish(cloud, drain)
    assert (over["status"], over["moves_done"], over["left"]) == ("done", 5, [])
    assert {move["status"] for move in over["moves"]} == {"done"}
    assert "node-1" not in cloud.used()
    for move in over["moves"]:
        assert cloud.host(move["instance_id"]) == move["to"]
        assert Counter(cloud.log(move["instance_id"])) == {("create", None): 1, ("live-migration", None): 1}
    assert {cloud.status(server) for server in servers} == {"ACTIVE"}
    assert disabled(cloud) == {"node-1": f"drained by {drain['id']}"}


def test_four_servers_move_at_once(cloud: Cloud) -> None:
    servers = [cloud.boot_on("node-1") for _ in range(6)]
    started(cloud, "node-1")
    cloud.step()
    assert Counter(map(cloud.status, servers)) == {"MIGRATING": 4, "ACTIVE": 2}


def test_members_stay_in_different_racks(racks: Cloud) -> None:
    group = racks.group("anti-affinity:rack", max_server_per_rack=2)
    servers = [racks.boot_on(host, group) for host in ("node-1", "node-5", "node-6")]
    assert drained(racks, "rack-3", "rack")["status"] == "done"
    counts = Counter(rack_of(racks.host(server)) for server in servers)
    assert sorted(counts.items(), key=lambda each: each[1]) in (
        [("rack-1", 1), ("rack-2", 2)],
        [("rack-2", 1), ("rack-1", 2)],
    )


def test_server_that_no_rack_admits_is_left_with_the_reason(racks: Cloud) -> None:
    group = racks.group("anti-affinity:rack")
    servers = [racks.boot_on(host, group) for host in ("node-1", "node-3", "node-5")]
    other = racks.boot_on("node-6")
    plan = planned(racks, "rack-3", "rack")
    assert [move["instance_id"] for move in plan["moves"]] == [other]
    (left,) = plan["left"]
    assert (left["instance_id"], left["host"]) == (servers[2], "node-5")
    assert left["reason"].startswith("No host admits it: of 6 hosts: ")
    assert "4 already hold 1 of the group in their rack, 2 are disabled" in left["reason"]
    over = drained(racks, "rack-3", "rack")
    assert (over["status"], over["moves_done"]) == ("failed", 1)
    assert [each["instance_id"] for each in over["left"]] == [servers[2]]
    assert racks.host(other) not in RACKS["rack-3"]
    assert racks.hosts(servers) == ["node-1", "node-3", "node-5"]


@pytest.mark.parametrize("policy", ["affinity", "affinity:rack"])
def test_members_under_affinity_leave_a_rack_together(racks: Cloud, policy: str) -> None:
    group = racks.group(policy)
    servers = [racks.boot_on("node-5", group) for _ in range(6)]
    assert drained(racks, "rack-3", "rack")["status"] == "done"
    assert len({rack_of(host) for host in racks.hosts(servers)} - {"rack-3"}) == 1
    if policy == "affinity":
        assert len(set(racks.hosts(servers))) == 1


def test_members_under_affinity_by_rack_stay_in_their_rack(racks: Cloud) -> None:
    group = racks.group("affinity:rack")
    servers = [racks.boot_on("node-5", group), racks.boot_on("node-6", group)]
    assert drained(racks, "node-5")["status"] == "done"
    assert racks.hosts(servers) == ["node-6", "node-6"]


def test_affinity_group_that_fits_nowhere_else_stays_whole(build_cloud: BuildCloud) -> None:
    cloud = build_cloud([a_host("node-1"), a_host("small-1", vcpus=2), a_host("small-2", vcpus=2)])
    group = cloud.group("affinity")
    servers = [cloud.boot_on("node-1", group) for _ in range(3)]
    over = drained(cloud, "node-1")
    assert (over["status"], over["moves"]) == ("failed", [])
    assert cloud.hosts(servers) == ["node-1"] * 3
    assert {each["instance_id"] for each in over["left"]} == set(servers)
    for each in over["left"]:
        assert each["reason"].startswith("Its group stays together, and 2 of 3 members fit elsewhere.")


def test_locked_member_keeps_its_affinity_group_on_the_host(cloud: Cloud) -> None:
    group = cloud.group("affinity")
    servers = [cloud.boot_on("node-1", group) for _ in range(2)]
    cloud.run_action(cloud.alice, servers[0], "lock")
    over = drained(cloud, "node-1")
    assert over["status"] == "failed"
    assert cloud.hosts(servers) == ["node-1", "node-1"]
    assert {each["instance_id"]: each["reason"] for each in over["left"]}[servers[0]] == "It is locked."


@pytest.mark.sqlite_only
def test_servers_that_cannot_move_are_left_with_their_reasons(cloud: Cloud) -> None:
    locked, failed, resized, free = (cloud.boot_on("node-1") for _ in range(4))
    cloud.run_action(cloud.alice, locked, "lock")
    cloud.run_action(cloud.admin, failed, "os-resetState", {"state": "error"})
    cloud.run_action(cloud.alice, resized, "resize", {"flavorRef": "big"})
    over = drained(cloud, "node-1")
    assert over["status"] == "failed"
    assert {each["instance_id"]: each["reason"] for each in over["left"]} == {
        locked: "It is locked.",
        failed: "Its status is ERROR; only ACTIVE and SHUTOFF servers move.",
        resized: "It waits until its resize or migration is confirmed or reverted.",
    }
    assert cloud.host(free) != "node-1"
    assert cloud.status(resized) == "VERIFY_RESIZE", "only its owner confirms its resize"


def test_busy_server_is_waited_for(cloud: Cloud) -> None:
    server = cloud.boot_on("node-1")
    assert cloud.act(cloud.alice, server, "os-stop").status == 202
    over = drained(cloud, "node-1")
    assert (over["status"], over["moves_done"]) == ("done", 1)
    assert cloud.status(server) == "SHUTOFF"


def test_stopped_server_moves_cold_and_is_confirmed(cloud: Cloud) -> None:
    server = cloud.boot_on("node-1")
    cloud.run_action(cloud.alice, server, "os-stop")
    assert drained(cloud, "node-1")["status"] == "done"
    assert (cloud.status(server), cloud.host(server) != "node-1") == ("SHUTOFF", True)
    assert sum(cloud.used().values()) == 1, "the old place is given back"


def test_member_waits_for_the_move_that_makes_room_in_its_rack(build_cloud: BuildCloud) -> None:
    cloud = build_cloud([*(a_host(f"node-{n}") for n in (1, 2, 3)), a_host("node-4", 8, 65536)])
    add_scope(cloud, "rack", {"rack-1": ["node-1", "node-2"], "rack-2": ["node-3"], "rack-3": ["node-4"]})
    add_scope(cloud, "row", {"row-1": ["node-1", "node-3"]})
    group = cloud.group("anti-affinity:rack")
    servers = [cloud.boot_on("node-1", group, flavorRef="big"), cloud.boot_on("node-3", group)]
    for server in servers:
        cloud.run_action(cloud.alice, server, "os-stop")
    assert drained(cloud, "row-1", "row")["status"] == "done"
    assert cloud.hosts(servers) == ["node-4", "node-2"]


def test_repeatedly_failing_move_is_left_with_the_reason(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(2, driver=FailingDriver(verbs={"live"}))
    server = cloud.boot_on("node-1")
    over = drained(cloud, "node-1")
    assert over["status"] == "failed"
    assert over["left"] == [{"instance_id": server, "host": "node-1", "reason": "The move to node-2 failed."}]
    assert [move["status"] for move in over["moves"]] == ["failed", "failed"]
    assert cloud.status(server) == "ACTIVE"


def test_cancelled_drain_finishes_its_moves_and_starts_no_other(cloud: Cloud) -> None:
    servers = [cloud.boot_on("node-1") for _ in range(6)]
    for server in servers:
        cloud.run_action(cloud.alice, server, "os-stop")
    drain = started(cloud, "node-1")
    cloud.step()  # claims the first four moves
    cancelled = act(cloud, drain, "cancel")
    assert (cancelled.status, cancelled.json["drain"]["status"]) == (202, "cancelled")
    over = finish(cloud, drain)
    assert (over["status"], over["moves_done"]) == ("cancelled", 4)
    assert Counter(cloud.hosts(servers))["node-1"] == 2
    assert {cloud.status(server) for server in servers} == {"SHUTOFF"}, "confirmed all the same"
    assert set(disabled(cloud)) == {"node-1"}
    again = act(cloud, drain, "cancel")
    assert again.status == 409
    assert again.message == f"The drain {drain['id']} is not running: its status is cancelled."


def test_undo_enables_the_hosts_that_the_drain_disabled(racks: Cloud) -> None:
    racks.set_host("node-5", status="disabled", disabled_reason="broken fan")
    servers = [racks.boot_on("node-6") for _ in range(2)]
    drain = drained(racks, "rack-3", "rack")
    assert (drain["status"], drain["disabled_hosts"]) == ("done", ["node-6"])
    undone = act(racks, drain, "undo")
    assert (undone.status, undone.json["drain"]["status"]) == (202, "undone")
    assert disabled(racks) == {"node-5": "broken fan"}
    assert "node-6" not in racks.hosts(servers), "servers stay where they are"
    again = act(racks, drain, "undo")
    assert (again.status, again.message) == (409, f"The drain {drain['id']} is undone already.")
    assert racks.host(racks.boot_on("node-6")) == "node-6"


def test_undo_ends_a_running_drain(cloud: Cloud) -> None:
    servers = [cloud.boot_on("node-1") for _ in range(6)]
    drain = started(cloud, "node-1")
    cloud.step()
    assert act(cloud, drain, "undo").status == 202
    assert finish(cloud, drain)["status"] == "undone"
    assert Counter(cloud.hosts(servers))["node-1"] == 2
    assert not disabled(cloud)


def test_undo_enables_the_hosts_of_a_drain_that_was_started_again(racks: Cloud) -> None:
    racks.set_host("node-5", status="disabled", disabled_reason="drained by bob")
    first = started(racks, "rack-3", "rack")
    assert act(racks, first, "cancel").status == 202
    second = finish(racks, started(racks, "rack-3", "rack"))
    assert second["disabled_hosts"] == ["node-6"]
    assert disabled(racks) == {"node-5": "drained by bob", "node-6": f"drained by {second['id']}"}
    assert act(racks, second, "undo").status == 202
    assert disabled(racks) == {"node-5": "drained by bob"}


def test_undo_leaves_a_host_that_the_drain_of_another_domain_disabled(racks: Cloud) -> None:
    repaired = drained(racks, "node-5")
    rack = drained(racks, "rack-3", "rack")
    assert act(racks, rack, "undo").status == 202
    assert disabled(racks) == {"node-5": f"drained by {repaired['id']}"}


def test_undo_leaves_a_host_that_was_disabled_for_another_reason(cloud: Cloud) -> None:
    drain = drained(cloud, "node-1")
    cloud.set_host("node-1", status="disabled", disabled_reason="new disk")
    assert act(cloud, drain, "undo").status == 202
    assert disabled(cloud) == {"node-1": "new disk"}


def test_undo_waits_for_another_drain_of_the_host(racks: Cloud) -> None:
    first = drained(racks, "node-5")
    racks.boot_on("node-6")
    second = started(racks, "rack-3", "rack")
    refused = act(racks, first, "undo")
    assert refused.status == 409
    assert refused.message.startswith(f"The drain {second['id']} of one of these hosts is running.")
    assert set(disabled(racks)) == {"node-5", "node-6"}
    finish(racks, second)
    assert act(racks, first, "undo").status == 202
    assert set(disabled(racks)) == {"node-6"}


def test_drain_continues_after_a_worker_dies(racks: Cloud) -> None:
    group = racks.group("affinity:rack")
    servers = [racks.boot_on("node-5", group) for _ in range(3)] + [racks.boot_on("node-6") for _ in range(3)]
    for server in servers[::2]:
        racks.run_action(racks.alice, server, "os-stop")
    drain = started(racks, "rack-3", "rack")
    for _ in range(60):
        jobs = {job.kind for job in racks.jobs()}
        if not jobs:
            break
        if JobKind.MOVE in jobs:
            with pytest.raises(KeyboardInterrupt):
                dying(racks).worker().run_once()  # killed while it moves a server
        racks.time.advance(60)
        racks.step()
        racks.time.advance(60)
    assert shown(racks, drain)["status"] == "done"
    assert len({rack_of(host) for host in racks.hosts(servers[:3])} - {"rack-3"}) == 1
    assert {racks.status(server) for server in servers} == {"ACTIVE", "SHUTOFF"}


def dying(cloud: Cloud) -> Assembled:
    """Return a process that dies when it moves a server."""

    class Killed(FailingDriver):
        def move(self, *_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

    made = cloud.assembled
    return replace(made, server_tasks=replace(made.server_tasks, driver=Killed()))


@pytest.mark.parametrize("begun", [0, 2])
def test_crash_while_moves_begin_is_recovered(cloud: Cloud, monkeypatch: pytest.MonkeyPatch, begun: int) -> None:
    servers = [cloud.boot_on("node-1") for _ in range(4)]
    for server in servers:
        cloud.run_action(cloud.alice, server, "os-stop")
    drain = started(cloud, "node-1")
    steps = type(cloud.assembled.drains)
    begin, calls = steps._begin, Counter[str]()

    def killed(*arguments: Any) -> Any:
        calls["begin"] += 1
        if calls["begin"] > begun:
            raise KeyboardInterrupt
        return begin(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(steps, "_begin", killed)
        with pytest.raises(KeyboardInterrupt):
            cloud.step()
    assert [move["status"] for move in shown(cloud, drain)["moves"]] == ["pending"] * 4
    cloud.time.advance(60)
    over = finish(cloud, drain)
    assert (over["status"], over["moves_done"], len(over["moves"])) == ("done", 4, 4)
    assert {cloud.status(server) for server in servers} == {"SHUTOFF"}


def test_deleted_server_is_left_out(cloud: Cloud) -> None:
    servers = [cloud.boot_on("node-1") for _ in range(2)]
    drain = started(cloud, "node-1")
    cloud.step()
    assert cloud.admin.delete(f"/servers/{servers[0]}").status == 204
    assert finish(cloud, drain)["status"] == "done"
    assert cloud.host(servers[1]) != "node-1"


def test_empty_host_is_drained_at_once(cloud: Cloud) -> None:
    assert drained(cloud, "node-2")["status"] == "done"


def test_host_with_a_running_drain_is_a_conflict(racks: Cloud) -> None:
    racks.boot_on("node-5")
    drain = started(racks, "rack-3", "rack")
    for domain, scope in (("node-5", None), ("rack-3", "rack")):
        second = asked(racks.admin, domain, scope)
        assert second.status == 409
        assert second.message == (
            f"The drain {drain['id']} of one of these hosts is running. Wait for its end, or cancel it."
        )
    finish(racks, drain)
    assert asked(racks.admin, "node-5").status == 202


def test_domain_is_named_by_its_id_as_well(racks: Cloud) -> None:
    found = racks.admin.get("/os-policy-scopes/rack").json["policy_scope"]["aggregates"]
    number = next(each["id"] for each in found if each["name"] == "rack-2")
    assert planned(racks, str(number), "rack")["hosts"] == RACKS["rack-2"]


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("scope", "domain", "message"),
    [
        ("shelf", "x", "Policy scope 'shelf' does not exist."),
        (None, "node-9", "Compute host node-9 could not be found."),
        (
            "rack",
            "rack-9",
            "The policy scope rack has no domain rack-9: it is the name or id of one of its aggregates.",
        ),
        ("rack", "empty", "The rack empty has no hosts."),
        (
            "rack",
            "AMBIGUOUS",
            "is ambiguous: it is the name of one aggregate of the scope rack, and the id of another.",
        ),
    ],
)
def test_unknown_or_ambiguous_domain_is_400(
    build_cloud: BuildCloud, scope: str | None, domain: str, message: str
) -> None:
    cloud = build_cloud(2)
    ids = add_scope(cloud, "rack", {"rack-1": ["node-1"], "empty": []})
    if domain == "AMBIGUOUS":
        domain = ids["rack-1"]
        answer = cloud.admin.put(f"/os-aggregates/{ids['empty']}", {"aggregate": {"name": domain}})
        assert answer.status == 200, answer.text
    answer = asked(cloud.admin, domain, scope)
    assert answer.status == 400
    assert answer.message.endswith(message)
    assert not cloud.jobs()


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"drain": {}},
        {"drain": {"domain": ""}},
        {"drain": {"domain": "node-1", "dry_run": "perhaps"}},
        {"drain": {"host": "x"}},
    ],
)
def test_malformed_body_is_400(cloud: Cloud, body: object) -> None:
    assert cloud.admin.post("/os-drains", body).status == 400


@pytest.mark.sqlite_only
def test_unknown_drain_is_404_and_unknown_action_is_400(cloud: Cloud) -> None:
    assert cloud.admin.get(f"/os-drains/{UNKNOWN_ID}").status == 404
    assert cloud.admin.post(f"/os-drains/{UNKNOWN_ID}/action", {"cancel": {}}).status == 404
    drain = started(cloud, "node-1")
    bodies: list[object] = [{"pause": {}}, {"cancel": {"now": True}}, {}, {"cancel": {}, "undo": {}}]
    for body in bodies:
        assert cloud.admin.post(f"/os-drains/{drain['id']}/action", body).status == 400


@pytest.mark.sqlite_only
def test_drains_are_for_administrators_at_coveys_version(cloud: Cloud) -> None:
    drain = started(cloud, "node-1")
    path = f"/os-drains/{drain['id']}"
    answers = (
        asked(cloud.alice, "node-2"),
        asked(cloud.alice, "node-2", dry_run=True),
        cloud.alice.get("/os-drains"),
        cloud.alice.get(path),
        cloud.alice.post(f"{path}/action", {"cancel": {}}),
        cloud.alice.post(f"{path}/action", {"undo": {}}),
    )
    assert [answer.status for answer in answers] == [403] * 6
    older = cloud.service.as_("admin:operators", "2.104")
    assert [older.get("/os-drains").status, older.get(path).status] == [404, 404]


def test_drains_are_listed_newest_first(cloud: Cloud) -> None:
    first = drained(cloud, "node-1")
    cloud.time.advance(1)
    second = drained(cloud, "node-2")
    listed = cloud.admin.get("/os-drains").json["drains"]
    assert [each["id"] for each in listed] == [second["id"], first["id"]]
    assert set(listed[0]) == {
        "id", "scope", "domain", "status", "moves_planned", "moves_done", "created_at", "updated_at"
    }  # fmt: skip
