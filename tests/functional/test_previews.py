"""Previews of more servers in a group."""

import uuid
from typing import Any

import pytest

from covey.model.ids import ImageId
from covey.model.images import Visibility
from tests.build import a_host, an_image
from tests.functional.client import Answer, Client
from tests.functional.fleets import IMAGE, UNKNOWN_ID, BuildCloud, Cloud
from tests.functional.rows import all_rows
from tests.functional.scopes import Scoped, scoped

PICKY = "22222222-2222-3333-4444-555555555555"


@pytest.fixture
def racks(build_cloud: BuildCloud) -> Scoped:
    return scoped(build_cloud(5))


def act(client: Client, group: str, verb: str, **more: Any) -> Answer:
    return client.post(f"/os-server-groups/{group}/action", {verb: {"flavor": "small"} | more})


def preview(client: Client, group: str, **more: Any) -> dict[str, Any]:
    answer = act(client, group, "preview", **more)
    assert answer.status == 200, answer.text
    assert answer.json.keys() == {"preview"}
    found: dict[str, Any] = answer.json["preview"]
    return found


def headroom(client: Client, group: str, **more: Any) -> dict[str, Any]:
    answer = act(client, group, "headroom", **more)
    assert answer.status == 200, answer.text
    assert answer.json.keys() == {"headroom"}
    found: dict[str, Any] = answer.json["headroom"]
    return found


@pytest.mark.sqlite_only
def test_default_count_is_one(racks: Scoped) -> None:
    group = racks.group("anti-affinity")
    seen = preview(racks.admin, group)
    assert seen == {
        "server_group_id": group,
        "count": 1,
        "fits": 1,
        "placements": [{"host": seen["placements"][0]["host"]}],
        "reason": None,
    }


@pytest.mark.sqlite_only
def test_preview_returns_domains_of_several_servers(racks: Scoped) -> None:
    group = racks.group("anti-affinity:rack", "soft-affinity:zone")
    seen = preview(racks.admin, group, count=3)
    assert (seen["count"], seen["fits"], seen["reason"]) == (3, 3, None)
    assert {place["rack"] for place in seen["placements"]} == set(racks.domains["rack"].values())
    assert all(place.keys() == {"rack", "zone"} for place in seen["placements"])
    tenants = preview(racks.alice, group, count="3")
    assert len({place["rack"] for place in tenants["placements"]}) == 3
    assert all(str(uuid.UUID(place["rack"])) == place["rack"] for place in tenants["placements"])
    assert {place["zone"] for place in tenants["placements"]} <= {racks.zone("zone-a"), racks.zone("zone-b")}
    assert preview(racks.alice, group, count=3)["placements"] != tenants["placements"], "passing names"


@pytest.mark.sqlite_only
def test_preview_reports_how_many_fit(racks: Scoped) -> None:
    group = racks.group("anti-affinity:rack")
    racks.boot_on("node-5", group)
    seen = preview(racks.alice, group, count=4)
    assert (seen["count"], seen["fits"], len(seen["placements"])) == (4, 2, 2)
    assert seen["reason"] == "2 of 4 fit, then of 5 hosts: 5 already hold 1 of the group in their rack."
    assert preview(racks.alice, group, count=2)["reason"] is None


@pytest.mark.sqlite_only
def test_preview_reports_when_nothing_fits(racks: Scoped) -> None:
    group = racks.group("affinity:row")
    seen = preview(racks.alice, group, flavor="giant", count=2)
    assert seen == {
        "server_group_id": group,
        "count": 2,
        "fits": 0,
        "placements": [],
        "reason": "Of 5 hosts: 5 lack VCPUs.",
    }


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("telling", "reason"),
    [
        ("reasons", "Hosts already hold 1 of the group."),
        ("none", "There are not enough hosts available."),
    ],
)
def test_tenants_see_the_configured_level_of_detail(build_cloud: BuildCloud, telling: str, reason: str) -> None:
    cloud = build_cloud(2, ("api", "explain_to_tenants", telling))
    group = cloud.group("anti-affinity")
    assert preview(cloud.alice, group, count=3)["reason"] == reason
    assert headroom(cloud.alice, group)["reason"] == reason


def test_existing_members_count(racks: Scoped) -> None:
    group = racks.group("anti-affinity")
    racks.boot_on("node-2", group)
    racks.boot_on("node-3", flavorRef="whole")
    seen = preview(racks.admin, group, count=5)
    assert sorted(place["host"] for place in seen["placements"]) == ["node-1", "node-4", "node-5"]
    assert seen["reason"] == "3 of 5 fit, then of 5 hosts: 4 already hold 1 of the group, 1 lacks VCPUs."


POLICIES: list[tuple[list[str], dict[str, Any], str, int]] = [
    (["anti-affinity"], {}, "small", 5),
    (["anti-affinity"], {"max_server_per_host": 3}, "big", 15),
    (["anti-affinity:rack"], {}, "small", 3),
    (["anti-affinity:rack"], {"max_server_per_rack": 2}, "whole", 5),
    (["anti-affinity:rack", "affinity:zone"], {"max_server_per_rack": 3}, "big", 6),
    (["affinity"], {}, "big", 4),
    (["soft-anti-affinity:rack"], {}, "big", 20),
    (["affinity:row", "anti-affinity"], {}, "small", 3),
]


@pytest.mark.sqlite_only
@pytest.mark.parametrize(("policies", "rules", "flavor", "expected"), POLICIES)
def test_headroom_equals_what_can_be_created(
    racks: Scoped, policies: list[str], rules: dict[str, Any], flavor: str, expected: int
) -> None:
    group = racks.group(*policies, **rules)
    racks.set_quota(instances=-1, cores=-1, ram=-1, server_group_members=-1)
    seen = headroom(racks.alice, group, flavor=flavor)
    assert seen["server_group_id"] == group
    assert (seen["count"], seen["at_least"]) == (preview(racks.alice, group, flavor=flavor, count=99)["fits"], False)
    assert seen["reason"].startswith("Of 5 hosts: ")
    assert seen["count"] == expected
    answer = racks.request_server(racks.alice, group=group, flavorRef=flavor, min_count=1, max_count=seen["count"])
    assert answer.status == 202, answer.text
    racks.settle()
    built = [server for server in racks.servers() if server["status"] == "ACTIVE"]
    assert len(built) == seen["count"] == len(racks.members(group))
    left = headroom(racks.alice, group, flavor=flavor)
    assert (left["count"], left["at_least"]) == (0, False)
    assert racks.status(racks.boot(group=group, flavorRef=flavor)) == "ERROR"


@pytest.mark.sqlite_only
def test_headroom_above_the_maximum_is_a_lower_bound(build_cloud: BuildCloud) -> None:
    cloud = build_cloud([a_host("vast", 2**30, 2**31 - 1, 2**31 - 1)])
    seen = headroom(cloud.admin, cloud.group("affinity"))
    assert (seen["count"], seen["at_least"], seen["reason"]) == (10_000, True, None)
    assert preview(cloud.admin, cloud.group("affinity"), count=10_000)["fits"] == 10_000


@pytest.mark.parametrize("telling", ["counts", "reasons"])
def test_maximum_of_members_limits_previews_of_tenants_and_operators(build_cloud: BuildCloud, telling: str) -> None:
    cloud = build_cloud(5, ("quota", "max_members_per_group", 4), ("api", "explain_to_tenants", telling))
    cloud.set_quota(instances=-1, cores=-1, ram=-1, server_group_members=-1)
    group = cloud.group("soft-anti-affinity")
    cloud.boot(cloud.service.as_("carol:web", "2.1000"), group=group)
    reason = "A group may have 4 members, which leaves 3 more."
    for client in (cloud.alice, cloud.admin):
        seen = preview(client, group, count=5)
        assert (seen["fits"], len(seen["placements"]), seen["reason"]) == (3, 3, reason)
        seen = headroom(client, group)
        assert (seen["count"], seen["at_least"], seen["reason"]) == (3, True, reason)
        assert preview(client, group, count=3)["reason"] is None
    cloud.set_quota(server_group_members=2)
    assert preview(cloud.alice, group, count=5)["reason"] == "The quota leaves 2 more servers of this flavor."
    assert preview(cloud.admin, group, count=5)["fits"] == 3
    cloud.set_quota(server_group_members=-1)
    cloud.boot(group=group, min_count=3)
    assert headroom(cloud.admin, group)["reason"] == "A group may have 4 members, which leaves 0 more."


@pytest.mark.parametrize("telling", ["counts", "reasons", "none"])
def test_tenants_see_no_more_room_than_their_quota_leaves(build_cloud: BuildCloud, telling: str) -> None:
    cloud = build_cloud(5, ("api", "explain_to_tenants", telling))
    group = cloud.group("soft-anti-affinity")
    cloud.set_quota(instances=-1, cores=7, ram=-1, server_group_members=9)
    cloud.boot(group=group)
    seen = headroom(cloud.alice, group, flavor="small")
    reason = "The quota leaves 6 more servers of this flavor."
    assert (seen["count"], seen["at_least"], seen["reason"]) == (6, True, reason)
    cloud.boot(cloud.bob, flavorRef="whole")
    assert headroom(cloud.alice, group, flavor="small") == seen
    asked = preview(cloud.alice, group, count=8)
    assert (asked["count"], asked["fits"], asked["reason"]) == (8, 6, reason)
    assert preview(cloud.alice, group, count=6)["reason"] is None
    cloud.set_quota(server_group_members=1)
    assert (headroom(cloud.alice, group)["count"], preview(cloud.alice, group)["fits"]) == (0, 0)
    assert headroom(cloud.admin, group)["count"] > 6


@pytest.mark.sqlite_only
@pytest.mark.parametrize("telling", ["reasons", "none"])
def test_room_of_the_fleet_is_coarse_for_tenants_who_see_no_counts(build_cloud: BuildCloud, telling: str) -> None:
    cloud = build_cloud(7, ("api", "explain_to_tenants", telling))
    group = cloud.group("anti-affinity")
    for project in ("web", "db"):
        cloud.set_quota(project, instances=-1, cores=-1, ram=-1, server_group_members=-1)
    before, asked = headroom(cloud.alice, group), preview(cloud.alice, group, count=9)
    assert (before["count"], before["at_least"], asked["fits"], len(asked["placements"])) == (4, True, 4, 4)
    assert (headroom(cloud.admin, group)["count"], headroom(cloud.admin, group)["at_least"]) == (7, False)
    for _ in range(3):
        cloud.boot(cloud.bob, flavorRef="whole")
        assert headroom(cloud.alice, group)["count"] == before["count"]
    cloud.boot(cloud.bob, flavorRef="whole")
    assert headroom(cloud.alice, group)["count"] == 2


@pytest.mark.sqlite_only
@pytest.mark.parametrize("telling", ["reasons", "none"])
def test_no_preview_shows_more_than_the_headroom(build_cloud: BuildCloud, telling: str) -> None:
    cloud = build_cloud(7, ("api", "explain_to_tenants", telling))
    group = cloud.group("anti-affinity")
    cloud.set_quota(instances=-1, cores=-1, ram=-1, server_group_members=-1)
    assert [preview(cloud.alice, group, count=n)["fits"] for n in range(1, 10)] == [1, 2, 3, 4, 4, 4, 4, 4, 4]
    cloud.set_quota(instances=6)
    assert [preview(cloud.alice, group, count=n)["fits"] for n in range(1, 10)] == [1, 2, 3, 4, 5, 6, 6, 6, 6]
    assert preview(cloud.alice, group, count=9)["reason"] == "The quota leaves 6 more servers of this flavor."


@pytest.mark.sqlite_only
def test_operators_see_every_reason(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(2, ("api", "explain_to_tenants", "none"))
    seen = headroom(cloud.admin, cloud.group("anti-affinity"))
    assert (seen["count"], seen["at_least"], seen["reason"]) == (2, False, "Of 2 hosts: 2 already hold 1 of the group.")


def test_preview_changes_nothing(racks: Scoped) -> None:
    group = racks.group("anti-affinity:rack")
    racks.boot(group=group)
    before = all_rows(racks.connection)
    first = preview(racks.admin, group, count=5)
    headroom(racks.alice, group)
    assert preview(racks.admin, group, count=5) == first, "the same question, the same answer"
    assert all_rows(racks.connection) == before
    racks.check()  # the fleet in memory is unchanged
    assert racks.jobs() == []


@pytest.mark.sqlite_only
def test_readers_may_preview(racks: Scoped) -> None:
    group = racks.group("affinity")
    reader = racks.alice.sending(X_Roles="reader")
    assert preview(reader, group)["fits"] == 1
    assert headroom(reader, group)["count"] > 0
    assert act(racks.bob, group, "preview").status == 404


@pytest.mark.sqlite_only
def test_preview_considers_zones_images_and_traits(build_cloud: BuildCloud) -> None:
    cloud = build_cloud([a_host("node-1"), a_host("node-2", 8, 16384, 100, "CUSTOM_SSD"), a_host("node-3")])
    body = {"aggregate": {"name": "az", "availability_zone": "az-1"}}
    aggregate = cloud.admin.post("/os-aggregates", body).json["aggregate"]["id"]
    for host in ("node-2", "node-3"):
        cloud.admin.post(f"/os-aggregates/{aggregate}/action", {"add_host": {"host": host}})
    with cloud.store.write() as tx:
        picky = an_image(
            id=ImageId(PICKY),
            visibility=Visibility.PUBLIC,
            properties={"trait:CUSTOM_SSD": "required"},
            min_ram_mb=2000,
        )
        tx.images.add([picky])
    group = cloud.group("anti-affinity")
    assert preview(cloud.alice, group, count=9, availability_zone="az-1")["fits"] == 2
    assert preview(cloud.alice, group, count=9, availability_zone="nova", image=IMAGE)["fits"] == 1
    assert preview(cloud.alice, group, count=9, availability_zone=None, image=None)["fits"] == 3
    seen = preview(cloud.admin, group, flavor="big", count=9, image=PICKY)
    assert seen["placements"] == [{"host": "node-2"}]
    small = act(cloud.alice, group, "preview", image=PICKY)
    assert (small.status, small.message) == (400, "Flavor's memory is too small for requested image.")


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"count": 0}, "0 is less than the minimum of 1"),
        ({"count": -1}, "-1 is less than the minimum of 1"),
        ({"count": 10_001}, "10001 is greater than the maximum of 10000"),
        ({"count": "10001"}, "greater than the maximum of 10000"),
        ({"count": "three"}, "count. Value: three"),
        ({"count": 1.5}, "count. Value: 1.5"),
        ({"count": True}, "count. Value: True"),
        ({"count": None}, "count. Value: None"),
        ({"count": ""}, "count. Value: "),
        ({"flavor": "unheard-of"}, "Flavor unheard-of could not be found."),
        ({"flavor": ""}, "'' should be non-empty"),
        ({"flavor": None}, "flavor. Value: None"),
        ({"image": UNKNOWN_ID}, "Can not find requested image"),
        ({"image": ""}, "'' should be non-empty"),
        ({"availability_zone": "moon"}, "The requested availability zone is not available"),
        ({"availability_zone": "nova:node-1"}, "The requested availability zone is not available"),
        ({"availability_zone": 5}, "availability_zone. Value: 5"),
        ({"more": 1}, "('more' was unexpected)"),
    ],
)
def test_invalid_requests_return_400(module_cloud: Cloud, asked: dict[str, Any], message: str) -> None:
    group = module_cloud.group("affinity")
    before = all_rows(module_cloud.connection)
    for verb in ("preview", "headroom"):
        answer = act(module_cloud.alice, group, verb, **asked)
        assert answer.status == 400, answer.text
        if verb == "preview" or "count" not in asked:
            assert message in answer.message
    assert module_cloud.alice.post(f"/os-server-groups/{group}/action", {"preview": {}}).status == 400
    assert all_rows(module_cloud.connection) == before
    assert module_cloud.alice.delete(f"/os-server-groups/{group}").status == 204
