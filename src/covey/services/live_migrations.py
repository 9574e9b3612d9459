"""Live migrations in progress: their progress, and how to end them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from covey.model.access import Actor
from covey.model.actions import ActionEvent, Migration, MoveKind
from covey.model.errors import Invalid, NotFound
from covey.ports import Clock
from covey.services.servers import Servers, reject_locked
from covey.storage.store import Store, Transaction

_RULE = "os_compute_api:servers:migrations:"
_ACTION = "live_migration_cancel"


class ProgressingMigration(NamedTuple):
    """A live migration that has not ended, and what its host reports."""

    move: Migration
    progress: Mapping[str, int] | None

    @property
    def status(self) -> str:
        """Its status in Nova's words."""
        return "running" if self.progress is not None else self.move.status


@dataclass(frozen=True, slots=True)
class LiveMigrations:
    """The live migrations of servers, for operators."""

    store: Store
    clock: Clock
    servers: Servers

    def of_server(self, actor: Actor, server: str) -> list[ProgressingMigration]:
        """Return the live migrations of a server that have not ended. Raises NotFound, Forbidden."""
        with self.store.read() as tx:
            self.servers.get_authorized(tx, actor, server, f"{_RULE}index")
            return _in_progress(tx, server)

    def get(self, actor: Actor, server: str, migration: str) -> ProgressingMigration:
        """Return one of them, by its id or uuid. Raises NotFound, also for one that has ended."""
        with self.store.read() as tx:
            self.servers.get_authorized(tx, actor, server, f"{_RULE}show")
            found = [each for each in _in_progress(tx, server) if _is(each.move, migration)]
        if not found:
            raise NotFound(f"In-progress live migration {migration} is not found for server {server}.")
        return found[0]

    def abort(self, actor: Actor, server: str, migration: str, request_id: str) -> None:
        """Ask for the end of a live migration; the server stays on its host. One that is complete stays so.

        Raises NotFound, Forbidden, Conflict for a locked server, and Invalid for a migration that has ended.
        """
        now = self.clock()
        with self.store.write() as tx:
            found = self.servers.get_authorized(tx, actor, server, f"{_RULE}delete", lock=True)
            reject_locked(found, actor, self.servers.access)
            moves = [move for move in tx.migrations.find(server=found.id) if _is(move, migration)]
            if not moves or moves[0].kind is not MoveKind.LIVE_MIGRATION:
                raise NotFound(f"Migration {migration} could not be found.")
            move = moves[0]
            if move.status != "preparing":
                raise Invalid(
                    f"Migration {migration} state of instance {found.id} is {move.status}. Cannot abort live migration "
                    "while the migration is in this state."
                )
            tx.migrations.request_abort(move.uuid)
            tx.actions.add(found, _ACTION, request_id, actor, now)
            tx.actions.finish(found.id, _ACTION, ActionEvent("compute_live_migration_abort", now, now, "Success"))
            tx.work.wake_subject(found.id)


def _in_progress(tx: Transaction, server: str) -> list[ProgressingMigration]:
    moves = [
        move
        for move in tx.migrations.find(server=server, statuses=("preparing",))
        if move.kind is MoveKind.LIVE_MIGRATION
    ]
    return [ProgressingMigration(move, tx.agent_calls.progress(move.server_id)) for move in moves]


def _is(move: Migration, key: str) -> bool:
    return key in {str(move.id), move.uuid}
