"""Patterns of numbers in strings."""

import re

import pytest

from covey.api.compute.openapi.operations import digits, plain
from covey.api.compute.schemas import LIMIT, NOT_NEGATIVE, POSITIVE_LIMIT


@pytest.mark.parametrize(("low", "high"), [(0, 7), (1, 9), (1, 10), (-1, 305), (0, 2048), (1, 1000)])
def test_digit_pattern_respects_its_bounds(low: int, high: int) -> None:
    matched = [n for n in range(-5, high + 1200) if re.fullmatch(digits(low, high), str(n))]
    assert matched == list(range(low, high + 1))


@pytest.mark.parametrize("text", ["", "-", "1.0", "+1", " 1", "1_0", "x"])
@pytest.mark.parametrize("schema", [LIMIT, NOT_NEGATIVE, POSITIVE_LIMIT], ids=["limit", "not negative", "positive"])
def test_non_number_does_not_match(schema: dict[str, object], text: str) -> None:
    _, as_text = plain(schema)["anyOf"]
    assert not re.search(as_text["pattern"], text)


def test_other_schemas_are_unchanged() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": r"^x\Z"}}, "required": ("a",)}
    assert plain(schema) == {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": "^x$"}},
        "required": ["a"],
    }
