"""The plugin's commands against a real service."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.conftest import Demo
from tests.acceptance.processes import Session
from tests.acceptance.test_servers_by_client import (
    _delete_servers_and_groups,  # noqa: F401 - applies here as well
    boot,
    column,
    host,
    wait_until_idle,
)


@pytest.fixture
def shelf(admin: Session) -> Iterator[dict[str, Any]]:
    """Yield an aggregate in no scope."""
    aggregate = admin.json("aggregate create shelf-1")
    admin.json("aggregate add host shelf-1 node-01")
    yield aggregate
    admin.json("aggregate remove host shelf-1 node-01")
    admin.run("aggregate delete shelf-1")


def members(session: Session, group: str) -> set[str]:
    return set(session.json(f"server group show {group}")["members"])


def test_each_command_works_in_its_own_process(demo: Demo) -> None:
    """Each command runs in its own process, succeeds, and prints no warning."""
    member = demo.cloud("demo")
    done = member._done("server group create --policy anti-affinity --rule max_server_per_host=3 'an old group'", None)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"| policy     | anti-affinity " in done.stdout
    done = member._done(
        "server group create --policy soft-affinity:switch --policy anti-affinity:rack 'a new group'", None
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"| policies   | soft-affinity:switch, anti-affinity:rack " in done.stdout
    done = member._done("policy scope create shelf", None)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"Policy doesn't allow os_compute_api:os-policy-scopes:create to be performed.\n"
    assert (
        b"Policy scope 'nowhere' does not exist"
        in member._done("server group set 'a new group' --policy affinity:nowhere", None).stderr
    )
    assert "No ServerGroup found for nothing" in member.refusal("server group audit nothing")
    assert "Example: openstack server group rebalance web --dry-run" in member.run("server group rebalance --help")


@pytest.mark.parametrize("version", ["2.1", "2.64", "2.1000"])
def test_plugin_and_stock_commands_work_at_any_version(demo: Demo, member: Session, version: str) -> None:
    typed, at = demo.cloud("demo"), f"--os-compute-api-version {version}"
    created = typed.json(f"{at} server group create --policy anti-affinity:rack --policy affinity:switch wide")
    assert created["policies"] == ["anti-affinity:rack", "affinity:switch"]
    first = typed.json(f"{at} server group show wide")
    assert "anti-affinity:rack" in str(first)
    assert column(typed.json(f"{at} server group list"), "Name") == ["wide"]
    assert typed.json(f"{at} server group create --policy anti-affinity plain")["name"] == "plain"
    assert member.json("server group show plain")["policy"] == "anti-affinity"
    assert typed.json(f"{at} server group headroom wide --flavor tiny")["count"] == 2


def test_scope_lifecycle(admin: Session, member: Session, shelf: dict[str, Any]) -> None:
    namespace = "6f72348f-df5d-4e0f-a043-4be92996dbfe"
    created = admin.json(f"policy scope create shelf --obfuscate-identifiers --namespace {namespace}")
    assert created == {
        "id": created["id"],
        "name": "shelf",
        "allow_identifiers": False,
        "obfuscate_identifiers": True,
        "aggregates": [],
        "obfuscate_namespace_uuid": namespace,
    }
    listed = {row["Name"]: row for row in member.json("policy scope list")}
    assert listed.keys() >= {"host", "rack", "shelf"}
    assert (listed["shelf"]["Allow Identifiers"], listed["shelf"]["Obfuscate Identifiers"]) == (False, True)

    admin.run("policy scope set shelf --name board --allow-identifiers")
    (place,) = admin.json("policy scope add aggregate board shelf-1")["aggregates"]
    assert (place["id"], place["name"], place["hosts"]) == (shelf["id"], "shelf-1", ["node-01"])
    (as_demo,) = admin.json("policy scope show board --as-project demo")["aggregates"]
    assert as_demo["group_id"] == str(shelf["id"])
    seen = member.json(f"policy scope show {created['id']}")
    assert seen["aggregates"] == [{"group_id": as_demo["obfuscated_group_id"]}]

    admin.run("policy scope unset board --allow-identifiers --obfuscate-identifiers")
    shown = admin.json("policy scope show board")
    assert (shown["allow_identifiers"], shown["obfuscate_identifiers"]) == (False, False)
    assert "Nothing to change" in admin.refusal("policy scope set board")

    said = admin.refusal("policy scope delete board nothing")
    assert said.count("\n") == 3
    assert "2 of 2 policy scopes failed to delete." in said
    assert admin.json(f"policy scope remove aggregate board {shelf['id']}")["aggregates"] == []
    admin.run("policy scope delete board")
    assert "board" in admin.refusal("policy scope show board")


def test_group_is_changed(member: Session) -> None:
    member.json("server group create --policy anti-affinity:rack --rule max_server_per_rack=2 web")
    member.json("server group set web --name api --policy anti-affinity:switch --rule max_server_per_switch=3")
    shown = member.json("server group show api")
    assert (shown["policy"], shown["rules"]) == ("anti-affinity:switch", {"max_server_per_switch": 3})
    member.json("server group set api --no-rule")
    assert member.json("server group show api")["rules"] == {}
    assert "max_server_per_rack" in member.refusal("server group set api --rule max_server_per_rack=2")


def test_audit_reports_violations_of_added_and_removed_members(member: Session) -> None:
    member.json("server group create --policy affinity together")
    member.json("server group create --policy anti-affinity apart")
    one, two = (boot(member, name, "--server-group together")["id"] for name in ("one", "two"))
    assert member.json("server group audit together --violations") == []
    for server in ("one", "two"):
        member.json(f"server group remove server together {server}")
    assert members(member, "together") == set()

    assert member.json("server group add server apart one --enforce")["members"] == [one]
    member.refusal("server group add server apart two --enforce")
    assert members(member, "apart") == {one}
    assert set(member.json(f"server group add server apart {two}")["members"]) == {one, two}

    rows = member.json("server group audit apart")
    assert set(column(rows, "Server ID")) == {one, two}
    assert rows[0]["Placements"].keys() == {"host"}
    assert rows[0]["Placements"] == rows[1]["Placements"]
    (broken,) = member.json("server group audit apart --violations")
    assert (broken["Policy"], broken["Scope"], broken["Soft"]) == ("anti-affinity", "host", False)
    assert set(broken["Members"]) == {one, two}


def test_preview_matches_the_next_boot(member: Session) -> None:
    member.json("server group create --policy anti-affinity:switch web")
    assert member.json("server group headroom web --flavor tiny")["count"] == 4
    preview = member.json("server group preview web --flavor tiny --image linux-server --count 6")
    assert (preview["count"], preview["fits"]) == (6, 4)
    assert len({place["switch"] for place in preview["placements"]}) == 4
    boot(member, "first", "--server-group web")
    assert member.json("server group headroom web --flavor tiny")["count"] == 3
    assert member.json("server list --name first")[0]["Name"] == "first"


def test_placement_detail_depends_on_the_caller(admin: Session, member: Session, other: Session) -> None:
    server = boot(member, "placed")
    placement = member.json("server placement show placed")
    assert (placement["server_id"], placement["refused"], placement["decision"]["hosts"]) == (server["id"], None, 24)
    assert "host" not in placement
    assert admin.json(f"server placement show {server['id']}")["host"] == host(admin, server)
    assert "No Server found for" in other.refusal(f"server placement show {server['id']}")


def test_group_is_rebalanced(admin: Session, member: Session) -> None:
    group = member.json("server group create --policy affinity web")["id"]
    servers = {boot(member, name, "--server-group web")["id"] for name in ("one", "two")}
    member.json("server group set web --policy anti-affinity")
    plan = member.json("server group rebalance web --dry-run")
    (move,) = plan["moves"]
    assert move["instance_id"] in servers
    assert (plan["optimal"], len(plan["violations_before"]), plan["violations_after"]) == (True, 1, [])
    assert len(member.json("server group audit web --violations")) == 1
    assert "os-server-groups:rebalance to be performed" in member.refusal("server group rebalance web")

    mended = admin.json(f"server group rebalance {group} --wait")
    assert (mended["status"], mended["moves_done"]) == ("done", 1)
    assert member.json("server group audit web --violations") == []
    assert member.json("server group rebalance show web")["id"] == mended["id"]
    for server in servers:
        wait_until_idle(member, server)
    assert f"No rebalance of the server group {group} is running." in admin.refusal(
        f"server group rebalance cancel {group}"
    )


def test_host_is_drained(admin: Session, member: Session) -> None:
    booted = boot(member, "one")
    server, source = booted["id"], host(admin, booted)
    plan = admin.json(f"compute drain {source} --dry-run")
    assert [(move["instance_id"], move["from"]) for move in plan["moves"]] == [(server, source)]
    assert "os-drains:start to be performed" in member.refusal(f"compute drain {source}")

    done = admin.json(f"compute drain {source} --wait")
    assert (done["status"], done["moves_done"], done["disabled_hosts"]) == ("done", 1, [source])
    wait_until_idle(member, server)
    assert host(admin, booted) != source
    assert admin.json(f"compute drain show {source}")["id"] == done["id"]
    assert admin.json("compute drain list")[0]["ID"] == done["id"]
    assert "is not running: its status is done" in admin.refusal(f"compute drain {source} --cancel")
    assert admin.json(f"compute drain {source} --undo")["status"] == "undone"
    (service,) = (each for each in admin.json("compute service list") if each["Host"] == source)
    assert service["Status"] == "enabled"


def test_quotas_of_resource_classes_are_set_and_shown(admin: Session, member: Session) -> None:
    admin.run("resource class create CUSTOM_CARD")
    rows = admin.json("resource class quota set demo --limit CUSTOM_CARD=4")
    assert rows == [{"Resource Class": "CUSTOM_CARD", "Limit": 4, "In Use": 0}]
    assert member.json("resource class quota show demo") == rows
    assert "No such resource class: CUSTOM_NONE." in admin.refusal(
        "resource class quota set --default --limit CUSTOM_NONE=1"
    )
    assert "os-quota-sets:update" in member.refusal("resource class quota set demo --limit CUSTOM_CARD=9")
    assert admin.json("resource class quota show --default") == []
    admin.run("resource class delete CUSTOM_CARD")
    assert admin.json("resource class quota show demo") == []
