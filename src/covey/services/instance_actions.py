"""Instance actions and migrations of servers."""

from dataclasses import dataclass

from covey.model.access import Actor
from covey.model.actions import Action, LogPage, Migration, MigrationFilter
from covey.model.errors import Invalid, NotFound
from covey.model.ids import ServerId
from covey.ports import Access
from covey.services.servers import Servers
from covey.storage.store import Store, Transaction

_RULE = "os_compute_api:os-instance-actions:"


@dataclass(frozen=True, slots=True)
class InstanceActionLog:
    """Lists instance actions and migrations."""

    store: Store
    access: Access
    servers: Servers

    def of_server(
        self,
        actor: Actor,
        server: str,
        page: LogPage = LogPage(),  # noqa: B008 -- frozen
        rule: str = "list",
        *,
        deleted: bool = False,
    ) -> list[Action]:
        """Return the actions of a server, newest first; with `deleted`, also of a deleted one.

        Raises NotFound, and Invalid for a contradictory time range.
        """
        _reject_contradiction(page)
        with self.store.read() as tx:
            found = self._authorized(tx, actor, server, _RULE + rule, deleted=deleted)
            after = None if page.marker is None else _require_known(tx.actions.id_of_request(found, page.marker), page)
            return tx.actions.of_server(found, page, after)

    def _authorized(self, tx: Transaction, actor: Actor, server: str, rule: str, *, deleted: bool) -> ServerId:
        """Return the id of a server whose actions the actor may see. Raises NotFound, Forbidden."""
        owner = tx.servers.owner_of_deleted(server) if deleted else None
        if owner is None or not self.access.allows(actor, "os_compute_api:servers:show", owner):
            return self.servers.get_authorized(tx, actor, server, rule).id
        self.access.require(actor, rule, owner)
        return ServerId(server)

    def get_action(self, actor: Actor, server: str, request_id: str, *, deleted: bool = False) -> Action:
        """Return one action of a server. Raises NotFound for an unknown server or action."""
        for action in self.of_server(actor, server, rule="show", deleted=deleted):
            if action.request_id == request_id:
                return action
        raise NotFound(f"Action for request_id {request_id} on instance {server} not found")

    def migrations(self, actor: Actor, filters: MigrationFilter) -> list[Migration]:
        """Return migrations, newest first. Raises Invalid for a contradictory time range."""
        self.access.require(actor, "os_compute_api:os-migrations:index")
        page = filters.page
        _reject_contradiction(page)
        with self.store.read() as tx:
            after = (
                None
                if page.marker is None
                else _require_known(tx.migrations.id_of(page.marker, filters.project_id), page)
            )
            return tx.migrations.page(filters, after)


def _require_known(entry_id: int | None, page: LogPage) -> int:
    if entry_id is None:
        raise Invalid(f"Marker {page.marker} could not be found.")
    return entry_id


def _reject_contradiction(page: LogPage) -> None:
    if page.changed_since and page.changed_before and page.changed_since > page.changed_before:
        raise Invalid("The value of changes-since must be less than or equal to changes-before.")
