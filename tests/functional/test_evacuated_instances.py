"""Nova keeps the allocations of an evacuated instance on its dead host. They are places until Nova has its new host."""

import uuid
from collections.abc import Iterator

import pytest

from tests.functional import test_drains as drains
from tests.functional import test_rebalances as rebalances
from tests.functional.fleets import BuildCloud
from tests.functional.nova_consumers import nova_with_racks, violation
from tests.functional.nova_service import NovaService, running_nova

GROUP = str(uuid.UUID(int=77))
SOFT = "soft-anti-affinity"


@pytest.fixture
def nova(build_cloud: BuildCloud) -> Iterator[NovaService]:
    """Four computes: cn1 and cn2 in rack-a, cn3 in rack-b, cn4 in no rack."""
    with running_nova(nova_with_racks(build_cloud(0))) as service:
        yield service


def set_policy(nova: NovaService, policy: str) -> None:
    nova.ledger.rank(GROUP, SOFT, None)
    body = {"server_group": {"policies": [policy]}}
    assert nova.ledger.cloud.admin.put(f"/os-server-groups/{GROUP}", body).status == 200


def begin_evacuation(nova: NovaService, member: str, destination: str) -> None:
    """Claim the new host beside the old one, as Nova's scheduler does."""
    instance, nova.working = nova.instances[member], False
    nova.down.add(instance.host)
    instance.task = "rebuilding"
    held = nova.ledger.placement.get(f"/allocations/{member}").json["consumer_generation"]
    nova.ledger.place(member, instance.host, destination, generation=held)


def end_evacuation(nova: NovaService, member: str, destination: str) -> None:
    nova.instances[member].host, nova.instances[member].task = destination, None
    read(nova)


def evacuate(nova: NovaService, member: str, destination: str) -> None:
    begin_evacuation(nova, member, destination)
    end_evacuation(nova, member, destination)


def read(nova: NovaService) -> None:
    nova.ledger.cloud.time.advance(1)
    nova.sync()


def ranked(nova: NovaService) -> list[str]:
    """Return the computes for a new member."""
    return sorted(nova.ledger.rank(GROUP, SOFT, str(uuid.uuid4()))["hosts"])


def audited(nova: NovaService) -> dict[str, str | None]:
    """Return the rack of each member, by its id."""
    answer = nova.ledger.cloud.admin.get(f"/os-server-groups/{GROUP}/audit")
    with nova.ledger.cloud.store.read() as tx:
        racks = {str(each.id): each.name for each in tx.aggregates.all()}
    members = answer.json["server_group_policy_audit"]["members"]
    return {each["instance_id"]: racks.get(str(each["placements"]["rack"])) for each in members}


def test_group_whose_rack_is_lost_grows_in_its_new_one(nova: NovaService) -> None:
    set_policy(nova, "affinity:rack")
    members = [nova.boot("cn1", GROUP) for _ in range(2)]
    for member in members:
        evacuate(nova, member, "cn3")
    assert ranked(nova) == ["cn3"]
    violation(nova.ledger.claim(nova.ledger.member(GROUP, SOFT), "cn2"))
    nova.ledger.place(nova.ledger.member(GROUP, SOFT), "cn3")
    assert audited(nova).items() >= dict.fromkeys(members, "rack-b").items()


def test_rack_of_a_lost_host_takes_another_member(nova: NovaService) -> None:
    set_policy(nova, "anti-affinity:rack")
    evacuate(nova, nova.boot("cn1", GROUP), "cn3")
    assert ranked(nova) == ["cn1", "cn2"]
    other = nova.ledger.member(GROUP, SOFT)
    violation(nova.ledger.claim(other, "cn3"))
    nova.ledger.place(other, "cn2")


def test_evacuation_in_progress_counts_on_both_hosts(nova: NovaService) -> None:
    set_policy(nova, "anti-affinity:rack")
    member = nova.boot("cn1", GROUP)
    read(nova)
    begin_evacuation(nova, member, "cn3")
    for _ in range(2):
        assert ranked(nova) == []
        violation(nova.ledger.claim(nova.ledger.member(GROUP, SOFT), "cn2"))
        read(nova)
    end_evacuation(nova, member, "cn3")
    assert ranked(nova) == ["cn1", "cn2"]


def test_evacuation_back_counts_before_the_next_reading(nova: NovaService) -> None:
    set_policy(nova, "anti-affinity:rack")
    member = nova.boot("cn1", GROUP)
    evacuate(nova, member, "cn3")
    nova.down.clear()
    nova.ledger.place(member, "cn3", generation=2)  # nova-compute on cn1 is back
    nova.ledger.cloud.time.advance(1)
    begin_evacuation(nova, member, "cn1")
    violation(nova.ledger.claim(nova.ledger.member(GROUP, SOFT), "cn2"))


def test_live_migration_whose_source_dies_counts_on_both_hosts(nova: NovaService) -> None:
    set_policy(nova, "anti-affinity:rack")
    member = nova.boot("cn1", GROUP)
    nova.ledger.leave(member)
    nova.ledger.place(member, "cn3")
    nova.down = {"cn1"}
    nova.instances[member].host = "cn3"
    read(nova)
    violation(nova.ledger.claim(nova.ledger.member(GROUP, SOFT), "cn2"))


def test_evacuated_member_returns_from_a_move_that_fails(nova: NovaService) -> None:
    set_policy(nova, "anti-affinity:rack")
    member = nova.boot("cn1", GROUP)
    evacuate(nova, member, "cn3")
    nova.ledger.place(nova.ledger.member(GROUP, SOFT), "cn2")
    migration = nova.ledger.leave(member)
    nova.ledger.exchange(back=(member, ["cn1", "cn3"], None), migration=(migration, (), 1))
    assert nova.ledger.placement.get(f"/allocations/{member}").json["allocations"].keys() == {
        nova.ledger.computes["cn1"],
        nova.ledger.computes["cn3"],
    }


def test_evacuated_instances_do_not_keep_their_new_host_busy(nova: NovaService) -> None:
    grouped, other = nova.boot("cn1", GROUP), nova.boot("cn1")
    set_policy(nova, "soft-anti-affinity")
    for server in (grouped, other):
        evacuate(nova, server, "cn3")
    plan = drains.planned(nova.ledger.cloud, "cn3")
    assert ({each["instance_id"] for each in plan["moves"]}, plan["left"]) == ({grouped, other}, [])
    assert {each["from"] for each in plan["moves"]} == {"cn3"}
    dead = drains.planned(nova.ledger.cloud, "cn1")
    assert (dead["moves"], dead["left"]) == ([], [])


def test_evacuated_member_moves_in_a_rebalance(nova: NovaService) -> None:
    members = [nova.boot(host, GROUP) for host in ("cn1", "cn3")]
    set_policy(nova, "soft-anti-affinity")
    evacuate(nova, members[0], "cn3")
    set_policy(nova, "anti-affinity")
    plan = rebalances.planned(nova.ledger.cloud.admin, GROUP)
    assert ([each["from"] for each in plan["moves"]], plan["violations_after"]) == (["cn3"], [])
