"""Instance actions and migrations of servers."""

from dataclasses import dataclass

from covey.model.access import Actor
from covey.model.actions import Action, Migration, MigrationFilter, Span
from covey.model.errors import Invalid, NotFound
from covey.ports import Access
from covey.services.servers import Servers
from covey.storage.store import Store

_RULE = "os_compute_api:os-instance-actions:"


@dataclass(frozen=True, slots=True)
class Histories:
    """Lists instance actions and migrations."""

    store: Store
    access: Access
    servers: Servers

    def of_server(self, actor: Actor, server: str, span: Span = Span(), rule: str = "list") -> list[Action]:  # noqa: B008
        """Return the actions of a server, newest first. Raises NotFound, and Invalid for a contradictory span."""
        _reject_contradiction(span)
        with self.store.read() as tx:
            found = self.servers.own(tx, actor, server, _RULE + rule)
            after = None if span.marker is None else _known(tx.actions.number(found.id, span.marker), span)
            return tx.actions.of_server(found.id, span, after)

    def one(self, actor: Actor, server: str, request_id: str) -> Action:
        """Return one action of a server. Raises NotFound for an unknown server or action."""
        for action in self.of_server(actor, server, rule="show"):
            if action.request_id == request_id:
                return action
        raise NotFound(f"Action for request_id {request_id} on instance {server} not found")

    def migrations(self, actor: Actor, wanted: MigrationFilter) -> list[Migration]:
        """Return migrations, newest first. Raises Invalid for a contradictory span."""
        self.access.require(actor, "os_compute_api:os-migrations:index")
        span = wanted.span
        _reject_contradiction(span)
        with self.store.read() as tx:
            after = None if span.marker is None else _known(tx.migrations.number(span.marker), span)
            return tx.migrations.page(wanted, after)


def _known(number: int | None, span: Span) -> int:
    if number is None:
        raise Invalid(f"Marker {span.marker} could not be found.")
    return number


def _reject_contradiction(span: Span) -> None:
    if span.changed_since and span.changed_before and span.changed_since > span.changed_before:
        raise Invalid("The value of changes-since must be less than or equal to changes-before.")
