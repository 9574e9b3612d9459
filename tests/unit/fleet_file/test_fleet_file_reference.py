"""The examples of the reference page work as described."""

import re
from pathlib import Path

import pytest

from covey.fleet_file import FleetFileError, parse

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "fleet-file.md"
BLOCKS = re.findall(r"```(yaml|text)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
*GOOD, BAD = [text for language, text in BLOCKS if language == "yaml"]
(OUTPUT,) = [text for language, text in BLOCKS if language == "text"]


@pytest.mark.parametrize("text", GOOD)
def test_reference_example_parses(text: str) -> None:
    assert parse(text, "fleet.yaml").hosts


def test_reference_errors_match_the_code() -> None:
    with pytest.raises(FleetFileError) as caught:
        parse(BAD, "fleet.yaml")
    assert f"{caught.value}\n" == OUTPUT
