"""What is told when nothing fits: counted for tenants, host by host for administrators."""

import pytest

from covey.model.ids import HostId
from covey.scheduler.decide import decide
from covey.scheduler.explain import explain, host_reasons
from covey.scheduler.fleet import Fleet
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from tests.unit.scheduler.fleets import RACK, apart, domain, fleet, host, hosts, spec, together

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
    "one reason for each host, the first against it; most first": (
        spec(apart(RACK), places={5: 1}),
        MIXED,
        (
            "of 7 hosts: 2 lack VCPUs, 2 already hold 1 of the group in their rack, "
            "1 is disabled, 1 is down, 1 is in no rack"
        ),
        "hosts lack VCPUs, already hold 1 of the group in their rack, are disabled, are down, are in no rack",
    ),
    "forced: only the host and its room": (
        spec(
            apart(),
            places={3: 1},
            forced=True,
            requirements=HostRequirements(only_hosts=frozenset({HostId(3)}), zone="az-9"),
        ),
        MIXED,
        "of 7 hosts: 6 are not the ones asked for, 1 lacks VCPUs",
        "hosts are not the ones asked for, lack VCPUs",
    ),
}


@pytest.mark.parametrize(("wanted", "hosts", "sentence", "without"), SENTENCES.values(), ids=SENTENCES)
def test_the_sentence(wanted: RequestSpec, hosts: Fleet, sentence: str, without: str) -> None:
    told = explain(wanted, hosts)
    assert told.sentence() == sentence
    assert told.without_numbers() == without


def test_what_did_not_fit_of_a_batch_is_told_after_what_did() -> None:
    wanted, two = spec(apart(limit=3), count=8, minimum=8), fleet(*hosts(2))
    decision = decide(wanted, two, 1)
    assert decision.chosen == ()
    told = explain(wanted, two, decision.fitting)
    assert told.sentence() == "6 of 8 fit, then of 2 hosts: 2 already hold 3 of the group"
    assert explain(wanted, two).sentence() == "of 2 hosts: all are suitable"  # nothing was placed in truth


def test_a_batch_that_filled_its_hosts_ran_out_of_room() -> None:
    wanted, two = spec(vcpus=3, count=5), fleet(*hosts(2))
    assert explain(wanted, two, decide(wanted, two, 1).fitting).sentence() == (
        "4 of 5 fit, then of 2 hosts: 2 lack VCPUs"
    )


def test_verdicts_tell_administrators_the_first_sentence_against_each_host() -> None:
    wanted = spec(together(RACK), places={6: 1}, requirements=HostRequirements(zone="nova"))
    assert host_reasons(wanted, MIXED) == {
        "n1": "it is disabled",
        "n2": "it is down",
        "n3": "0 VCPUs are free, 1 requested",
        "n4": "it is in zone az-1, not nova",
        "n5": None,
        "n6": None,
        "n7": "it is in no rack",
    }
