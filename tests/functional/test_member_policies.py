"""Instances of Nova are held to the policies of their server groups by the ledger."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from covey.services.live_fleet import FleetSnapshot
from covey.storage.store import Transaction
from covey.storage.tables import group_consumers
from tests.functional.fleets import BuildCloud
from tests.functional.nova_consumers import Nova, nova_with_racks, violation
from tests.functional.racks import request_server

GROUP = str(uuid.UUID(int=77))


@pytest.fixture
def nova(build_cloud: BuildCloud) -> Nova:
    return nova_with_racks(build_cloud(0))


def set_policies(nova: Nova, *policies: str, **rules: int) -> None:
    """Set the policies of the group through Covey, under the uuid of Nova's group."""
    nova.rank(GROUP, "soft-anti-affinity", None)
    body = {"server_group": {"policies": list(policies), "rules": rules}}
    answer = nova.cloud.admin.put(f"/os-server-groups/{GROUP}", body)
    assert answer.status == 200, answer.text


def test_group_of_nova_is_held_to_its_policy(nova: Nova) -> None:
    one, two = nova.member(GROUP), nova.member(GROUP)
    nova.place(one, "cn1")
    refused = violation(nova.claim(two, "cn1"))
    assert refused == (
        f"Allocations of consumer {two} would violate the policies of server group {GROUP}: "
        "its host already holds 1 of the group."
    )
    assert nova.placement.get(f"/allocations/{two}").json == {"allocations": {}}
    nova.place(two, "cn2")


def test_group_of_nova_is_held_to_its_rules(nova: Nova) -> None:
    members = [nova.member(GROUP, max_server_per_host=2) for _ in range(3)]
    nova.place(members[0], "cn1")
    nova.place(members[1], "cn1")
    assert violation(nova.claim(members[2], "cn1")).endswith("its host already holds 2 of the group.")


def test_consumer_of_another_group_or_of_none_is_admitted(nova: Nova) -> None:
    nova.place(nova.member(GROUP), "cn1")
    nova.place(nova.member(str(uuid.uuid4())), "cn1")
    nova.place(str(uuid.uuid4()), "cn1")


def test_members_that_nova_lists_count_although_they_were_claimed_before(nova: Nova) -> None:
    old, new = str(uuid.uuid4()), str(uuid.uuid4())
    nova.place(old, "cn1")
    ranked = nova.rank(GROUP, "anti-affinity", new, members=[old])
    assert sorted(ranked["hosts"]) == ["cn2", "cn3", "cn4"]
    assert ranked["refused"] == ["1 already holds 1 of the group"]
    violation(nova.claim(new, "cn1"))


def test_host_of_a_nested_provider_is_the_root_of_its_tree(nova: Nova) -> None:
    nova.add_compute("cn1-numa0", "cn1")
    nova.add_compute("cn1-numa1", "cn1")
    nova.place(nova.member(GROUP), "cn1-numa0")
    violation(nova.claim(nova.member(GROUP), "cn1-numa1"))
    nova.place(nova.member(GROUP), "cn2")


def test_sharing_provider_is_no_host(nova: Nova) -> None:
    nova.add_compute("pool")
    nova.set_traits("pool", "MISC_SHARES_VIA_AGGREGATE")
    nova.place(nova.member(GROUP), "cn1", "pool")
    nova.place(nova.member(GROUP), "cn2", "pool")


def test_policies_set_through_covey_apply_and_stay(nova: Nova) -> None:
    set_policies(nova, "anti-affinity:rack")
    one, two = nova.member(GROUP, "soft-anti-affinity"), nova.member(GROUP, "soft-anti-affinity")
    nova.place(one, "cn1")
    assert nova.rank(GROUP, "soft-anti-affinity", two) == {
        "hosts": {"cn3": 1.0},
        "refused": ["2 already hold 1 of the group in their rack", "1 is in no rack"],
    }
    assert violation(nova.claim(two, "cn2")).endswith("its host already holds 1 of the group in its rack.")
    assert violation(nova.claim(two, "cn4")).endswith("its host is in no rack.")
    nova.place(two, "cn3")


def test_compute_that_changes_its_rack_is_judged_by_its_new_one(nova: Nova) -> None:
    set_policies(nova, "anti-affinity:rack")
    one, two = nova.member(GROUP), nova.member(GROUP)
    nova.place(one, "cn1")
    in_rack_b = nova.placement.get(f"/resource_providers/{nova.computes['cn3']}/aggregates").json["aggregates"]
    nova.set_aggregates("cn2", *in_rack_b)
    nova.place(two, "cn2")


def test_claim_that_was_judged_by_an_older_topology_is_judged_again(
    nova: Nova, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_policies(nova, "anti-affinity:rack")
    one, two = nova.member(GROUP), nova.member(GROUP)
    nova.place(one, "cn1")
    live = nova.cloud.assembled.live
    with nova.cloud.store.read() as tx:
        before = live.read(tx)
    in_rack_a = nova.placement.get(f"/resource_providers/{nova.computes['cn1']}/aggregates").json["aggregates"]
    nova.set_aggregates("cn3", *in_rack_a)
    looks, fresh = [before], live.fresh

    @contextmanager
    def outdated_once(tx: Transaction) -> Iterator[FleetSnapshot]:
        if looks:
            yield looks.pop()
            return
        with fresh(tx) as snapshot:
            yield snapshot

    monkeypatch.setattr(live, "fresh", outdated_once)
    assert violation(nova.claim(two, "cn3")).endswith("its host already holds 1 of the group in its rack.")
    assert looks == [], "the first look was at the older topology"


def test_affinity_gathers_members_in_one_rack(nova: Nova) -> None:
    set_policies(nova, "affinity:rack")
    nova.place(nova.member(GROUP), "cn2")
    other = nova.member(GROUP)
    assert violation(nova.claim(other, "cn3")).endswith("its host is not in the rack of the group.")
    nova.place(other, "cn1")


def test_move_counts_on_both_hosts_until_its_migration_goes(nova: Nova) -> None:
    moving, other = nova.member(GROUP), nova.member(GROUP)
    nova.place(moving, "cn1")
    migration = nova.leave(moving)
    violation(nova.claim(other, "cn1"))
    nova.place(moving, "cn2")
    violation(nova.claim(other, "cn1"))
    violation(nova.claim(other, "cn2"))
    nova.delete(migration)
    nova.place(other, "cn1")
    assert {row.consumer_uuid for row in nova.cloud.rows(group_consumers)} == {moving, other}


def test_moving_member_does_not_count_against_itself(nova: Nova) -> None:
    set_policies(nova, "anti-affinity:rack")
    moving = nova.member(GROUP)
    nova.place(moving, "cn1")
    nova.leave(moving)
    assert nova.rank(GROUP, "soft-anti-affinity", moving)["hosts"].keys() == {"cn1", "cn2", "cn3"}
    nova.place(moving, "cn2")


def test_failed_move_returns_to_its_host(nova: Nova) -> None:
    moving, other = nova.member(GROUP), nova.member(GROUP)
    nova.place(moving, "cn1")
    migration = nova.leave(moving)
    nova.place(moving, "cn2")
    answer = nova.exchange(source=(migration, (), 1), back=(moving, ["cn1"], 1))
    assert answer.status == 204, answer.text
    violation(nova.claim(other, "cn1"))
    nova.place(other, "cn2")
    assert {row.consumer_uuid for row in nova.cloud.rows(group_consumers)} == {moving, other}


def test_failed_move_that_began_before_its_member_was_known_returns_to_its_host(nova: Nova) -> None:
    """A forced instance is reported by its first move, when the migration has its allocations already."""
    set_policies(nova, "anti-affinity:rack")
    moving = str(uuid.uuid4())
    nova.place(moving, "cn1")
    migration = nova.leave(moving)
    assert nova.rank(GROUP, "soft-anti-affinity", moving, ["cn3"], members=[moving])["hosts"].keys() == {"cn3"}
    nova.place(moving, "cn3")
    nova.place(nova.member(GROUP, "soft-anti-affinity"), "cn2")
    elsewhere = nova.exchange(back=(moving, ["cn2"], 1), migration=(migration, (), 1))
    assert violation(elsewhere).endswith("its host already holds 1 of the group in its rack.")
    answer = nova.exchange(back=(moving, ["cn1"], 1), migration=(migration, (), 1))
    assert answer.status == 204, answer.text
    nova.place(nova.member(GROUP, "soft-anti-affinity"), "cn3")


def test_evacuation_holds_both_hosts_and_is_judged_by_the_new_one(nova: Nova) -> None:
    set_policies(nova, "affinity")
    first, second = nova.member(GROUP), nova.member(GROUP)
    nova.place(first, "cn1")
    nova.place(second, "cn1")
    assert nova.rank(GROUP, "affinity", first, ["cn2", "cn3"])["hosts"].keys() == {"cn2", "cn3"}
    nova.place(first, "cn1", "cn2", generation=1)
    assert nova.rank(GROUP, "affinity", second, ["cn2", "cn3"])["hosts"].keys() == {"cn2"}
    violation(nova.claim(second, "cn1", "cn3", generation=1))
    nova.place(second, "cn1", "cn2", generation=1)
    nova.place(first, "cn2", generation=2)


def test_evacuation_to_a_host_of_another_member_is_refused(nova: Nova) -> None:
    first, second = nova.member(GROUP), nova.member(GROUP)
    nova.place(first, "cn1")
    nova.place(second, "cn2")
    violation(nova.claim(first, "cn1", "cn2", generation=1))


def test_members_remain_known_without_allocations(nova: Nova) -> None:
    """A build that fails gives up its host, and its conductor claims an alternate without asking the scheduler."""
    one, two = nova.member(GROUP), nova.member(GROUP)
    nova.place(one, "cn1")
    nova.place(two, "cn2")
    nova.delete(two)
    violation(nova.claim(two, "cn1"))


def test_rewrite_on_the_same_host_is_not_judged(nova: Nova) -> None:
    one, two = nova.member(GROUP), nova.member(GROUP)
    nova.place(one, "cn1")
    nova.place(two, "cn2")
    set_policies(nova, "affinity")
    nova.place(one, "cn1", generation=1)


def test_members_of_covey_and_of_nova_count_together(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(2)
    with cloud.store.read() as tx:
        nova = Nova(cloud, {provider.name: provider.uuid for provider in tx.fleet_records.all().providers})
    group = cloud.group("anti-affinity")
    cloud.boot_on("node-1", group)
    instance = nova.member(group)
    violation(nova.claim(instance, "node-1"))
    nova.place(instance, "node-2")
    refused = request_server(cloud.alice, group)
    fault = cloud.show(refused.json["server"]["id"])["fault"]["message"]
    assert fault.endswith("Of 2 hosts: 2 already hold 1 of the group.")


def test_soft_policies_weigh_hosts(nova: Nova) -> None:
    set_policies(nova, "soft-anti-affinity:rack", "soft-anti-affinity")
    nova.place(nova.member(GROUP), "cn1")
    assert nova.rank(GROUP, "soft-anti-affinity", str(uuid.uuid4()))["hosts"] == {
        "cn3": 1.0, "cn2": 0.75, "cn1": 0.5, "cn4": 0.25,
    }  # fmt: skip


def test_host_without_a_provider_is_refused(nova: Nova) -> None:
    ranked = nova.rank(GROUP, "affinity", None, ["cn1", "cn99"])
    assert ranked == {"hosts": {"cn1": 1.0}, "refused": ["1 has no resource provider"]}


def test_member_that_nova_no_longer_lists_is_forgotten_once_it_holds_nothing(nova: Nova) -> None:
    gone, kept, new = nova.member(GROUP), nova.member(GROUP), str(uuid.uuid4())
    nova.place(kept, "cn1")
    nova.cloud.time.advance(2 * 3600)
    nova.rank(GROUP, "anti-affinity", new, members=[new])
    assert {row.consumer_uuid for row in nova.cloud.rows(group_consumers)} == {kept, new}
    assert gone not in {kept, new}


def test_member_that_is_about_to_claim_stays_although_an_older_list_lacks_it(nova: Nova) -> None:
    booting = nova.member(GROUP)
    nova.member(GROUP)
    nova.place(nova.member(GROUP), "cn1")
    violation(nova.claim(booting, "cn1"))


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"policy": "together"}, "There is no policy together"),
        ({"rules": {"max_server_per_host": 0}}, "The rule max_server_per_host is 0"),
        ({"members": ["x"]}, "'x' is not a 'uuid'"),
    ],
)
def test_malformed_ranking_request_is_400(nova: Nova, change: dict[str, object], text: str) -> None:
    told = {"uuid": GROUP, "policy": "anti-affinity", "members": [], "project_id": "web", "user_id": "alice"}
    answer = nova.placement.post("/host_rankings", {"group": told | change, "hosts": []})
    assert answer.status == 400
    assert text in answer.text


@pytest.mark.sqlite_only
def test_tenant_gets_no_ranking(nova: Nova) -> None:
    tenant = nova.placement.sending(X_Roles="member")
    assert tenant.post("/host_rankings", {}).status == 403


def test_audit_shows_instances_of_nova_and_what_they_violate(nova: Nova) -> None:
    one, two = nova.member(GROUP), nova.member(GROUP)
    nova.place(one, "cn1")
    nova.place(two, "cn2")
    set_policies(nova, "anti-affinity:rack")
    audit = nova.cloud.admin.get(f"/os-server-groups/{GROUP}/audit", violations="true").json[
        "server_group_policy_audit"
    ]
    assert {member["instance_id"] for member in audit["members"]} == {one, two}
    (violated,) = audit["violations"]
    assert (violated["policy"], sorted(violated["members"])) == ("anti-affinity:rack", sorted([one, two]))
