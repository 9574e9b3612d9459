"""Rebalances and drains of Nova's instances, by Nova's migrations."""

import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from covey.model.errors import Invalid
from covey.model.work import JobKind
from covey.storage import tables
from tests.build import a_host
from tests.functional import test_drains as drains
from tests.functional import test_rebalances as rebalances
from tests.functional.fleets import BuildCloud, Cloud
from tests.functional.nova_consumers import Nova
from tests.functional.nova_service import NO_VALID_HOST, TOKEN, NovaService, running_nova
from tests.functional.scopes import add_scope

GROUP = str(uuid.UUID(int=77))
RACKS = {"cn1": "rack-1", "cn2": "rack-1", "cn3": "rack-2", "cn4": "rack-2", "cn5": "rack-3", "cn6": "rack-3"}


@pytest.fixture
def nova(build_cloud: BuildCloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[NovaService]:
    """Six computes in three racks, and one host of Covey's own, which is in no rack."""
    ledger = Nova(build_cloud([a_host("node-1")]))
    for name in RACKS:
        ledger.add_compute(name)
    add_scope(ledger.cloud, "rack", {rack: [] for rack in RACKS.values()})
    with ledger.cloud.store.read() as tx:
        uuids = {aggregate.name: aggregate.uuid for aggregate in tx.aggregates.all()}
    for name, rack in RACKS.items():
        ledger.set_aggregates(name, uuids[rack])
    with running_nova(ledger) as service:
        monkeypatch.setenv("OS_NOVA__AUTH_TYPE", "admin_token")
        monkeypatch.setenv("OS_NOVA__ENDPOINT", f"{service.url}/v2.1")
        monkeypatch.setenv("OS_NOVA__TOKEN", TOKEN)
        yield service


@pytest.fixture
def cloud(nova: NovaService) -> Cloud:
    return nova.ledger.cloud


def set_policies(nova: NovaService, *policies: str, **rules: int) -> None:
    nova.ledger.rank(GROUP, "soft-anti-affinity", None)
    body = {"server_group": {"policies": list(policies), "rules": rules}}
    answer = nova.ledger.cloud.admin.put(f"/os-server-groups/{GROUP}", body)
    assert answer.status == 200, answer.text


def racks_of(nova: NovaService, servers: list[str]) -> Counter[str]:
    return Counter(RACKS[nova.instances[server].host] for server in servers)


def actions(nova: NovaService) -> list[tuple[str, Any]]:
    """Return the actions on instances, and their hosts."""
    found = [next(iter(body.items())) for method, _, body in nova.requests if method == "POST"]
    return [(name, body["host"] if body else None) for name, body in found]


def test_rebalance_is_carried_out_by_live_migrations(nova: NovaService, cloud: Cloud) -> None:
    servers = [nova.boot("cn1", GROUP) for _ in range(3)]
    set_policies(nova, "anti-affinity:rack")
    nova.sync()
    plan = rebalances.planned(cloud.admin, GROUP)
    assert (len(plan["moves"]), plan["optimal"], plan["violations_after"]) == (2, True, [])
    assert {move["from"] for move in plan["moves"]} == {"cn1"}
    rebalances.started(cloud, GROUP)
    over = rebalances.finish(cloud, GROUP)
    assert (over["status"], over["moves_done"], over["failed_moves"]) == ("done", 2, [])
    assert racks_of(nova, servers) == {"rack-1": 1, "rack-2": 1, "rack-3": 1}
    assert actions(nova) == [("os-migrateLive", move["to"]) for move in over["moves"]]
    assert rebalances.planned(cloud.admin, GROUP)["violations_before"] == []


def test_stopped_instance_moves_cold_and_is_confirmed(nova: NovaService, cloud: Cloud) -> None:
    servers = [nova.boot("cn1", GROUP, status="SHUTOFF") for _ in range(2)]
    set_policies(nova, "anti-affinity")
    nova.sync()
    rebalances.started(cloud, GROUP)
    assert rebalances.finish(cloud, GROUP)["status"] == "done"
    assert len({nova.instances[server].host for server in servers}) == 2
    assert [name for name, _ in actions(nova)] == ["migrate", "confirmResize"]
    assert {nova.instances[server].status for server in servers} == {"SHUTOFF"}
    assert len(cloud.rows(tables.allocations)) == 2, "the old place is given back"


def test_instances_of_nova_go_to_its_computes_only(nova: NovaService, cloud: Cloud) -> None:
    set_policies(nova, "soft-anti-affinity")
    own = [cloud.boot_on("node-1", GROUP) for _ in range(2)]
    instances = [nova.boot("cn1", GROUP) for _ in range(2)]
    set_policies(nova, "anti-affinity")
    nova.sync()
    plan = rebalances.planned(cloud.admin, GROUP)
    assert [move["instance_id"] in instances for move in plan["moves"]] == [True]
    assert {move["to"] for move in plan["moves"]} < set(RACKS)
    assert cloud.hosts(own) == ["node-1", "node-1"], "Covey has no second host for its own servers"


@pytest.mark.sqlite_only
def test_host_that_nova_refuses_is_not_tried_again(nova: NovaService, cloud: Cloud) -> None:
    servers = [nova.boot("cn1", GROUP) for _ in range(2)]
    set_policies(nova, "anti-affinity")
    nova.sync()
    nova.filtered = {rebalances.started(cloud, GROUP)["moves"][0]["to"]}
    over = rebalances.finish(cloud, GROUP)
    assert over["status"] == "done"
    (failed,) = over["failed_moves"]
    assert {failed["to"]} == nova.filtered
    assert NO_VALID_HOST in failed["reason"]
    assert len({nova.instances[server].host for server in servers}) == 2


@pytest.mark.sqlite_only
def test_rebalance_that_nova_refuses_fails_with_its_words(nova: NovaService, cloud: Cloud) -> None:
    servers = [nova.boot("cn1", GROUP) for _ in range(2)]
    set_policies(nova, "anti-affinity")
    nova.sync()
    nova.filtered = {*RACKS}
    rebalances.started(cloud, GROUP)
    over = rebalances.finish(cloud, GROUP)
    assert (over["status"], len(over["failed_moves"])) == ("failed", 4)
    assert nova.hosts() == dict.fromkeys(servers, "cn1")
    assert [instance.task for instance in nova.instances.values()] == [None, None]
    tenant = rebalances.shown(cloud, GROUP, cloud.alice)
    assert tenant["failed_moves"] == [], "Nova's words may name hosts"


@pytest.mark.sqlite_only
def test_rebalance_waits_for_a_nova_that_does_not_answer(nova: NovaService, cloud: Cloud) -> None:
    servers = [nova.boot("cn1", GROUP) for _ in range(2)]
    set_policies(nova, "anti-affinity")
    nova.sync()
    rebalances.started(cloud, GROUP)
    nova.answering = False
    cloud.settle()
    waiting = rebalances.shown(cloud, GROUP)
    assert (waiting["status"], "does not answer" in waiting["reason"]) == ("running", True)
    nova.answering = True
    over = rebalances.finish(cloud, GROUP)
    assert (over["status"], over["reason"]) == ("done", None)
    assert len({nova.instances[server].host for server in servers}) == 2


def test_lost_answer_starts_no_second_migration(nova: NovaService, cloud: Cloud) -> None:
    nova.boot("cn1", GROUP), nova.boot("cn1", GROUP)
    set_policies(nova, "anti-affinity")
    nova.sync()
    rebalances.started(cloud, GROUP)
    nova.lost, nova.working = {"POST"}, False
    cloud.settle()
    cloud.time.advance(60)
    cloud.settle()
    nova.lost, nova.working = set(), True
    assert rebalances.finish(cloud, GROUP)["status"] == "done"
    assert len(actions(nova)) == len(nova.migrations) == 1


def test_worker_that_dies_is_succeeded_by_one_that_follows_the_migration(nova: NovaService, cloud: Cloud) -> None:
    nova.boot("cn1", GROUP), nova.boot("cn1", GROUP)
    set_policies(nova, "anti-affinity")
    nova.sync()
    rebalances.started(cloud, GROUP)
    nova.working = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(cloud.assembled.rebalances), "_save", _die)
        with pytest.raises(KeyboardInterrupt):
            cloud.step()
    cloud.time.advance(120)
    nova.working = True
    assert rebalances.finish(cloud, GROUP)["status"] == "done"
    assert len(nova.migrations) == 1


def _die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_cancelled_rebalance_aborts_the_live_migration(nova: NovaService, cloud: Cloud) -> None:
    servers = [nova.boot("cn1", GROUP) for _ in range(3)]
    set_policies(nova, "anti-affinity")
    nova.sync()
    rebalances.started(cloud, GROUP)
    cloud.settle()
    _let_run(nova)
    assert rebalances.act(cloud.admin, GROUP, cancel_rebalance={}).status == 202
    over = rebalances.finish(cloud, GROUP)
    assert over["status"] == "cancelled"
    assert [each.status for each in nova.migrations] == ["cancelled"]
    assert nova.hosts() == dict.fromkeys(servers, "cn1")


def _let_run(nova: NovaService) -> None:
    """Let the computes begin their migrations, which then go on without an end."""
    for migration in nova.migrations:
        if migration.status == "accepted":
            nova._claim(migration)
    nova.working = False


def test_migration_without_an_end_is_given_up(nova: NovaService, cloud: Cloud) -> None:
    servers = [nova.boot("cn1", GROUP) for _ in range(2)]
    set_policies(nova, "anti-affinity")
    nova.sync()
    rebalances.started(cloud, GROUP)
    cloud.step()
    _let_run(nova)
    cloud.time.advance(3601)
    cloud.settle()
    assert [each.status for each in nova.migrations] == ["cancelled"]
    nova.working = True
    over = rebalances.finish(cloud, GROUP)
    assert over["status"] == "done"
    assert ["The migration was aborted." in each["reason"] for each in over["failed_moves"]] == [True]
    assert len({nova.instances[server].host for server in servers}) == 2


def _let_cold_moves_hang(nova: NovaService, cloud: Cloud) -> None:
    cloud.step(), cloud.step()
    _let_run(nova)
    cloud.time.advance(3601)
    cloud.settle()


@pytest.mark.sqlite_only
def test_overdue_cold_move_of_a_rebalance_is_followed_and_confirmed(nova: NovaService, cloud: Cloud) -> None:
    servers = [nova.boot("cn1", GROUP, status="SHUTOFF") for _ in range(2)]
    set_policies(nova, "anti-affinity")
    nova.sync()
    rebalances.started(cloud, GROUP)
    _let_cold_moves_hang(nova, cloud)
    waiting = rebalances.shown(cloud, GROUP)
    assert (waiting["status"], "longer than it may" in str(waiting["reason"])) == ("running", True)
    nova.working = True
    over = rebalances.finish(cloud, GROUP)
    assert (over["status"], over["reason"], over["failed_moves"]) == ("done", None, [])
    assert len({nova.instances[server].host for server in servers}) == 2
    assert [each.status for each in nova.migrations] == ["confirmed"]


@pytest.mark.sqlite_only
def test_overdue_cold_move_of_a_drain_is_followed_and_confirmed(nova: NovaService, cloud: Cloud) -> None:
    server = nova.boot("cn5", status="SHUTOFF")
    nova.sync()
    drain = drains.started(cloud, "cn5")
    _let_cold_moves_hang(nova, cloud)
    waiting = drains.shown(cloud, drain)
    assert (waiting["status"], [each["status"] for each in waiting["moves"]]) == ("running", ["moving"])
    assert "longer than it may" in waiting["reason"] == waiting["moves"][0]["reason"]
    nova.working = True
    over = drains.finish(cloud, drain)
    assert (over["status"], over["reason"], over["moves"][0]["reason"]) == ("done", None, None)
    assert nova.instances[server].host != "cn5"
    assert [each.status for each in nova.migrations] == ["confirmed"]


def _run_without_failures(cloud: Cloud) -> None:
    """Run jobs until none is left. None of them fails."""
    while cloud.rows(tables.work):
        cloud.settle()
        assert [row.error for row in cloud.rows(tables.work) if row.error] == []
        cloud.time.advance(60)


# Nova looks at the state of the instance first, and then at its migration.
@pytest.mark.sqlite_only
@pytest.mark.parametrize("status", [409, 400])
def test_move_that_its_owner_confirms_first_is_done(nova: NovaService, cloud: Cloud, status: int) -> None:
    for _ in range(2):
        nova.boot("cn1", GROUP, status="SHUTOFF")
    set_policies(nova, "anti-affinity")
    nova.sync()
    rebalances.started(cloud, GROUP)
    nova.confirmed_elsewhere = status
    _run_without_failures(cloud)
    assert rebalances.shown(cloud, GROUP)["status"] == "done"
    assert [name for name, _ in actions(nova)] == ["migrate", "confirmResize"]


@pytest.mark.sqlite_only
@pytest.mark.parametrize("status", [409, 400])
def test_move_of_a_drain_that_its_owner_confirms_first_is_done(nova: NovaService, cloud: Cloud, status: int) -> None:
    nova.boot("cn5", status="SHUTOFF")
    nova.sync()
    nova.confirmed_elsewhere = status
    drain = drains.started(cloud, "cn5")
    _run_without_failures(cloud)
    assert drains.shown(cloud, drain)["status"] == "done"
    assert [name for name, _ in actions(nova)] == ["migrate", "confirmResize"]


@pytest.fixture
def may_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_NOVA__COLD_MIGRATE_RUNNING", "true")


@pytest.mark.sqlite_only
@pytest.mark.usefixtures("may_stop")
@pytest.mark.parametrize("live", ["refused", "error"])
def test_instance_of_a_rebalance_moves_cold_to_the_same_host(nova: NovaService, cloud: Cloud, live: str) -> None:
    servers = [nova.boot("cn1", GROUP) for _ in range(2)]
    set_policies(nova, "anti-affinity")
    nova.sync()
    nova.live = live
    rebalances.started(cloud, GROUP)
    over = rebalances.finish(cloud, GROUP)
    assert (over["status"], over["failed_moves"]) == ("done", [])
    (move,) = over["moves"]
    there = move["to"]
    assert actions(nova) == [("os-migrateLive", there), ("migrate", there), ("confirmResize", None)]
    assert len({nova.instances[server].host for server in servers}) == 2
    assert {nova.instances[server].status for server in servers} == {"ACTIVE"}


@pytest.mark.sqlite_only
@pytest.mark.usefixtures("may_stop")
@pytest.mark.parametrize("live", ["refused", "error"])
def test_instance_of_a_drain_moves_cold(nova: NovaService, cloud: Cloud, live: str) -> None:
    server = nova.boot("cn5")
    nova.sync()
    nova.live = live
    over = drains.drained(cloud, "cn5")
    assert (over["status"], len(over["moves"])) == ("done", 1)
    assert [name for name, _ in actions(nova)] == ["os-migrateLive", "migrate", "confirmResize"]
    assert (nova.instances[server].host != "cn5", nova.instances[server].status) == (True, "ACTIVE")


@pytest.mark.sqlite_only
@pytest.mark.usefixtures("may_stop")
@pytest.mark.parametrize("live", ["refused", "error"])
def test_cold_migration_that_fails_is_the_only_one_to_its_host(nova: NovaService, cloud: Cloud, live: str) -> None:
    nova.boot("cn5")
    nova.sync()
    nova.live, nova.filtered = live, {*RACKS}
    over = drains.drained(cloud, "cn5")
    assert (over["status"], {each["status"] for each in over["moves"]}) == ("failed", {"failed"})
    assert [name for name, _ in actions(nova)] == ["os-migrateLive", "migrate"] * 5
    assert len({host for _, host in actions(nova)}) == 5


@pytest.mark.sqlite_only
@pytest.mark.usefixtures("may_stop")
@pytest.mark.parametrize("live", ["refused", "error"])
def test_paused_instance_is_not_moved_cold(nova: NovaService, cloud: Cloud, live: str) -> None:
    nova.boot("cn5", status="PAUSED")
    nova.sync()
    nova.live = live
    assert drains.drained(cloud, "cn5")["status"] == "failed"
    assert {name for name, _ in actions(nova)} == {"os-migrateLive"}


@pytest.mark.sqlite_only
@pytest.mark.usefixtures("may_stop")
def test_live_migration_that_fails_on_the_guest_is_not_repeated_cold(nova: NovaService, cloud: Cloud) -> None:
    nova.boot("cn5")
    nova.sync()
    nova.live = "failed"
    assert drains.drained(cloud, "cn5")["status"] == "failed"
    assert {name for name, _ in actions(nova)} == {"os-migrateLive"}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("live", ["refused", "error"])
def test_running_instance_is_not_stopped_by_default(nova: NovaService, cloud: Cloud, live: str) -> None:
    nova.boot("cn5")
    nova.sync()
    nova.live = live
    assert drains.drained(cloud, "cn5")["status"] == "failed"
    assert {name for name, _ in actions(nova)} == {"os-migrateLive"}


def test_rack_is_drained_and_its_services_are_disabled(nova: NovaService, cloud: Cloud) -> None:
    grouped = [nova.boot(host, GROUP) for host in ("cn1", "cn5")]
    others = [nova.boot(host) for host in ("cn5", "cn6", "cn6")]
    set_policies(nova, "anti-affinity:rack")
    nova.disabled["cn6"] = "a broken fan"
    nova.sync()
    plan = drains.planned(cloud, "rack-3", "rack")
    assert (plan["hosts"], len(plan["moves"]), plan["left"]) == (["cn5", "cn6"], 4, [])
    drain = drains.started(cloud, "rack-3", "rack")
    over = drains.finish(cloud, drain)
    assert (over["status"], over["moves_done"], over["disabled_hosts"]) == ("done", 4, ["cn5"])
    assert nova.disabled == {"cn5": f"drained by {drain['id']}", "cn6": "a broken fan"}
    assert "rack-3" not in racks_of(nova, grouped + others)
    assert racks_of(nova, grouped) == {"rack-1": 1, "rack-2": 1}
    assert drains.act(cloud, drain, "undo").status == 202
    assert drains.finish(cloud, drain)["status"] == "undone"
    assert nova.disabled == {"cn6": "a broken fan"}


@pytest.mark.sqlite_only
def test_drain_goes_on_while_hosts_are_left_that_nova_has_not_refused(nova: NovaService, cloud: Cloud) -> None:
    servers = [nova.boot("cn1") for _ in range(8)]
    nova.filtered = {"cn3", "cn4", "cn5", "cn6"}
    nova.sync()
    over = drains.drained(cloud, "cn1")
    assert (over["status"], over["left"]) == ("done", [])
    assert {nova.instances[server].host for server in servers} == {"cn2"}
    refused = [each for each in over["moves"] if each["status"] == "failed"]
    assert len(refused) <= len(nova.filtered) + 3, "four moves begin at once"


@pytest.mark.sqlite_only
def test_host_that_refused_one_instance_is_tried_last_for_others(nova: NovaService, cloud: Cloud) -> None:
    nova.disabled |= dict.fromkeys(("cn3", "cn4", "cn5", "cn6"), "a broken fan")
    refused = max(nova.boot("cn1") for _ in range(6))  # the first of the plan
    nova.picky = {refused: {"cn2"}}
    nova.sync()
    over = drains.drained(cloud, "cn1")
    (left,) = over["left"]
    assert (over["status"], left["instance_id"]) == ("failed", refused)
    assert "No host admits it" in left["reason"]
    assert NO_VALID_HOST in left["reason"]
    assert {host for server, host in nova.hosts().items() if server != refused} == {"cn2"}


@pytest.mark.sqlite_only
def test_instance_that_all_hosts_refuse_is_tried_once_on_each(nova: NovaService, cloud: Cloud) -> None:
    server = nova.boot("cn1")
    nova.filtered = {*RACKS}
    nova.sync()
    over = drains.drained(cloud, "cn1")
    assert (over["status"], [each["instance_id"] for each in over["left"]]) == ("failed", [server])
    assert sorted(host for _, host in actions(nova)) == sorted({*RACKS} - {"cn1"})


@pytest.mark.sqlite_only
def test_instance_that_nova_does_not_migrate_is_tried_twice(nova: NovaService, cloud: Cloud) -> None:
    nova.boot("cn1")
    nova.live = "refused"
    nova.sync()
    over = drains.drained(cloud, "cn1")
    assert over["status"] == "failed"
    assert over["left"][0]["reason"].endswith("has a device that cannot be migrated live."), "Nova's own words"
    assert len(actions(nova)) == 2


@pytest.mark.sqlite_only
@pytest.mark.parametrize("status", [500, 504])
def test_instance_that_nova_fails_to_move_does_not_stop_the_drain(nova: NovaService, cloud: Cloud, status: int) -> None:
    servers = [nova.boot("cn1") for _ in range(6)]
    stuck = max(servers)  # the first of the plan
    nova.faulty = {stuck: status}
    nova.sync()
    drain = drains.started(cloud, "cn1")
    for _ in range(20):
        cloud.settle()
        cloud.time.advance(60)
    over = drains.shown(cloud, drain)
    assert {server for server, host in nova.hosts().items() if host == "cn1"} == {stuck}
    if status == 504:  # of a proxy: Nova may have got the request, or is away
        assert (over["status"], "504" in over["reason"]) == ("running", True)
        nova.faulty.clear()
        assert drains.finish(cloud, drain)["status"] == "done"
    else:
        assert (over["status"], [each["instance_id"] for each in over["left"]]) == ("failed", [stuck])
        assert "500" in over["left"][0]["reason"]
        assert len([path for _, path, _ in nova.requests if stuck in path]) == 2


@pytest.mark.sqlite_only
def test_instance_without_another_host_is_left_with_the_reason_of_its_failed_move(
    nova: NovaService, cloud: Cloud
) -> None:
    server = nova.boot("cn1")
    nova.disabled |= dict.fromkeys(("cn3", "cn4", "cn5", "cn6"), "a broken fan")
    nova.faulty = {server: 500}
    nova.sync()
    (left,) = drains.drained(cloud, "cn1")["left"]
    assert left["reason"].startswith("No host admits it: of 6 hosts:")
    assert "Its last move failed: Compute answered 500" in left["reason"]


@pytest.mark.sqlite_only
def test_move_that_began_although_nova_failed_is_followed(nova: NovaService, cloud: Cloud) -> None:
    server = nova.boot("cn1")
    nova.faulty, nova.faults_after = {server: 500}, True
    nova.sync()
    over = drains.drained(cloud, "cn1")
    assert (over["status"], len(over["moves"]), len(nova.migrations)) == ("done", 1, 1)


@pytest.mark.sqlite_only
def test_move_of_a_rebalance_for_which_nova_fails_is_a_failed_one(nova: NovaService, cloud: Cloud) -> None:
    nova.boot("cn1", GROUP), nova.boot("cn1", GROUP)
    set_policies(nova, "anti-affinity")
    nova.sync()
    first = rebalances.started(cloud, GROUP)["moves"][0]["instance_id"]
    nova.faulty = {first: 500}
    over = rebalances.finish(cloud, GROUP)
    assert ("500" in over["failed_moves"][0]["reason"], over["failed_moves"][0]["instance_id"]) == (True, first)
    assert (over["status"], len(set(nova.hosts().values()))) in {("done", 2), ("failed", 1)}


@pytest.mark.sqlite_only
def test_drain_leaves_what_cannot_go_with_the_reason(nova: NovaService, cloud: Cloud) -> None:
    locked, failed = nova.boot("cn5", locked=True), nova.boot("cn5", status="ERROR")
    member = [nova.boot(host, GROUP) for host in ("cn1", "cn3", "cn5")][2]
    unknown = str(uuid.uuid4())
    set_policies(nova, "anti-affinity:rack")
    nova.sync()
    nova.ledger.place(unknown, "cn5")
    over = drains.drained(cloud, "rack-3", "rack")
    assert over["status"] == "failed"
    reasons = {each["instance_id"]: each["reason"] for each in over["left"]}
    assert reasons.keys() == {locked, failed, member, unknown}
    assert reasons[locked] == "It is locked."
    assert reasons[failed].startswith("Its status is ERROR")
    assert "4 already hold 1 of the group in their rack, 2 are disabled" in reasons[member]
    assert reasons[member].startswith("No host admits it: of 6 hosts")
    assert "`covey sync nova` has not read yet" in reasons[unknown]
    assert not nova.migrations


def test_members_under_affinity_leave_a_rack_together(nova: NovaService, cloud: Cloud) -> None:
    servers = [nova.boot(host, GROUP) for host in ("cn5", "cn5", "cn6")]
    set_policies(nova, "affinity:rack")
    nova.sync()
    assert drains.drained(cloud, "rack-3", "rack")["status"] == "done"
    assert len(set(racks_of(nova, servers)) - {"rack-3"}) == 1
    assert all(each.status == "completed" for each in nova.migrations)


def test_cancelled_drain_aborts_and_stays_disabled(nova: NovaService, cloud: Cloud) -> None:
    servers = [nova.boot("cn5") for _ in range(6)]
    nova.sync()
    drain = drains.started(cloud, "cn5")
    cloud.step(), cloud.step()
    _let_run(nova)
    assert drains.act(cloud, drain, "cancel").status == 202
    over = drains.finish(cloud, drain)
    assert (over["status"], over["moves_done"]) == ("cancelled", 0)
    assert nova.hosts() == dict.fromkeys(servers, "cn5")
    assert nova.disabled == {"cn5": f"drained by {drain['id']}"}


def test_undo_enables_the_services_of_a_drain_that_was_started_again(nova: NovaService, cloud: Cloud) -> None:
    nova.boot("cn5")
    nova.disabled["cn6"] = "drained by bob"
    nova.sync()
    first = drains.started(cloud, "rack-3", "rack")
    cloud.step()
    assert drains.act(cloud, first, "cancel").status == 202
    drains.finish(cloud, first)
    second = drains.drained(cloud, "rack-3", "rack")
    assert (second["status"], second["disabled_hosts"]) == ("done", ["cn5"])
    assert nova.disabled == {"cn5": f"drained by {second['id']}", "cn6": "drained by bob"}
    assert drains.act(cloud, second, "undo").status == 202
    drains.finish(cloud, second)
    assert nova.disabled == {"cn6": "drained by bob"}


def test_undo_enables_services_of_a_drain_that_disabled_only_some(nova: NovaService, cloud: Cloud) -> None:
    nova.boot("cn5")
    nova.stubborn = {"cn6"}
    nova.sync()
    drain = drains.started(cloud, "rack-3", "rack")
    cloud.settle()
    assert ("500" in drains.shown(cloud, drain)["reason"], set(nova.disabled)) == (True, {"cn5"})
    assert drains.act(cloud, drain, "cancel").status == 202
    assert drains.finish(cloud, drain)["status"] == "cancelled"
    assert drains.act(cloud, drain, "undo").status == 202
    assert drains.finish(cloud, drain)["status"] == "undone"
    assert nova.disabled == {}


@pytest.mark.sqlite_only
def test_drain_waits_until_nova_disables_its_services(nova: NovaService, cloud: Cloud) -> None:
    server = nova.boot("cn5")
    nova.sync()
    nova.answering = False
    drain = drains.started(cloud, "cn5")
    cloud.settle()
    waiting = drains.shown(cloud, drain)
    assert (waiting["status"], waiting["moves"], "503" in waiting["reason"]) == ("running", [], True)
    assert {job.kind for job in cloud.jobs()} == {JobKind.COMPUTE_SERVICES}
    nova.answering = True
    over = drains.finish(cloud, drain)
    assert (over["status"], over["reason"]) == ("done", None)
    assert nova.instances[server].host != "cn5"


@pytest.mark.sqlite_only
def test_drain_without_credentials_has_that_reason(
    nova: NovaService, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    nova.boot("cn5")
    nova.sync()
    monkeypatch.delenv("OS_NOVA__AUTH_TYPE")
    drain = drains.started(cloud, "cn5")
    cloud.settle()
    assert "Covey has no credentials for Nova" in drains.shown(cloud, drain)["reason"]


@pytest.mark.sqlite_only
def test_unversioned_address_is_an_error_that_waits(nova: NovaService, cloud: Cloud) -> None:
    nova.boot("cn5")
    nova.sync()
    nova.versioned = False
    drain = drains.started(cloud, "cn5")
    cloud.settle()
    waiting = drains.shown(cloud, drain)
    assert (waiting["status"], "Give the address of one" in waiting["reason"]) == ("running", True)
    with pytest.raises(Invalid):
        nova.sync()
    with cloud.store.read() as tx:
        state = tx.nova_mirror.state()
    assert state is not None
    assert "Give the address of one" in str(state.error)
    nova.versioned = True
    assert drains.finish(cloud, drain)["status"] == "done"


@pytest.mark.sqlite_only
def test_instance_that_became_busy_is_waited_for(nova: NovaService, cloud: Cloud) -> None:
    server = nova.boot("cn5")
    nova.sync()
    nova.instances[server].task = "rebooting"
    drain = drains.started(cloud, "cn5")
    cloud.settle()
    assert not nova.migrations
    nova.instances[server].task = None
    nova.sync()
    assert drains.finish(cloud, drain)["status"] == "done"


@pytest.mark.sqlite_only
def test_drain_leaves_an_instance_whose_cell_is_down(nova: NovaService, cloud: Cloud) -> None:
    servers = [nova.boot("cn5") for _ in range(3)]
    nova.sync()
    stays = max(servers)
    nova.out_of_reach = {stays}
    over = drains.drained(cloud, "cn5")
    (left,) = over["left"]
    assert (over["status"], over["moves_done"], left["instance_id"]) == ("failed", 2, stays)
    assert "Its status is UNKNOWN" in left["reason"]
    nova.sync()
    with cloud.store.read() as tx:
        assert tx.nova_mirror.names([stays]) == {stays: stays}
    nova.out_of_reach.clear()
    nova.sync()
    assert drains.drained(cloud, "cn5")["status"] == "done"


@pytest.mark.sqlite_only
def test_cold_move_is_confirmed_although_its_cell_was_down(nova: NovaService, cloud: Cloud) -> None:
    server = nova.boot("cn5", status="SHUTOFF")
    nova.sync()
    nova.working = False
    drain = drains.started(cloud, "cn5")
    cloud.settle()
    nova.out_of_reach = {server}
    cloud.time.advance(60)
    cloud.settle()
    waiting = drains.shown(cloud, drain)
    assert (waiting["status"], "its cell is down" in waiting["reason"]) == ("running", True)
    nova.out_of_reach.clear()
    nova.working = True
    over = drains.finish(cloud, drain)
    assert (over["status"], over["moves_done"]) == ("done", 1)
    assert nova.instances[server].status == "SHUTOFF"


@pytest.mark.sqlite_only
def test_moving_instance_that_nova_fails_to_show_does_not_stop_the_drain(nova: NovaService, cloud: Cloud) -> None:
    for _ in range(6):
        nova.boot("cn5")
    nova.sync()
    nova.working = False
    drain = drains.started(cloud, "cn5")
    cloud.settle()
    unread = nova.migrations[0].instance.id
    nova.unreadable, nova.working = {unread}, True
    for _ in range(10):
        cloud.settle()
        cloud.time.advance(60)
    waiting = drains.shown(cloud, drain)
    assert (waiting["status"], waiting["moves_done"], unread in waiting["reason"]) == ("running", 5, True)
    nova.unreadable.clear()
    over = drains.finish(cloud, drain)
    assert (over["status"], over["moves_done"]) == ("done", 6)


@pytest.mark.sqlite_only
def test_rebalance_waits_for_an_instance_whose_cell_is_down(nova: NovaService, cloud: Cloud) -> None:
    servers = {nova.boot("cn1", GROUP) for _ in range(2)}
    set_policies(nova, "anti-affinity")
    nova.sync()
    rebalances.started(cloud, GROUP)
    nova.out_of_reach = servers
    for _ in range(20):
        cloud.settle()
        cloud.time.advance(60)
    assert rebalances.shown(cloud, GROUP)["status"] == "running"
    nova.out_of_reach = set()
    assert rebalances.finish(cloud, GROUP)["status"] == "done"


def test_second_drain_of_a_compute_is_refused(nova: NovaService, cloud: Cloud) -> None:
    nova.boot("cn5")
    nova.sync()
    drains.started(cloud, "cn5")
    answer = drains.asked(cloud.admin, "rack-3", "rack")
    assert answer.status == 409, answer.text
