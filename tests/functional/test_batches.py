"""Several servers in one request, in a group whose policies cross."""

from typing import Any

import pytest

from covey.scheduler import batch
from tests.build import a_host
from tests.functional.clusters import SERVER, clustering_client
from tests.functional.fleets import BuildCloud, Cloud
from tests.functional.scopes import add_scope

POLICIES = ("anti-affinity:rack", "anti-affinity:zone")
MORE_MAY_FIT = "the search for other placements stopped at its limit, more may fit"


@pytest.fixture
def crossing(build_cloud: BuildCloud) -> Cloud:
    """Three hosts. The emptiest one shares its rack with one of the others and its zone with the other one."""
    cloud = build_cloud([a_host("h1", 8, 8192), a_host("h3", 8, 16384), a_host("h4", 8, 8192)])
    add_scope(cloud, "rack", {"r1": ["h1"], "r2": ["h3", "h4"]})
    add_scope(cloud, "zone", {"z1": ["h1", "h3"], "z2": ["h4"]})
    return cloud


def hosts_of(cloud: Cloud) -> list[str]:
    return sorted(server["OS-EXT-SRV-ATTR:host"] for server in cloud.servers() if server["status"] == "ACTIVE")


def fault(cloud: Cloud, server: str) -> str:
    shown: dict[str, Any] = cloud.alice.get(f"/servers/{server}").json["server"]
    return str(shown["fault"]["message"])


def headroom(cloud: Cloud, group: str) -> tuple[int, bool, str]:
    found = cloud.alice.post(f"/os-server-groups/{group}/action", {"headroom": {"flavor": "small"}}).json["headroom"]
    return found["count"], found["at_least"], found["reason"]


def test_batch_is_placed_although_the_emptiest_host_blocks_it(crossing: Cloud) -> None:
    group = crossing.group(*POLICIES)
    assert headroom(crossing, group)[:2] == (2, False)
    crossing.boot(group=group, min_count=2, max_count=2)
    assert hosts_of(crossing) == ["h1", "h4"]
    assert headroom(crossing, group)[:2] == (0, False)


def test_preview_shows_the_placement_of_the_whole_batch(crossing: Cloud) -> None:
    group = crossing.group(*POLICIES)
    answer = crossing.admin.post(f"/os-server-groups/{group}/action", {"preview": {"flavor": "small", "count": 3}})
    seen = answer.json["preview"]
    assert seen["fits"] == 2
    assert len({place["rack"] for place in seen["placements"]}) == 2
    assert seen["reason"] == "2 of 3 fit, then of 3 hosts: 3 already hold 1 of the group in their rack."


def test_cluster_scales_out_although_the_emptiest_host_blocks_it(crossing: Cloud) -> None:
    alice = clustering_client(crossing.service, "alice:web")
    properties = SERVER["properties"] | {"scheduler_hints": {"group": crossing.group(*POLICIES)}}
    profile = alice.post("/profiles", {"profile": {"name": "p", "spec": SERVER | {"properties": properties}}})
    body = {"name": "c", "profile_id": profile.json["profile"]["id"], "desired_capacity": 2}
    assert alice.post("/clusters", {"cluster": body}).status == 202
    crossing.settle()
    assert hosts_of(crossing) == ["h1", "h4"]


def test_answers_say_when_the_search_stopped_at_its_limit(crossing: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "MAX_STEPS", 0)
    group = crossing.group(*POLICIES)
    count, at_least, reason = headroom(crossing, group)
    assert (count, at_least) == (1, True)
    assert reason.endswith(f"; {MORE_MAY_FIT}.")
    answer = crossing.request_server(crossing.alice, group=group, min_count=2)
    assert answer.status == 202
    assert fault(crossing, answer.json["server"]["id"]).endswith(f"; {MORE_MAY_FIT}.")
    assert hosts_of(crossing) == []
