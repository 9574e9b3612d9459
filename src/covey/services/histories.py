"""What was done to servers, and where they moved."""

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
    """Looking back."""

    store: Store
    access: Access
    servers: Servers

    def of_server(self, actor: Actor, server: str, span: Span = Span(), rule: str = "list") -> list[Action]:  # noqa: B008
        """Newest first. Raises NotFound, and Invalid for a part of it that makes no sense."""
        _refuse_nonsense(span)
        with self.store.read() as tx:
            found = self.servers.own(tx, actor, server, _RULE + rule)
            after = None if span.marker is None else _known(tx.actions.number(found.id, span.marker), span)
            return tx.actions.of_server(found.id, span, after)

    def one(self, actor: Actor, server: str, request_id: str) -> Action:
        """Raises NotFound for either."""
        for action in self.of_server(actor, server, rule="show"):
            if action.request_id == request_id:
                return action
        raise NotFound(f"Action for request_id {request_id} on instance {server} not found")

    def migrations(self, actor: Actor, wanted: MigrationFilter) -> list[Migration]:
        """Newest first. Raises Invalid for a part of them that makes no sense."""
        self.access.require(actor, "os_compute_api:os-migrations:index")
        span = wanted.span
        _refuse_nonsense(span)
        with self.store.read() as tx:
            after = None if span.marker is None else _known(tx.migrations.number(span.marker), span)
            return tx.migrations.page(wanted, after)


def _known(number: int | None, span: Span) -> int:
    if number is None:
        raise Invalid(f"Marker {span.marker} could not be found.")
    return number


def _refuse_nonsense(span: Span) -> None:
    if span.changed_since and span.changed_before and span.changed_since > span.changed_before:
        raise Invalid("The value of changes-since must be less than or equal to changes-before.")
