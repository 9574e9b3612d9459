"""The event stream: all events for operators, own events for tenants, and a limit of streams."""

import pytest

from tests.functional.clusters import SERVER, as_clustering_client
from tests.functional.fleets import BuildCloud, Cloud
from tests.functional.streams import Listener, listening


def test_tenants_receive_own_events_and_operators_all(cloud: Cloud) -> None:
    admin, alice, bob = (listening(cloud, token) for token in ("admin:operators", "alice:web", "bob:db"))
    group = cloud.group("anti-affinity")
    server = cloud.boot(group=group)
    heard = admin.next()
    assert heard.keys() == {"fleet", "groups", "servers"}
    assert heard["servers"] == [server]
    assert alice.next() == {"groups": [], "servers": [server]}
    bobs = cloud.boot(cloud.bob)
    assert bob.next() == {"servers": [bobs]}
    assert admin.next().keys() == {"fleet", "servers"}
    cloud.set_down("node-1")
    assert admin.next().keys() == {"fleet"}
    for listener in (admin, alice, bob):
        listener.close()


def test_finished_job_sends_an_event(cloud: Cloud) -> None:
    server = cloud.request_server(cloud.alice).json["server"]["id"]
    alice = listening(cloud, "alice:web")
    cloud.settle()
    assert alice.next() == {"servers": [server]}
    cloud.delete(server)
    assert alice.next().keys() == {"servers"}  # a deleted server has no id in the event
    alice.close()


def test_cluster_action_sends_an_event(cloud: Cloud) -> None:
    clustering = as_clustering_client(cloud.alice)
    profile = clustering.post("/profiles", {"profile": {"name": "p", "spec": SERVER}}).json["profile"]["id"]
    alice, bob = listening(cloud, "alice:web"), listening(cloud, "bob:db")
    made = clustering.post("/clusters", {"cluster": {"name": "c", "profile_id": profile, "desired_capacity": 0}})
    assert alice.next()["actions"] == [made.json["cluster"]["id"]]
    bobs = cloud.boot(cloud.bob)
    assert bob.next() == {"servers": [bobs]}
    alice.close()
    bob.close()


def test_stream_limit_is_enforced(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(1, ("dashboard", "max_streams", 1))
    first = Listener(cloud, "alice:web")
    second = Listener(cloud, "bob:db")
    assert (second.status[:3], second.headers["retry-after"]) == ("503", "5")
    first.close()  # before its first byte is read
    first.close()
    third = listening(cloud, "bob:db")
    assert Listener(cloud, "alice:web").status[:3] == "503"
    third.close()


def test_project_takes_a_part_of_the_streams(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(1, ("dashboard", "max_streams_per_project", 2))
    alices = [listening(cloud, token) for token in ("alice:web", "ann:web")]
    refused = Listener(cloud, "alice:web")
    assert (refused.status[:3], refused.headers["retry-after"]) == ("503", "5")
    bob = listening(cloud, "bob:db")
    alices[0].close()
    alices[0] = listening(cloud, "alice:web")
    for listener in (*alices, bob):
        listener.close()


def test_streams_of_two_projects_leave_some_for_others(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(1, ("dashboard", "max_streams", 8), ("dashboard", "max_streams_per_project", 4))
    listeners = [Listener(cloud, f"mallory:{project}") for project in ("m1", "m2") for _ in range(4)]
    assert [each.status[:3] for each in listeners] == ["200"] * 3 + ["503"] + ["200"] * 2 + ["503"] * 2
    others = [Listener(cloud, f"bob:p{number}") for number in range(3)]
    assert [each.status[:3] for each in others] == ["200"] * 3
    for each in (*listeners, *others):
        if each.status.startswith("200"):
            each.close()


def test_stream_ends_after_its_duration(cloud: Cloud) -> None:
    brief = Listener(cloud, "alice:web", seconds=0)
    assert list(brief.pieces) == [b"event: hello\ndata: {}\n\n"]


@pytest.mark.parametrize("seconds", ["301", "-1", "x"])
def test_stream_duration_is_limited(cloud: Cloud, seconds: str) -> None:
    answer = cloud.alice.below("/dashboard").get("/events", seconds=seconds)
    assert answer.status == 400
    assert "seconds" in answer.message
