"""Ranges in names."""

import pytest

from covey.fleet_file.names import RangeError, count, expand

GOOD = {
    "a name without a range is itself": ("node", ["node"]),
    "an empty name is itself": ("", [""]),
    "a range counts up": ("n[1-3]", ["n1", "n2", "n3"]),
    "a range may hold one number": ("n[7-7]", ["n7"]),
    "zero padding is kept": ("n[008-011]", ["n008", "n009", "n010", "n011"]),
    "numbers may outgrow the padding": ("n[09-100]", [f"n{number:02}" for number in range(9, 101)]),
    "numbers grow without padding": ("n[9-11]", ["n9", "n10", "n11"]),
    "a range may start at zero": ("n[0-2]", ["n0", "n1", "n2"]),
    "text after the range stays": ("n[1-2].lab", ["n1.lab", "n2.lab"]),
    "several ranges make the product": ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    "ranges may touch": ("[1-2][0-1]", ["10", "11", "20", "21"]),
}
BAD = {
    "backwards": ("n[9-1]", "'[9-1]' runs backwards; write the smaller number first"),
    "letters": ("n[a-3]", "'[a-3]' is not a range; write two whole numbers, as in [01-12]"),
    "nothing inside": ("n[]", "'[]' is not a range; write two whole numbers, as in [01-12]"),
    "one number": ("n[3]", "'[3]' is not a range; write two whole numbers, as in [01-12]"),
    "digits of another script": ("n[\u0661-\u0663]", "is not a range"),
    "a number of very many digits": ("n[1-" + "9" * 5000 + "]", "is not a range"),
    "a shorter last number": (
        "n[001-12]",
        "'[001-12]' pads its two numbers differently; write both with as many digits",
    ),
    "padding on the last number only": ("n[1-012]", "'[1-012]' pads its two numbers differently"),
    "an opening bracket alone": ("n[1-3", "a bracket in 'n[1-3' has no partner; write a range as in node-[01-12]"),
    "a closing bracket alone": ("n1-3]", "a bracket in 'n1-3]' has no partner"),
    "nested brackets": ("n[[1-3]]", "has no partner"),
    "too many in one range": ("n[0-1000000]", "'n[0-1000000]' makes more than 1,000,000 names"),
    "too many in the product": ("n[1-1001][1-1000]", "makes more than 1,000,000 names"),
    "absurdly many": ("n" + "[0-999999999999999999]" * 3, "makes more than 1,000,000 names"),
}


@pytest.mark.parametrize(("pattern", "names"), GOOD.values(), ids=GOOD)
def test_pattern_expands_in_order(pattern: str, names: list[str]) -> None:
    assert expand(pattern) == names
    assert count(pattern) == len(names)


@pytest.mark.parametrize(("pattern", "message"), BAD.values(), ids=BAD)
def test_invalid_range_is_rejected_with_a_hint(pattern: str, message: str) -> None:
    for function in (expand, count):
        with pytest.raises(RangeError) as caught:
            function(pattern)
        assert message in str(caught.value)


def test_one_million_names_are_allowed() -> None:
    assert count("n[1-1000][1-1000]") == 1_000_000
