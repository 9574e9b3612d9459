"""The systemd units, checked by systemd itself."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")

UNITS = Path(__file__).parents[2] / "contrib" / "systemd"
INSTALLED, HERE = "/opt/covey/bin/covey", str(Path(sys.executable).with_name("covey"))


def verify(directory: Path, text: str) -> tuple[int, str]:
    """Return the exit status of systemd-analyze, and what it finds wrong."""
    unit = directory / "covey-test.service"
    unit.write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("unit", sorted(UNITS.glob("*.service")), ids=lambda unit: unit.stem)
def test_systemd_finds_no_fault_in_a_unit(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text()
    assert INSTALLED in text
    assert verify(tmp_path, text.replace(INSTALLED, HERE)) == (0, "")


def test_systemd_rejects_an_unknown_setting(tmp_path: Path) -> None:
    """The check above can fail."""
    _, found = verify(tmp_path, f"[Service]\nExecStart={HERE}\nRestarts=always\n")
    assert "Restarts" in found
