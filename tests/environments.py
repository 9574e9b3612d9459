"""Virtual environments for programs that can't live in ours: other versions of libraries, or other people's tests."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent.parent / ".environments"
_INSTALL_S = 600


def prepared(directory: Path, requirements: Path) -> Path:
    """The commands of an environment that has what the requirements pin, made anew when they changed.

    Raises SubprocessError.
    """
    commands, stamp = directory / "bin", directory / "installed.txt"
    wanted = requirements.read_text()
    if stamp.exists() and stamp.read_text() == wanted:
        return commands
    uv = str(Path(sys.executable).with_name("uv"))
    make = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(directory)]
    subprocess.run(make, check=True, timeout=_INSTALL_S)
    (directory / ".gitignore").write_text("*\n")
    install = [uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r", str(requirements)]
    subprocess.run([*install, "--python", commands / "python"], check=True, timeout=_INSTALL_S)
    stamp.write_text(wanted)
    return commands
