"""The comparison with Placement detects responses that differ: their ratio would mean nothing."""

from typing import Any

import pytest

from tests.bench.placement import differences


def answer(*providers: str, used: int = 1, traits: tuple[str, ...] = ("A", "B")) -> dict[str, Any]:
    return {
        "allocation_requests": [{"allocations": {name: {"resources": {"VCPU": 1}}}} for name in providers],
        "provider_summaries": {
            name: {"resources": {"VCPU": {"capacity": 8, "used": used}}, "traits": list(traits)} for name in providers
        },
    }


def test_order_of_candidates_and_traits_is_ignored() -> None:
    assert differences(answer("p", "q"), answer("q", "p", traits=("B", "A")), whole=True) == []


def test_limited_responses_are_compared_by_number() -> None:
    assert differences(answer("p", "q"), answer("q", "r"), whole=False) == []


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param({"errors": []}, "no candidates", id="error response"),
        pytest.param(answer("p"), "2 and 1 candidates", id="fewer candidates"),
        pytest.param(answer("p", "r"), "other candidates: ['q', 'r']", id="another provider"),
        pytest.param(answer("p", "q", used=2), "other providers: ['p', 'q']", id="another usage"),
        pytest.param(answer("p", "q", traits=("A",)), "other providers: ['p', 'q']", id="fewer traits"),
    ],
)
def test_difference_is_reported(other: dict[str, Any], expected: str) -> None:
    assert any(difference.startswith(expected) for difference in differences(answer("p", "q"), other, whole=True))
