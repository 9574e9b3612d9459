"""Payloads equal the examples in the reference."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from covey.model.actions import MoveKind
from covey.model.flavors import Flavor
from covey.model.groups import Group, GroupPolicy, PolicyKind, ScopeRef
from covey.model.hosts import Host
from covey.model.ids import FlavorId, GroupId, HostId, ProjectId, ScopeId, ServerId, UserId
from covey.model.servers import Details, Fault, PlacementRequest, Power, Server, Task, VmState
from covey.services.notifications import MOVED, Event, NotificationEmitter, service_payload
from covey.storage.store import Transaction
from tests.build import LATER, NOW

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "notifications.md"
EXAMPLE = re.compile(r"^### `(?P<event>[a-z_.]+)`\n.*?^```json\n(?P<json>.*?)^```", re.MULTILINE | re.DOTALL)
STARTED = NOW + timedelta(seconds=5)

GROUP = Group(
    id=GroupId("788608ec-ebdc-45c5-bc7f-e5f24ab92c80"),
    name="web",
    project_id=ProjectId("shop"),
    user_id=UserId("alice"),
    policies=(GroupPolicy(PolicyKind.ANTI_AFFINITY, limit=3),),
    version=0,
    created_at=NOW,
)
BUILDING = Server(
    id=ServerId("178b0921-8f85-4257-88b6-2e743b5a975c"),
    name="web-1",
    project_id=ProjectId("shop"),
    user_id=UserId("alice"),
    flavor=Flavor(
        FlavorId("a22d5517-147c-4147-a0d1-e698df5cd4e3"),
        "small",
        vcpus=1,
        memory_mb=512,
        disk_gb=1,
        extra_specs={"trait:STORAGE_DISK_SSD": "required"},
    ),
    vm_state=VmState.BUILDING,
    task=Task.SPAWNING,
    power=Power.NONE,
    created_at=NOW,
    updated_at=NOW,
    host_id=HostId(7),
    host_name="node-07",
    group_id=GROUP.id,
    request=PlacementRequest(image_id="155d900f-4e14-4e4c-a73d-069cbf4541e6"),
    details=Details(
        metadata={"role": "front"}, description="the first of them", key_name="my-key", reservation_id="r-npxv0e40"
    ),
    tags=frozenset({"blue"}),
    zone="az-1",
)
ACTIVE = replace(
    BUILDING, vm_state=VmState.ACTIVE, task=None, power=Power.RUNNING, launched_at=STARTED, updated_at=STARTED
)
LOST = replace(
    BUILDING,
    vm_state=VmState.ERROR,
    task=None,
    host_id=None,
    host_name=None,
    zone=None,
    group_id=None,
    fault=Fault("No valid host was found. Of 24 hosts: 24 lack memory.", NOW, details="of 24 hosts: 24 lack memory"),
)
THERE = replace(ACTIVE, host_name="node-08")
SECOND = replace(BUILDING, id=ServerId("2b6c0b3a-3d0c-4a5e-9a58-0f0a9c3a7f11"), name="web-2")


@dataclass
class Rows:
    """A fake transaction: some servers and groups, and an outbox that keeps its rows."""

    known: Sequence[Server] = ()
    known_groups: Sequence[Group] = ()
    outbox_rows: list[tuple[str, Any]] = field(default_factory=list)
    added: int = 0

    @property
    def outbox(self) -> "Rows":
        return self

    @property
    def servers(self) -> "Rows":
        return self

    @property
    def groups(self) -> "RowsOfGroups":
        return RowsOfGroups(self.known_groups)

    def add(self, notifications: Sequence[tuple[str, Any]], now: datetime) -> None:
        assert now == LATER
        self.outbox_rows += notifications
        self.added += 1

    def by_id(self, server: str) -> Server | None:
        return next((each for each in self.known if each.id == server), None)

    def by_ids(self, ids: Sequence[ServerId]) -> list[Server]:
        return [each for each in self.known if each.id in ids]

    def as_transaction(self) -> Transaction:
        return cast("Transaction", self)


@dataclass
class RowsOfGroups:
    known: Sequence[Group]

    def by_ids(self, ids: Sequence[GroupId]) -> list[Group]:
        return [each for each in self.known if each.id in ids]


def an_emitter(*, enabled: bool = True) -> NotificationEmitter:
    return NotificationEmitter(enabled, lambda: LATER)


def examples() -> dict[str, Any]:
    return {found["event"]: json.loads(found["json"]) for found in EXAMPLE.finditer(PAGE.read_text())}


def example(event: str, like: str) -> dict[str, Any]:
    """An example that shows no more than what differs from another."""
    base, own = examples()[like], examples()[event]
    data = base["nova_object.data"] | own["nova_object.data"]
    if "policy" in own["nova_object.data"]:
        data["policy"] = base["nova_object.data"]["policy"] | own["nova_object.data"]["policy"]
    return {**base, **own, "nova_object.data": data}


def test_new_group_equals_the_example() -> None:
    rows = Rows()
    an_emitter().group_changed(rows.as_transaction(), Event.GROUP_CREATED, GROUP)
    assert rows.outbox_rows == [("server_group.create", examples()["server_group.create"])]


@pytest.mark.parametrize(
    ("event", "group"),
    [
        pytest.param(
            Event.GROUP_UPDATED,
            replace(GROUP, name="front", policies=(GroupPolicy(PolicyKind.SOFT_ANTI_AFFINITY),)),
            id="another name and another policy",
        ),
        pytest.param(Event.MEMBER_REMOVED, replace(GROUP, members=(BUILDING.id,)), id="one member left"),
        pytest.param(Event.GROUP_DELETED, replace(GROUP, members=(BUILDING.id,)), id="the group is deleted"),
    ],
)
def test_changed_group_equals_the_example(event: Event, group: Group) -> None:
    rows = Rows()
    an_emitter().group_changed(rows.as_transaction(), event, group)
    assert rows.outbox_rows == [(event, example(event, "server_group.create"))]


def test_policies_name_their_scope_and_target() -> None:
    rack = ScopeRef(ScopeId("id-of-rack"), "rack")
    policies = (
        GroupPolicy(PolicyKind.ANTI_AFFINITY, rack, limit=2),
        GroupPolicy(PolicyKind.SOFT_AFFINITY, ScopeRef(ScopeId("id-of-zone"), "zone"), target="az-1"),
    )
    rows = Rows()
    an_emitter().group_changed(rows.as_transaction(), Event.GROUP_CREATED, replace(GROUP, policies=policies))
    data = rows.outbox_rows[0][1]["nova_object.data"]
    assert data["policies"] == ["anti-affinity:rack", "soft-affinity:zone:az-1"]
    rules = {"max_server_per_rack": 2}
    assert data["rules"] == rules
    assert data["policy"]["nova_object.data"] == {"name": "anti-affinity:rack", "rules": rules}


def test_new_servers_start_and_then_join_their_group_in_one_insert() -> None:
    rows = Rows(known_groups=[replace(GROUP, members=(SECOND.id, BUILDING.id))])
    alone = replace(BUILDING, id=ServerId("33333333-0000-0000-0000-000000000000"), group_id=None)
    an_emitter().create_started(rows.as_transaction(), [BUILDING, alone, SECOND, LOST])
    assert [event for event, _ in rows.outbox_rows] == [
        "instance.create.start",
        "instance.create.start",
        "instance.create.start",
        "instance.create.error",
        "server_group.add_member",
        "server_group.add_member",
    ]
    assert rows.outbox_rows[0][1] == examples()["instance.create.start"]
    assert rows.outbox_rows[3][1] == example("instance.create.error", "instance.create.start")
    joined = [
        payload["nova_object.data"]["members"] for event, payload in rows.outbox_rows if event.endswith("add_member")
    ]
    assert joined == [[BUILDING.id], [BUILDING.id, SECOND.id]]
    assert rows.outbox_rows[5][1] == example("server_group.add_member", "server_group.create")
    assert rows.added == 1


def test_earlier_members_precede_new_ones() -> None:
    old = ServerId("00000000-0000-0000-0000-000000000001")
    rows = Rows(known_groups=[replace(GROUP, members=(BUILDING.id, old))])
    an_emitter().create_started(rows.as_transaction(), [BUILDING])
    assert rows.outbox_rows[-1][1]["nova_object.data"]["members"] == [old, BUILDING.id]


def test_started_server_is_published_in_its_present_state() -> None:
    rows = Rows(known=[ACTIVE])
    an_emitter().create_ended(rows.as_transaction(), [BUILDING])
    assert rows.outbox_rows == [("instance.create.end", example("instance.create.end", "instance.create.start"))]


def test_server_deleted_during_its_build_has_no_create_end() -> None:
    rows = Rows(known=[replace(BUILDING, task=Task.DELETING)])
    an_emitter().create_ended(rows.as_transaction(), [BUILDING, SECOND])
    assert rows.outbox_rows == []


def test_failed_server_equals_the_example() -> None:
    rows = Rows(known=[LOST])
    an_emitter().create_failed(rows.as_transaction(), BUILDING.id)
    assert rows.outbox_rows == [("instance.create.error", example("instance.create.error", "instance.create.start"))]


def test_deleted_server_equals_the_example() -> None:
    rows = Rows()
    an_emitter().delete_ended(rows.as_transaction(), replace(ACTIVE, task=Task.DELETING))
    assert rows.outbox_rows == [("instance.delete.end", examples()["instance.delete.end"])]


@pytest.mark.parametrize(
    ("event", "server"),
    [
        pytest.param(MOVED[MoveKind.LIVE_MIGRATION], THERE, id="a live migration"),
        pytest.param(MOVED[MoveKind.RESIZE], replace(THERE, vm_state=VmState.RESIZED), id="a resize"),
        pytest.param(MOVED[MoveKind.MIGRATION], replace(THERE, vm_state=VmState.RESIZED), id="a cold migration"),
        pytest.param(MOVED[MoveKind.EVACUATION], THERE, id="an evacuation"),
        pytest.param(Event.RESIZE_REVERTED, ACTIVE, id="a reverted resize"),
    ],
)
def test_move_equals_the_example(event: Event, server: Server) -> None:
    rows = Rows(known=[server])
    an_emitter().moved(rows.as_transaction(), event, server.id)
    assert rows.outbox_rows == [(event, example(event, "instance.delete.end"))]


def test_disabled_notifications_write_nothing() -> None:
    rows = Rows(known=[ACTIVE], known_groups=[GROUP])
    silent, tx = an_emitter(enabled=False), rows.as_transaction()
    silent.group_changed(tx, Event.GROUP_CREATED, GROUP)
    silent.create_started(tx, [BUILDING])
    silent.create_ended(tx, [BUILDING])
    silent.create_failed(tx, BUILDING.id)
    silent.delete_ended(tx, ACTIVE)
    silent.moved(tx, Event.RESIZE_REVERTED, ACTIVE.id)
    assert (rows.outbox_rows, rows.added) == ([], 0)


def test_service_that_is_down_equals_the_example() -> None:
    host = Host(
        id=HostId(7),
        uuid="7d6b1d4c-2f4b-4a0a-9f53-8f1d1a6c9b10",
        name="node-07",
        zone=None,
        disabled=False,
        disabled_reason=None,
        forced_down=False,
        updated_at=NOW,
        agent_down=True,
    )
    assert service_payload(host, "nova") == examples()[Event.SERVICE_UPDATED]


def test_reference_has_an_example_of_each_event() -> None:
    assert examples().keys() == set(Event)
