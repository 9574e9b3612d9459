"""Actions on servers: their states, their refusals, and the instance actions and migrations they record."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from covey.model.errors import StaleClaim
from covey.model.ids import ImageId
from covey.model.images import Visibility
from covey.services.destinations import Destinations
from covey.storage import tables
from tests.build import an_image
from tests.functional.client import Answer, Client
from tests.functional.fleets import IMAGE, BuildCloud, Cloud, FailingDriver

LIVE = {"host": None, "block_migration": "auto"}


def states(cloud: Cloud, server: str) -> tuple[str, str, str | None, int]:
    shown = cloud.show(server)
    sts = "OS-EXT-STS:"
    return shown["status"], shown[f"{sts}vm_state"], shown[f"{sts}task_state"], shown[f"{sts}power_state"]


ACTIVE, SHUTOFF = ("ACTIVE", "active", None, 1), ("SHUTOFF", "stopped", None, 4)
VERIFY = ("VERIFY_RESIZE", "resized", None, 1)
OFFLOADED = ("SHELVED_OFFLOADED", "shelved_offloaded", None, 4)


def accepted(answer: Answer, status: int = 202) -> None:
    assert answer.status == status, answer.text
    if status != 200:
        assert answer.text == ""


def conflict(answer: Answer, message: str) -> None:
    assert (answer.status, answer.json) == (409, {"conflictingRequest": {"code": 409, "message": message}})


def invalid(answer: Answer, message: str) -> None:
    assert answer.status == 400, answer.text
    assert message in answer.message


# Power


def test_server_is_stopped_started_and_rebooted(cloud: Cloud) -> None:
    server = cloud.boot()
    for action, body, on_the_way, then in (
        ("os-stop", None, ("ACTIVE", "active", "powering-off", 1), SHUTOFF),
        ("os-start", None, ("SHUTOFF", "stopped", "powering-on", 4), ACTIVE),
        ("reboot", {"type": "SOFT"}, ("REBOOT", "active", "rebooting", 1), ACTIVE),
        ("reboot", {"type": "hard"}, ("HARD_REBOOT", "active", "rebooting_hard", 1), ACTIVE),
    ):
        accepted(cloud.act(cloud.alice.at("2.1"), server, action, body))
        assert states(cloud, server) == on_the_way
        assert cloud.step() == 1
        assert states(cloud, server) == then
    assert cloud.log(server) == [
        ("reboot", None),
        ("reboot", None),
        ("start", None),
        ("stop", None),
        ("create", None),
    ]


def test_hard_reboot_starts_a_stopped_server(cloud: Cloud) -> None:
    server = cloud.boot()
    cloud.run_action(cloud.alice, server, "os-stop")
    conflict(
        cloud.act(cloud.alice, server, "reboot", {"type": "SOFT"}),
        f"Cannot 'reboot' instance {server} while it is in vm_state stopped",
    )
    cloud.run_action(cloud.alice, server, "reboot", {"type": "HARD"})
    assert states(cloud, server) == ACTIVE


def test_failed_power_action_leaves_the_server_unchanged(build_cloud: BuildCloud) -> None:
    driver = FailingDriver(verbs={"stop"})
    cloud = build_cloud(driver=driver)
    server, other = cloud.boot(), cloud.boot()
    cloud.act(cloud.alice, server, "os-stop")
    cloud.act(cloud.alice, other, "reboot", {"type": "SOFT"})
    cloud.settle()
    assert states(cloud, server) == ACTIVE
    assert cloud.log(server)[0] == ("stop", "Error")
    assert states(cloud, other) == ACTIVE, "one failure does not keep others waiting"
    event = cloud.last_event(server)
    assert (event["result"], event["details"]) == ("Error", "The host failed to carry out the action.")
    assert "node-" not in str(event)
    driver.verbs.clear()
    cloud.run_action(cloud.alice, server, "os-stop")
    assert states(cloud, server) == SHUTOFF


# Locks


def test_only_operators_change_a_locked_server(cloud: Cloud) -> None:
    server, moved, shelved = cloud.boot(), cloud.boot(), cloud.boot()
    cloud.run_action(cloud.alice, moved, "resize", {"flavorRef": "big"})
    cloud.run_action(cloud.alice, shelved, "shelve")
    for each in (server, moved, shelved):
        accepted(cloud.act(cloud.alice, each, "lock", {"locked_reason": "mine"}))
    shown = cloud.show(server, cloud.alice)
    assert (shown["locked"], shown["locked_reason"]) == (True, "mine")
    manager = cloud.alice.sending(X_Roles="manager")
    for each, action, body in (
        (server, "os-stop", None),
        (server, "reboot", {"type": "HARD"}),
        (server, "resize", {"flavorRef": "big"}),
        (server, "shelve", None),
        (server, "migrate", None),
        (server, "os-migrateLive", LIVE),
        (moved, "confirmResize", None),
        (moved, "revertResize", None),
        (shelved, "unshelve", None),
    ):
        conflict(cloud.act(manager, each, action, body), f"Instance {each} is locked")
    conflict(cloud.alice.delete(f"/servers/{server}"), f"Instance {server} is locked")
    changes: tuple[Callable[[Client], Answer], ...] = (
        lambda who: who.post(f"/servers/{server}/metadata", {"metadata": {"a": "1"}}),
        lambda who: who.put(f"/servers/{server}/metadata/a", {"meta": {"a": "2"}}),
        lambda who: who.put(f"/servers/{server}/metadata", {"metadata": {"a": "3", "b": "3"}}),
        lambda who: who.delete(f"/servers/{server}/metadata/b"),
    )
    for ask in changes:
        conflict(ask(manager), f"Instance {server} is locked")
        assert ask(cloud.admin).status in {200, 204}
    assert cloud.show(server)["metadata"] == {"a": "3"}
    cloud.run_action(cloud.admin, server, "os-stop")
    assert cloud.status(server) == "SHUTOFF"
    accepted(cloud.act(cloud.alice, server, "unlock"))
    assert cloud.show(server, cloud.alice)["locked_reason"] is None
    cloud.run_action(cloud.alice, server, "os-start")
    cloud.delete(server, moved, shelved)
    assert cloud.is_empty()


@pytest.mark.sqlite_only
def test_lock_has_a_reason_from_2_73(cloud: Cloud) -> None:
    server = cloud.boot()
    accepted(cloud.act(cloud.alice.at("2.72"), server, "lock", {"locked_reason": "ignored"}))
    assert (cloud.show(server)["locked"], cloud.show(server)["locked_reason"]) == (True, None)
    accepted(cloud.act(cloud.alice.at("2.73"), server, "lock"))
    invalid(cloud.act(cloud.alice.at("2.73"), server, "lock", {"reason": "x"}), "is not valid under any")
    invalid(cloud.act(cloud.alice.at("2.73"), server, "lock", {"locked_reason": "x" * 256}), "is not valid under any")


# Reset state


def test_operator_resets_the_state(cloud: Cloud) -> None:
    server = cloud.boot()
    refused = cloud.act(cloud.alice, server, "os-resetState", {"state": "error"})
    assert (refused.status, refused.message) == (
        403,
        "Policy doesn't allow os_compute_api:os-admin-actions:reset_state to be performed.",
    )
    accepted(cloud.act(cloud.admin, server, "os-resetState", {"state": "error"}))
    assert cloud.status(server) == "ERROR"
    assert cloud.host(server) is not None
    accepted(cloud.act(cloud.admin, server, "os-resetState", {"state": "active"}))
    assert cloud.status(server) == "ACTIVE"
    invalid(cloud.act(cloud.admin, server, "os-resetState", {"state": "stopped"}), "'stopped' is not one of")


def test_server_without_a_host_cannot_be_reset_to_active(cloud: Cloud) -> None:
    server = cloud.boot(flavorRef="giant")
    answer = cloud.act(cloud.admin, server, "os-resetState", {"state": "active"})
    conflict(answer, f"Instance {server} has no host, so it cannot become active.")


def test_migrating_server_cannot_be_reset(cloud: Cloud) -> None:
    server = cloud.boot()
    for prepare in (lambda: cloud.act(cloud.admin, server, "migrate"), cloud.settle):
        prepare()
        for state in ("active", "error"):
            answer = cloud.act(cloud.admin, server, "os-resetState", {"state": state})
            conflict(answer, f"Instance {server} is being migrated between two hosts.")
    cloud.run_action(cloud.admin, server, "confirmResize")
    assert states(cloud, server) == ACTIVE


def test_shelved_server_cannot_be_reset(cloud: Cloud) -> None:
    server = cloud.boot()
    cloud.run_action(cloud.alice, server, "shelve")
    for is_unshelved in (False, True):
        if is_unshelved:
            accepted(cloud.act(cloud.alice, server, "unshelve"))
        for state in ("active", "error"):
            answer = cloud.act(cloud.admin, server, "os-resetState", {"state": state})
            conflict(answer, f"Instance {server} is shelved. Unshelve or delete it.")
    cloud.settle()
    assert cloud.status(server) == "ACTIVE"


# Moving


def test_server_is_migrated_and_the_migration_confirmed(cloud: Cloud) -> None:
    server = cloud.boot()
    source = cloud.host(server)
    accepted(cloud.act(cloud.admin.at("2.1"), server, "migrate"))
    assert states(cloud, server) == ("RESIZE", "active", "resize_prep", 1)
    assert cloud.host(server) == source
    assert sorted(cloud.used().values()) == [1, 1], "both places are taken while it moves"
    cloud.step()
    assert states(cloud, server) == VERIFY
    there = cloud.host(server)
    assert there != source
    assert sorted(cloud.used().values()) == [1, 1], "and until the move is confirmed"
    assert cloud.use() == (1, 1, 1024)
    accepted(cloud.act(cloud.alice, server, "confirmResize"), 204)
    assert states(cloud, server) == ACTIVE
    assert cloud.used() == {there: 1}
    assert cloud.host(server) == there
    assert cloud.log(server) == [("confirmResize", None), ("migrate", None), ("create", None)]
    assert cloud.last_event(server)["result"] == "Success"
    cloud.delete(server)
    assert cloud.is_empty()


def test_stopped_server_stays_stopped_through_a_move(cloud: Cloud) -> None:
    server = cloud.boot()
    cloud.run_action(cloud.alice, server, "os-stop")
    cloud.run_action(cloud.admin, server, "migrate")
    cloud.run_action(cloud.admin, server, "confirmResize")
    assert states(cloud, server) == SHUTOFF
    cloud.run_action(cloud.admin, server, "migrate")
    cloud.run_action(cloud.admin, server, "revertResize")
    assert states(cloud, server) == SHUTOFF


def test_migration_is_reverted(cloud: Cloud) -> None:
    server = cloud.boot()
    source = cloud.host(server)
    cloud.run_action(cloud.admin, server, "migrate")
    accepted(cloud.act(cloud.alice, server, "revertResize"))
    assert states(cloud, server) == ("REVERT_RESIZE", "resized", "resize_reverting", 1)
    cloud.step()
    assert states(cloud, server) == ACTIVE
    assert cloud.host(server) == source
    assert cloud.used() == {source: 1}
    cloud.delete(server)
    assert cloud.is_empty()


@pytest.mark.sqlite_only
def test_migration_target_is_accepted_from_2_56(cloud: Cloud) -> None:
    server = cloud.boot_on("node-1")
    admin = cloud.admin.at("2.56")
    invalid(cloud.act(admin, server, "migrate", {"host": "node-9"}), "Compute host node-9 could not be found.")
    invalid(
        cloud.act(admin, server, "migrate", {"host": "node-1"}), "Cannot migrate to the host where the server exists."
    )
    invalid(cloud.act(admin, server, "migrate", {"hosts": "node-2"}), "is not valid under any of the given schemas")
    invalid(cloud.act(admin, server, "migrate", "node-2"), "is not valid under any of the given schemas")
    manager = cloud.alice.sending(X_Roles="manager")
    refused = cloud.act(manager, server, "migrate", {"host": "node-2"})
    assert (refused.status, refused.message) == (
        403,
        "Policy doesn't allow os_compute_api:os-migrate-server:migrate:host to be performed.",
    )
    cloud.run_action(admin, server, "migrate", {"host": "node-3"})
    assert cloud.host(server) == "node-3"
    cloud.run_action(manager, server, "confirmResize")
    cloud.run_action(manager, server, "migrate", {"host": None})
    assert cloud.status(server) == "VERIFY_RESIZE"


@pytest.mark.sqlite_only
@pytest.mark.parametrize("body", [{"host": "node-9"}, "anything", ["at", "all"], 5, {}], ids=repr)
def test_migrate_body_is_ignored_before_2_56(cloud: Cloud, body: object) -> None:
    server = cloud.boot()
    cloud.run_action(cloud.admin.at("2.55"), server, "migrate", body)
    assert cloud.status(server) == "VERIFY_RESIZE"


@pytest.mark.sqlite_only
def test_member_may_not_move_servers(cloud: Cloud) -> None:
    server = cloud.boot()
    for action, body, rule in (
        ("migrate", None, "os-migrate-server:migrate"),
        ("os-migrateLive", LIVE, "os-migrate-server:migrate_live"),
        ("evacuate", {}, "os-evacuate"),
        ("shelveOffload", None, "os-shelve:shelve_offload"),
    ):
        refused = cloud.act(cloud.alice, server, action, body)
        assert (refused.status, refused.message) == (
            403,
            f"Policy doesn't allow os_compute_api:{rule} to be performed.",
        )


def test_server_is_live_migrated(cloud: Cloud) -> None:
    server = cloud.boot_on("node-1")
    accepted(cloud.act(cloud.admin, server, "os-migrateLive", LIVE))
    assert states(cloud, server) == ("MIGRATING", "active", "migrating", 1)
    assert cloud.host(server) == "node-1"
    assert sorted(cloud.used().values()) == [1, 1]
    cloud.step()
    assert states(cloud, server) == ACTIVE
    there = cloud.host(server)
    assert there in {"node-2", "node-3"}
    assert cloud.used() == {there: 1}, "a live migration needs no confirmation"
    assert cloud.log(server)[0] == ("live-migration", None)
    cloud.run_action(cloud.admin, server, "os-migrateLive", {"host": "node-1", "block_migration": False})
    assert cloud.host(server) == "node-1"
    invalid(
        cloud.act(cloud.admin, server, "os-migrateLive", {"host": "node-9", "block_migration": False}),
        "Compute host node-9 could not be found.",
    )


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("version", "body", "message"),
    [
        ("2.1", {"host": "node-2", "block_migration": False, "disk_over_commit": False}, None),
        ("2.1", {"host": "node-2", "block_migration": False}, "'disk_over_commit' is a required property"),
        ("2.24", {"host": None, "block_migration": "auto", "disk_over_commit": False}, "'auto' is not one of"),
        ("2.25", {"host": None, "block_migration": "auto"}, None),
        ("2.25", {"host": None, "block_migration": "auto", "disk_over_commit": False}, "('disk_over_commit' was"),
        ("2.29", {"host": "node-2", "block_migration": "auto", "force": True}, "('force' was unexpected)"),
        ("2.30", {"host": "node-2", "block_migration": "auto", "force": True}, None),
        ("2.67", {"host": "node-2", "block_migration": "auto", "force": "false"}, None),
        ("2.68", {"host": "node-2", "block_migration": "auto", "force": True}, "('force' was unexpected)"),
        ("2.1000", {"host": "node-2", "block_migration": "auto"}, None),
        ("2.1000", {"block_migration": "auto"}, "'host' is a required property"),
        ("2.1000", {"host": "node-2"}, "'block_migration' is a required property"),
        ("2.1000", None, "None is not of type 'object'"),
    ],
)
def test_live_migration_body_follows_the_microversion(
    module_cloud: Cloud, version: str, body: Any, message: str | None
) -> None:
    cloud = module_cloud
    server = cloud.boot_on("node-1")
    try:
        answer = cloud.act(cloud.admin.at(version), server, "os-migrateLive", body)
        if message is None:
            accepted(answer)
            cloud.settle()
            assert cloud.host(server) != "node-1"
        else:
            invalid(answer, message)
    finally:
        cloud.delete(server)


# Evacuating


def test_server_is_evacuated_from_a_host_that_is_down(cloud: Cloud) -> None:
    server = cloud.boot_on("node-1")
    invalid(cloud.act(cloud.admin, server, "evacuate", {}), "Compute service of node-1 is still in use.")
    cloud.set_down("node-1")
    unknown = cloud.act(cloud.admin, server, "evacuate", {"host": "node-9"})
    assert (unknown.status, unknown.message) == (404, "Compute host node-9 not found.")
    answer = cloud.act(cloud.admin.at("2.94"), server, "evacuate", {"host": "node-3"})
    assert answer.status == 200
    assert states(cloud, server) == ("REBUILD", "active", "rebuilding", 1)
    assert cloud.used() == {"node-1": 1, "node-3": 1}
    cloud.step()
    assert states(cloud, server) == ACTIVE
    assert cloud.used() == {"node-3": 1}
    assert cloud.log(server)[0] == ("evacuate", None)


@pytest.mark.parametrize(
    ("body", "failing", "tried"),
    [
        pytest.param({}, 1, 2, id="another host starts it"),
        pytest.param({}, 2, 2, id="no host starts it"),
        pytest.param({"host": "node-2"}, 1, 1, id="the named host does not start it"),
    ],
)
def test_evacuation_whose_host_fails_continues_on_another_one(
    build_cloud: BuildCloud, body: dict[str, str], failing: int, tried: int
) -> None:
    driver = FailingDriver()
    cloud = build_cloud(driver=driver)
    server = cloud.boot_on("node-1")
    cloud.set_down("node-1")
    answer = cloud.act(cloud.admin.at("2.94"), server, "evacuate", body)
    assert answer.status == 200
    first = next(host for host in cloud.used() if host != "node-1")
    driver.hosts = {first} if failing == 1 else {"node-2", "node-3"}
    for _ in range(3):
        cloud.step()
    hosts = [host for verb, _, host in driver.done if verb == "evacuate"]
    assert (len(hosts), len(set(hosts))) == (tried, tried)
    (move,) = cloud.admin.get(f"/os-migrations?instance_uuid={server}").json["migrations"]
    assert move["dest_compute"] == hosts[-1]
    if failing < tried:
        assert (states(cloud, server), cloud.used()) == (ACTIVE, {hosts[-1]: 1})
        assert cloud.log(server)[0] == ("evacuate", None)
        return
    assert (cloud.status(server), cloud.host(server), cloud.used()) == ("ERROR", "node-1", {"node-1": 1})
    assert "no other host that was tried could start it" in cloud.show(server, cloud.admin)["fault"]["message"]
    assert cloud.log(server)[0] == ("evacuate", "Error")
    driver.hosts.clear()
    cloud.run_action(cloud.admin.at("2.94"), server, "evacuate", {})
    assert states(cloud, server) == ACTIVE


@pytest.mark.sqlite_only
def test_evacuation_continues_later_if_the_fleet_keeps_changing(
    build_cloud: BuildCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = FailingDriver()
    cloud = build_cloud(driver=driver)
    server = cloud.boot_on("node-1")
    cloud.set_down("node-1")
    assert cloud.act(cloud.admin.at("2.94"), server, "evacuate", {}).status == 200
    driver.hosts = {host for host in cloud.used() if host != "node-1"}

    def stale(*_: object) -> None:
        raise StaleClaim(frozenset())

    with monkeypatch.context() as busy:
        busy.setattr(Destinations, "move_claim", stale)
        cloud.step()
    assert states(cloud, server) == ("REBUILD", "active", "rebuilding", 1)
    for _ in range(2):
        cloud.time.advance(5)
        cloud.step()
    assert states(cloud, server) == ACTIVE


@pytest.mark.sqlite_only
def test_evacuated_server_is_stopped_from_2_95(cloud: Cloud) -> None:
    server = cloud.boot_on("node-1")
    cloud.set_down("node-1")
    cloud.run_action(cloud.admin.at("2.95"), server, "evacuate", {})
    assert states(cloud, server) == SHUTOFF
    cloud.run_action(cloud.alice, server, "os-start")
    assert states(cloud, server) == ACTIVE


def test_stopped_or_failed_server_can_be_evacuated(cloud: Cloud) -> None:
    stopped, failed = cloud.boot_on("node-1"), cloud.boot_on("node-1")
    cloud.run_action(cloud.alice, stopped, "os-stop")
    cloud.act(cloud.admin, failed, "os-resetState", {"state": "error"})
    cloud.set_down("node-1")
    for server in (stopped, failed):
        cloud.run_action(cloud.admin.at("2.94"), server, "evacuate", {})
        assert cloud.host(server) != "node-1"
    assert (states(cloud, stopped), states(cloud, failed)) == (SHUTOFF, ACTIVE)
    assert "node-1" not in cloud.used()


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("version", "body", "message"),
    [
        ("2.1", {"onSharedStorage": False}, None),
        ("2.1", {}, "'onSharedStorage' is a required property"),
        ("2.1", {"onSharedStorage": "False", "host": "node-2", "adminPass": "p"}, None),
        ("2.14", {"onSharedStorage": False}, "('onSharedStorage' was unexpected)"),
        ("2.14", {"adminPass": "p"}, None),
        ("2.28", {"host": "node-2", "force": True}, "('force' was unexpected)"),
        ("2.29", {"host": "node-2", "force": True}, None),
        ("2.68", {"host": "node-2", "force": True}, "('force' was unexpected)"),
        ("2.1000", {}, None),
        ("2.1000", None, "None is not of type 'object'"),
    ],
)
def test_evacuation_body_follows_the_microversion(
    module_cloud: Cloud, version: str, body: Any, message: str | None
) -> None:
    cloud = module_cloud
    server = cloud.boot_on("node-1")
    cloud.set_down("node-1")
    try:
        answer = cloud.act(cloud.admin.at(version), server, "evacuate", body)
        if message is None:
            assert answer.status == 200, answer.text
            assert ("adminPass" in answer.json) == (version == "2.1")
            cloud.settle()
            assert cloud.host(server) != "node-1"
        else:
            invalid(answer, message)
    finally:
        cloud.set_down("node-1", down=False)
        cloud.delete(server)


# Resizing


def test_server_is_resized_and_the_resize_confirmed(cloud: Cloud) -> None:
    server = cloud.boot()
    source = cloud.host(server)
    accepted(cloud.act(cloud.alice, server, "resize", {"flavorRef": "big"}))
    assert states(cloud, server) == ("RESIZE", "active", "resize_prep", 1)
    assert sorted(cloud.used().values()) == [1, 2]
    assert cloud.show(server)["flavor"]["original_name"] == "small"
    cloud.step()
    assert states(cloud, server) == VERIFY
    there = cloud.host(server)
    assert there != source
    assert cloud.show(server)["flavor"]["original_name"] == "big"
    assert cloud.use() == (1, 2, 2048)
    accepted(cloud.act(cloud.alice, server, "confirmResize"), 204)
    assert states(cloud, server) == ACTIVE
    assert cloud.used() == {there: 2}
    cloud.run_action(cloud.alice, server, "resize", {"flavorRef": "small"})
    assert cloud.use() == (1, 2, 2048)
    cloud.run_action(cloud.alice, server, "confirmResize")
    assert (sum(cloud.used().values()), cloud.use()) == (1, (1, 1, 1024))
    cloud.delete(server)
    assert cloud.is_empty()


def test_resize_is_reverted(cloud: Cloud) -> None:
    server = cloud.boot()
    source = cloud.host(server)
    cloud.run_action(cloud.alice, server, "resize", {"flavorRef": "big"})
    cloud.run_action(cloud.alice, server, "revertResize")
    assert states(cloud, server) == ACTIVE
    assert cloud.show(server)["flavor"]["original_name"] == "small"
    assert (cloud.used(), cloud.use()) == ({source: 1}, (1, 1, 1024))
    cloud.delete(server)
    assert cloud.is_empty()


@pytest.mark.sqlite_only
def test_invalid_resize_is_rejected(cloud: Cloud) -> None:
    server = cloud.boot()
    for body, message in (
        ({"flavorRef": "small"}, "When resizing, instances must change flavor!"),
        ({"flavorRef": "none"}, "Flavor none could not be found."),
        ({"flavorRef": ""}, "'' should be non-empty"),
        ({}, "'flavorRef' is a required property"),
        ({"flavorRef": "big", "more": 1}, "('more' was unexpected)"),
        ({"flavorRef": "giant"}, "No valid host was found. Of 3 hosts: 2 lack VCPUs, 1 is excluded by the request."),
    ):
        invalid(cloud.act(cloud.alice, server, "resize", body), message)
        assert states(cloud, server) == ACTIVE


@pytest.mark.sqlite_only
def test_resize_below_the_images_minimum_is_rejected(cloud: Cloud) -> None:
    server = cloud.boot(flavorRef="big")
    for ram_mb, disk_gb, message in (
        (1025, 10, "Flavor's memory is too small for requested image."),
        (1024, 11, "Flavor's disk is too small for requested image."),
    ):
        image = an_image(id=ImageId(IMAGE), visibility=Visibility.PUBLIC)
        with cloud.store.write() as tx:
            tx.images.update(replace(image, min_ram_mb=ram_mb, min_disk_gb=disk_gb))
        invalid(cloud.act(cloud.alice, server, "resize", {"flavorRef": "small"}), message)
        assert states(cloud, server) == ACTIVE


# Shelving


def test_server_is_shelved_and_unshelved(cloud: Cloud) -> None:
    server = cloud.boot()
    accepted(cloud.act(cloud.alice, server, "shelve"))
    assert states(cloud, server) == ("ACTIVE", "active", "shelving_offloading", 1)
    cloud.step()
    assert states(cloud, server) == OFFLOADED
    shown = cloud.show(server)
    assert (shown["OS-EXT-SRV-ATTR:host"], shown["hostId"]) == (None, "")
    assert not cloud.used()
    assert cloud.use() == (1, 1, 1024), "it counts still"
    accepted(cloud.act(cloud.admin, server, "shelveOffload"))
    accepted(cloud.act(cloud.alice, server, "unshelve"))
    assert states(cloud, server)[:3] == ("SHELVED_OFFLOADED", "shelved_offloaded", "unshelving")
    assert sum(cloud.used().values()) == 1
    cloud.step()
    assert states(cloud, server) == ACTIVE
    assert cloud.log(server) == [("unshelve", None), ("shelve", None), ("create", None)]
    cloud.delete(server)
    assert cloud.is_empty()


def test_shelved_server_can_be_deleted(cloud: Cloud) -> None:
    server = cloud.boot()
    cloud.run_action(cloud.alice, server, "shelve")
    cloud.delete(server)
    assert cloud.is_empty()


@pytest.fixture
def zoned(cloud: Cloud) -> Cloud:
    """Return a cloud with node-3 in the zone far."""
    made = cloud.admin.post("/os-aggregates", {"aggregate": {"name": "far", "availability_zone": "far"}})
    cloud.admin.post(f"/os-aggregates/{made.json['aggregate']['id']}/action", {"add_host": {"host": "node-3"}})
    return cloud


@pytest.mark.sqlite_only
def test_server_is_unshelved_into_a_zone_from_2_77(zoned: Cloud) -> None:
    server = zoned.boot(availability_zone="nova")
    alice = zoned.alice.at("2.77")
    zoned.run_action(alice, server, "shelve")
    invalid(
        zoned.act(alice, server, "unshelve", {"availability_zone": "nowhere"}),
        "The requested availability zone is not available",
    )
    for body in ({}, {"availability_zone": None}, {"host": "node-1"}, "far"):
        invalid(zoned.act(alice, server, "unshelve", body), "is not valid under any of the given schemas")
    zoned.run_action(alice, server, "unshelve", {"availability_zone": "far"})
    assert zoned.host(server) == "node-3"
    assert zoned.show(server)["pinned_availability_zone"] == "far"
    zoned.run_action(alice, server, "shelve")
    zoned.run_action(alice, server, "unshelve")
    assert zoned.host(server) == "node-3", "it keeps to the zone that it was given last"


@pytest.mark.sqlite_only
@pytest.mark.parametrize("body", [{"availability_zone": "far"}, {"host": "node-3"}, "far", 5], ids=repr)
def test_unshelve_body_is_ignored_before_2_77(zoned: Cloud, body: object) -> None:
    server = zoned.boot(availability_zone="nova")
    zoned.run_action(zoned.alice, server, "shelve")
    zoned.run_action(zoned.alice.at("2.76"), server, "unshelve", body)
    assert zoned.host(server) in {"node-1", "node-2"}


@pytest.mark.sqlite_only
def test_server_is_unshelved_onto_a_host_from_2_91(zoned: Cloud) -> None:
    server = zoned.boot(availability_zone="far")
    zoned.run_action(zoned.alice, server, "shelve")
    admin = zoned.admin.at("2.91")
    refused = zoned.act(zoned.alice.at("2.91"), server, "unshelve", {"host": "node-3"})
    assert (refused.status, refused.message) == (
        403,
        "Policy doesn't allow os_compute_api:os-shelve:unshelve_to_host to be performed.",
    )
    invalid(zoned.act(admin, server, "unshelve", {"host": "node-9"}), "Compute host node-9 could not be found.")
    invalid(zoned.act(admin, server, "unshelve", {}), "is not valid under any of the given schemas")
    invalid(zoned.act(admin, server, "unshelve", {"host": "node-1"}), "No valid host was found.")
    assert zoned.status(server) == "SHELVED_OFFLOADED"
    zoned.run_action(admin, server, "unshelve", {"availability_zone": None, "host": "node-1"})
    assert zoned.host(server) == "node-1"
    assert zoned.show(server)["pinned_availability_zone"] is None


@pytest.mark.sqlite_only
def test_null_zone_unpins_a_server(zoned: Cloud) -> None:
    server = zoned.boot(availability_zone="far")
    zoned.run_action(zoned.alice, server, "shelve")
    zoned.set_host("node-3", status="disabled")
    alice = zoned.alice.at("2.91")
    invalid(zoned.act(alice, server, "unshelve"), "No valid host was found.")
    zoned.run_action(alice, server, "unshelve", {"availability_zone": None})
    assert zoned.host(server) in {"node-1", "node-2"}


@pytest.mark.parametrize(
    ("version", "body", "tried"),
    [
        pytest.param("2.90", None, 2, id="any host"),
        pytest.param("2.91", {"host": "node-2"}, 1, id="the named host"),
    ],
)
def test_unshelve_whose_host_fails_continues_on_another_one(
    build_cloud: BuildCloud, version: str, body: Any, tried: int
) -> None:
    driver = FailingDriver()
    cloud = build_cloud(driver=driver)
    server = cloud.boot()
    cloud.run_action(cloud.alice, server, "shelve")
    driver.done.clear()
    assert cloud.act(cloud.admin.at(version), server, "unshelve", body).status == 202
    (first,) = cloud.used()
    driver.hosts = {first}
    cloud.settle()
    hosts = [host for verb, _, host in driver.done if verb == "spawn"]
    assert (len(hosts), len(set(hosts))) == (tried, tried)
    if tried == 1:
        assert (states(cloud, server), cloud.used()) == (OFFLOADED, {})
        return
    assert (states(cloud, server), cloud.used()) == (ACTIVE, {hosts[-1]: 1})
    assert cloud.log(server)[0] == ("unshelve", None)


def test_failed_unshelve_releases_the_room(build_cloud: BuildCloud) -> None:
    driver = FailingDriver()
    cloud = build_cloud(driver=driver)
    server = cloud.boot()
    cloud.run_action(cloud.alice, server, "shelve")
    driver.verbs.add("spawn")
    cloud.run_action(cloud.alice, server, "unshelve")
    assert states(cloud, server) == OFFLOADED
    assert not cloud.used()
    assert cloud.log(server)[0] == ("unshelve", "Error")
    assert "node-" not in str(cloud.last_event(server))
    driver.verbs.clear()
    cloud.run_action(cloud.alice, server, "unshelve")
    assert states(cloud, server) == ACTIVE


# Moves that fail


@pytest.mark.parametrize("action", ["migrate", "os-migrateLive", "resize", "evacuate"])
def test_failed_move_leaves_the_server_on_its_host(build_cloud: BuildCloud, action: str) -> None:
    cloud = build_cloud(driver=FailingDriver(verbs={"move", "live", "evacuate"}))
    server = cloud.boot_on("node-1")
    bodies = {"os-migrateLive": LIVE, "resize": {"flavorRef": "big"}, "evacuate": {}}
    if action == "evacuate":
        cloud.set_down("node-1")
    cloud.run_action(cloud.admin, server, action, bodies.get(action))
    cloud.step()
    assert cloud.status(server) == ("ERROR" if action == "evacuate" else "ACTIVE")
    assert cloud.show(server)["OS-EXT-STS:task_state"] is None
    assert (cloud.host(server), cloud.used(), cloud.use()) == ("node-1", {"node-1": 1}, (1, 1, 1024))
    assert cloud.log(server)[0][1] == "Error"
    event = cloud.last_event(server)
    assert (event["result"], event["details"]) == ("Error", "The move failed; the server stays on its host.")
    assert "node-" not in str(event), "a tenant reads this"
    assert "node-" in cloud.last_event(server, cloud.admin)["traceback"]
    assert [row.status for row in cloud.rows(tables.migrations)] == ["error"]
    cloud.delete(server)
    assert cloud.is_empty()


def test_failed_revert_can_be_retried(build_cloud: BuildCloud) -> None:
    driver = FailingDriver()
    cloud = build_cloud(driver=driver)
    server = cloud.boot_on("node-1")
    cloud.run_action(cloud.alice, server, "resize", {"flavorRef": "big"})
    driver.verbs.add("move")
    cloud.run_action(cloud.alice, server, "revertResize")
    assert states(cloud, server) == VERIFY
    assert cloud.log(server)[0] == ("revertResize", "Error")
    driver.verbs.clear()
    cloud.run_action(cloud.alice, server, "revertResize")
    assert states(cloud, server) == ACTIVE
    assert cloud.used() == {"node-1": 1}


# Wrong states

BODIES: dict[str, Any] = {
    "reboot": {"type": "SOFT"},
    "os-migrateLive": LIVE,
    "resize": {"flavorRef": "big"},
    "evacuate": {},
}


def _building(cloud: Cloud) -> str:
    return str(cloud.request_server(cloud.alice).json["server"]["id"])


def _stopped(cloud: Cloud) -> str:
    server = cloud.boot()
    cloud.run_action(cloud.alice, server, "os-stop")
    return server


def _shelved(cloud: Cloud) -> str:
    server = cloud.boot()
    cloud.run_action(cloud.alice, server, "shelve")
    return server


def _resized(cloud: Cloud) -> str:
    server = cloud.boot()
    cloud.run_action(cloud.alice, server, "resize", {"flavorRef": "big"})
    return server


def _failed(cloud: Cloud) -> str:
    return cloud.boot(flavorRef="giant")


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("bring", "state", "refused"),
    [
        (
            lambda cloud: cloud.boot(),
            "active",
            {"os-start": "start", "confirmResize": "confirmResize", "revertResize": "revertResize"}
            | {"unshelve": "unshelve", "shelveOffload": "shelveOffload"},
        ),
        (
            _building,
            "building",
            {"os-start": "start", "os-stop": "stop", "reboot": "reboot", "migrate": "migrate", "resize": "resize"}
            | {"os-migrateLive": "os-migrateLive", "shelve": "shelve", "unshelve": "unshelve", "evacuate": "evacuate"},
        ),
        (_stopped, "stopped", {"os-stop": "stop", "reboot": "reboot", "os-migrateLive": "os-migrateLive"}),
        (
            _shelved,
            "shelved_offloaded",
            {"os-start": "start", "os-stop": "stop", "reboot": "reboot", "migrate": "migrate", "resize": "resize"}
            | {"os-migrateLive": "os-migrateLive", "shelve": "shelve", "evacuate": "evacuate"},
        ),
        (
            _resized,
            "resized",
            {"os-start": "start", "os-stop": "stop", "reboot": "reboot", "migrate": "migrate", "resize": "resize"}
            | {"os-migrateLive": "os-migrateLive", "shelve": "shelve", "unshelve": "unshelve", "evacuate": "evacuate"},
        ),
        (
            _failed,
            "error",
            {"os-start": "start", "os-stop": "stop", "reboot": "reboot", "migrate": "migrate", "resize": "resize"}
            | {"os-migrateLive": "os-migrateLive", "shelve": "shelve", "unshelve": "unshelve"},
        ),
    ],
    ids=["active", "building", "stopped", "shelved", "resized", "error"],
)
def test_action_in_the_wrong_state_returns_409(
    cloud: Cloud, bring: Callable[[Cloud], str], state: str, refused: dict[str, str]
) -> None:
    server = bring(cloud)
    before = cloud.show(server), cloud.used(), cloud.log(server)
    for action, name in refused.items():
        answer = cloud.act(cloud.admin, server, action, BODIES.get(action))
        conflict(answer, f"Cannot '{name}' instance {server} while it is in vm_state {state}")
    assert (cloud.show(server), cloud.used(), cloud.log(server)) == before


def test_action_during_a_task_returns_409(cloud: Cloud) -> None:
    server = cloud.boot()
    cloud.act(cloud.alice, server, "os-stop")
    for action, name in (("os-stop", "stop"), ("shelve", "shelve"), ("migrate", "migrate"), ("resize", "resize")):
        answer = cloud.act(cloud.admin, server, action, BODIES.get(action))
        conflict(answer, f"Cannot '{name}' instance {server} while it is in task_state powering-off")


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "Malformed request body"),
        (b"{}", "Malformed request body"),
        (
            b'{"os-stop": null, "os-start": null}',
            "Malformed request body: it has 2 actions (os-stop, os-start); send one.",
        ),
        (b'["os-stop"]', "Malformed request body"),
        (b'{"dance": null}', "There is no such action: dance"),
        (b'{"reboot": {"type": "WARM"}}', "'WARM' is not one of"),
        (b'{"reboot": null}', "None is not of type 'object'"),
        (b'{"resize": null}', "None is not of type 'object'"),
        (b'{"os-resetState": {}}', "'state' is a required property"),
    ],
)
def test_unknown_action_is_rejected(module_cloud: Cloud, body: bytes, message: str) -> None:
    invalid(module_cloud.alice.ask("POST", "/servers/any/action", body=body), message)


# Instance actions and migrations


def test_instance_actions_record_each_action(cloud: Cloud) -> None:
    server = cloud.boot()
    answer = cloud.act(cloud.alice, server, "os-stop")
    request = answer.headers["x-openstack-request-id"]
    path = f"/servers/{server}/os-instance-actions"
    listed = cloud.alice.at("2.57").get(path).json["instanceActions"]
    fields = {"action", "instance_uuid", "request_id", "project_id", "user_id", "start_time", "message"}
    assert [action.keys() for action in listed] == [fields, fields]
    assert cloud.alice.at("2.58").get(path).json["instanceActions"][0].keys() == fields | {"updated_at"}
    assert (
        listed[0].items()
        >= {
            "action": "stop",
            "instance_uuid": server,
            "request_id": request,
            "project_id": "web",
            "user_id": "alice",
            "message": None,
        }.items()
    )
    assert cloud.alice.get(f"{path}/{request}").json["instanceAction"]["events"] == []
    cloud.settle()
    (event,) = cloud.alice.at("2.83").get(f"{path}/{request}").json["instanceAction"]["events"]
    assert event.keys() == {"event", "start_time", "finish_time", "result"}
    assert (event["event"], event["result"]) == ("compute_stop_instance", "Success")
    (event,) = cloud.alice.at("2.84").get(f"{path}/{request}").json["instanceAction"]["events"]
    assert event["details"] is None
    (event,) = cloud.admin.at("2.84").get(f"{path}/{request}").json["instanceAction"]["events"]
    assert "traceback" in event
    missing = cloud.alice.get(f"{path}/req-none")
    assert (missing.status, missing.message) == (
        404,
        f"Action for request_id req-none on instance {server} not found",
    )
    cloud.run_action(cloud.admin, server, "os-start")
    newest = cloud.alice.get(path).json["instanceActions"][0]
    assert (newest["action"], newest["user_id"], newest["project_id"]) == ("start", "admin", "operators")


def test_operators_list_migrations(cloud: Cloud) -> None:
    first, second = cloud.boot_on("node-1"), cloud.boot_on("node-1")
    cloud.run_action(cloud.admin, first, "migrate", {"host": "node-2"})
    cloud.run_action(cloud.alice, first, "confirmResize")
    cloud.run_action(cloud.admin, second, "os-migrateLive", {"host": "node-3", "block_migration": "auto"})
    cloud.act(cloud.alice, second, "resize", {"flavorRef": "big"})
    shown = cloud.admin.get("/os-migrations").json["migrations"]
    assert [(m["migration_type"], m["status"], m["source_compute"], m["instance_uuid"]) for m in shown] == [
        ("resize", "preparing", "node-3", second),
        ("live-migration", "completed", "node-1", second),
        ("migration", "confirmed", "node-1", first),
    ]
    assert shown[2]["dest_compute"] == "node-2"
    assert (shown[0]["old_instance_type_id"], shown[0]["new_instance_type_id"]) == ("small", "big")
    assert (shown[0]["project_id"], shown[0]["user_id"]) == ("web", "alice")
    old = cloud.admin.at("2.22").get("/os-migrations").json["migrations"][0]
    assert (old["old_instance_type_id"], old["new_instance_type_id"]) == (None, None), "Nova has numbers here"
    assert not {"migration_type", "uuid", "project_id"} & old.keys()
    for query, count in (
        ({"instance_uuid": first}, 1),
        ({"migration_type": "live-migration"}, 1),
        ({"status": "preparing"}, 1),
        ({"host": "node-2"}, 1),
        ({"source_compute": "node-1"}, 2),
        ({"source_compute": "node-2"}, 0),
    ):
        assert len(cloud.admin.get("/os-migrations", **query).json["migrations"]) == count, query
    refused = cloud.alice.get("/os-migrations")
    assert (refused.status, refused.message) == (
        403,
        "Policy doesn't allow os_compute_api:os-migrations:index to be performed.",
    )


def follow(client: Client, answer: Answer, links: str) -> Answer:
    """Return the next page, from the link in the response."""
    (link,) = answer.json[links]
    assert link["rel"] == "next"
    url = urlsplit(link["href"])
    return client.ask("GET", url.path.removeprefix("/compute/v2.1"), query_string=url.query)


def test_instance_actions_are_paged_from_2_58(cloud: Cloud) -> None:
    server = cloud.boot()
    for action in ("os-stop", "os-start", "os-stop"):
        cloud.run_action(cloud.alice, server, action)
    path, client = f"/servers/{server}/os-instance-actions", cloud.alice.at("2.58")

    def verbs(answer: Answer) -> list[str]:
        assert answer.status == 200, answer.text
        return [action["action"] for action in answer.json["instanceActions"]]

    whole = client.get(path)
    assert (verbs(whole), whole.json.keys()) == (["stop", "start", "stop", "create"], {"instanceActions"})
    assert verbs(cloud.alice.at("2.57").get(path, limit="1", marker="req-none")) == verbs(whole), "not yet"
    page = client.get(path, limit="3")
    assert verbs(page) == ["stop", "start", "stop"]
    rest = follow(client, page, "links")
    assert (verbs(rest), "links" in rest.json) == (["create"], False)
    assert client.get(path, limit="0").json == {"instanceActions": []}
    second = whole.json["instanceActions"][1]["request_id"]
    assert verbs(client.get(path, marker=second)) == ["stop", "create"]
    invalid(client.get(path, marker="req-none"), "Marker req-none could not be found.")
    other = cloud.boot()
    anonymous = client.get(f"/servers/{other}/os-instance-actions").json["instanceActions"][0]["request_id"]
    invalid(client.get(path, marker=anonymous), f"Marker {anonymous} could not be found.")


def test_instance_actions_are_filtered_by_time(cloud: Cloud) -> None:
    server = cloud.boot()
    cloud.time.advance(60)
    cloud.run_action(cloud.alice, server, "os-stop")
    path = f"/servers/{server}/os-instance-actions"
    stopped, created = cloud.alice.get(path).json["instanceActions"]
    for version, query, wanted in (
        ("2.58", {"changes-since": stopped["updated_at"]}, ["stop"]),
        ("2.58", {"changes-since": created["updated_at"] + "Z"}, ["stop", "create"]),
        ("2.57", {"changes-since": stopped["updated_at"]}, ["stop", "create"]),
        ("2.66", {"changes-before": created["updated_at"]}, ["create"]),
        ("2.65", {"changes-before": created["updated_at"]}, ["stop", "create"]),
        ("2.66", {"changes-since": "2000-01-01T00:00:00", "changes-before": "2000-01-02T00:00:00"}, []),
    ):
        found = cloud.alice.at(version).get(path, **query).json["instanceActions"]
        assert [action["action"] for action in found] == wanted, (version, query)
    for where, client in ((path, cloud.alice), ("/os-migrations", cloud.admin)):
        invalid(client.get(where, **{"changes-since": "yesterday"}), "changes-since. Value: yesterday.")
        invalid(client.get(where, **{"changes-before": "0001-01-01T00:00:00+14:00"}), "changes-before.")
        backwards = {"changes-since": "2000-01-02T00:00:00", "changes-before": "2000-01-01T00:00:00"}
        invalid(
            client.get(where, **backwards),
            "The value of changes-since must be less than or equal to changes-before.",
        )


def test_migrations_are_paged_and_filtered_by_time_from_2_59(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(3, ("api", "max_limit", 2))
    server, others = cloud.boot_on("node-1"), cloud.boot(cloud.bob)
    for host in ("node-2", "node-3", "node-1"):
        cloud.time.advance(60)
        cloud.run_action(cloud.admin, server, "os-migrateLive", {"host": host, "block_migration": "auto"})
    client = cloud.admin.at("2.59")

    def to(answer: Answer) -> list[str]:
        assert answer.status == 200, answer.text
        return [move["dest_compute"] for move in answer.json["migrations"]]

    assert to(cloud.admin.at("2.58").get("/os-migrations", limit="1")) == ["node-1", "node-3", "node-2"], "not yet"
    page = client.get("/os-migrations")
    assert to(page) == ["node-1", "node-3"], "as many as the service gives at once"
    rest = follow(client, page, "migrations_links")
    assert (to(rest), "migrations_links" in rest.json) == (["node-2"], False)
    page = client.get("/os-migrations", limit="1", source_compute="node-2")
    assert (to(page), page.json.keys()) == (["node-3"], {"migrations"}), "filters come first"
    page = client.get("/os-migrations", limit="1", instance_uuid=server)
    read = to(page)
    while "migrations_links" in page.json:
        page = follow(client, page, "migrations_links")
        read += to(page)
    assert read == ["node-1", "node-3", "node-2"]
    newest = client.get("/os-migrations").json["migrations"][0]
    assert to(client.get("/os-migrations", **{"changes-since": newest["updated_at"]})) == ["node-1"]
    before = {"changes-before": page.json["migrations"][0]["updated_at"]}
    assert to(cloud.admin.at("2.66").get("/os-migrations", **before)) == ["node-2"]
    assert to(cloud.admin.at("2.65").get("/os-migrations", **before)) == ["node-1", "node-3"]
    invalid(client.get("/os-migrations", marker=others), f"Marker {others} could not be found.")
    assert to(cloud.admin.at("2.80").get("/os-migrations", project_id="db")) == []
    assert len(to(cloud.admin.at("2.80").get("/os-migrations", user_id="alice", project_id="web"))) == 2
