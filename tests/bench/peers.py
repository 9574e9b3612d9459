"""The services that Covey is compared with, each in its own virtual environment."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_INSTALL_S = 600


def prepared(directory: Path, module: str, requirements: tuple[str, ...], log: Callable[[str], None]) -> Path:
    """Return the Python of a virtual environment with the module, created if missing. Raises SubprocessError."""
    python = directory / "bin" / "python"
    if not python.exists():
        log(f"a virtual environment for {module}: {directory}")
        if not directory.parent.exists():
            directory.parent.mkdir(parents=True)
            (directory.parent / ".gitignore").write_text("*\n")
        subprocess.run([sys.executable, "-m", "venv", directory], check=True, timeout=_INSTALL_S)
    if subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode != 0:
        log(f"pip install {' '.join(requirements)}")
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
        subprocess.run(install, check=True, stdout=sys.stderr, timeout=_INSTALL_S)
    return python.absolute()
