"""The notifications that each event writes to the outbox, and their publication, on both databases."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from covey.model.errors import Unavailable
from covey.model.work import Notification
from covey.notifications.publisher import Publisher
from covey.storage import engine, tables
from covey.storage.store import Store
from tests.build import NOW
from tests.functional.fleets import BuildCloud, Cloud, FailingDriver

LISTENING = ("notifications", "driver", "log")
LIVE = {"host": None, "block_migration": "auto"}


def notes(cloud: Cloud) -> list[tuple[str, dict[str, Any]]]:
    """Take all waiting notifications: event and data, oldest first."""
    with cloud.store.write() as tx:
        waiting: list[Any] = tx.outbox.oldest(1000)
        tx.outbox.published([note.id for note in waiting])
    return [(note.event, note.payload["nova_object.data"]) for note in waiting]


def events(cloud: Cloud) -> list[str]:
    return [event for event, _ in notes(cloud)]


@pytest.fixture
def notifying_cloud(build_cloud: BuildCloud) -> Cloud:
    """Three hosts, with notifications enabled."""
    return build_cloud(3, LISTENING)


def test_noop_driver_leaves_the_outbox_empty(cloud: Cloud) -> None:
    group = cloud.group("anti-affinity")
    server = cloud.boot(group=group)
    cloud.run_action(cloud.admin, server, "os-migrateLive", LIVE)
    cloud.delete(server)
    assert cloud.rows(tables.outbox) == []


def test_group_emits_create_update_and_delete(notifying_cloud: Cloud) -> None:
    made = notifying_cloud.alice.at("2.64").post(
        "/os-server-groups",
        {"server_group": {"name": "web", "policy": "anti-affinity", "rules": {"max_server_per_host": 2}}},
    )
    group = made.json["server_group"]["id"]
    first, second = notifying_cloud.boot(group=group), notifying_cloud.boot(group=group)
    assert notifying_cloud.alice.delete(f"/os-server-groups/{group}").status == 204
    notifications = [(event, data) for event, data in notes(notifying_cloud) if event.startswith("server_group")]
    expected = {
        "uuid": group,
        "name": "web",
        "user_id": "alice",
        "project_id": "web",
        "policies": ["anti-affinity"],
        "policy": {
            "nova_object.name": "ServerGroupPolicyPayload",
            "nova_object.namespace": "nova",
            "nova_object.version": "1.0",
            "nova_object.data": {"name": "anti-affinity", "rules": {"max_server_per_host": 2}},
        },
        "rules": {"max_server_per_host": 2},
        "members": [],
        "hosts": None,
    }
    assert notifications == [
        ("server_group.create", expected),
        ("server_group.add_member", expected | {"members": [first]}),
        ("server_group.add_member", expected | {"members": [first, second]}),
        ("server_group.delete", expected | {"members": [first, second]}),
    ]


def test_each_new_member_emits_its_own_notification(notifying_cloud: Cloud) -> None:
    group = notifying_cloud.group("anti-affinity")
    answer = notifying_cloud.request_server(notifying_cloud.alice, group=group, min_count=3)
    assert answer.status == 202, answer.text
    notifications = notes(notifying_cloud)
    assert [event for event, _ in notifications] == [
        "server_group.create",
        *["instance.create.start"] * 3,
        *["server_group.add_member"] * 3,
    ]
    started, joined = (
        [data["uuid"] for _, data in notifications[1:4]],
        [data["members"] for _, data in notifications[4:]],
    )
    assert joined == [started[:1], started[:2], started]
    notifying_cloud.settle()
    ended = notes(notifying_cloud)
    assert [event for event, _ in ended] == ["instance.create.end"] * 3
    assert sorted(data["uuid"] for _, data in ended) == sorted(started)


def test_server_notifications_show_each_state(notifying_cloud: Cloud) -> None:
    server = notifying_cloud.boot(name="one")
    host = notifying_cloud.host(server)
    notifying_cloud.delete(server)
    notifications = notes(notifying_cloud)
    steps = [
        (event, data["uuid"], data["host"], data["state"], data["task_state"], data["power_state"])
        for event, data in notifications
    ]
    assert steps == [
        ("instance.create.start", server, host, "building", "spawning", "pending"),
        ("instance.create.end", server, host, "active", None, "running"),
        ("instance.delete.end", server, host, "deleted", None, "pending"),
    ]
    start, end, gone = (data for _, data in notifications)
    assert start["availability_zone"] == end["availability_zone"] == gone["availability_zone"] == "nova"
    assert (start["launched_at"], end["launched_at"]) == (None, gone["launched_at"])
    assert gone["deleted_at"] == gone["terminated_at"] is not None
    assert end["flavor"]["nova_object.data"]["memory_mb"] == 1024


def test_refused_request_emits_create_error(notifying_cloud: Cloud) -> None:
    group = notifying_cloud.group("anti-affinity")
    answer = notifying_cloud.request_server(notifying_cloud.alice, group=group, flavorRef="giant")
    assert answer.status == 202, answer.text
    (_, (event, data)) = notes(notifying_cloud)
    assert (event, data["host"], data["state"]) == ("instance.create.error", None, "error")
    fault = notifying_cloud.show(answer.json["server"]["id"])["fault"]
    assert data["fault"]["nova_object.data"]["exception_message"] == fault["message"]
    assert data["fault"]["nova_object.data"]["traceback"] == fault["details"]


def test_failed_build_emits_create_error(build_cloud: BuildCloud) -> None:
    failing_driver = FailingDriver(hosts={"node-1", "node-2", "node-3"})
    cloud = build_cloud(3, LISTENING, driver=failing_driver)
    cloud.boot()
    ((start, begun), (error, lost)) = notes(cloud)
    assert (start, begun["host"] in failing_driver.hosts) == ("instance.create.start", True)
    assert (error, lost["host"], lost["state"]) == ("instance.create.error", None, "error")


def test_moves_emit_the_new_host(notifying_cloud: Cloud) -> None:
    server = notifying_cloud.boot()
    notes(notifying_cloud)
    notifying_cloud.run_action(notifying_cloud.admin, server, "os-migrateLive", LIVE)
    after_live = notifying_cloud.host(server)
    notifying_cloud.run_action(notifying_cloud.admin, server, "migrate")
    after_cold = notifying_cloud.host(server)
    notifying_cloud.run_action(notifying_cloud.alice, server, "revertResize")
    notifying_cloud.run_action(notifying_cloud.alice, server, "resize", {"flavorRef": "big"})
    after_resize = notifying_cloud.host(server)
    notifying_cloud.run_action(notifying_cloud.alice, server, "confirmResize")
    assert after_resize is not None
    notifying_cloud.set_down(after_resize)
    notifying_cloud.run_action(
        notifying_cloud.admin.at("2.94"), server, "evacuate", {}
    )  # later versions leave the server stopped
    notifications = [
        (event, d["host"], d["state"], d["flavor"]["nova_object.data"]["name"]) for event, d in notes(notifying_cloud)
    ]
    assert notifications == [
        ("instance.live_migration_post.end", after_live, "active", "small"),
        ("instance.resize_finish.end", after_cold, "resized", "small"),
        ("instance.resize_revert.end", after_live, "active", "small"),
        ("instance.resize_finish.end", after_resize, "resized", "big"),
        ("instance.rebuild.end", notifying_cloud.host(server), "active", "big"),
    ]


def test_refused_changes_emit_nothing(notifying_cloud: Cloud) -> None:
    notifying_cloud.set_quota(instances=0)
    assert notifying_cloud.request_server(notifying_cloud.alice).status == 403
    assert notifying_cloud.alice.delete("/os-server-groups/11111111-2222-3333-4444-555555555555").status == 404
    assert events(notifying_cloud) == []


# The publisher


@dataclass
class Listener:
    heard: list[str] = field(default_factory=list)
    away: bool = False
    during_send: Any = None

    def send(self, note: Notification) -> None:
        if self.away:
            raise Unavailable("no listener")
        if self.during_send is not None:
            self.during_send()
        self.heard.append(note.event)


def put(store: Store, *names: str) -> None:
    with store.write() as tx:
        tx.outbox.add([(name, {"of": name}) for name in names], NOW)


def left(store: Store) -> list[str]:
    with store.read() as tx:
        assert [note.created_at for note in tx.outbox.oldest(1000)] == [NOW] * len(tx.outbox.oldest(1000))
        return [note.event for note in tx.outbox.oldest(1000)]


def test_notifications_are_published_in_order_and_deleted(store: Store) -> None:
    names = [f"n{number}" for number in range(300)]
    put(store, *names[:200])
    put(store, *names[200:])
    listener = Listener()
    send = Publisher(store, listener)
    assert [send(), send(), send(), send()] == [128, 128, 44, 0]
    assert (listener.heard, left(store)) == (names, [])


def test_unaccepted_notification_stays_in_the_outbox(store: Store) -> None:
    put(store, "a", "b")
    listener = Listener(away=True)
    assert Publisher(store, listener)() == 0
    assert left(store) == ["a", "b"]
    listener.away = False
    assert Publisher(store, listener)() == 2
    assert (listener.heard, left(store)) == (["a", "b"], [])


def test_publisher_lock_excludes_publishers_and_no_writers(store: Store, database: str) -> None:
    other_engine = engine.connect(database)
    other, overheard = Store(other_engine), Listener()
    put(store, "a", "b")
    results: list[int] = []

    def during_send() -> None:
        results.append(Publisher(other, overheard)())
        put(other, f"later-{len(results)}")

    listener = Listener(during_send=during_send)
    assert Publisher(store, listener)() == 2
    assert (results, overheard.heard) == ([0, 0], [])
    assert (listener.heard, left(store)) == (["a", "b"], ["later-1", "later-2"])
    assert Publisher(other, overheard)() == 2
    assert overheard.heard == ["later-1", "later-2"]
    other_engine.dispose()


def test_dead_publisher_leaves_lock_and_notifications_to_others(store: Store) -> None:
    put(store, "a", "b")

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Publisher(store, Listener(during_send=die))()
    listener = Listener()
    assert Publisher(store, listener)() == 2
    assert listener.heard == ["a", "b"]
