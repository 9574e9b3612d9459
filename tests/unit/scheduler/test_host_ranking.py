import numpy as np

from covey.model.fleet_records import AggregateRecord, FleetChange
from covey.model.groups import GroupPolicy, GroupView, PolicyKind, ScopeRef
from covey.model.ids import ScopeId
from covey.model.providers import ProviderRecord
from covey.scheduler.fleet import NO_DOMAIN, Fleet
from covey.scheduler.host_ranking import rank_hosts

RACK = ScopeRef(ScopeId("rack"), "rack")
RACKS = [AggregateRecord(7, "rack-a", RACK.id), AggregateRecord(8, "rack-b", RACK.id)]


def compute(number: int, *aggregates: str) -> ProviderRecord:
    """Return a compute node of Nova: a provider that is no host of Covey."""
    return ProviderRecord(
        number, f"uuid-{number}", f"cn{number}", None, None, 0, {}, frozenset(), frozenset(aggregates)
    )


def fleet() -> Fleet:
    return Fleet([compute(1, "rack-a"), compute(2, "rack-a"), compute(3, "rack-b"), compute(4)], (), RACKS)


def test_compute_node_is_in_the_domain_whose_aggregate_it_is_in() -> None:
    assert fleet().domains(RACK.id).of_host.tolist() == [0, 0, 1, NO_DOMAIN]


def test_compute_node_in_two_domains_of_a_scope_is_ambiguous() -> None:
    domains = Fleet([compute(1, "rack-a", "rack-b")], (), RACKS).domains(RACK.id)
    assert domains.ambiguous.tolist() == [True]
    assert domains.of_row(0) == (0, 1)


def test_compute_node_changes_its_domain_with_its_aggregates() -> None:
    before = fleet()
    before.domains(RACK.id)
    after = before.changed(FleetChange(providers={1: compute(1, "rack-b"), 5: compute(5, "rack-a")}))
    assert after.domains(RACK.id).of_host.tolist() == [1, 0, 1, NO_DOMAIN, 0]
    assert before.domains(RACK.id).of_host.tolist() == [0, 0, 1, NO_DOMAIN]


def test_hosts_that_no_policy_separates_have_equal_weights() -> None:
    ranking = rank_hosts(GroupView(), fleet(), np.array([True, True, False, True]))
    assert ranking.weights.tolist() == [1.0, 1.0, 0.0, 1.0]
    assert ranking.refused == ()


def test_soft_policies_weigh_what_hard_ones_admit() -> None:
    policies = (GroupPolicy(PolicyKind.ANTI_AFFINITY), GroupPolicy(PolicyKind.SOFT_AFFINITY, RACK))
    ranking = rank_hosts(GroupView(policies, {1: 1}), fleet(), np.ones(4, dtype=np.bool_))
    assert ranking.admitted.tolist() == [False, True, True, True]
    weights = ranking.weights.round(2).tolist()
    assert weights == [0.0, 1.0, 0.67, 0.33]
    assert [str(reason) for reason in ranking.refused] == ["1 already holds 1 of the group"]
