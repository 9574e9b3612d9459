"""/servers/{id}/migrations: live migrations in progress."""

from dataclasses import dataclass

import falcon

from covey.api.compute import microversions as mv
from covey.api.compute import schemas
from covey.api.requests import Json, Request, read_query
from covey.api.times import microseconds
from covey.api.versions import only_from
from covey.services.live_migrations import LiveMigrations, ProgressingMigration


@dataclass(frozen=True, slots=True)
class ServerMigrations:
    """The live migrations of a server, with their progress. DELETE aborts one."""

    migrations: LiveMigrations

    @only_from(mv.MIGRATION_TYPES)
    def on_get(self, req: Request, resp: falcon.Response, key: str) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        found = self.migrations.of_server(req.actor, key)
        resp.media = {"migrations": [_show(each, req) for each in found]}

    @only_from(mv.MIGRATION_TYPES)
    def on_get_one(self, req: Request, resp: falcon.Response, key: str, migration: str) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        resp.media = {"migration": _show(self.migrations.get(req.actor, key, migration), req)}

    @only_from(mv.ABORT_LIVE_MIGRATION)
    def on_delete_one(self, req: Request, resp: falcon.Response, key: str, migration: str) -> None:
        self.migrations.abort(req.actor, key, migration, req.context.request_id)
        resp.status = falcon.HTTP_202


def _show(found: ProgressingMigration, req: Request) -> Json:
    move, progress = found.move, found.progress or {}
    amounts = {f"memory_{name}_bytes": progress.get(f"{name}_bytes") for name in ("total", "processed", "remaining")}
    doc: Json = {
        "id": move.id,
        "server_uuid": move.server_id,
        "status": found.status,
        "source_compute": move.source,
        "source_node": move.source,
        "dest_compute": move.destination,
        "dest_node": move.destination,
        "dest_host": None,
        **amounts,
        **{f"disk_{name}_bytes": 0 for name in ("total", "processed", "remaining")},
        "created_at": microseconds(move.created_at),
        "updated_at": microseconds(move.updated_at),
    }
    if req.version >= mv.MIGRATIONS_PAGED:
        doc["uuid"] = move.uuid
    if req.version >= mv.MIGRATION_OWNERS:
        doc |= {"project_id": move.project_id, "user_id": move.user_id}
    return doc
