"""A fifth policy kind: registered in the tuple, it is enforced, explained, audited, relaxed and repaired."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, cast

import numpy as np
import pytest

from covey.model.groups import Direction, GroupPolicy, GroupView, PolicyKind
from covey.model.ids import HostId
from covey.model.resources import server_resources
from covey.scheduler import policies
from covey.scheduler.batch_state import BatchState
from covey.scheduler.decide import decide
from covey.scheduler.explain import explain, host_reasons
from covey.scheduler.fleet import Fleet, Mask, Rows
from covey.scheduler.policies.protocol import Relaxation
from covey.scheduler.policies.scopes import Counts, MemberDomains, ScopedPolicy, Violation, count_members
from covey.scheduler.reasons import Reason, Sentences
from covey.scheduler.rebalancing import Member, hosts_after, plan
from covey.scheduler.remedies import remedies
from covey.scheduler.request_spec import HostRequirements
from covey.scheduler.violations import objections, violations
from tests.unit.scheduler.fleets import fleet, hosts, spec


class FifthKind(StrEnum):
    EVEN_HOSTS = "even-hosts"
    is_soft = property(lambda _: False)
    direction = property(lambda _: Direction.SPREAD)


KIND = cast("PolicyKind", FifthKind.EVEN_HOSTS)
POLICY = GroupPolicy(KIND)


class EvenHosts:
    """Members are on hosts with an even number."""

    kind = KIND

    def describe(self, _: GroupPolicy) -> str:
        return "on even hosts"

    def mask(self, _: GroupPolicy, __: GroupView, fleet: Fleet) -> Mask:
        return np.array([_is_even(name) for name in fleet.names], dtype=np.bool_)

    def reasons(self, _: GroupPolicy, __: GroupView, ___: Fleet, rejected: Mask) -> list[Reason]:
        return [Reason(rejected, "is odd", "are odd")]

    def explain_hosts(self, _: GroupPolicy, __: GroupView, ___: Fleet, rows: Rows) -> Sentences:
        yield rows, "its number is odd"

    def constrain_batch(self, _: GroupPolicy, __: GroupView, ___: Fleet, ____: BatchState) -> None:
        pass

    def relax(self, _: GroupPolicy, __: GroupView, ___: Fleet, ____: Mask) -> Relaxation | None:
        return Relaxation("on odd hosts", None)

    def max_members_per_host(self, _: GroupPolicy) -> int | None:
        return None

    def destinations(self, _: ScopedPolicy, __: Counts) -> Mask | None:
        return None

    def violations(self, places: MemberDomains) -> Iterator[Violation]:
        names = places.scoped.domains.names
        wrong = np.array([not _is_even(names[row]) for row in places.rows.tolist()], dtype=np.bool_)
        if wrong.any():
            yield places.violation(None, wrong, f"{count_members(wrong)} on odd hosts")

    def penalty(self, scoped: ScopedPolicy, counts: Counts) -> int:
        return sum(int(counts[row]) for row, name in enumerate(scoped.domains.names) if not _is_even(name))

    def penalty_term(self, _: Any, scoped: ScopedPolicy, flows: Any, *, monotonic: bool) -> Any:
        del monotonic
        return sum(flows.after(row) for row in flows.busy if not _is_even(scoped.domains.names[row]))


def _is_even(name: str) -> bool:
    return int(name.removeprefix("n")) % 2 == 0


@pytest.fixture(autouse=True)
def _fifth_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "HARD", (*policies.HARD, EvenHosts()))


def test_fifth_kind_is_enforced_for_one_server_and_for_a_batch() -> None:
    assert {decide(spec(POLICY), fleet(*hosts(4)), seed).chosen[0] for seed in range(20)} == {2, 4}
    assert set(decide(spec(POLICY, count=6), fleet(*hosts(4)), 1).chosen) == {2, 4}


def test_fifth_kind_is_explained_and_relaxed() -> None:
    odd = fleet(*hosts(1))
    assert explain(spec(POLICY), odd).sentence() == "of 1 host: 1 is odd"
    assert host_reasons(spec(POLICY), odd) == {"n1": "its number is odd"}
    assert [remedy.words for remedy in remedies(spec(POLICY), odd)] == ["on odd hosts"]
    assert policies.describe([POLICY]) == "on even hosts"


def test_fifth_kind_is_audited() -> None:
    (violation,) = violations([POLICY], {"a": HostId(1), "b": HostId(2)}, fleet(*hosts(2)))
    assert (violation.members, violation.soft, violation.sentence) == (("a",), False, "1 member is on odd hosts")
    assert objections(GroupView((POLICY,)), HostId(1), fleet(*hosts(2))) == ["its host is odd"]


def test_fifth_kind_is_repaired_by_a_rebalance() -> None:
    members = [
        Member(f"m{n}", HostId(n), server_resources(1, 1024, 10), HostRequirements(), movable=True) for n in (1, 2, 3)
    ]
    repaired = plan([POLICY], members, fleet(*hosts(4)), 7, timeout_s=60)
    assert repaired.optimal
    assert len(repaired.moves) == 2
    assert repaired.after == ()
    assert all(host % 2 == 0 for host in hosts_after(members, repaired.moves).values())
