"""Instance actions and migrations."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import func, insert, select, update

from covey.model.access import OPERATORS, Actor
from covey.model.actions import Action, ActionEvent, LogPage, Migration, MigrationFilter, MoveKind
from covey.model.flavors import Flavor
from covey.model.ids import ProjectId, ServerId, UserId
from covey.model.servers import Server
from covey.storage.rows import dump, execute, load
from covey.storage.tables import instance_actions, migrations

_FINISH_ALL = "UPDATE instance_actions SET events = ?, updated_at = ? WHERE server_id IN ? AND action = ?"


class Actions:
    """The action log of each server; kept for a while after the server is deleted."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, server: Server, action: str, request_id: str, actor: Actor, now: datetime) -> None:
        """Add an entry without events."""
        values = {
            "server_id": server.id,
            "action": action,
            "request_id": request_id,
            "user_id": actor.user_id,
            "project_id": actor.project_id or OPERATORS,
            "started_at": now,
            "updated_at": now,
            "events": "[]",
        }
        self._connection.execute(insert(instance_actions), values)

    def of_server(self, server: ServerId, page: LogPage = LogPage(), after: int | None = None) -> list[Action]:  # noqa: B008
        """Return a server's entries, newest first; with `after`, those older than that entry."""
        return self._load(instance_actions.c.server_id == server, page, after)

    def of_request(self, ids: Sequence[ServerId], request_id: str) -> list[Action]:
        """Return the entries of one request, for some servers."""
        condition = instance_actions.c.server_id.in_(ids) & (instance_actions.c.request_id == request_id)
        return self._load(condition) if ids else []

    def id_of_request(self, server: ServerId, request_id: str) -> int | None:
        """Return the id of a request's entry, or None."""
        condition = (instance_actions.c.server_id == server) & (instance_actions.c.request_id == request_id)
        found: int | None = self._connection.execute(select(func.min(instance_actions.c.id)).where(condition)).scalar()
        return found

    def finish(self, server: ServerId, action: str, event: ActionEvent) -> None:
        """Add an event to the newest entry of that action; a failed event marks the entry."""
        found = self._load((instance_actions.c.server_id == server) & (instance_actions.c.action == action))
        if not found:
            return
        newest = found[0]
        values = {
            "events": dump([*newest.events, event]),
            "updated_at": event.finished_at or event.started_at,
            "message": "Error" if event.result == "Error" else newest.message,
        }
        condition = instance_actions.c.id == newest.id
        self._connection.execute(update(instance_actions).where(condition).values(**values))

    def finish_all(self, ids: Sequence[ServerId], action: str, event: ActionEvent) -> None:
        """Set one event on the entries of many servers that have none yet."""
        if ids:
            execute(self._connection, _FINISH_ALL, dump([event]), event.finished_at, list(ids), action)

    def _load(
        self,
        condition: sa.ColumnElement[bool],
        page: LogPage = LogPage(),  # noqa: B008 -- frozen
        after: int | None = None,
    ) -> list[Action]:
        rows = self._connection.execute(_page(select(instance_actions).where(condition), instance_actions, page, after))
        return [
            Action(
                id=row.id,
                server_id=ServerId(row.server_id),
                action=row.action,
                request_id=row.request_id,
                user_id=UserId(row.user_id),
                project_id=ProjectId(row.project_id),
                started_at=row.started_at,
                updated_at=row.updated_at,
                message=row.message,
                events=tuple(load(row.events, list[ActionEvent])),
            )
            for row in rows
        ]


class Migrations:
    """All migrations; kept after their server is deleted."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, move: Migration) -> None:
        values = {
            "uuid": move.uuid,
            "server_id": move.server_id,
            "project_id": move.project_id,
            "user_id": move.user_id,
            "kind": move.kind,
            "status": move.status,
            "source": move.source,
            "destination": move.destination,
            "old_flavor": dump(move.old_flavor),
            "new_flavor": dump(move.new_flavor),
            "created_at": move.created_at,
            "updated_at": move.updated_at,
        }
        self._connection.execute(insert(migrations), values)

    def set_status(self, uuid: str, status: str, now: datetime) -> None:
        condition = migrations.c.uuid == uuid
        self._connection.execute(update(migrations).where(condition).values(status=status, updated_at=now))

    def set_destination(self, uuid: str, host: str, now: datetime) -> None:
        condition = migrations.c.uuid == uuid
        self._connection.execute(update(migrations).where(condition).values(destination=host, updated_at=now))

    def request_abort(self, uuid: str) -> None:
        """Store that a migration is to end; its job finds it."""
        self._connection.execute(update(migrations).where(migrations.c.uuid == uuid).values(abort=True))

    def find(self, *, server: str | None = None, statuses: Sequence[str] | None = None) -> list[Migration]:
        """Return migrations, newest first."""
        query = select(migrations).order_by(migrations.c.id.desc())
        if server is not None:
            query = query.where(migrations.c.server_id == server)
        if statuses is not None:
            query = query.where(migrations.c.status.in_(statuses))
        return [_migration(row) for row in self._connection.execute(query)]

    def page(self, filters: MigrationFilter, after: int | None = None) -> list[Migration]:
        """Return a page of the filtered migrations, newest first; with `after`, those older than that one."""
        tests = [
            column == value
            for column, value in (
                (migrations.c.server_id, filters.server_id),
                (migrations.c.status, filters.status),
                (migrations.c.kind, filters.kind),
                (migrations.c.source, filters.source),
                (migrations.c.user_id, filters.user_id),
                (migrations.c.project_id, filters.project_id),
            )
            if value is not None
        ]
        if filters.host is not None:
            tests.append((migrations.c.source == filters.host) | (migrations.c.destination == filters.host))
        rows = _page(select(migrations).where(sa.true(), *tests), migrations, filters.page, after)
        return [_migration(row) for row in self._connection.execute(rows)]

    def id_of(self, uuid: str, project: str | None) -> int | None:
        """Return the id of a migration of the project, or of any for None; None if there is no such migration."""
        query = select(migrations.c.id).where(migrations.c.uuid == uuid)
        if project is not None:
            query = query.where(migrations.c.project_id == project)
        found: int | None = self._connection.execute(query).scalar()
        return found


def _page(
    query: sa.Select[tuple[object, ...]], log: sa.Table, page: LogPage, after: int | None
) -> sa.Select[tuple[object, ...]]:
    """Restrict a query to a page, newest first."""
    if after is not None:
        query = query.where(log.c.id < after)
    if page.changed_since is not None:
        query = query.where(log.c.updated_at >= page.changed_since)
    if page.changed_before is not None:
        query = query.where(log.c.updated_at <= page.changed_before)
    return query.order_by(log.c.id.desc()).limit(page.limit)


def _migration(row: sa.Row[tuple[object, ...]]) -> Migration:
    return Migration(
        id=row.id,
        uuid=row.uuid,
        server_id=ServerId(row.server_id),
        project_id=ProjectId(row.project_id),
        user_id=UserId(row.user_id),
        kind=MoveKind(row.kind),
        status=row.status,
        source=row.source,
        destination=row.destination,
        old_flavor=load(row.old_flavor, Flavor),
        new_flavor=load(row.new_flavor, Flavor),
        created_at=row.created_at,
        updated_at=row.updated_at,
        abort=row.abort,
    )
