"""What commands print."""

import json

import pytest

from covey.cli.output import echo


def test_control_characters_are_printed_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    echo("host \x1b]0;owned\x07\tin rack\nnext \x9b2J")
    assert capsys.readouterr().out == "host \\x1b]0;owned\\x07\tin rack\nnext \\x9b2J\n"


def test_json_stays_the_same_document(capsys: pytest.CaptureFixture[str]) -> None:
    echo(b'{"name": "\xc2\x9b2J\x7f"}', err=True)
    printed = capsys.readouterr().err
    assert printed.isascii()
    assert "\x7f" not in printed
    assert json.loads(printed) == {"name": "\x9b2J\x7f"}
