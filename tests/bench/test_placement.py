"""Two answers that differ are told apart before anything is timed: else a ratio would mean nothing."""

from typing import Any

import pytest

from tests.bench.placement import differences


def answer(*providers: str, used: int = 1, traits: tuple[str, ...] = ("A", "B")) -> dict[str, Any]:
    return {
        "allocation_requests": [{"allocations": {each: {"resources": {"VCPU": 1}}}} for each in providers],
        "provider_summaries": {
            each: {"resources": {"VCPU": {"capacity": 8, "used": used}}, "traits": list(traits)} for each in providers
        },
    }


def test_the_order_of_candidates_and_of_traits_makes_no_difference() -> None:
    assert differences(answer("p", "q"), answer("q", "p", traits=("B", "A")), whole=True) == []


def test_where_a_limit_cuts_only_the_number_counts() -> None:
    assert differences(answer("p", "q"), answer("q", "r"), whole=False) == []


@pytest.mark.parametrize(
    ("theirs", "told"),
    [
        pytest.param({"errors": []}, "no candidates", id="an error"),
        pytest.param(answer("p"), "2 and 1 candidates", id="fewer of them"),
        pytest.param(answer("p", "r"), "other candidates: ['q', 'r']", id="another provider"),
        pytest.param(answer("p", "q", used=2), "other providers: ['p', 'q']", id="another use"),
        pytest.param(answer("p", "q", traits=("A",)), "other providers: ['p', 'q']", id="fewer traits"),
    ],
)
def test_a_difference_is_found(theirs: dict[str, Any], told: str) -> None:
    assert any(each.startswith(told) for each in differences(answer("p", "q"), theirs, whole=True))
