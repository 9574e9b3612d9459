"""Group policies apply to every scheduling decision: creation and every kind of move."""

from collections import Counter
from typing import Any

import pytest

from tests.functional.client import Answer
from tests.functional.fleets import BuildCloud, Cloud
from tests.functional.scopes import add_scope

LIVE = {"host": None, "block_migration": "auto"}
MOVES: dict[str, Any] = {"migrate": None, "os-migrateLive": LIVE, "resize": {"flavorRef": "big"}, "evacuate": {}}
NAMES = {"os-migrateLive": "live-migration"}


def refused(answer: Answer) -> str:
    assert answer.status == 400, answer.text
    assert answer.json["badRequest"]["code"] == 400
    return answer.message


def to(host: str, action: str) -> dict[str, Any]:
    return {"host": host, "block_migration": "auto"} if action == "os-migrateLive" else {"host": host}


# Example of the rules specification


def test_six_servers_spread_over_two_hosts(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(2)
    strict = cloud.group("anti-affinity")
    assert cloud.request_server(cloud.alice, group=strict, min_count=6).status == 202
    assert {server["status"] for server in cloud.servers()} == {"ERROR"}
    assert not cloud.used()
    assert cloud.members(strict) == set()
    cloud.delete(*(server["id"] for server in cloud.servers()))

    body = {"name": "test", "policy": {"name": "anti-affinity", "rules": {"max_server_per_host": 3}}}
    group = cloud.alice.post("/os-server-groups", {"server_group": body}).json["server_group"]["id"]
    cloud.boot(group=group, min_count=6)
    servers = cloud.servers()
    assert {server["status"] for server in servers} == {"ACTIVE"}
    assert Counter(server["OS-EXT-SRV-ATTR:host"] for server in servers) == {"node-1": 3, "node-2": 3}

    seventh = cloud.boot(group=group)
    shown = cloud.show(seventh, cloud.alice)
    assert shown["status"] == "ERROR"
    assert shown["fault"]["message"] == "No valid host was found. Of 2 hosts: 2 already hold 3 of the group."
    assert shown["server_groups"] == []
    assert len(cloud.members(group)) == 6
    for server in (*servers, shown):
        cloud.delete(server["id"])
    assert cloud.is_empty()


def test_six_single_requests_spread_as_well(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(2)
    group = cloud.group("anti-affinity", max_server_per_host=3)
    servers = [cloud.boot(group=group) for _ in range(6)]
    assert Counter(cloud.hosts(servers)) == {"node-1": 3, "node-2": 3}


# Creation


def test_anti_affinity_keeps_servers_apart(cloud: Cloud) -> None:
    group = cloud.group("anti-affinity")
    servers = [cloud.boot(group=group) for _ in range(3)]
    assert set(cloud.hosts(servers)) == {"node-1", "node-2", "node-3"}
    fourth = cloud.boot(group=group)
    assert cloud.show(fourth)["fault"]["message"] == (
        "No valid host was found. Of 3 hosts: 3 already hold 1 of the group."
    )
    cloud.delete(servers[1])
    assert cloud.status(cloud.boot(group=group)) == "ACTIVE", "a deleted member makes room"


def test_affinity_keeps_servers_together_until_the_host_is_full(cloud: Cloud) -> None:
    group = cloud.group("affinity")
    servers = [cloud.boot(group=group, flavorRef="big") for _ in range(4)]
    assert len(set(cloud.hosts(servers))) == 1
    fifth = cloud.boot(group=group, flavorRef="big")
    assert cloud.show(fifth)["fault"]["message"] == (
        "No valid host was found. Of 3 hosts: 2 are not the group's host, 1 lacks VCPUs."
    )


def test_affinity_batch_goes_to_one_host_with_room_for_all(cloud: Cloud) -> None:
    cloud.boot_on("node-1", flavorRef="big")
    cloud.boot_on("node-2", flavorRef="big")
    group = cloud.group("affinity")
    cloud.boot(name="batch", group=group, min_count=8)
    hosts = {server["OS-EXT-SRV-ATTR:host"] for server in cloud.servers(name="batch")}
    assert hosts == {"node-3"}


def test_soft_policies_never_reject(cloud: Cloud) -> None:
    apart = cloud.group("soft-anti-affinity")
    servers = [cloud.boot(group=apart) for _ in range(5)]
    assert sorted(Counter(cloud.hosts(servers)).values()) == [1, 2, 2]
    together = cloud.group("soft-affinity")
    near = [cloud.boot(group=together) for _ in range(3)]
    assert len(set(cloud.hosts(near))) == 1


def test_soft_anti_affinity_spreads_a_batch_evenly_for_any_weights(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(3)
    cloud.boot_on("node-1", flavorRef="big")
    cloud.boot_on("node-1", flavorRef="big")
    group = cloud.group("soft-anti-affinity")
    cloud.boot(name="batch", group=group, min_count=6)
    spread = Counter(server["OS-EXT-SRV-ATTR:host"] for server in cloud.servers(name="batch"))
    assert spread == {"node-1": 2, "node-2": 2, "node-3": 2}


def test_building_server_counts_as_a_member(cloud: Cloud) -> None:
    group = cloud.group("anti-affinity")
    for _ in range(3):
        cloud.request_server(cloud.alice, group=group)
    assert sorted(cloud.used().values()) == [1, 1, 1]
    fourth = cloud.request_server(cloud.alice, group=group).json["server"]["id"]
    assert cloud.status(fourth) == "ERROR"


def test_server_in_error_does_not_count_as_a_member(cloud: Cloud) -> None:
    group = cloud.group("anti-affinity")
    cloud.boot(group=group, flavorRef="giant")
    assert cloud.members(group) == set()
    cloud.set_quota(server_group_members=3)
    for _ in range(3):
        assert cloud.status(cloud.boot(group=group)) == "ACTIVE"


def test_forced_host_bypasses_the_policy(cloud: Cloud) -> None:
    apart = cloud.group("anti-affinity")
    assert cloud.hosts([cloud.boot_on("node-1", apart) for _ in range(2)]) == ["node-1"] * 2
    together = cloud.group("affinity")
    assert cloud.hosts([cloud.boot_on("node-1", together), cloud.boot_on("node-2", together)]) == ["node-1", "node-2"]
    assert len(cloud.members(apart)) == len(cloud.members(together)) == 2


def test_requested_host_is_subject_to_the_policy(cloud: Cloud) -> None:
    operator = cloud.alice.sending(X_Roles="admin")
    group = cloud.group("anti-affinity")
    cloud.boot_on("node-1", group)
    lost = cloud.boot(operator, group=group, host="node-1")
    assert cloud.show(lost, cloud.alice)["fault"]["message"] == (
        "No valid host was found. Of 3 hosts: 2 are not the ones asked for, 1 already holds 1 of the group."
    )


# Moves


def ready(cloud: Cloud, action: str, *hosts: str) -> None:
    """Prepare a move: an evacuation requires that the host is down."""
    if action == "evacuate":
        for host in hosts:
            cloud.set_down(host)


@pytest.mark.parametrize("action", MOVES)
def test_every_move_respects_anti_affinity(cloud: Cloud, action: str) -> None:
    group = cloud.group("anti-affinity")
    first, second = cloud.boot_on("node-1", group), cloud.boot_on("node-2", group)
    ready(cloud, action, "node-1")
    cloud.run_action(cloud.admin, first, action, MOVES[action])
    assert cloud.host(first) == "node-3", "the only host without a member"
    assert cloud.host(second) == "node-2"


@pytest.mark.parametrize("action", MOVES)
def test_move_without_a_valid_host_is_refused_and_logged(cloud: Cloud, action: str) -> None:
    group = cloud.group("anti-affinity")
    servers = [cloud.boot_on(f"node-{i}", group) for i in (1, 2, 3)]
    ready(cloud, action, "node-1")
    before, use = cloud.used(), cloud.use()
    said = refused(cloud.act(cloud.admin, servers[0], action, MOVES[action]))
    own = "1 is down" if action == "evacuate" else "1 is excluded by the request"
    assert said == f"No valid host was found. Of 3 hosts: 2 already hold 1 of the group, {own}."
    shown = cloud.show(servers[0])
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    assert (cloud.host(servers[0]), cloud.used(), cloud.use()) == ("node-1", before, use)
    assert cloud.log(servers[0])[0] == (NAMES.get(action, action), "Error")
    event = cloud.last_event(servers[0])
    assert (event["result"], event["details"]) == ("Error", said)
    assert cloud.step() == 0


@pytest.mark.parametrize("action", [action for action in MOVES if action != "evacuate"])
def test_no_move_leaves_an_affinity_groups_running_host(cloud: Cloud, action: str) -> None:
    group = cloud.group("affinity")
    first, _ = cloud.boot_on("node-1", group), cloud.boot_on("node-1", group)
    ready(cloud, action, "node-1")
    said = refused(cloud.act(cloud.admin, first, action, MOVES[action]))
    assert "2 are not the group's host" in said
    assert cloud.host(first) == "node-1"


@pytest.mark.parametrize("action", MOVES)
def test_only_member_of_an_affinity_group_may_move(cloud: Cloud, action: str) -> None:
    group = cloud.group("affinity")
    server = cloud.boot_on("node-1", group)
    ready(cloud, action, "node-1")
    cloud.run_action(cloud.admin, server, action, MOVES[action])
    assert cloud.host(server) in {"node-2", "node-3"}


@pytest.mark.parametrize("action", ["migrate", "os-migrateLive", "evacuate"])
def test_named_destination_is_subject_to_the_policy(cloud: Cloud, action: str) -> None:
    group = cloud.group("anti-affinity")
    server, _ = cloud.boot_on("node-1", group), cloud.boot_on("node-2", group)
    ready(cloud, action, "node-1")
    said = refused(cloud.act(cloud.admin, server, action, to("node-2", action)))
    assert "1 already holds 1 of the group" in said
    cloud.run_action(cloud.admin, server, action, to("node-3", action))
    assert cloud.host(server) == "node-3"


@pytest.mark.sqlite_only
@pytest.mark.parametrize(("action", "version"), [("os-migrateLive", "2.67"), ("evacuate", "2.67")])
@pytest.mark.parametrize("policy", ["anti-affinity", "affinity"])
def test_forced_move_bypasses_the_policy(cloud: Cloud, action: str, version: str, policy: str) -> None:
    group = cloud.group(policy)
    server = cloud.boot_on("node-1", group)
    cloud.boot_on("node-2" if policy == "anti-affinity" else "node-1", group)
    ready(cloud, action, "node-1")
    cloud.run_action(cloud.admin.at(version), server, action, to("node-2", action) | {"force": True})
    assert cloud.host(server) == "node-2"
    assert cloud.status(server) == "ACTIVE"


def test_forced_move_still_needs_capacity(cloud: Cloud) -> None:
    server, _ = cloud.boot_on("node-1"), cloud.boot_on("node-2", flavorRef="whole")
    body = to("node-2", "os-migrateLive") | {"force": True}
    said = refused(cloud.act(cloud.admin.at("2.67"), server, "os-migrateLive", body))
    assert "1 lacks VCPUs" in said
    assert cloud.used() == {"node-1": 1, "node-2": 8}


def test_unshelve_applies_the_present_policy(cloud: Cloud) -> None:
    group = cloud.group("anti-affinity")
    servers = [cloud.boot(group=group) for _ in range(3)]
    cloud.run_action(cloud.alice, servers[0], "shelve")
    last = cloud.boot(group=group)
    assert cloud.status(last) == "ACTIVE", "a shelved member holds no place"
    said = refused(cloud.act(cloud.alice, servers[0], "unshelve"))
    assert said == "No valid host was found. Of 3 hosts: 3 already hold 1 of the group."
    assert cloud.status(servers[0]) == "SHELVED_OFFLOADED"
    assert cloud.log(servers[0])[0] == ("unshelve", "Error")
    cloud.delete(servers[1])
    cloud.run_action(cloud.alice, servers[0], "unshelve")
    assert len(set(cloud.hosts([servers[0], servers[2], last]))) == 3


def test_unshelving_returns_to_an_affinity_groups_host(cloud: Cloud) -> None:
    group = cloud.group("affinity")
    first, second = cloud.boot(group=group), cloud.boot(group=group)
    cloud.run_action(cloud.alice, second, "shelve")
    cloud.run_action(cloud.alice, second, "unshelve")
    assert cloud.host(first) == cloud.host(second)


# While a server moves


def test_both_hosts_count_while_a_server_moves(cloud: Cloud) -> None:
    group = cloud.group("anti-affinity")
    moving = cloud.boot_on("node-1", group)
    cloud.act(cloud.admin, moving, "migrate", {"host": "node-2"})
    third = cloud.request_server(cloud.alice, group=group).json["server"]["id"]
    assert cloud.host(third) == "node-3"
    last = cloud.request_server(cloud.alice, group=group).json["server"]["id"]
    assert cloud.show(last)["fault"]["message"] == (
        "No valid host was found. Of 3 hosts: 3 already hold 1 of the group."
    )


def test_source_host_counts_until_the_move_is_confirmed(cloud: Cloud) -> None:
    group = cloud.group("anti-affinity")
    moving, _ = cloud.boot_on("node-1", group), cloud.boot_on("node-3", group)
    cloud.run_action(cloud.admin, moving, "migrate")
    assert (cloud.status(moving), cloud.host(moving)) == ("VERIFY_RESIZE", "node-2")
    lost = cloud.boot(group=group)
    assert "3 already hold 1 of the group" in cloud.show(lost)["fault"]["message"]
    cloud.run_action(cloud.admin, moving, "confirmResize")
    assert cloud.host(cloud.boot(group=group)) == "node-1", "free again"


def test_revert_releases_the_destination(cloud: Cloud) -> None:
    group = cloud.group("anti-affinity")
    moving, _ = cloud.boot_on("node-1", group), cloud.boot_on("node-3", group)
    cloud.run_action(cloud.admin, moving, "migrate")
    cloud.run_action(cloud.admin, moving, "revertResize")
    assert cloud.host(moving) == "node-1"
    assert cloud.host(cloud.boot(group=group)) == "node-2"


def test_destination_of_a_running_move_counts_for_the_group(cloud: Cloud) -> None:
    group = cloud.group("anti-affinity")
    first, second = cloud.boot_on("node-1", group), cloud.boot_on("node-2", group)
    cloud.act(cloud.admin, first, "os-migrateLive", LIVE)
    said = refused(cloud.act(cloud.admin, second, "os-migrateLive", LIVE))
    assert "2 already hold 1 of the group" in said
    cloud.settle()
    assert cloud.host(first) == "node-3"
    cloud.run_action(cloud.admin, second, "os-migrateLive", LIVE)
    assert cloud.host(second) == "node-1"


@pytest.mark.parametrize(("end", "home"), [("confirmResize", "node-2"), ("revertResize", "node-1")])
def test_affinity_group_cannot_grow_while_its_only_member_moves(cloud: Cloud, end: str, home: str) -> None:
    group = cloud.group("affinity")
    moving, shelved = cloud.boot_on("node-1", group), cloud.boot_on("node-1", group)
    cloud.run_action(cloud.alice, shelved, "shelve")
    accepted = cloud.act(cloud.admin, moving, "migrate", {"host": "node-2"})
    assert accepted.status == 202, "a shelved member does not constrain the group"
    why = (
        "No valid host was found. "
        "Of 3 hosts: 2 hold only members of the group that are moving, 1 is not the group's host."
    )
    for _ in range(2):  # in progress, and finished
        lost = cloud.request_server(cloud.alice, group=group).json["server"]["id"]
        assert cloud.show(lost)["fault"]["message"] == why
        assert refused(cloud.act(cloud.alice, shelved, "unshelve")) == why
        cloud.settle()
    cloud.run_action(cloud.alice, moving, end)
    cloud.run_action(cloud.alice, shelved, "unshelve")
    assert cloud.hosts([moving, shelved, cloud.boot(group=group)]) == [home] * 3


def test_no_member_moves_while_another_one_moves(cloud: Cloud) -> None:
    group = cloud.group("affinity")
    first, second = cloud.boot_on("node-1", group), cloud.boot_on("node-1", group)
    forced = {"host": "node-2", "block_migration": "auto", "force": True}
    cloud.act(cloud.admin.at("2.67"), first, "os-migrateLive", forced)
    assert "1 holds only members of the group that are moving" in refused(
        cloud.act(cloud.admin, second, "os-migrateLive", LIVE)
    )
    assert cloud.host(cloud.boot(group=group)) == "node-1", "with the one who stays"


def test_group_can_grow_while_a_member_reverts(cloud: Cloud) -> None:
    group = cloud.group("affinity")
    cloud.boot_on("node-1", group)
    misplaced_servers = [cloud.boot_on("node-2", group), cloud.boot_on("node-3", group)]
    for stray in misplaced_servers:
        cloud.run_action(cloud.admin, stray, "migrate", {"host": "node-1"})
    assert cloud.hosts([*misplaced_servers, cloud.boot(group=group)]) == ["node-1"] * 3


# Other filters of moves


def test_move_respects_zone_traits_and_disabled_hosts(cloud: Cloud) -> None:
    server = cloud.boot_on("node-1")
    cloud.set_host("node-2", status="disabled")
    cloud.run_action(cloud.admin, server, "os-migrateLive", LIVE)
    assert cloud.host(server) == "node-3"
    cloud.set_down("node-1")
    said = refused(cloud.act(cloud.admin, server, "os-migrateLive", LIVE))
    assert said == ("No valid host was found. Of 3 hosts: 1 is disabled, 1 is down, 1 is excluded by the request.")


def test_server_forced_onto_a_host_can_move(cloud: Cloud) -> None:
    server = cloud.boot_on("node-1")
    cloud.run_action(cloud.admin, server, "migrate")
    assert cloud.host(server) != "node-1"


def test_deleting_all_servers_releases_everything(cloud: Cloud) -> None:
    group = cloud.group("soft-anti-affinity")
    servers = [cloud.boot(group=group) for _ in range(4)]
    cloud.run_action(cloud.admin, servers[0], "migrate")
    cloud.run_action(cloud.admin, servers[1], "os-migrateLive", LIVE)
    cloud.run_action(cloud.alice, servers[2], "resize", {"flavorRef": "big"})
    cloud.run_action(cloud.alice, servers[2], "revertResize")
    cloud.run_action(cloud.alice, servers[3], "shelve")
    cloud.delete(*servers)
    assert cloud.is_empty()
    assert cloud.members(group) == set()


def test_members_in_no_domain_stop_affinity_until_they_move(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(5)
    add_scope(cloud, "rack", {"rack-a": ["node-1", "node-2"], "rack-b": ["node-3"]})
    group = cloud.group("affinity:rack")
    outside = [cloud.boot_on("node-4", group), cloud.boot_on("node-5", group)]
    refused = cloud.boot(group=group)
    fault = cloud.show(refused)["fault"]["message"]
    assert "3 are excluded because 2 members of the group are in no rack" in fault
    for server in outside:
        cloud.run_action(cloud.admin, server, "os-migrateLive", {"host": None, "block_migration": "auto"})
    racks = {"node-1": "a", "node-2": "a", "node-3": "b"}
    found = {racks[str(cloud.host(server))] for server in [*outside, cloud.boot(group=group)]}
    assert len(found) == 1


@pytest.mark.sqlite_only
@pytest.mark.parametrize(("version", "status"), [("2.29", 202), ("2.30", 400)])
def test_live_migration_to_a_named_host_before_force_ignores_policies(cloud: Cloud, version: str, status: int) -> None:
    group = cloud.group("anti-affinity")
    server, _ = cloud.boot_on("node-1", group), cloud.boot_on("node-2", group)
    body = {"host": "node-2", "block_migration": "auto"}
    assert cloud.act(cloud.admin.at(version), server, "os-migrateLive", body).status == status


@pytest.mark.sqlite_only
@pytest.mark.parametrize(("version", "status"), [("2.28", 200), ("2.29", 400)])
def test_evacuation_to_a_named_host_before_force_ignores_policies(cloud: Cloud, version: str, status: int) -> None:
    group = cloud.group("anti-affinity")
    server, _ = cloud.boot_on("node-1", group), cloud.boot_on("node-2", group)
    cloud.set_down("node-1")
    assert cloud.act(cloud.admin.at(version), server, "evacuate", {"host": "node-2"}).status == status
