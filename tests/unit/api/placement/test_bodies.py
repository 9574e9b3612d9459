"""Messages of invalid bodies; the fast check never accepts an invalid one."""

from typing import Any

import pytest

from covey.api.placement import schemas
from covey.api.placement.microversions import LATEST
from covey.model.errors import Invalid

PROVIDER = "12345678-1234-5678-1234-567812345678"


def refusal(change: dict[str, Any], resources: object) -> str:
    """Return the error of a consumer's allocations, or an empty text."""
    body = {
        "allocations": {PROVIDER: {"resources": resources}},
        "project_id": "web",
        "user_id": "alice",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    try:
        schemas.ALLOCATIONS.at(LATEST).check(body | change)
    except Invalid as error:
        return error.message
    return ""


@pytest.mark.parametrize("amount", [1, 2**31, 10**30])
def test_valid_body_is_accepted(amount: int) -> None:
    assert refusal({}, {"VCPU": amount}) == ""


@pytest.mark.parametrize(
    ("change", "resources", "word"),
    [
        ({}, {"VCPU": 0}, "0 is less than the minimum of 1"),
        ({}, {"VCPU": 1.0}, "1.0 is not of type 'integer'"),
        ({}, {"VCPU": True}, "True is not of type 'integer'"),
        ({}, {"VCPU": "1"}, "'1' is not of type 'integer'"),
        ({}, {"vcpu": 1}, "'vcpu' does not match any of the regexes"),
        ({}, {}, "should be non-empty"),
        ({"consumer_generation": 1.0}, {"VCPU": 1}, "1.0 is not of type 'integer', 'null'"),
        ({"project_id": ""}, {"VCPU": 1}, "should be non-empty"),
        ({"mappings": {"1": ["nonsense"]}}, {"VCPU": 1}, "'nonsense' is not a 'uuid'"),
        ({"more": 1}, {"VCPU": 1}, "Additional properties are not allowed ('more' was unexpected)"),
    ],
)
def test_message_is_that_of_jsonschema(change: dict[str, Any], resources: object, word: str) -> None:
    assert word in refusal(change, resources)


class CountedList(list[object]):
    """A list that counts how many of its items are looked at."""

    seen = 0

    def __getitem__(self, index: Any) -> Any:
        self.seen += 1
        return super().__getitem__(index)


def test_message_is_of_the_last_of_few_invalid_items() -> None:
    body = {"traits": ["CUSTOM_A", 1, 2], "resource_provider_generation": 0}
    with pytest.raises(Invalid, match=r"(?s)2 is not of type 'string'.*On instance\['traits'\]\[2\]"):
        schemas.PROVIDER_TRAITS.check(body)


def test_validation_ends_after_some_errors() -> None:
    traits = CountedList([1] * 10_000)
    with pytest.raises(Invalid, match="1 is not of type 'string'"):
        schemas.PROVIDER_TRAITS.check({"traits": traits, "resource_provider_generation": 0})
    assert traits.seen <= 100
