"""Programs that some tests run and that no wheel holds; `python -m tests.programs` installs those that are missing.

Debian and Ubuntu only, and only as root or with sudo that asks for no password. Elsewhere it prints what is missing,
and pytest skips the tests that are marked `needs_program`.
"""

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_SYSTEM = platform.freedesktop_os_release().get("ID") if Path("/etc/os-release").exists() else None
_APT = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "Dpkg::Use-Pty=0")


@dataclass(frozen=True)
class Program:
    """A program, the commands that may start it, and the Debian package that holds it."""

    name: str
    commands: tuple[str, ...]
    package: str
    needed_by: str

    def path(self) -> str | None:
        """Return the path of the installed program."""
        return next(filter(None, map(shutil.which, self.commands)), None)


PROGRAMS = {
    program.name: program
    for program in (
        Program(
            "chromium",
            ("chromium", "chromium-browser"),
            "chromium-browser" if _SYSTEM == "ubuntu" else "chromium",
            "tests that open the dashboard in a browser",
        ),
        Program(
            "rabbitmq",
            # Debian's wrapper on the path switches to the user rabbitmq, who cannot write to a test's directory.
            ("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server"),
            "rabbitmq-server",
            "tests that send notifications through a broker",
        ),
        Program("curl", ("curl",), "curl", "tests that run the commands of the documentation"),
    )
}


def missing() -> list[Program]:
    """Return the programs that are not installed."""
    return [program for program in PROGRAMS.values() if program.path() is None]


def install_command(programs: list[Program]) -> list[str]:
    """Return the command that installs the programs, without sudo."""
    return ["apt-get", "install", "--yes", "--no-install-recommends", *(program.package for program in programs)]


def main() -> None:
    """Install what is missing where that is allowed, and print what is done and what is not."""
    absent = missing()
    for program in absent:
        _tell(f"{program.name} is not installed: {program.needed_by} need it.")
    if not absent:
        return
    privilege = _privilege()
    if privilege is None:
        _tell("This user cannot install packages here (that takes apt-get, and root or sudo without a password).")
        _tell("The run goes on without them: it skips those tests and names them at its end.")
        return
    for step in (["apt-get", "update"], install_command(absent)):
        _tell(f"Running {' '.join([*privilege, *step])}")
        done = subprocess.run([*privilege, *_APT, "--quiet=2", *step[1:]], check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            _tell(f"apt-get ended with status {done.returncode}. The run goes on, and skips what is still missing.")
            return


def _privilege() -> list[str] | None:
    """Return the words before a command that run it as root; None where that, or apt-get, is not available."""
    if shutil.which("apt-get") is None:
        return None
    if os.geteuid() == 0:
        return []
    if (
        shutil.which("sudo")
        and subprocess.run(["sudo", "-n", "true"], check=False, capture_output=True).returncode == 0
    ):
        return ["sudo", "-n"]
    return None


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
