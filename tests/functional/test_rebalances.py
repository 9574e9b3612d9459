"""Rebalances: plan, execution, cancellation and recovery."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from covey.assembly import Assembled
from covey.model.work import JobKind
from covey.services.rebalances import Planner
from tests.functional.client import Answer, Client
from tests.functional.fleets import UNKNOWN_ID, BuildCloud, Cloud, FailingDriver

APART = "anti-affinity"
TIMEOUT_S = 30


def act(client: Client, group: str, **action: Any) -> Answer:
    return client.post(f"/os-server-groups/{group}/action", action)


def planned(client: Client, group: str) -> dict[str, Any]:
    answer = act(client, group, rebalance={"dry_run": True})
    assert answer.status == 200, answer.text
    shown: dict[str, Any] = answer.json["rebalance"]
    return shown


def started(cloud: Cloud, group: str) -> dict[str, Any]:
    answer = act(cloud.admin, group, rebalance={})
    assert answer.status == 202, answer.text
    shown: dict[str, Any] = answer.json["rebalance"]
    return shown


def shown(cloud: Cloud, group: str, client: Client | None = None) -> dict[str, Any]:
    answer = (client or cloud.admin).get(f"/os-server-groups/{group}/rebalance")
    assert answer.status == 200, answer.text
    doc: dict[str, Any] = answer.json["rebalance"]
    return doc


def finish(cloud: Cloud, group: str, executor: int = 100) -> dict[str, Any]:
    """Run jobs until the rebalance is finished."""
    for _ in range(executor):
        cloud.settle()
        if not cloud.jobs():
            return shown(cloud, group)
        cloud.time.advance(60)
    raise AssertionError(shown(cloud, group))


@pytest.fixture
def crowded(cloud: Cloud) -> tuple[Cloud, str, list[str]]:
    """Three members of a group on one host; the limit is one."""
    group = cloud.group(APART)
    servers = [cloud.boot_on("node-1", group) for _ in range(3)]
    return cloud, group, servers


Crowded = tuple[Cloud, str, list[str]]


def test_dry_run_returns_the_plan_and_changes_nothing(crowded: Crowded) -> None:
    cloud, group, servers = crowded
    plan = planned(cloud.admin, group)
    assert plan["server_group_id"] == group
    assert plan["dry_run"] is True
    assert {move["from"] for move in plan["moves"]} == {"node-1"}
    assert {move["to"] for move in plan["moves"]} == {"node-2", "node-3"}
    assert {move["instance_id"] for move in plan["moves"]} < set(servers)
    assert (plan["bound"], plan["optimal"], plan["left"], plan["violations_after"]) == (2, True, [], [])
    (violation,) = plan["violations_before"]
    assert violation["policy"] == APART
    assert violation["domain"] == "node-1"
    assert set(violation["members"]) == set(servers)
    assert set(cloud.hosts(servers)) == {"node-1"}
    assert not cloud.jobs()
    assert cloud.admin.get(f"/os-server-groups/{group}/rebalance").status == 404


@pytest.mark.sqlite_only
def test_plan_hides_host_names_from_tenants(crowded: Crowded) -> None:
    cloud, group, _ = crowded
    answer = act(cloud.alice, group, rebalance={"dry_run": "true"})
    assert answer.status == 200
    assert "node-" not in answer.text
    plan = answer.json["rebalance"]
    (source,) = {move["from"] for move in plan["moves"]}
    assert len({source, *(move["to"] for move in plan["moves"])}) == 3, "the same host has the same name in one answer"
    assert plan["violations_before"][0]["domain"] == source


def test_servers_move_one_after_another_until_the_policy_holds(crowded: Crowded) -> None:
    cloud, group, servers = crowded
    begun = started(cloud, group)
    assert (begun["status"], begun["moves_done"], len(begun["moves"])) == ("running", 0, 2)
    cloud.step()
    cloud.step()
    assert sorted(server["status"] for server in cloud.servers()) == ["ACTIVE", "ACTIVE", "ACTIVE"]
    assert Counter(cloud.hosts(servers))["node-1"] == 2, "one at a time"
    over = finish(cloud, group)
    assert (over["id"], over["status"], over["moves_done"], over["reason"]) == (begun["id"], "done", 2, None)
    assert over["moves"] == begun["moves"]
    assert sorted(map(str, cloud.hosts(servers))) == ["node-1", "node-2", "node-3"]
    for move in over["moves"]:
        assert cloud.host(move["instance_id"]) == move["to"]
        assert cloud.log(move["instance_id"])[0] == ("live-migration", None)
    assert planned(cloud.admin, group)["moves"] == []


def test_stopped_server_moves_cold_and_is_confirmed_automatically(cloud: Cloud) -> None:
    group = cloud.group(APART)
    servers = [cloud.boot_on("node-1", group) for _ in range(2)]
    for server in servers:
        cloud.run_action(cloud.alice, server, "os-stop")
    started(cloud, group)
    assert finish(cloud, group)["status"] == "done"
    assert len(set(cloud.hosts(servers))) == 2
    assert {cloud.status(server) for server in servers} == {"SHUTOFF"}
    assert sum(cloud.used().values()) == 2, "the old place is given back"


def test_group_without_violations_has_an_empty_plan(cloud: Cloud) -> None:
    group = cloud.group(APART)
    cloud.boot(group=group, min_count=2)
    assert planned(cloud.alice, group)["moves"] == []
    assert started(cloud, group)["status"] == "done"
    assert not cloud.jobs()


def test_plan_names_violations_that_no_move_ends(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(2)
    group = cloud.group(APART)
    for _ in range(3):
        cloud.boot_on("node-1", group)
    plan = planned(cloud.admin, group)
    assert len(plan["moves"]) == 1
    assert [violation["domain"] for violation in plan["violations_after"]] == ["node-1"]
    started(cloud, group)
    assert finish(cloud, group)["status"] == "done"


def test_locked_and_busy_servers_do_not_move(crowded: Crowded) -> None:
    cloud, group, servers = crowded
    cloud.run_action(cloud.alice, servers[0], "lock")
    cloud.run_action(cloud.admin, servers[1], "os-resetState", {"state": "error"})
    assert [move["instance_id"] for move in planned(cloud.admin, group)["moves"]] == [servers[2]]


def test_rebalance_continues_after_a_worker_dies(crowded: Crowded) -> None:
    """Every step runs in a new worker with a newly loaded fleet."""
    cloud, group, servers = crowded
    started(cloud, group)
    for _ in range(60):
        with cloud.store.write() as tx:
            tx.topology.changed(providers=[1])  # reloads the fleet
        jobs = {job.kind for job in cloud.jobs()}
        if not jobs:
            break
        if JobKind.MOVE in jobs:
            with pytest.raises(KeyboardInterrupt):
                dying(cloud).worker().run_once()  # killed while it moves a server
        cloud.time.advance(60)
        cloud.step()
        cloud.time.advance(60)
    assert shown(cloud, group)["status"] == "done"
    assert len(set(cloud.hosts(servers))) == 3


def dying(cloud: Cloud) -> Assembled:
    """Return a process that dies when it moves a server."""

    class Killed(FailingDriver):
        def move(self, *_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

    made = cloud.assembled
    return replace(made, server_tasks=replace(made.server_tasks, driver=Killed()))


def test_crash_between_a_claimed_move_and_saved_progress_is_recovered(
    crowded: Crowded, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud, group, servers = crowded
    started(cloud, group)
    steps = type(cloud.assembled.rebalances)

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(steps, "_save", killed)
        with pytest.raises(KeyboardInterrupt):
            cloud.step()
    assert [server["status"] for server in cloud.servers()].count("MIGRATING") == 1
    cloud.time.advance(60)
    over = finish(cloud, group)
    assert (over["status"], over["moves_done"], len(over["moves"])) == ("done", 2, 2)
    assert len(set(cloud.hosts(servers))) == 3


def test_cancelled_rebalance_finishes_its_move_and_starts_no_other(cloud: Cloud) -> None:
    group = cloud.group(APART)
    servers = [cloud.boot_on("node-1", group) for _ in range(3)]
    for server in servers:
        cloud.run_action(cloud.alice, server, "os-stop")
    begun = started(cloud, group)
    cloud.step()  # claims the first move
    assert act(cloud.admin, group, cancel_rebalance={}).status == 202
    over = finish(cloud, group)
    assert (over["status"], over["moves_done"]) == ("cancelled", 1)
    assert Counter(cloud.hosts(servers))["node-1"] == 2
    assert cloud.status(begun["moves"][0]["instance_id"]) == "SHUTOFF", "confirmed all the same"
    again = act(cloud.admin, group, cancel_rebalance={})
    assert again.status == 409
    assert again.message == f"No rebalance of the server group {group} is running."
    assert started(cloud, group)["id"] != begun["id"]


def test_second_rebalance_of_a_group_is_a_conflict(crowded: Crowded) -> None:
    cloud, group, _ = crowded
    started(cloud, group)
    second = act(cloud.admin, group, rebalance={})
    assert second.status == 409
    assert second.message == f"A rebalance of the server group {group} is running. Wait for its end, or cancel it."


def test_impossible_step_is_planned_again(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(4)
    group = cloud.group(APART)
    servers = [cloud.boot_on("node-1", group) for _ in range(2)]
    (move,) = started(cloud, group)["moves"]
    cloud.set_host(move["to"], status="disabled")
    over = finish(cloud, group)
    assert (over["status"], over["moves_done"]) == ("done", 1)
    assert over["moves"][0]["to"] != move["to"]
    assert len(set(cloud.hosts(servers))) == 2


def test_step_of_a_deleted_server_is_left_out(crowded: Crowded) -> None:
    cloud, group, servers = crowded
    gone = started(cloud, group)["moves"][0]["instance_id"]
    assert cloud.admin.delete(f"/servers/{gone}").status == 204
    over = finish(cloud, group)
    assert over["status"] == "done"
    assert len(set(cloud.hosts(set(servers) - {gone}))) == 2


def test_repeatedly_failing_step_fails_the_rebalance_with_a_reason(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(2, driver=FailingDriver(verbs={"live"}))
    group = cloud.group(APART)
    servers = [cloud.boot_on("node-1", group) for _ in range(2)]
    started(cloud, group)
    over = finish(cloud, group)
    assert over["status"] == "failed"
    assert over["reason"].startswith("A step failed after 4 plans")
    assert over["moves_done"] == 0
    assert set(cloud.hosts(servers)) == {"node-1"}


def test_rebalance_without_further_moves_fails_with_the_remaining_violation(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(2)
    group = cloud.group(APART)
    for _ in range(2):
        cloud.boot_on("node-1", group)
    started(cloud, group)
    cloud.set_host("node-2", status="disabled")
    over = finish(cloud, group)
    assert over["status"] == "failed"
    assert over["reason"].startswith("No further move ends the remaining violation: 2 members are on one host")


def test_deleting_a_group_ends_its_rebalance(crowded: Crowded) -> None:
    cloud, group, _ = crowded
    started(cloud, group)
    assert cloud.admin.delete(f"/os-server-groups/{group}").status == 204
    cloud.settle()
    assert not cloud.jobs()


# Access and invalid requests


@pytest.mark.sqlite_only
def test_tenants_may_plan_and_show_but_not_start(crowded: Crowded) -> None:
    cloud, group, _ = crowded
    assert act(cloud.alice, group, rebalance={}).status == 403
    assert act(cloud.alice, group, cancel_rebalance={}).status == 403
    started(cloud, group)
    seen = cloud.alice.get(f"/os-server-groups/{group}/rebalance")
    assert seen.status == 200
    assert "node-" not in seen.text
    for client in (cloud.bob, cloud.service.as_("carol:web", "2.1000").sending(X_Roles="reader")):
        assert act(client, group, rebalance={"dry_run": True}).status in {403, 404}
    assert act(cloud.bob, group, rebalance={"dry_run": True}).status == 404
    assert cloud.bob.get(f"/os-server-groups/{group}/rebalance").status == 404


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"rebalance": {"dry_run": "perhaps"}}, "dry_run"),
        ({"rebalance": {"now": True}}, "now"),
        ({"rebalance": []}, "rebalance"),
        ({"rebalance": None}, "rebalance"),
        ({"cancel_rebalance": {"x": 1}}, "x"),
        ({"rebalance": {}, "cancel_rebalance": {}}, "it has 2 actions (rebalance, cancel_rebalance); send one."),
    ],
)
def test_invalid_body_is_rejected_by_field_name(module_cloud: Cloud, body: Any, word: str) -> None:
    group = module_cloud.group(APART)
    answer = module_cloud.admin.post(f"/os-server-groups/{group}/action", body)
    assert answer.status == 400
    assert word in answer.message


@pytest.mark.sqlite_only
def test_unknown_group_returns_404(module_cloud: Cloud) -> None:
    actions: list[dict[str, Any]] = [{"rebalance": {"dry_run": True}}, {"rebalance": {}}, {"cancel_rebalance": {}}]
    for action in actions:
        assert act(module_cloud.admin, UNKNOWN_ID, **action).status == 404
    assert module_cloud.admin.get(f"/os-server-groups/{UNKNOWN_ID}/rebalance").status == 404


@pytest.mark.sqlite_only
def test_older_microversions_return_404(module_cloud: Cloud) -> None:
    group = module_cloud.group(APART)
    old = module_cloud.admin.at("2.96")
    assert act(old, group, rebalance={"dry_run": True}).status == 404
    assert old.get(f"/os-server-groups/{group}/rebalance").status == 404


def test_searches_are_limited_in_all_and_for_each_project(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(3, ("scheduler", "max_rebalance_searches", 2))
    alices, bobs, admins = (cloud.group(APART, client=client) for client in (cloud.alice, cloud.bob, cloud.admin))
    search, searching, go_on = Planner.plan, threading.Semaphore(0), threading.Event()

    def search_long(*arguments: Any) -> Any:
        searching.release()
        assert go_on.wait(TIMEOUT_S)
        return search(*arguments)

    def ask(client: Client, group: str) -> Answer:
        return act(client, group, rebalance={"dry_run": True})

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr(Planner, "plan", search_long)
        running = [pool.submit(ask, cloud.alice, alices), pool.submit(ask, cloud.bob, bobs)]
        for _ in running:
            assert searching.acquire(timeout=TIMEOUT_S)
        refused = [ask(cloud.alice, alices), ask(cloud.admin, admins), act(cloud.admin, alices, rebalance={})]
        go_on.set()
        assert [each.result(TIMEOUT_S).status for each in running] == [200, 200]
    assert [(answer.status, answer.headers["retry-after"]) for answer in refused] == [(503, "5")] * 3
    assert refused[0].message == "Too many rebalances are being planned. Retry in 5 seconds."
    assert ask(cloud.alice, alices).status == 200


def test_project_has_one_search_at_once(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(3, ("scheduler", "max_rebalance_searches", 3))
    alices, bobs = (cloud.group(APART, client=client) for client in (cloud.alice, cloud.bob))
    search, beside = Planner.plan, list[int]()

    def ask(client: Client, group: str) -> int:
        return act(client, group, rebalance={"dry_run": True}).status

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as pool:

        def search_beside_others(*arguments: Any) -> Any:
            patch.setattr(Planner, "plan", search)
            for client, group in ((cloud.alice, alices), (cloud.bob, bobs)):
                beside.append(pool.submit(ask, client, group).result(TIMEOUT_S))
            return search(*arguments)

        patch.setattr(Planner, "plan", search_beside_others)
        assert ask(cloud.alice, alices) == 200
    assert beside == [503, 200]


OWN = "os_compute_api:os-server-groups:rebalance:own: rule:project_member\n"


def crowded_group(cloud: Cloud, members: int = 3) -> str:
    """Return a group that needs one move less than it has members."""
    group = cloud.group("anti-affinity")
    for _ in range(members):
        cloud.boot_on("node-1", group)
    return group


@pytest.mark.sqlite_only
def test_tenant_may_not_rebalance_by_default(cloud: Cloud) -> None:
    group = crowded_group(cloud)
    assert cloud.alice.post(f"/os-server-groups/{group}/action", {"rebalance": {}}).status == 403


def test_tenant_repairs_its_group_within_the_limits(build_cloud: BuildCloud, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(OWN)
    cloud = build_cloud(4, ("scheduler", "tenant_rebalance_max_moves", 2))
    group = crowded_group(cloud)
    path = f"/os-server-groups/{group}/action"
    assert cloud.bob.post(path, {"rebalance": {}}).status == 404
    assert cloud.alice.post(path, {"rebalance": {}}).status == 202
    cloud.settle()
    cloud.boot_on("node-1", group)
    cloud.boot_on("node-1", group)
    soon = cloud.alice.post(path, {"rebalance": {}})
    assert soon.status == 403
    assert "The group was rebalanced less than 3600 seconds ago; retry in" in soon.message


def test_tenant_may_not_start_a_large_rebalance(build_cloud: BuildCloud, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(OWN)
    cloud = build_cloud(4, ("scheduler", "tenant_rebalance_max_moves", 1))
    group = crowded_group(cloud)
    path = f"/os-server-groups/{group}/action"
    refused = cloud.alice.post(path, {"rebalance": {}})
    assert (refused.status, refused.message) == (
        403,
        "The rebalance needs 2 moves; tenants may start one of up to 1. Ask an operator.",
    )
    assert cloud.admin.post(path, {"rebalance": {}}).status == 202


def test_rebalance_of_a_tenant_stays_within_its_limit_when_the_group_grows(
    build_cloud: BuildCloud, tmp_path: Path
) -> None:
    (tmp_path / "policy.yaml").write_text(OWN)
    cloud = build_cloud(6, ("scheduler", "tenant_rebalance_max_moves", 1))
    group = crowded_group(cloud, 2)
    others = [cloud.boot_on("node-1") for _ in range(3)]
    assert act(cloud.alice, group, rebalance={}).status == 202
    (move,) = shown(cloud, group)["moves"]
    cloud.set_host(move["to"], status="disabled")
    for server in others:
        assert act(cloud.alice, group, add_instance={"instance_id": server}).status == 200
    over = finish(cloud, group)
    assert (over["status"], over["moves_done"]) == ("failed", 0)
    assert over["reason"] == (
        "The group changed: its rebalance needs 4 moves by now; tenants may start one of up to 1. Ask an operator."
    )
    assert cloud.used() == {"node-1": 5}


def test_tenant_cancels_its_own_rebalance_and_no_operators(build_cloud: BuildCloud, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(OWN)
    cloud = build_cloud(4)
    group = crowded_group(cloud)
    assert act(cloud.admin, group, rebalance={}).status == 202
    refused = act(cloud.alice, group, cancel_rebalance={})
    assert (refused.status, refused.message) == (
        403,
        "An operator started this rebalance; only operators may cancel it.",
    )
    assert act(cloud.admin, group, cancel_rebalance={}).status == 202
    cloud.settle()
    group = crowded_group(cloud)
    assert act(cloud.alice, group, rebalance={}).status == 202
    assert act(cloud.alice, group, cancel_rebalance={}).status == 202


def test_rebalance_without_moves_starts_no_interval(build_cloud: BuildCloud, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(OWN)
    cloud = build_cloud(4)
    group = crowded_group(cloud, 1)
    assert act(cloud.alice, group, rebalance={}).json["rebalance"]["status"] == "done"
    cloud.boot_on("node-1", group)
    assert act(cloud.alice, group, rebalance={}).status == 202
