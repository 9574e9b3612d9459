"""Guests are found, and ended, by their processes."""

import subprocess
import sys
from pathlib import Path

import pytest

SERVER = "5b9a4f6e-8a0e-4f0c-9a0d-0c1f4e0d7a11"

pytestmark = pytest.mark.needs_program("libvirt")  # for its module


def command(server: str, root: Path, name: str = "covey-{}") -> list[str]:
    """Return the arguments of a guest's QEMU that matter."""
    disk = f'{{"driver":"file","filename":"{root}/{server}/disk"}}'
    return ["-name", f"guest={name.format(server)},debug-threads=on", "-blockdev", disk, "-uuid", server]


@pytest.mark.parametrize(
    ("name", "root", "found"),
    [
        ("covey-{}", "instances", True),
        ("covey-{}", "elsewhere", False),  # of others, who chose the name
        ("web-{}", "instances", False),
        ("covey-{}-old", "instances", False),
    ],
)
def test_only_guests_with_their_name_and_a_disk_below_the_directory_are_found(
    tmp_path: Path, name: str, root: str, *, found: bool
) -> None:
    from covey.agent.libvirt.driver import Processes

    process = tmp_path / "proc/17"
    process.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir()
    arguments = ["qemu-system-x86_64", *command(SERVER, tmp_path / root, name), ""]
    (process / "cmdline").write_bytes("\0".join(arguments).encode())
    assert Processes(tmp_path / "instances", tmp_path / "proc").find() == ({SERVER: 17} if found else {})


def test_guest_is_killed_by_its_process(tmp_path: Path) -> None:
    from covey.agent.libvirt.driver import Processes

    processes = Processes(tmp_path)
    script = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen([*script, *command(SERVER, tmp_path)]) as guest:
        while processes.find() != {SERVER: guest.pid}:
            assert guest.poll() is None
        processes.kill(SERVER, 5)
        assert guest.wait() == -9
    assert processes.find() == {}
    processes.kill(SERVER, 5)
