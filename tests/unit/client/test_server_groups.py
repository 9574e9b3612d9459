"""`openstack server group ...` and `server placement show`: requests and output."""

from typing import Any

import pytest
from osc_lib.exceptions import CommandError

from covey.client import server_groups
from tests.unit.client.wire import Answer, Wire

WEB: dict[str, Any] = {
    "id": "g-1",
    "name": "web",
    "members": ["s-1"],
    "policies": ["anti-affinity:rack", "soft-affinity:switch"],
    "rules": {"max_server_per_rack": 2},
    "project_id": "p-1",
    "user_id": "u-1",
}
DOCUMENT: Answer = (200, {"server_group": WEB | {"policy": {"name": "anti-affinity:rack", "rules": {}}}})
NAMES: dict[str, Answer] = {
    "GET /os-server-groups": (200, {"server_groups": [{"id": "g-1", "name": "web"}]}),
    "GET /servers": (200, {"servers": [{"id": "s-1", "name": "web-7"}]}),
    "GET /flavors/detail": (200, {"flavors": [{"id": "f-1", "name": "small"}]}),
    "GET /image/v2/images": (200, {"images": [{"id": "i-1", "name": "linux"}]}),
}
ACTION = "POST /os-server-groups/g-1/action"


def acted(name: str, document: object) -> Wire:
    return Wire(NAMES | {ACTION: (200, {name: document})})


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ("--name api", {"name": "api"}),
        ("--policy affinity --policy anti-affinity:rack", {"policies": ["affinity", "anti-affinity:rack"]}),
        ("--rule max_server_per_rack=2 --rule a=b", {"rules": {"max_server_per_rack": "2", "a": "b"}}),
        ("--name api --no-rule", {"name": "api", "rules": {}}),
    ],
)
def test_only_given_options_are_changed(options: str, sent: dict[str, object]) -> None:
    wire = Wire(NAMES | {"PUT /os-server-groups/g-1": DOCUMENT})
    assert wire.run(f"server group set web {options}") == WEB
    assert wire.last().body == {"server_group": sent}


def test_empty_change_is_not_sent() -> None:
    wire = Wire(NAMES)
    with pytest.raises(CommandError, match="at least one option"):
        wire.output("server group set web")
    assert wire.sent == []


@pytest.mark.parametrize(
    ("command", "sent"),
    [
        ("add server web web-7", {"add_instance": {"instance_id": "s-1"}}),
        ("add server web web-7 --enforce", {"add_instance": {"instance_id": "s-1", "enforce": True}}),
        ("remove server web web-7", {"remove_instance": {"instance_id": "s-1"}}),
    ],
)
def test_members_are_added_and_removed_by_name(command: str, sent: dict[str, object]) -> None:
    wire = Wire(NAMES | {ACTION: DOCUMENT})
    assert wire.run(f"server group {command}") == WEB
    assert wire.last().body == sent


def test_policies_are_shown_in_their_order() -> None:
    policies = ["soft-affinity:switch", "anti-affinity:rack"]
    wire = Wire(NAMES | {ACTION: (200, {"server_group": WEB | {"policies": policies}})})
    assert "| soft-affinity:switch, anti-affinity:rack |" in wire.output("server group add server web web-7")


def test_audit_lists_members_with_their_domains() -> None:
    places = {"rack": "3", "switch": None}
    audit = {"server_group_id": "g-1", "members": [{"instance_id": "s-1", "placements": places}]}
    answers = {"GET /os-server-groups/g-1/audit": (200, {"server_group_policy_audit": audit})}
    wire = Wire(NAMES | answers | {"GET /os-server-groups/g-1": DOCUMENT})
    assert wire.run("server group audit web") == [{"Server ID": "s-1", "Placements": places}]
    assert wire.last().query == {}
    printed = wire.output("server group audit web")
    assert printed.startswith("web: anti-affinity:rack, soft-affinity:switch; max_server_per_rack=2\n")
    assert "rack='3'" in printed


def test_audit_lists_violations_on_request() -> None:
    wrong = {
        "policy": "anti-affinity:rack",
        "scope": "rack",
        "domain": "3",
        "members": ["s-1", "s-2"],
        "soft": False,
        "reason": "2 where 1 may be",
    }
    audit = {"server_group_id": "g-1", "members": [], "violations": [wrong]}
    wire = Wire(NAMES | {"GET /os-server-groups/g-1/audit": (200, {"server_group_policy_audit": audit})})
    assert wire.run("server group audit web --violations") == [{key.title(): value for key, value in wrong.items()}]
    assert wire.last().query == {"violations": "true"}


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ("--flavor small", {"flavor": "f-1", "count": 1}),
        ("--flavor small --count 3 --image linux", {"flavor": "f-1", "count": 3, "image": "i-1"}),
    ],
)
def test_preview_sends_flavor_count_and_image(options: str, sent: dict[str, object]) -> None:
    preview = {"server_group_id": "g-1", "count": 1, "fits": True, "placements": [{"rack": "3"}], "reason": None}
    wire = acted("preview", preview)
    assert wire.run(f"server group preview web {options}") == preview
    assert wire.last().body == {"preview": sent}


def test_headroom_shows_count_and_at_least() -> None:
    room = {"server_group_id": "g-1", "count": 7, "at_least": False, "reason": "of 8 racks: 7 have room"}
    wire = acted("headroom", room)
    assert wire.run("server group headroom web --flavor small") == room
    assert wire.last().body == {"headroom": {"flavor": "f-1"}}


def rebalance(status: str) -> dict[str, Any]:
    moves = [{"instance_id": "s-1", "from": "a", "to": "b"}]
    return {"id": "r-1", "status": status, "moves": moves, "moves_done": 0, "reason": "too full" * (status == "failed")}


@pytest.mark.parametrize(("options", "dry"), [("", False), ("--dry-run", True)])
def test_started_rebalance_is_shown(options: str, dry: bool) -> None:
    wire = acted("rebalance", rebalance("running"))
    assert wire.run(f"server group rebalance web {options}") == rebalance("running")
    assert wire.last().body == {"rebalance": {"dry_run": dry}}


def waiting(monkeypatch: pytest.MonkeyPatch, *statuses: str) -> Wire:
    monkeypatch.setattr(server_groups, "POLL_INTERVAL_S", 0)
    answers: list[Answer] = [(200, {"rebalance": rebalance(status)}) for status in statuses]
    begun = {ACTION: (200, {"rebalance": rebalance("running")})}
    return Wire(NAMES | begun | {"GET /os-server-groups/g-1/rebalance": answers})


def test_wait_shows_the_finished_rebalance(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = waiting(monkeypatch, "running", "running", "done")
    assert wire.run("server group rebalance web --wait")["status"] == "done"


def test_wait_fails_for_an_incomplete_rebalance(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="ended as failed: too full"):
        waiting(monkeypatch, "running", "failed").run("server group rebalance web --wait")
    with pytest.raises(CommandError, match="ended as cancelled: see `server group rebalance show g-1`"):
        waiting(monkeypatch, "cancelled").run("server group rebalance web --wait")


def test_rebalance_is_shown_and_cancelled() -> None:
    wire = Wire(NAMES | {"GET /os-server-groups/g-1/rebalance": (200, {"rebalance": rebalance("running")})})
    assert wire.run("server group rebalance show web") == rebalance("running")
    wire = Wire(NAMES | {ACTION: (202, None)})
    assert wire.output("server group rebalance cancel web") == ""
    assert wire.last().body == {"cancel_rebalance": {}}


def test_placement_is_shown_completely() -> None:
    placement = {"server_id": "s-1", "hostId": "x", "decision": {"attempts": 1, "hosts": 24}, "group": None}
    wire = Wire(NAMES | {"GET /servers/s-1/placement": (200, {"placement": placement})})
    assert wire.run("server placement show web-7") == placement
