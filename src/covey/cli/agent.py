"""`covey agent`: run the servers of one host."""

import signal
import socket
import threading
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click
from oslo_config import cfg

from covey import config, logs
from covey.agent import libvirt
from covey.agent.guardian import Guardian, start_guardian
from covey.agent.hypervisor import Hypervisor
from covey.agent.image_cache import ImageCache
from covey.agent.libvirt.settings import LibvirtSettings
from covey.agent.lifecycle import Agent, AgentCrashed, AgentSettings, connect
from covey.agent.machine import machine_id
from covey.agent.self_fencing import SelfFencing
from covey.agent.service_api import ServiceApi
from covey.agent.simulated import Simulated, SimulatedSize
from covey.agent.simulated_world import World
from covey.agent.state_directory import AlreadyRunning, StateDirectory, StateNotWritable
from covey.agent.transport import KeystoneTransport, PlainTransport, Refused, Transport
from covey.api.authentication.noauth import is_loopback
from covey.cli.config_files import config_files_option
from covey.model.errors import Invalid
from covey.model.extras import requires

if TYPE_CHECKING:
    from keystoneauth1.session import Session

_AUTH_GROUP = "agent_auth"
_GIB = 1 << 30


@click.command()
@click.option("--host", help="Name of the host.  [default: the machine's host name]")
@click.option("--service", metavar="URL", help="URL of the service.  [default: http://127.0.0.1:8774]")
@click.option(
    "--hypervisor", type=click.Choice(["libvirt", "simulated"]), help="What runs the guests.  [default: libvirt]"
)
@click.option(
    "--state-dir", metavar="DIRECTORY", help="Lock and image cache of the agent.  [default: /var/lib/covey/agent]"
)
@click.option("--concurrency", type=click.IntRange(1, 64), help="Calls that run at once.  [default: 8]")
@click.option(
    "--self-fencing-s",
    type=click.FloatRange(1),
    metavar="SECONDS",
    help="Stop all guests after this time without contact.",
)
@click.option("--reserved-vcpus", type=click.IntRange(0), help="VCPUs that servers do not get.  [default: 0]")
@click.option("--reserved-memory-mb", type=click.IntRange(0), help="Memory that servers do not get.  [default: 512]")
@click.option("--reserved-disk-gb", type=click.IntRange(0), help="Disk that servers do not get.  [default: 0]")
@click.option("--cpu-allocation-ratio", type=click.FloatRange(0.01), help="VCPU overcommit ratio of this host.")
@click.option("--ram-allocation-ratio", type=click.FloatRange(0.01), help="Memory overcommit ratio of this host.")
@click.option("--disk-allocation-ratio", type=click.FloatRange(0.01), help="Disk overcommit ratio of this host.")
@config_files_option
def agent(config_files: tuple[str, ...], **flags: object) -> None:
    """Run the servers of one host until SIGTERM or Ctrl-C; guests run on.

    The agent registers its host with the service, makes the guests of the hypervisor agree with the servers that the
    service has here, and then carries out the service's calls: it starts, stops, migrates and removes guests. It needs
    no database. It may be killed at any time; the next one continues.

    Options are in [agent] of covey.conf. Credentials are those of a user with the role `service`: in [agent_auth] for
    Keystone, or username and password for auth_strategy=basic.

    \b
    Examples:
      covey agent --config-file /etc/covey/agent.conf --service https://cloud.example:8774
      OS_AGENT__AUTH_STRATEGY=none covey agent --hypervisor simulated --host node-1 --state-dir node-1
    """
    conf = config.load(config_files)
    for name, value in flags.items():
        if value is not None:
            conf.set_override(name, value, "agent")
    logs.configure(conf.log.level, conf.log.format)
    try:
        run(conf)
    except (AgentCrashed, AlreadyRunning, Refused, StateNotWritable) as error:
        raise Invalid(str(error)) from error


def run(conf: cfg.ConfigOpts) -> None:
    """Run an agent until a signal ends it. Raises AlreadyRunning, StateNotWritable, Refused, Invalid."""
    options = conf.agent
    host = options.host or socket.gethostname()
    transport = _transport(conf, host)
    state = StateDirectory(Path(options.state_dir).absolute())
    guardian = None  # forked before this process has a lock, a thread or a connection
    if options.self_fencing_s:
        guardian = start_guardian(state, options.self_fencing_s, lambda: _hypervisor(conf, host))
    try:
        state.lock()
    except AlreadyRunning:
        _dismiss(guardian)
        raise
    stopping = _stopping()
    hypervisor = connect(lambda: _hypervisor(conf, host), stopping)
    if hypervisor is None:
        return
    service = ServiceApi(transport, host)
    images = ImageCache(
        state.path / "images", service.image, hypervisor.images_in_use, int(options.image_cache_gb * _GIB)
    )
    fencing = SelfFencing(hypervisor, state, options.self_fencing_s)
    Agent(service, hypervisor, images, fencing, _settings(conf), stopping).run()
    if fencing.limit_s is None:
        _dismiss(guardian)


def _dismiss(guardian: Guardian | None) -> None:
    if guardian is not None:
        guardian.dismiss()


def _stopping() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    return stopping


def _settings(conf: cfg.ConfigOpts) -> AgentSettings:
    options = conf.agent
    ratios = {
        "VCPU": options.cpu_allocation_ratio,
        "MEMORY_MB": options.ram_allocation_ratio,
        "DISK_GB": options.disk_allocation_ratio,
    }
    return AgentSettings(
        version=version("covey"),
        reserved={
            "VCPU": options.reserved_vcpus,
            "MEMORY_MB": options.reserved_memory_mb,
            "DISK_GB": options.reserved_disk_gb,
        },
        allocation_ratios={kind: ratio for kind, ratio in ratios.items() if ratio is not None},
        concurrency=options.concurrency,
        resume_guests=options.resume_guests_state_on_host_boot,
        power_sync_s=options.power_sync_s,
        stop_timeout_s=options.stop_timeout_s,
        machine_id=machine_id(),
    )


def _transport(conf: cfg.ConfigOpts, host: str) -> Transport:
    """Return the connection to the service, with the agent's credentials. Raises Invalid."""
    options = conf.agent
    url, verify = options.service.rstrip("/"), False if options.insecure else options.cafile or True
    connections = options.concurrency + 4
    match options.auth_strategy:
        case "none":
            headers = {"X-Auth-Token": f"agent-{host}:service", "X-Roles": "service"}
            return PlainTransport(url, headers, verify=verify, connections=connections)
        case "basic":
            if not options.username or not options.password:
                raise Invalid("[agent] auth_strategy=basic needs username and password in [agent].")
            _require_secrecy(url, insecure=options.insecure)
            credentials = (options.username, options.password)
            return PlainTransport(url, credentials=credentials, verify=verify, connections=connections)
        case _:
            return KeystoneTransport(url, _keystone_session(conf, verify))


def _require_secrecy(url: str, *, insecure: bool) -> None:
    """Raises Invalid if the network could read the password."""
    parts = urlsplit(url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or "") and not insecure:
        raise Invalid(
            f"[agent] auth_strategy=basic would send the password to {url} in the clear. Use an https URL, or set "
            "[agent] insecure=true on a private network."
        )


def _keystone_session(conf: cfg.ConfigOpts, verify: bool | str) -> "Session":
    with requires("keystone", "[agent] auth_strategy=keystone"):
        from keystoneauth1 import loading, session  # noqa: PLC0415 -- optional, and slow to import
        from keystoneauth1.exceptions import AuthPluginException  # noqa: PLC0415
    loading.register_auth_conf_options(conf, _AUTH_GROUP)
    needs = "[agent] auth_strategy=keystone needs auth_type, auth_url and credentials in [agent_auth]."
    try:
        credentials = loading.load_auth_from_conf_options(conf, _AUTH_GROUP)
    except AuthPluginException as error:
        raise Invalid(f"{needs} {error}") from error
    if credentials is None:
        raise Invalid(needs)
    return session.Session(credentials, verify=verify)


def _libvirt_settings(options: cfg.ConfigOpts.GroupAttr) -> LibvirtSettings:
    return LibvirtSettings(
        uri=options.uri,
        peer_uri=options.peer_uri,
        address=options.address or socket.gethostname(),
        instances=Path(options.instances_dir).absolute(),
        shared_disks=options.shared_disks,
        bridge=options.bridge,
        virt_type=options.virt_type,
        cpu_model=options.cpu_model,
        machine_type=options.machine_type,
        tb_cache_mb=options.tb_cache_mb,
        config_drive=options.config_drive,
        migration_bandwidth_mib=options.migration_bandwidth_mib,
        stop_timeout_s=options.stop_timeout_s,
        connect_timeout_s=options.connect_timeout_s,
    )


def _hypervisor(conf: cfg.ConfigOpts, host: str) -> Hypervisor:
    if conf.agent.hypervisor == "libvirt":
        return libvirt.connect(_libvirt_settings(conf.libvirt))
    options = conf.simulated_hypervisor
    return Simulated(
        host,
        World(Path(options.state_file).absolute() if options.state_file else None),
        SimulatedSize(options.vcpus, options.memory_mb, options.disk_gb),
        shares_disks=options.shared_disks,
        latency_s=options.latency_s,
        failure_rate=options.failure_rate,
        seed=options.seed,
    )
