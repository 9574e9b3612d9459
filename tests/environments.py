"""Virtual environments for programs that cannot share ours: other versions of libraries, or the suites of peers."""

import fcntl
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent.parent / ".environments"
_INSTALL_S = 600


def prepared(directory: Path, requirements: Path) -> Path:
    """Return the commands of an environment with what the requirements pin, rebuilt when they change.

    Raises SubprocessError.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_suffix(".lock").open("w") as lock:  # two test processes may build it concurrently
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _prepared(directory, requirements)


def _prepared(directory: Path, requirements: Path) -> Path:
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
