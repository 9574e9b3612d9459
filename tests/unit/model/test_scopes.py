"""Domain problems of hosts, and the implicit scope."""

from dataclasses import replace

import pytest

from covey.model.aggregates import Aggregate
from covey.model.ids import AggregateId, ScopeId
from covey.model.scopes import IMPLICIT_SCOPE, DomainProblems, Scope, find_domain_problems
from tests.build import NOW

RACK = Scope(ScopeId("s1"), "rack", False, False, "n")


def domain(name: str, *hosts: str, scope: str | None = RACK.id) -> Aggregate:
    known = None if scope is None else ScopeId(scope)
    return Aggregate(AggregateId(1), "u", name, None, known, NOW, None, {}, hosts)


@pytest.mark.parametrize(
    ("domains", "no_domain", "ambiguous"),
    [
        pytest.param([], ("a", "b", "c"), (), id="no domains exist"),
        pytest.param([domain("r1", "a", "b"), domain("r2", "c")], (), (), id="every host is in one domain"),
        pytest.param([domain("r1", "b")], ("a", "c"), (), id="some are in no domain"),
        pytest.param(
            [domain("r1", "a", "b"), domain("r2", "b", "c"), domain("r3", "b")],
            (),
            (("b", ("r1", "r2", "r3")),),
            id="one is in three",
        ),
        pytest.param(
            [domain("r1", "a"), domain("plain", "a", "b", scope=None), domain("s1", "a", "c", scope="switch")],
            ("b", "c"),
            (),
            id="other aggregates do not count",
        ),
    ],
)
def test_finds_hosts_in_no_domain_or_several(
    domains: list[Aggregate], no_domain: tuple[str, ...], ambiguous: tuple[tuple[str, tuple[str, ...]], ...]
) -> None:
    assert find_domain_problems(RACK, ["a", "b", "c"], domains) == DomainProblems("rack", no_domain, ambiguous)


def test_implicit_scope_has_a_fixed_id() -> None:
    known = Scope(ScopeId("00000000-0000-4000-8000-0000686f7374"), "host", False, True, "")
    assert replace(IMPLICIT_SCOPE) == known
