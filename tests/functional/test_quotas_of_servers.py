"""Quotas of servers, cores, memory and group members."""

from functools import partial
from typing import Any

import pytest

from tests.contract.concurrency import run_concurrently
from tests.functional.client import Answer
from tests.functional.fleets import BuildCloud, Cloud, FailingDriver


def refusal(answer: Answer) -> str:
    assert answer.status == 403, answer.text
    assert answer.json.keys() == {"forbidden"}
    return answer.message


@pytest.mark.parametrize(
    ("limits", "fields", "message"),
    [
        ({"instances": 1}, {}, "Quota exceeded for instances: Requested 1, but already used 1 of 1 instances"),
        (
            {"instances": 2},
            {"min_count": 3},
            "Quota exceeded for instances: Requested 3, but already used 1 of 2 instances",
        ),
        (
            {"cores": 2},
            {"flavorRef": "big"},
            "Quota exceeded for cores: Requested 2, but already used 1 of 2 cores",
        ),
        ({"ram": 2047}, {}, "Quota exceeded for ram: Requested 1024, but already used 1024 of 2047 ram"),
        ({"cores": 1, "ram": 1024}, {}, "Quota exceeded for cores: Requested 1, but already used 1 of 1 cores"),
    ],
)
def test_request_over_quota_is_rejected_entirely(
    cloud: Cloud, limits: dict[str, Any], fields: dict[str, Any], message: str
) -> None:
    cloud.boot()
    cloud.set_quota(**limits)
    assert refusal(cloud.request_server(cloud.alice, **fields)) == message
    assert len(cloud.servers()) == 1
    cloud.boot(cloud.bob)  # with its own quota


def test_defaults_match_nova(cloud: Cloud) -> None:
    cloud.boot(min_count=10)
    assert refusal(cloud.request_server(cloud.alice, min_count=3)) == (
        "Quota exceeded for instances: Requested 3, but already used 10 of 10 instances"
    )


def test_max_count_shrinks_to_the_remaining_quota(cloud: Cloud) -> None:
    cloud.set_quota(instances=5, cores=4)
    cloud.boot(min_count=1, max_count=9)
    assert cloud.use() == (4, 4, 4096)
    assert refusal(cloud.request_server(cloud.alice, min_count=1, max_count=9)) == (
        "Quota exceeded for cores: Requested 1, but already used 4 of 4 cores"
    )


def test_minus_one_is_unlimited(cloud: Cloud) -> None:
    cloud.set_quota(instances=-1, cores=-1, ram=-1)
    cloud.boot(min_count=12)
    assert cloud.use() == (12, 12, 12288)


def test_group_members_are_limited_by_quota(cloud: Cloud) -> None:
    cloud.set_quota(server_group_members=2)
    group = cloud.group("soft-anti-affinity")
    first = cloud.boot(group=group)
    full = "Quota exceeded, too many servers in group"
    assert refusal(cloud.request_server(cloud.alice, group=group, min_count=1, max_count=2)) == full, (
        "the maximum counts"
    )
    assert len(cloud.servers()) == 1
    cloud.boot(group=group)
    assert refusal(cloud.request_server(cloud.alice, group=group)) == full
    carol = cloud.service.as_("carol:web", "2.1000")
    assert cloud.status(cloud.boot(carol, group=group)) == "ACTIVE", "each user has members of their own"
    cloud.boot()  # in no group
    cloud.run_action(cloud.alice, first, "shelve")
    assert refusal(cloud.request_server(cloud.alice, group=group)) == full, "a shelved member is one"
    cloud.delete(first)
    assert cloud.status(cloud.boot(group=group)) == "ACTIVE"
    assert cloud.alice.get("/os-quota-sets/web/detail").json["quota_set"]["server_group_members"]["in_use"] == 0


def test_refused_members_do_not_count(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(1)
    cloud.set_quota(server_group_members=1)
    group = cloud.group("anti-affinity")
    cloud.boot(group=group, flavorRef="giant")
    assert cloud.status(cloud.boot(group=group)) == "ACTIVE"


def test_usage_follows_the_server_lifecycle(cloud: Cloud) -> None:
    assert cloud.use() == (0, 0, 0)
    server = cloud.boot()
    assert cloud.use() == (1, 1, 1024)
    cloud.act(cloud.alice, server, "resize", {"flavorRef": "big"})
    cloud.settle()
    assert cloud.use() == (1, 2, 2048)
    cloud.run_action(cloud.alice, server, "revertResize")
    assert cloud.use() == (1, 1, 1024)
    cloud.run_action(cloud.alice, server, "resize", {"flavorRef": "big"})
    cloud.run_action(cloud.alice, server, "confirmResize")
    assert cloud.use() == (1, 2, 2048)
    cloud.run_action(cloud.admin, server, "migrate")
    assert cloud.use() == (1, 2, 2048), "a move takes two places and counts once"
    cloud.run_action(cloud.admin, server, "confirmResize")
    cloud.run_action(cloud.alice, server, "shelve")
    assert cloud.use() == (1, 2, 2048)
    absolute = cloud.alice.get("/limits").json["limits"]["absolute"]
    assert (absolute["totalInstancesUsed"], absolute["totalCoresUsed"], absolute["totalRAMUsed"]) == (1, 2, 2048)
    cloud.delete(server)
    assert cloud.use() == (0, 0, 0)


def test_resize_requires_quota_for_the_difference(cloud: Cloud) -> None:
    server = cloud.boot()
    cloud.set_quota(cores=1)
    answer = cloud.act(cloud.alice, server, "resize", {"flavorRef": "big"})
    assert refusal(answer) == "Quota exceeded for cores: Requested 1, but already used 1 of 1 cores"
    cloud.set_quota(cores=2, ram=1500)
    answer = cloud.act(cloud.alice, server, "resize", {"flavorRef": "big"})
    assert refusal(answer) == "Quota exceeded for ram: Requested 1024, but already used 1024 of 1500 ram"
    assert (cloud.status(server), cloud.use()) == ("ACTIVE", (1, 1, 1024))
    cloud.set_quota(ram=-1)
    cloud.run_action(cloud.alice, server, "resize", {"flavorRef": "big"})
    cloud.run_action(cloud.alice, server, "confirmResize")
    cloud.set_quota(cores=2)
    cloud.run_action(cloud.alice, server, "resize", {"flavorRef": "small"})
    cloud.run_action(cloud.alice, server, "confirmResize")
    assert cloud.use() == (1, 1, 1024), "a smaller size always fits"


def test_resize_in_progress_counts(cloud: Cloud) -> None:
    server = cloud.boot()
    cloud.set_quota(cores=2)
    cloud.act(cloud.alice, server, "resize", {"flavorRef": "big"})
    assert cloud.request_server(cloud.alice).status == 403
    assert cloud.use() == (1, 2, 2048)
    cloud.settle()
    assert cloud.use() == (1, 2, 2048), "it was counted when it was asked for"


def test_larger_flavor_counts_until_confirm_or_revert(cloud: Cloud) -> None:
    server = cloud.boot(flavorRef="big")
    cloud.run_action(cloud.alice, server, "resize", {"flavorRef": "small"})
    assert cloud.use() == (1, 2, 2048), "it may still be reverted"
    cloud.run_action(cloud.alice, server, "revertResize")
    assert cloud.use() == (1, 2, 2048)
    cloud.run_action(cloud.alice, server, "resize", {"flavorRef": "small"})
    cloud.run_action(cloud.alice, server, "confirmResize")
    assert cloud.use() == (1, 1, 1024)


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize(("old", "new"), [("small", "big"), ("big", "small")])
def test_deleting_a_resized_server_releases_all_quota(cloud: Cloud, old: str, new: str, settled: bool) -> None:
    server = cloud.boot(flavorRef=old)
    cloud.act(cloud.alice, server, "resize", {"flavorRef": new})
    if settled:
        cloud.settle()
    cloud.delete(server)
    assert cloud.is_empty()


def test_failed_resize_releases_its_quota(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(driver=FailingDriver(verbs={"move"}))
    server = cloud.boot()
    cloud.act(cloud.alice, server, "resize", {"flavorRef": "big"})
    assert cloud.use() == (1, 2, 2048)
    cloud.settle()
    assert (cloud.status(server), cloud.use()) == ("ACTIVE", (1, 1, 1024))


def test_concurrent_resizes_stay_within_quota(cloud: Cloud) -> None:
    servers = [cloud.boot() for _ in range(4)]
    cloud.set_quota(cores=5)

    def resize(server: str) -> int:
        return cloud.alice.post(f"/servers/{server}/action", {"resize": {"flavorRef": "big"}}).status

    assert sorted(map(str, run_concurrently([partial(resize, server) for server in servers]))) == [
        "202",
        "403",
        "403",
        "403",
    ]
    assert cloud.use() == (4, 5, 5120)
    cloud.check()


def test_quota_below_usage_is_rejected(cloud: Cloud) -> None:
    cloud.boot(min_count=2)
    answer = cloud.admin.put("/os-quota-sets/web", {"quota_set": {"instances": 1}})
    assert (answer.status, answer.message) == (
        400,
        "Quota limit 1 for instances must be greater than or equal to already used and reserved 2.",
    )


def test_group_has_a_maximum_of_members_beside_that_of_each_user(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(3, ("quota", "max_members_per_group", 3))
    cloud.set_quota(server_group_members=2)
    group, carol = cloud.group("soft-anti-affinity"), cloud.service.as_("carol:web", "2.1000")
    for client in (cloud.alice, cloud.alice, carol):
        cloud.boot(client, group=group)
    refused = cloud.request_server(carol, group=group)
    assert (refused.status, refused.message) == (
        403,
        "Quota exceeded, too many servers in group: it has 3 members, 1 more would join, and the limit is 3.",
    )
    empty = cloud.group("soft-anti-affinity")
    cloud.set_quota(server_group_members=-1)
    large = cloud.request_server(carol, group=empty, min_count=1, max_count=5)
    assert large.message.endswith("it has 0 members, 5 more would join, and the limit is 3.")
    cloud.set_quota(server_group_members=2)
    outside = cloud.boot(carol)
    added = cloud.alice.post(f"/os-server-groups/{group}/action", {"add_instance": {"instance_id": outside}})
    assert (added.status, added.message) == (403, refused.message)
    assert cloud.request_server(cloud.alice, group=group).message == "Quota exceeded, too many servers in group"
