"""Hosts of the laboratory: real libvirtd and QEMU, each host in namespaces of its own.

Needs root with CAP_SYS_ADMIN and CAP_NET_ADMIN; no systemd, D-Bus, KVM or cgroup. Everything ends with the process that
made it, and nothing is left in the network of the machine.
"""

import ctypes
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

T = TypeVar("T")

_HERE = Path(__file__).parent
_DROP_IN = _HERE.parents[1] / "contrib/systemd/libvirtd.service.d/covey.conf"
_DIRECTORIES = ("run/libvirt", "var/lib/libvirt", "var/log/libvirt", "var/cache", "etc/libvirt", "local")
_SET_DEATH_SIGNAL = 1  # of prctl
_LIBVIRTD = "/usr/sbin/libvirtd"
_ATTEMPTS, _ANSWERS_WITHIN_S, _RESTART_S = 3, 20.0, 0.5

_LIBVIRTD_CONF = """\
host_uuid = "{uuid}"
unix_sock_group = "root"
unix_sock_rw_perms = "0700"
auth_unix_ro = "none"
auth_unix_rw = "none"
listen_tls = 0
listen_tcp = 1
listen_addr = "{address}"
auth_tcp = "none"
keepalive_interval = 1
keepalive_count = 3
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
"""

_QEMU_CONF = """\
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = [ ]
cgroup_controllers = [ ]
stdio_handler = "file"
migration_host = "{address}"
migration_address = "{address}"
keepalive_interval = 1
keepalive_count = 3
"""

_FOREIGN = """\
<domain type="qemu"><name>covey-{uuid}</name><uuid>{uuid}</uuid><memory unit="MiB">16</memory>
<os><type arch="x86_64">hvm</type></os></domain>
"""


def wait_for(what: Callable[[], T], seconds: float = 60.0, every: float = 0.05) -> T:
    """Return the first true result. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not (found := what()):
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(every)
    return found


@dataclass
class Host:
    """One host."""

    name: str
    directory: Path
    address: str
    network: int  # pid of the process that holds the network of all hosts
    local: Path  # where the host's own disks are: the same path on every host, another file system
    uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    init: int = 0  # pid of its pid 1, seen from outside
    _process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """How the machine reaches it, through the file system."""
        return f"qemu+unix:///system?socket={self.directory}/run/libvirt/libvirt-sock"

    def power_on(self) -> None:
        """Return when its libvirt answers."""
        self.start()
        self.wait_until_up()

    def start(self) -> None:
        """Start its processes, which end with the calling thread."""
        shutil.rmtree(self.directory / "run/libvirt", ignore_errors=True)  # as a reboot does
        for part in _DIRECTORIES:
            (self.directory / part).mkdir(parents=True, exist_ok=True)
        self._share_cache()
        etc = self.directory / "etc/libvirt"
        (etc / "libvirtd.conf").write_text(_LIBVIRTD_CONF.format(uuid=self.uuid, address=self.address))
        (etc / "qemu.conf").write_text(_QEMU_CONF.format(address=self.address))
        self._process, self.init = _unshare(
            *("--mount", "--pid", "--uts", "--net", "--mount-proc", str(_HERE / "host-init.sh")),
            *(str(self.directory), self.name, f"{self.address}/24", str(self.local)),
            log=self.directory / "console.log",
        )
        (self.directory / "power").write_text(str(self.init))  # what a power switch kills
        self._plug_in()

    def power_off(self) -> None:
        """Pull the plug: libvirtd, the agent and all guests end at once; files stay."""
        if self._process:
            if self.is_on():
                with suppress(ProcessLookupError):
                    os.kill(self.init, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def is_on(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait_until_up(self, seconds: float = 60.0) -> None:
        """Return when its libvirt answers. Raises TimeoutError with what the host has logged."""
        try:
            wait_for(self.answers, seconds)
        except TimeoutError as error:
            raise TimeoutError(f"The libvirt of {self.name} does not answer.\n{self._state()}") from error

    def run(self, *command: str) -> str:
        """Run a command on the host, and return its output. Raises RuntimeError."""
        return _run(*self.inside(*command))

    def inside(self, *command: str) -> tuple[str, ...]:
        """Return the command that runs this one on the host."""
        return ("nsenter", "-t", str(self.init), "-m", "-p", "-n", "-u", *command)

    def domains(self) -> dict[str, bool]:
        """Return whether each domain runs, by uuid."""
        return {server: power == "running" for server, power in self.powers().items()}

    def powers(self) -> dict[str, str]:
        """Return the power of each domain, by uuid: running, shutdown, crashed or paused."""
        import libvirt

        words = {
            libvirt.VIR_DOMAIN_RUNNING: "running",
            libvirt.VIR_DOMAIN_SHUTOFF: "shutdown",
            libvirt.VIR_DOMAIN_CRASHED: "crashed",
        }
        connection, powers = libvirt.open(self.uri), dict[str, str]()
        try:
            for found in connection.listAllDomains():
                with suppress(libvirt.libvirtError):  # it may be gone since it was listed
                    powers[found.UUIDString()] = words.get(found.state()[0], "paused")
        finally:
            connection.close()
        return powers

    def xml(self, server: str) -> str:
        """Return the definition of a server's domain, as it runs."""
        import libvirt

        text: str = libvirt.open(self.uri).lookupByUUIDString(server).XMLDesc()
        return text

    def define_foreign(self, server: str) -> None:
        """Define a domain that is not Covey's, with a name like one of Covey's."""
        import libvirt

        libvirt.open(self.uri).defineXML(_FOREIGN.format(uuid=server))

    def mark_as_moving(self, server: str, address: str) -> None:
        """Leave a guest as the beginning of a live migration does."""
        import libvirt

        from covey.agent.libvirt import metadata

        domain = libvirt.open(self.uri).lookupByUUIDString(server)
        known = metadata.read(domain)
        assert known is not None
        metadata.write(domain, replace(known, moving=address))

    def remove(self, server: str) -> None:
        """Remove a domain and its files, whatever it does."""
        import libvirt

        connection = libvirt.open(self.uri)
        with suppress(libvirt.libvirtError):
            domain = connection.lookupByUUIDString(server)
            with suppress(libvirt.libvirtError):
                domain.destroy()
            domain.undefine()
        connection.close()
        for root in (self.directory / "local", self.directory.parent / "shared"):
            shutil.rmtree(root / "instances" / server, ignore_errors=True)

    def type(self, server: str, text: str) -> None:
        """Type on the serial console of a guest."""
        import libvirt

        connection = libvirt.open(self.uri)
        stream = connection.newStream()
        connection.lookupByUUIDString(server).openConsole(None, stream)
        stream.send(text.encode())
        time.sleep(1.5)  # QEMU looks once a second whether a terminal is connected
        stream.abort()
        connection.close()

    def pid_of(self, words: str) -> int:
        """Return the pid, seen from outside, of the process of the host with these words in its command line."""
        return next(pid for pid in self._processes() if words.encode() in _command_line(pid))

    def pids_of(self, words: str) -> list[int]:
        return [pid for pid in self._processes() if words.encode() in _command_line(pid)]

    def kill_guest(self, server: str) -> None:
        """Kill the QEMU of a server."""
        os.kill(self.pid_of(f"guest=covey-{server},"), signal.SIGKILL)

    def kill_libvirtd(self) -> None:
        """Kill libvirtd, and return when it is gone; guests run on."""
        for pid in self.pids_of(_LIBVIRTD):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            wait_for(partial(_has_ended, pid))

    def signal_libvirtd(self, number: int) -> None:
        """Send libvirtd a signal, SIGSTOP for example."""
        os.kill(self.pid_of(_LIBVIRTD), number)

    def leave_half_started(self, server: str) -> None:
        """Leave a guest in the state of a libvirtd that was killed just before it started QEMU."""
        self.kill_libvirtd()
        self.kill_guest(server)
        status = self.directory / f"run/libvirt/qemu/covey-{server}.xml"
        began = "<domstatus state='paused' reason='starting up' pid='0'>"
        status.write_text(re.sub(r"<domstatus [^>]*>", began, status.read_text()))

    def start_libvirtd(self) -> None:
        """Start it as systemd does with Covey's drop-in: again, if it fails or ends."""
        before = re.search(r"^ExecStartPre=-(.+)$", _DROP_IN.read_text(), re.MULTILINE)
        assert before is not None
        for _ in range(_ATTEMPTS):
            self.run(*shlex.split(before[1]))
            wait_for(self._started_libvirtd, every=0.5)
            if self._comes_up():
                return
            self.kill_libvirtd()
            time.sleep(_RESTART_S)
        self.wait_until_up(0)

    def _comes_up(self) -> bool:
        """Return False if libvirtd has ended, or does not answer in time.

        It ends if something still has a lock of one of its drivers, which it takes after it has reported its start.
        """
        with suppress(TimeoutError):
            wait_for(lambda: self.answers() or not self.pids_of(_LIBVIRTD), _ANSWERS_WITHIN_S)
        return self.answers()

    def _started_libvirtd(self) -> bool:
        """Return False if it cannot start: a child of the killed one may still have its sockets."""
        try:
            self.run(_LIBVIRTD, "--listen", "--daemon", "--pid-file", "/run/libvirt/libvirtd.pid")
        except RuntimeError:
            return False
        return True

    def disconnect(self) -> None:
        """Take the host off the network; it continues to run."""
        self.run("ip", "link", "set", "eth0", "down")

    def reconnect(self) -> None:
        self.run("ip", "link", "set", "eth0", "up")

    def _share_cache(self) -> None:
        """Share the cache of QEMU's capabilities between all hosts: to probe them takes seconds."""
        shared = self.directory.parent / "capabilities"
        shared.mkdir(exist_ok=True)
        cache = self.directory / "var/cache/libvirt"
        if not cache.is_symlink():
            cache.symlink_to(shared)

    def _plug_in(self) -> None:
        number = int(self.address.rsplit(".", 1)[1])
        port, mac = f"p{number}", f"02:00:00:00:00:{number:02x}"  # a reboot keeps it, so neighbours need not ask
        with suppress(RuntimeError):  # the sockets of a host that was cut off keep its old one for minutes
            _in_network(self.network, "ip", "link", "delete", port)
        _in_network(
            self.network,
            *("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0"),
            *("address", mac, "netns", str(self.init)),
        )
        _in_network(self.network, "ip", "link", "set", port, "master", "br0", "up")

    def answers(self, seconds: float = 10.0) -> bool:
        """Whether its libvirt answers in time; libvirt itself would wait for a stopped one for ever."""
        answered = threading.Event()
        asking = threading.Thread(target=self._ask, args=(answered,), daemon=True)
        asking.start()
        asking.join(seconds)
        return answered.is_set()

    def _ask(self, answered: threading.Event) -> None:
        import libvirt

        with suppress(libvirt.libvirtError):
            libvirt.open(self.uri).close()
            answered.set()

    def _state(self) -> str:
        """Return its processes, and the end of what its console and its libvirtd have logged."""
        processes = "\n".join(f"{pid} {_command_line(pid).decode(errors='replace')}" for pid in self._processes())
        logs = (self.directory / "console.log", self.directory / "var/log/libvirt/libvirtd.log")
        tails = (f"{log.name}:\n{log.read_text(errors='replace')[-4000:]}" for log in logs if log.exists())
        return "\n".join((f"processes:\n{processes}", *tails))

    def _processes(self) -> list[int]:
        try:
            space = str(Path(f"/proc/{self.init}/ns/pid").readlink())
        except FileNotFoundError:  # it is off
            return []
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and str((entry / "ns/pid").readlink()) == space:
                    found.append(int(entry.name))
        return sorted(found)


class Lab:
    """Hosts on a network of their own, with one directory that all share."""

    def __init__(self, directory: Path, hosts: int = 3) -> None:
        self.directory = directory
        self.shared = directory / "shared"
        self.local = directory / "local"
        self.shared.mkdir(parents=True)
        self.local.mkdir()
        self._holder, self.network = _unshare("--net", "sleep", "infinity")
        self.address = "10.199.0.254"
        for words in (
            "link set lo up",
            "link add br0 address 02:00:00:00:00:fe type bridge",  # a fixed one, or it changes with the ports
            f"addr add {self.address}/24 dev br0",
            "link set br0 up",
        ):
            _in_network(self.network, "ip", *words.split())
        self.hosts = [
            Host(f"hv{n}", directory / f"hv{n}", f"10.199.0.{n}", self.network, self.local) for n in range(1, hosts + 1)
        ]

    def power_cycle_unresponsive(self, seconds: float = 10.0) -> None:
        """Power-cycle each host whose libvirt does not answer in time: an earlier test may have left it so."""
        for host in self.hosts:
            if not host.answers(seconds):
                host.power_off()
                host.power_on()

    def __enter__(self) -> Self:
        for host in self.hosts:
            host.start()
        for host in self.hosts:
            host.wait_until_up()
        return self

    def __exit__(self, *_: object) -> None:
        for host in self.hosts:
            host.power_off()
        os.kill(self.network, signal.SIGKILL)
        self._holder.wait()

    def inside(self, *command: str) -> tuple[str, ...]:
        """Return the command that runs this one in the network of the hosts, but on the machine."""
        return ("nsenter", "-t", str(self.network), "-n", *command)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


def _unshare(*arguments: str, log: Path | None = None) -> tuple[subprocess.Popen[bytes], int]:
    """Start a command in namespaces, and return also the pid of its first process, seen from outside."""
    output: Any = log.open("ab") if log else subprocess.DEVNULL
    process = subprocess.Popen(
        ["unshare", "--kill-child", "--fork", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        preexec_fn=_die_with_parent,  # noqa: PLW1509 -- it takes no lock
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return process, int(wait_for(lambda: children.read_text().split())[0])


def _has_ended(pid: int) -> bool:
    """Return whether a process has released all that it had; it may still wait to be reaped.

    Its first thread may have ended while another one still has the sockets and the locks of all.
    """
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state in {"Z", "X"} and len(list(Path(f"/proc/{pid}/task").iterdir())) == 1
    except OSError:
        return True


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return b""


def _in_network(pid: int, *command: str) -> str:
    return _run("nsenter", "-t", str(pid), "-n", *command)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
