"""The schema language of specs."""

import pytest

from covey.model.clustering.errors import BadSpec
from covey.model.clustering.policy_types import POLICY_TYPES
from covey.model.clustering.profile_types import PROFILE_TYPES
from covey.model.clustering.spec_schema import Boolean, Integer, Item, List, Map, Number, Schema, String, read, shown
from covey.model.errors import Invalid, NotFound

NO_INTEGERS: tuple[object, ...] = (True, 1.5, "x", "1e3", 2**40, None)
NO_NUMBERS: tuple[object, ...] = (True, "x", "nan", "inf", 1e300, [])
NO_BOOLEANS: tuple[object, ...] = ("x", 2, 1.0, None, [])
WORD = String("A word.", allowed=("a", "b"))
INNER: Schema = {"x": Integer("X.", default=1), "y": String("Y.", required=True)}


@pytest.mark.parametrize(
    ("item", "given", "is_read_as"),
    [
        (String("S."), "text", "text"),
        (String("S."), 1.0, "1.0"),
        (WORD, "b", "b"),
        (Integer("I."), "12", 12),
        (Integer("I."), 12.0, 12),
        (Number("N."), "1.5", 1.5),
        (Number("N."), 3, 3),
        *((Boolean("B."), word, True) for word in (True, 1, "yes", "True", "on")),
        *((Boolean("B."), word, False) for word in (False, 0, "no", "FALSE", "off")),
        (Map("M."), {"any": [1]}, {"any": [1]}),
        (Map("M.", items=INNER), {"y": 2}, {"x": 1, "y": "2"}),
        (Map("M.", of=Integer("I.")), {"a": "1"}, {"a": 1}),
        (List("L.", of=Map("M.", items=INNER)), [{"y": ""}], [{"x": 1, "y": ""}]),
        (List("L.", may_be_one=True), "one", ["one"]),
    ],
)
def test_value_is_converted_to_its_type(item: Item, given: object, is_read_as: object) -> None:
    assert item.read(given) == is_read_as


@pytest.mark.parametrize(
    ("item", "given", "message"),
    [
        (String("S."), None, "The value 'None' is not a valid String"),
        (String("S."), {}, "The value '{}' is not a valid String"),
        (WORD, "c", "'c' must be one of the allowed values: a, b"),
        *((Integer("I."), no, f"The value '{no}' is not a valid Integer") for no in NO_INTEGERS),
        (Integer("I.", minimum=1), 0, "The value '0' must be 1 or more"),
        *((Number("N."), no, f"The value '{no}' is not a valid Number") for no in NO_NUMBERS),
        *((Boolean("B."), no, f"The value '{no}' is not a valid Boolean") for no in NO_BOOLEANS),
        (Map("M."), None, "'None' is not a Map"),
        (Map("M.", items=INNER), {}, "Required spec item 'y' not provided"),
        (Map("M.", items=INNER), {"y": "", "z": 1}, "Unrecognizable spec item 'z'"),
        (List("L."), "one", "'one' is not a List"),
        (List("L.", may_be_empty=False), [], "'[]' must have at least 1 item"),
        (List("L.", of=WORD), ["a", "c"], "'c' must be one of the allowed values: a, b"),
    ],
)
def test_invalid_value_is_rejected(item: Item, given: object, message: str) -> None:
    with pytest.raises(BadSpec) as refused:
        item.read(given)
    assert refused.value.message == message


def test_defaults_apply_to_given_maps_only() -> None:
    schema: Schema = {"absent": Map("M.", items=INNER), "there": Map("M.", items={"x": INNER["x"]}, default={})}
    assert read(schema, {}) == {"there": {"x": 1}}


def test_long_value_is_truncated_in_the_message() -> None:
    with pytest.raises(BadSpec) as refused:
        Integer("I.").read("x" * 100_000)
    assert len(refused.value.message) < 400


def test_schema_as_the_api_shows_it() -> None:
    common = {"description": "L.", "required": False, "updatable": True}
    word = {"type": "String", "description": "A word.", "required": False, "updatable": False}
    assert shown({"l": List("L.", of=WORD, updatable=True)}) == {
        "l": {
            "type": "List",
            **common,
            "schema": {"*": word | {"constraints": [{"type": "AllowedValues", "constraint": ["a", "b"]}]}},
        }
    }


def test_spec_names_its_type() -> None:
    spec = {"type": "senlin.policy.scaling", "version": 1.0, "properties": {"event": "CLUSTER_SCALE_IN"}}
    kind = POLICY_TYPES.of(spec)
    adjustment = {"type": "CHANGE_IN_CAPACITY", "number": 1, "min_step": 1, "best_effort": False, "cooldown": 0}
    assert kind.full_name == "senlin.policy.scaling-1.0"
    assert kind.read(spec) == {"event": "CLUSTER_SCALE_IN", "adjustment": adjustment}
    with pytest.raises(NotFound):
        POLICY_TYPES.of(spec | {"version": "2.0"})
    with pytest.raises(BadSpec):
        kind.read(spec | {"more": 1})


def test_operation_and_its_parameters_are_checked() -> None:
    server = PROFILE_TYPES.named("os.nova.server-1.0")
    server.check_operation("reboot", {"type": "HARD"})
    server.check_operation("pause", {})
    for operation, parameters, message in (
        ("reboot", {"type": "Unknown"}, "'Unknown' must be one of the allowed values: SOFT, HARD."),
        ("dance", {}, "The requested operation 'dance' is not supported by the profile type 'os.nova.server-1.0'."),
    ):
        with pytest.raises(Invalid) as refused:
            server.check_operation(operation, parameters)
        assert refused.value.message == message
