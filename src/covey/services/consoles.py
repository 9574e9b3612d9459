"""What servers write to their consoles."""

from dataclasses import dataclass

import structlog

from covey.model.access import Actor
from covey.model.errors import Conflict, DriverFault, Unavailable
from covey.ports import Driver
from covey.services.servers import Servers
from covey.storage.store import Store

log = structlog.get_logger()

_RULE = "os_compute_api:os-console-output"


@dataclass(frozen=True, slots=True)
class Consoles:
    """Reads consoles, through the driver."""

    store: Store
    servers: Servers
    driver: Driver

    def output(self, actor: Actor, server: str, lines: int | None) -> str:
        """Return the last lines of a server's console; None means all that is kept.

        Raises NotFound, Forbidden, Conflict for a server without a host, and Unavailable if the host does not answer.
        """
        with self.store.read_once() as tx:
            found = self.servers.get_authorized(tx, actor, server, _RULE)
        if found.host_name is None:
            raise Conflict(f"Instance {found.id} is not ready")
        try:
            return self.driver.console_log(found, found.host_name, lines)
        except DriverFault as fault:  # it names the host, which the owner may not see
            log.warning("console.unavailable", server=found.id, host=found.host_name, reason=fault.message)
            raise Unavailable("The server's host does not answer. Try again in a moment.") from None
