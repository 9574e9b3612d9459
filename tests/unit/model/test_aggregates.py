"""Aggregates that require traits."""

import pytest

from covey.model.aggregates import Aggregate
from covey.model.ids import AggregateId
from tests.build import NOW


@pytest.mark.parametrize(
    ("metadata", "traits"),
    [
        ({}, set()),
        ({"trait:A": "required"}, {"A"}),
        ({"trait:A": "required", "trait:B": "required", "ssd": "true"}, {"A", "B"}),
        ({"trait:A": "forbidden", "trait:B": "Required", "A": "required", "trait1:C": "required"}, set()),
    ],
    ids=["none", "one", "two beside something else", "other words and other keys"],
)
def test_only_traits_marked_required_restrict_an_aggregate(metadata: dict[str, str], traits: set[str]) -> None:
    aggregate = Aggregate(AggregateId(1), "u", "a", None, None, NOW, None, metadata, ())
    assert aggregate.required_traits == frozenset(traits)
