"""Programs that some tests run and that no wheel holds; `python -m tests.programs` installs those that are missing.

Debian and Ubuntu only, and only as root or with sudo that asks for no password. Elsewhere it prints what is missing,
and pytest skips the tests that are marked `needs_program`.
"""

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_SYSTEM = platform.freedesktop_os_release().get("ID") if Path("/etc/os-release").exists() else None
_APT = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "Dpkg::Use-Pty=0")

_TRIAL = """
    mount --make-rprivate /
    mount -t tmpfs tmpfs /run
    mkdir /run/pts && mount -t devpts -o newinstance devpts /run/pts
    [ -x "$(command -v ip)" ] || exit 0  # it is not installed yet
    ip link add br0 type bridge
    ip link add eth0 type veth peer name eth1
    ip link set lo up
"""  # what a host of the laboratory needs of the kernel


def _no_obstacle() -> str | None:
    return None


@dataclass(frozen=True)
class Program:
    """A program, the commands that may start it, and the Debian packages that hold it.

    Some need a Python module too that is compiled against them, from a lock file of its own. `obstacle` returns why an
    installed one cannot run here.
    """

    name: str
    commands: tuple[str, ...]
    packages: tuple[str, ...]
    needed_by: str
    module: str | None = None
    lock_file: Path | None = None
    obstacle: Callable[[], str | None] = _no_obstacle

    def path(self) -> str | None:
        """Return the path of the installed program."""
        return next(filter(None, map(shutil.which, self.commands)), None)

    def is_installed(self) -> bool:
        """Return whether the program, and the module, are there."""
        return self.path() is not None and (self.module is None or importlib.util.find_spec(self.module) is not None)


def _no_namespaces() -> str | None:
    """Return why hosts in namespaces of their own cannot run here."""
    if os.geteuid() != 0:
        return "it needs root; run: sudo make test"
    tried = subprocess.run(
        ["unshare", "--mount", "--pid", "--uts", "--net", "--mount-proc", "--fork", "sh", "-ec", _TRIAL],
        check=False,
        capture_output=True,
        text=True,
    )
    return None if tried.returncode == 0 else f"it needs namespaces ({tried.stderr.strip()})"


_LIBVIRT_PACKAGES = (
    *("libvirt-daemon", "libvirt-daemon-driver-qemu", "qemu-system-x86", "qemu-utils", "iproute2"),
    *("libvirt-dev", "pkg-config", "gcc", "libc6-dev"),
)
_PYTHON_HEADER = Path(sysconfig.get_path("include")) / "Python.h"


PROGRAMS = {
    program.name: program
    for program in (
        Program(
            "chromium",
            ("chromium", "chromium-browser"),
            ("chromium-browser" if _SYSTEM == "ubuntu" else "chromium",),
            "tests that open the dashboard in a browser",
        ),
        Program(
            "rabbitmq",
            # Debian's wrapper on the path switches to the user rabbitmq, who cannot write to a test's directory.
            ("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server"),
            ("rabbitmq-server",),
            "tests that send notifications through a broker",
        ),
        Program("curl", ("curl",), ("curl",), "tests that run the commands of the documentation"),
        Program(
            "libvirt",
            ("libvirtd", "/usr/sbin/libvirtd"),
            _LIBVIRT_PACKAGES + (() if _PYTHON_HEADER.exists() else ("python3-dev",)),
            "tests that run real guests on hosts of a laboratory",
            module="libvirt",
            lock_file=Path(__file__).parent.parent / "requirements" / "libvirt.txt",
            obstacle=_no_namespaces,
        ),
    )
}


def missing() -> list[Program]:
    """Return the programs that are not installed."""
    return [program for program in PROGRAMS.values() if not program.is_installed()]


def install_command(programs: list[Program]) -> list[str]:
    """Return the command that installs the programs, without sudo."""
    packages = [package for program in programs for package in program.packages]
    return ["apt-get", "install", "--yes", "--no-install-recommends", *packages]


def main() -> None:
    """Install what is missing where that is allowed, and print what is done and what is not."""
    for program in missing():
        if program.path() is not None:  # the package is installed since the last run
            _compile(program)
    absent = missing()
    for program in absent:
        _tell(f"{program.name} is not installed: {program.needed_by} need it.")
    useful = [program for program in absent if _is_useful(program)]
    if not useful:
        return
    privilege = _privilege()
    if privilege is None:
        _tell("This user cannot install packages here (that takes apt-get, and root or sudo without a password).")
        _tell("The run goes on without them: it skips those tests and names them at its end.")
        return
    for step in (["apt-get", "update"], install_command(useful)):
        _tell(f"Running {' '.join([*privilege, *step])}")
        done = subprocess.run(
            [*privilege, *_APT, "--quiet=2", *step[1:]],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode != 0:
            _tell(done.stdout)
            _tell(f"apt-get ended with status {done.returncode}. The run goes on, and skips what is still missing.")
            return
    for program in useful:
        _compile(program)


def _is_useful(program: Program) -> bool:
    """Return whether the program could run here if it was installed."""
    obstacle = program.obstacle()
    if obstacle is not None:
        _tell(f"{program.name} cannot run here, and is not installed: {obstacle}.")
    return obstacle is None


def _compile(program: Program) -> None:
    """Install the Python module of a program, if it has one, into this environment."""
    if program.lock_file is None:
        return
    uv = Path(sys.executable).with_name("uv")
    command = [
        str(uv),
        "pip",
        "install",
        "--quiet",
        "--python",
        sys.executable,
        "--require-hashes",
        "-r",
        str(program.lock_file),
    ]
    _tell(f"Running {' '.join(command)}")
    if subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode != 0:
        _tell("That failed. The run goes on, and skips the tests that need it.")


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
