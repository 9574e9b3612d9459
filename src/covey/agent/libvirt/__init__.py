"""The hypervisor port on libvirt. Needs the extra `libvirt`; nothing else of Covey does."""

from covey.agent.hypervisor import Hypervisor
from covey.agent.libvirt.settings import LibvirtSettings
from covey.model.extras import requires


def connect(settings: LibvirtSettings) -> Hypervisor:
    """Return the hypervisor of this host. Raises MissingExtra."""
    with requires("libvirt", "The libvirt hypervisor"):
        from covey.agent.libvirt.driver import Libvirt  # noqa: PLC0415
    return Libvirt(settings)
