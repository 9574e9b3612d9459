"""Explanations of a failed request: counted reasons for tenants, a reason per host for administrators."""

import pytest

from covey.model.ids import HostId
from covey.scheduler.decide import decide
from covey.scheduler.explain import explain, host_reasons
from covey.scheduler.fleet import Fleet
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from tests.unit.scheduler.fleets import RACK, affinity, anti_affinity, domain, fleet, host, hosts, spec

MIXED = fleet(
    host(1, enabled=False, up=False),
    host(2, up=False),
    host(3, used=(8, 0, 0)),
    host(4, used=(8, 0, 0), zone="az-1"),
    *hosts(7)[4:],
    domain(1, 5, 6),
)

SENTENCES = {
    "no hosts": (spec(), fleet(), "there are no hosts", "no host is suitable"),
    "every host is suitable": (spec(), fleet(*hosts(2)), "of 2 hosts: all are suitable", "no host is suitable"),
    "one host": (spec(vcpus=9), fleet(host(1)), "of 1 host: 1 lacks VCPUs", "hosts lack VCPUs"),
    "first reason of each host, largest count first": (
        spec(anti_affinity(RACK), members_by_host={5: 1}),
        MIXED,
        (
            "of 7 hosts: 2 lack VCPUs, 2 already hold 1 of the group in their rack, "
            "1 is disabled, 1 is down, 1 is in no rack"
        ),
        "hosts lack VCPUs, already hold 1 of the group in their rack, are disabled, are down, are in no rack",
    ),
    "a forced request checks only the host and its capacity": (
        spec(
            anti_affinity(),
            members_by_host={3: 1},
            forced=True,
            requirements=HostRequirements(only_hosts=frozenset({HostId(3)}), zone="az-9"),
        ),
        MIXED,
        "of 7 hosts: 6 are not the ones asked for, 1 lacks VCPUs",
        "hosts are not the ones asked for, lack VCPUs",
    ),
}


@pytest.mark.parametrize(("requested", "hosts", "sentence", "without_numbers"), SENTENCES.values(), ids=SENTENCES)
def test_sentence_counts_hosts_by_reason(
    requested: RequestSpec, hosts: Fleet, sentence: str, without_numbers: str
) -> None:
    explanation = explain(requested, hosts)
    assert explanation.sentence() == sentence
    assert explanation.without_numbers() == without_numbers


def test_explanation_of_a_batch_starts_with_the_number_that_fits() -> None:
    requested, two = spec(anti_affinity(limit=3), count=8, minimum=8), fleet(*hosts(2))
    decision = decide(requested, two, 1)
    assert decision.chosen == ()
    explanation = explain(requested, two, decision.fitting)
    assert explanation.sentence() == "6 of 8 fit, then of 2 hosts: 2 already hold 3 of the group"
    assert explain(requested, two).sentence() == "of 2 hosts: all are suitable"  # nothing was placed


def test_explanation_counts_hosts_that_the_batch_itself_filled() -> None:
    requested, two = spec(vcpus=3, count=5), fleet(*hosts(2))
    assert explain(requested, two, decide(requested, two, 1).fitting).sentence() == (
        "4 of 5 fit, then of 2 hosts: 2 lack VCPUs"
    )


def test_host_reasons_have_the_first_reason_of_each_host() -> None:
    requested = spec(affinity(RACK), members_by_host={6: 1}, requirements=HostRequirements(zone="nova"))
    assert host_reasons(requested, MIXED) == {
        "n1": "it is disabled",
        "n2": "it is down",
        "n3": "0 VCPUs are free, 1 requested",
        "n4": "it is in zone az-1, not nova",
        "n5": None,
        "n6": None,
        "n7": "it is in no rack",
    }
