"""What an operator configures of the libvirt hypervisor, as one value."""

from dataclasses import dataclass, field
from pathlib import Path
from socket import gethostname


@dataclass(frozen=True, slots=True)
class LibvirtSettings:
    """The options of `[libvirt]`; `covey.config` has their help texts."""

    uri: str = "qemu:///system"
    peer_uri: str = "qemu+tls://{address}/system"
    address: str = field(default_factory=gethostname)
    instances: Path = Path("/var/lib/covey/instances")
    shared_disks: bool = False
    bridge: str | None = None
    virt_type: str = "auto"
    cpu_model: str | None = None
    machine_type: str | None = None
    tb_cache_mb: int | None = None
    config_drive: str = "openstack"
    migration_bandwidth_mib: int = 0
    stop_timeout_s: float = 60.0
    connect_timeout_s: float = 5.0
    start_timeout_s: float = 60.0

    def uri_of(self, address: str) -> str:
        """Return the URI by which this host reaches the libvirt of another."""
        return self.peer_uri.format(address=address)
