"""What was done to servers, and where they moved."""

from dataclasses import dataclass

from covey.model.access import Actor
from covey.model.actions import Action, Migration
from covey.model.errors import NotFound
from covey.ports import Access, Store
from covey.services.servers import Servers

_RULE = "os_compute_api:os-instance-actions:"


@dataclass(frozen=True, slots=True)
class Histories:
    """Looking back."""

    store: Store
    access: Access
    servers: Servers

    def of_server(self, actor: Actor, server: str, rule: str = "list") -> list[Action]:
        """Newest first. Raises NotFound."""
        with self.store.read() as tx:
            found = self.servers.own(tx, actor, server, _RULE + rule)
            return tx.actions.of_server(found.id)

    def one(self, actor: Actor, server: str, request_id: str) -> Action:
        """Raises NotFound for either."""
        for action in self.of_server(actor, server, "show"):
            if action.request_id == request_id:
                return action
        message = f"Action for request_id {request_id} on instance {server} not found"
        raise NotFound(message)

    def migrations(self, actor: Actor, server: str | None, status: str | None) -> list[Migration]:
        self.access.require(actor, "os_compute_api:os-migrations:index")
        with self.store.read() as tx:
            return tx.migrations.find(server=server, statuses=None if status is None else (status,))
