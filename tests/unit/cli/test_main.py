"""The `covey` command finds every subcommand, and lists them without importing any."""

import subprocess
import sys

import click
import pytest

from covey.cli.main import COMMANDS, covey

_HELP = """
import sys
sys.argv = ["covey", "--help"]
from covey.cli.main import covey
try:
    covey()
finally:
    print("imported", [name for name in ("numpy", "sqlalchemy", "falcon", "oslo_config") if name in sys.modules])
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_registered(name: str) -> None:
    command = covey.get_command(click.Context(covey), name)
    assert command is not None
    assert command.name == name
    assert command.help


def test_help_lists_all_commands_without_slow_imports() -> None:
    done = subprocess.run([sys.executable, "-c", _HELP], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "imported []" in done.stdout
    for name, (_, purpose) in COMMANDS.items():
        assert name in done.stdout
        assert purpose in done.stdout


def test_unknown_command_is_reported() -> None:
    assert covey.get_command(click.Context(covey), "nonsense") is None
