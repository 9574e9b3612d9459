"""The laboratory itself: what one test has broken does not fail the next."""

import fcntl
import signal
import subprocess
import threading

import pytest

from tests.lab.hosts import Lab

pytestmark = pytest.mark.needs_program("libvirt")


def test_libvirtd_that_ends_since_a_lock_is_held_is_started_again(lab: Lab) -> None:
    """A killed one has its locks until the last of its threads has ended."""
    host = lab.hosts[0]
    host.kill_libvirtd()
    with (host.directory / "run/libvirt/qemu/driver.pid").open("r+") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        threading.Timer(0.5, fcntl.lockf, (held, fcntl.LOCK_UN)).start()
        host.start_libvirtd()
    assert host.answers()


def test_user_added_to_the_machine_leaves_the_users_of_its_hosts(lab: Lab) -> None:
    """As the first start of PostgreSQL adds one. The new /etc/passwd replaces a file on which others are mounted."""
    host, user = lab.hosts[0], "covey-lab"
    subprocess.run(["useradd", "--system", "--no-create-home", user], check=True)
    subprocess.run(["userdel", user], check=True)
    host.kill_libvirtd()
    host.start_libvirtd()
    assert host.answers()


def test_host_without_libvirtd_shows_its_log_and_is_power_cycled(lab: Lab) -> None:
    host = lab.hosts[0]
    host.kill_libvirtd()
    with pytest.raises(TimeoutError, match=r"(?s)hv1 does not answer.*host-init\.sh.*libvirtd\.log:.*hostname: hv1"):
        host.wait_until_up(0)
    lab.power_cycle_unresponsive()
    assert host.answers()


def test_host_whose_libvirtd_hangs_is_power_cycled(lab: Lab) -> None:
    host = lab.hosts[0]
    host.signal_libvirtd(signal.SIGSTOP)
    assert not host.answers(1)
    lab.power_cycle_unresponsive(1)
    assert host.answers()
