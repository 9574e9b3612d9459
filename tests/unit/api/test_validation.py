"""Messages of invalid bodies and queries, as Nova's."""

from typing import Any

import jsonschema
import pytest

from covey.api.compute.schemas import (
    AGGREGATE_CREATE,
    BOOLEAN,
    HOST_NAME,
    LIMIT,
    NAME,
    NOT_NEGATIVE,
    POSITIVE,
    ZONE,
)
from covey.api.validation import JsonSchema, Query, Schema, is_true, is_uuid
from covey.api.versions import Version
from covey.model.errors import Invalid

A_UUID = "12345678-1234-5678-1234-567812345678"
BAD_NAME = (
    "An invalid 'name' value was provided. The name must be: "
    "printable characters. Can not start or end with whitespace."
)
BAD_ZONE = (
    "An invalid 'name' value was provided. The name must be: "
    "printable characters except :.Can not start or end with whitespace."
)


def refusal(schema: JsonSchema, value: object) -> str:
    """Return the error of a value, or an empty text."""
    try:
        Schema(schema).check(value)
    except Invalid as error:
        return error.message
    return ""


def refusal_of_x(schema: JsonSchema, value: object) -> str:
    """Return the reason of a field's error."""
    message = refusal({"type": "object", "properties": {"x": schema}}, {"x": value})
    return message.removeprefix(f"Invalid input for field/attribute x. Value: {value}. ")


TEXT: JsonSchema = {"type": "string", "minLength": 1, "maxLength": 3}
REASONS: dict[str, tuple[JsonSchema, Any, str]] = {
    "a wrong type": ({"type": "string"}, 5, "5 is not of type 'string'"),
    "one of several types": ({"type": ["string", "null"]}, 5, "5 is not of type 'string', 'null'"),
    "an empty list": ({"type": "array", "minItems": 1}, [], "[] should be non-empty"),
    "an empty text": (TEXT, "", "'' should be non-empty"),
    "a long text": (TEXT, "abcd", "'abcd' is too long"),
    "a list with repetitions": ({"uniqueItems": True}, ["a", "a"], "['a', 'a'] has non-unique elements"),
    "a value that is not listed": ({"enum": ["b", "c"]}, "a", "'a' is not one of ['b', 'c']"),
    "a number that is too small": ({"minimum": 1}, 0, "0 is less than the minimum of 1"),
    "a number that is too large": ({"maximum": 1}, 2, "2 is greater than the maximum of 1"),
    "a number that is not above": (
        {"exclusiveMinimum": 0},
        0,
        "0 is less than or equal to the minimum of 0",
    ),
    "a text of another form": ({"pattern": "^[0-9]*$"}, "a", "'a' does not match '^[0-9]*$'"),
    "no uuid": ({"format": "uuid"}, "x", "'x' is not a 'uuid'"),
    "none of several shapes": (
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {},
        "{} is not valid under any of the given schemas",
    ),
    "a missing field": ({"required": ["name"]}, {}, "'name' is a required property"),
    "a field too many": (
        {"additionalProperties": False},
        {"y": 1},
        "Additional properties are not allowed ('y' was unexpected)",
    ),
}


@pytest.mark.parametrize(("schema", "value", "reason"), REASONS.values(), ids=REASONS)
def test_message_names_field_value_and_reason(schema: JsonSchema, value: Any, reason: str) -> None:
    message = refusal({"type": "object", "properties": {"x": schema}}, {"x": value})
    assert message == f"Invalid input for field/attribute x. Value: {value}. {reason}"


@pytest.mark.parametrize(("schema", "value", "reason"), REASONS.values(), ids=REASONS)
def test_message_about_the_whole_body_is_the_reason(schema: JsonSchema, value: Any, reason: str) -> None:
    assert refusal(schema, value) == reason


def test_missing_body_is_not_an_object() -> None:
    assert refusal({"type": "object"}, None) == "None is not of type 'object'"


def test_field_is_the_last_path_step() -> None:
    texts = {"type": "array", "items": {"type": "string"}}
    schema = {"properties": {"outer": {"properties": {"inner": texts}}}}
    message = refusal(schema, {"outer": {"inner": ["a", 5]}})
    assert message == "Invalid input for field/attribute 1. Value: 5. 5 is not of type 'string'"


def test_first_invalid_field_is_reported() -> None:
    with pytest.raises(Invalid, match=r"for field/attribute name\. Value: 5\. 5 is not of type 'string'"):
        AGGREGATE_CREATE.check({"aggregate": {"availability_zone": 5, "name": 5, "other": 5}})


NUMBERS = {
    "a number": (POSITIVE, 3, ""),
    "digits": (POSITIVE, "3", ""),
    "digits below the minimum": (POSITIVE, "0", "0 is less than the minimum of 1"),
    "digits above the maximum": (LIMIT, "2147483648", "2147483648 is greater than the maximum of 2147483647"),
    "very many digits": (LIMIT, "9" * 5000, "inf is greater than the maximum of 2147483647"),
    "unlimited": (LIMIT, "-1", ""),
    "below unlimited": (LIMIT, "-2", "-2 is less than the minimum of -1"),
    "a fraction": (POSITIVE, 1.5, "1.5 is not of type 'integer', 'string'"),
    "a fraction in digits": (POSITIVE, "1.5", "'1.5' does not match '^[0-9]*$'"),
    "a boolean": (POSITIVE, True, "True is not of type 'integer', 'string'"),
    "a plus sign": (POSITIVE, "+3", "'+3' does not match '^[0-9]*$'"),
    "a minus sign": (NOT_NEGATIVE, "-3", "'-3' does not match '^[0-9]*$'"),
    "a space": (POSITIVE, " 3", "' 3' does not match '^[0-9]*$'"),
    "no digits": (POSITIVE, "", "'' should be non-empty"),
    "another script's digits": (POSITIVE, "٣", "'٣' does not match '^[0-9]*$'"),
    "a word": (POSITIVE, "three", "'three' does not match '^[0-9]*$'"),
}


@pytest.mark.parametrize(("schema", "value", "reason"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_are_accepted_as_strings(schema: JsonSchema, value: Any, reason: str) -> None:
    assert refusal_of_x(schema, value) == reason


GOOD_NAMES = ["a", "a b", "Ünïcödé 日本", "x" * 255, "a:b", "no\u00a0break"]
BAD_NAMES = {
    "a space before": " a",
    "a space after": "a ",
    "nothing but a space": " ",
    "a tab": "a\tb",
    "a line break": "a\nb",
    "a control character": "a\x7fb",
    "an invisible one": "a\u200bb",
    "a line separator": "a\u2028b",
    "a no-break space after": "a\u00a0",
    "a surrogate": "a\ud800b",
    "an unassigned one": "a\U0003fffeb",
}


@pytest.mark.parametrize("name", GOOD_NAMES, ids=lambda name: repr(name[:9]))
def test_name_allows_printable_characters(name: str) -> None:
    assert refusal_of_x(NAME, name) == ""


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES)
def test_name_rejects_unprintable_characters_and_outer_whitespace(name: str) -> None:
    assert refusal_of_x(NAME, name) == BAD_NAME


def test_name_length_is_limited() -> None:
    assert refusal_of_x(NAME, "") == "'' should be non-empty"
    assert refusal_of_x(NAME, "x" * 256).endswith("is too long")


def test_zone_name_rejects_a_colon() -> None:
    zone: JsonSchema = {"type": "string", "format": "az_name"}
    assert refusal_of_x(zone, "az-1") == ""
    assert refusal_of_x(zone, "az:1") == refusal_of_x(zone, "az-1 ") == BAD_ZONE
    assert refusal_of_x(ZONE, None) == ""
    assert refusal_of_x(ZONE, "az:1").endswith("is not valid under any of the given schemas")


def test_description_allows_line_breaks_but_no_control_characters() -> None:
    assert refusal_of_x({"format": "printable"}, "a\r\n\tb") == ""
    assert refusal_of_x({"format": "printable"}, "a\x00b") == "'a\\x00b' is not a 'printable'"


@pytest.mark.parametrize("format_", ["name", "az_name", "printable", "uuid"])
def test_format_applies_to_strings_only(format_: str) -> None:
    assert refusal_of_x({"format": format_}, 5) == ""


HOST_NAMES = {"node-1.rack_2": "", "a b": "'a b' does not match '^[a-zA-Z0-9-._]*$'", "": "'' should be non-empty"}


@pytest.mark.parametrize(("name", "reason"), HOST_NAMES.items(), ids=HOST_NAMES)
def test_host_name_allows_plain_characters_only(name: str, reason: str) -> None:
    assert refusal_of_x(HOST_NAME, name) == reason


UUIDS = {
    "dashes": (A_UUID, True),
    "no dashes": (A_UUID.replace("-", ""), True),
    "capitals": ("ABCDEFAB-1234-5678-1234-567812345678", True),
    "braces": (f"{{{A_UUID}}}", False),
    "a prefix": (f"urn:uuid:{A_UUID}", False),
    "a digit too few": (A_UUID[:-1], False),
    "a digit too many": (f"{A_UUID}0", False),
    "another letter": (A_UUID.replace("1", "g"), False),
    "nothing": ("", False),
}


@pytest.mark.parametrize(("text", "right"), UUIDS.values(), ids=UUIDS)
def test_uuid_has_32_digits_with_or_without_dashes(text: str, right: bool) -> None:
    assert is_uuid(text) is right


def test_boolean_spellings() -> None:
    assert refusal_of_x(BOOLEAN, "yes") == refusal_of_x(BOOLEAN, False) == ""
    assert [is_true(value) for value in (True, "On", "1", False, "off", "0")] == [True] * 3 + [False] * 3
    assert refusal_of_x(BOOLEAN, 1) == "1 is not of type 'boolean', 'string'"
    assert "'maybe' is not one of [True, 'True'" in refusal_of_x(BOOLEAN, "maybe")


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def test_deeply_nested_body_is_malformed() -> None:
    recursive: JsonSchema = {"type": "array", "items": {"$ref": "#"}}
    assert refusal(recursive, nested(50)) == ""
    assert refusal(recursive, nested(5000)) == refusal({"type": "object"}, nested(5000)) == "Malformed request body"


QUERY = Query({"limit": NOT_NEGATIVE, "name": {"type": "string"}}, strict_from=Version(2, 75))
OLD, NEW = Version(2, 74), Version(2, 75)


def test_last_value_of_a_repeated_parameter_wins() -> None:
    assert QUERY.check({"limit": ["1", "2"], "name": ["x"]}, NEW) == {"limit": "2", "name": "x"}


def test_unknown_parameters_are_rejected_from_the_strict_version() -> None:
    assert QUERY.check({"other": ["1"], "limit": ["2"]}, OLD) == {"limit": "2"}
    with pytest.raises(Invalid) as caught:
        QUERY.check({"other": ["1"]}, NEW)
    assert caught.value.message == "Additional properties are not allowed ('other' was unexpected)"


QUERIES = {
    "abc": "'abc' does not match '^[0-9]*$'",
    "-1": "'-1' does not match '^[0-9]*$'",
    "": "'' should be non-empty",
}


@pytest.mark.parametrize(("value", "reason"), QUERIES.items(), ids=map(repr, QUERIES))
def test_invalid_parameter_is_named_at_every_version(value: str, reason: str) -> None:
    for version in (OLD, NEW):
        with pytest.raises(Invalid) as caught:
            QUERY.check({"limit": ["1", value]}, version)
        assert caught.value.message == f"Invalid input for query parameters limit. Value: {value}. {reason}"


class CountedList(list[object]):
    """A list that counts how many of its items are looked at."""

    seen = 0

    def __getitem__(self, index: Any) -> Any:
        self.seen += 1
        return super().__getitem__(index)


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_alternative_is_left_at_its_first_error(keyword: str) -> None:
    items = CountedList([1] * 1000)
    message = refusal_of_x({keyword: [{"items": {"type": "string"}}, {"enum": ["none"]}]}, items)
    assert message.endswith("is not valid under any of the given schemas")
    assert items.seen == 1


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_message_of_alternatives_is_that_of_jsonschema(keyword: str) -> None:
    schema = {keyword: [{"minimum": 1}, {"maximum": 5}, {"type": "integer"}]}
    for value in (0, 3, 9):
        found = jsonschema.Draft202012Validator(schema).iter_errors(value)
        assert refusal_of_x(schema, value) == "".join(error.message for error in found)
