"""Scopes: which hosts are where they should be, and the scope that is always there."""

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
        pytest.param([], ("a", "b", "c"), (), id="no domain has nobody"),
        pytest.param([domain("r1", "a", "b"), domain("r2", "c")], (), (), id="everybody is somewhere"),
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
def test_hosts_that_are_not_in_exactly_one_domain_are_found(
    domains: list[Aggregate], no_domain: tuple[str, ...], ambiguous: tuple[tuple[str, tuple[str, ...]], ...]
) -> None:
    assert find_domain_problems(RACK, ["a", "b", "c"], domains) == DomainProblems("rack", no_domain, ambiguous)


def test_the_implicit_scope_never_changes() -> None:
    known = Scope(ScopeId("00000000-0000-4000-8000-0000686f7374"), "host", False, True, "")
    assert replace(IMPLICIT_SCOPE) == known
