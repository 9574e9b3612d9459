"""/servers/{id}/action, os-instance-actions and os-migrations."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

import falcon

from covey.api.compute import microversions as mv
from covey.api.compute import schemas, server_schemas
from covey.api.compute.identifiers import no_such_action, page_size, single_action
from covey.api.requests import Json, Request, read_json, read_query
from covey.api.times import microseconds, moment
from covey.api.validation import is_true
from covey.api.versions import Version
from covey.model.access import Target
from covey.model.actions import Action, ActionEvent, LogPage, Migration, MigrationFilter, MoveKind
from covey.model.errors import Invalid, NotFound
from covey.model.flavors import Flavor
from covey.ports import Access
from covey.services.consoles import Consoles
from covey.services.flavors import Flavors
from covey.services.instance_actions import InstanceActionLog
from covey.services.moves import MoveRequest, Moves
from covey.services.power import Power
from covey.services.servers import Servers
from covey.services.shelving import Shelving

_EVACUATE_STOPPED = Version(2, 95)
_MIGRATE = "os_compute_api:os-migrate-server:"


@dataclass(frozen=True, slots=True)
class ServerActions:
    """Carries out the one action that a request names."""

    moves: Moves
    shelving: Shelving
    power: Power
    flavors: Flavors
    servers: Servers
    consoles: Consoles

    def on_post(self, req: Request, resp: falcon.Response, key: str) -> None:
        body = read_json(req)
        name = single_action(body)
        if name not in server_schemas.ACTIONS:
            raise no_such_action(name)
        server_schemas.ACTIONS[name].at(req.version).check(body)
        resp.status = falcon.HTTP_202
        self._act(req, resp, key, name, body[name])

    def _act(self, req: Request, resp: falcon.Response, key: str, name: str, inner: Json | None) -> None:
        actor, request_id = req.actor, req.context.request_id
        match name:
            case "os-start" | "os-stop":
                self.power.switch(actor, key, name.removeprefix("os-"), request_id)
            case "reboot":
                assert inner is not None
                self.power.reboot(actor, key, request_id, hard=inner["type"].lower() == "hard")
            case "lock":
                parameters = inner if inner and req.version >= mv.LOCKED_REASON else {}
                self.power.lock(actor, key, parameters.get("locked_reason"))
            case "unlock":
                self.power.unlock(actor, key)
            case "os-resetState":
                assert inner is not None
                self.power.reset(actor, key, inner["state"])
            case "os-getConsoleOutput":
                length = (inner or {}).get("length")
                lines = None if length is None or int(length) < 0 else int(length)
                resp.status, resp.media = falcon.HTTP_200, {"output": self.consoles.output(actor, key, lines)}
            case "restore":
                self.power.restore(actor, key)
            case "injectNetworkInfo":
                self.power.inject_network_info(actor, key)
            case "resetNetwork":
                raise falcon.HTTPGone(description="The action resetNetwork was removed from the API.")
            case _:
                self._leave_or_stay(req, resp, key, name, inner)

    def _leave_or_stay(self, req: Request, resp: falcon.Response, key: str, name: str, inner: Json | None) -> None:
        actor, request_id = req.actor, req.context.request_id
        match name:
            case "forceDelete":
                self.servers.delete(actor, key, request_id, "os_compute_api:os-deferred-delete:force")
            case "confirmResize":
                self.moves.confirm(actor, key, request_id)
                resp.status = falcon.HTTP_204
            case "revertResize":
                self.moves.revert(actor, key, request_id)
            case "shelve":
                self.shelving.shelve(actor, key, request_id)
            case "shelveOffload":
                self.shelving.offload(actor, key)
            case _:
                self._move(req, resp, key, name, inner)

    def _move(self, req: Request, resp: falcon.Response, key: str, name: str, inner: Json | None) -> None:
        match name:
            case "unshelve":  # older versions ignore the body
                self._unshelve(req, key, inner if inner and req.version >= mv.UNSHELVE_ZONE else {})
            case "migrate":
                self._migrate(req, key, inner if inner and req.version >= mv.COLD_MIGRATE_HOST else {})
            case "os-migrateLive":
                assert inner is not None
                destination = _destination(req, inner, mv.LIVE_FORCE)
                request = MoveRequest(MoveKind.LIVE_MIGRATION, req.context.request_id, *destination)
                self.moves.begin(req.actor, key, request, f"{_MIGRATE}migrate_live")
            case "evacuate":
                assert inner is not None
                self._evacuate(req, resp, key, inner)
            case _:
                assert inner is not None
                self._resize(req, key, str(inner["flavorRef"]), inner.get("OS-DCF:diskConfig"))

    def _unshelve(self, req: Request, key: str, inner: Json) -> None:
        zone, host = inner.get("availability_zone"), inner.get("host")
        unpin = zone is None and "availability_zone" in inner
        self.shelving.unshelve(req.actor, key, req.context.request_id, zone, host, unpin=unpin)

    def _migrate(self, req: Request, key: str, inner: Json) -> None:
        request = MoveRequest(MoveKind.MIGRATION, req.context.request_id, inner.get("host"))
        self.moves.begin(req.actor, key, request, f"{_MIGRATE}migrate")

    def _evacuate(self, req: Request, resp: falcon.Response, key: str, inner: Json) -> None:
        stopped = req.version >= _EVACUATE_STOPPED
        destination = _destination(req, inner, mv.EVACUATE_FORCE)
        request = MoveRequest(MoveKind.EVACUATION, req.context.request_id, *destination, stopped=stopped)
        self.moves.begin(req.actor, key, request, "os_compute_api:os-evacuate")
        resp.status = falcon.HTTP_200
        resp.media = {"adminPass": inner.get("adminPass", "")} if req.version < mv.EVACUATE_NO_SHARED else {}

    def _resize(self, req: Request, key: str, flavor_id: str, disk_config: str | None) -> None:
        try:
            flavor = self.flavors.get(req.actor, flavor_id)
        except NotFound as error:
            raise Invalid(error.message) from error
        request = MoveRequest(MoveKind.RESIZE, req.context.request_id, flavor=flavor, disk_config=disk_config)
        self.moves.begin(req.actor, key, request, "os_compute_api:servers:resize")


def _destination(req: Request, inner: Json, force_since: Version) -> tuple[str | None, bool]:
    """Return the requested host, and whether it is forced without a check of policies.

    Before the version that introduced `force`, every named host is forced.
    """
    host = inner.get("host") or None
    return host, host is not None and (req.version < force_since or is_true(inner.get("force", False)))


@dataclass(frozen=True, slots=True)
class InstanceActions:
    """The instance actions of a server."""

    log: InstanceActionLog
    access: Access
    max_limit: int

    def on_get(self, req: Request, resp: falcon.Response, key: str) -> None:
        query = read_query(req, server_schemas.ACTION_LIST)
        page = _log_page(query, req, mv.ACTIONS_PAGED, self.max_limit)
        actions = self.log.of_server(req.actor, key, page, deleted=req.version >= mv.DELETED_ACTIONS)
        shown = actions[: _size(page)]
        resp.media = {"instanceActions": [self._short(action, req) for action in shown]}
        if shown and len(actions) > len(shown):
            resp.media["links"] = _next(req, query, shown[-1].request_id)

    def on_get_one(self, req: Request, resp: falcon.Response, key: str, request_id: str) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        action = self.log.get_action(req.actor, key, request_id, deleted=req.version >= mv.DELETED_ACTIONS)
        target = Target(project_id=action.project_id)
        operator = self.access.allows(req.actor, "os_compute_api:os-instance-actions:events", target)
        events = [self._event(event, req, operator=operator) for event in action.events]
        resp.media = {"instanceAction": {**self._short(action, req), "events": events}}

    def _short(self, action: Action, req: Request) -> Json:
        doc: Json = {
            "action": action.action,
            "instance_uuid": action.server_id,
            "request_id": action.request_id,
            "project_id": action.project_id,
            "user_id": action.user_id,
            "start_time": microseconds(action.started_at),
            "message": action.message,
        }
        if req.version >= mv.ACTIONS_PAGED:
            doc["updated_at"] = microseconds(action.updated_at)
        return doc

    def _event(self, event: ActionEvent, req: Request, *, operator: bool) -> Json:
        doc: Json = {
            "event": event.event,
            "start_time": microseconds(event.started_at),
            "finish_time": microseconds(event.finished_at),
            "result": event.result,
        }
        if operator:
            doc["traceback"] = event.traceback
        if req.version >= mv.EVENT_DETAILS:
            doc["details"] = event.details
        return doc


@dataclass(frozen=True, slots=True)
class Migrations:
    """Migrations, for operators."""

    log: InstanceActionLog
    max_limit: int

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        query = read_query(req, server_schemas.MIGRATIONS)
        owned = req.version >= mv.MIGRATION_OWNERS
        filters = MigrationFilter(
            server_id=query.get("instance_uuid"),
            status=query.get("status"),
            kind=query.get("migration_type"),
            host=query.get("host"),
            source=query.get("source_compute"),
            user_id=query.get("user_id") if owned else None,
            project_id=query.get("project_id") if owned else None,
            page=_log_page(query, req, mv.MIGRATIONS_PAGED, self.max_limit),
        )
        found = self.log.migrations(req.actor, filters)
        page = found[: _size(filters.page)]
        resp.media = {"migrations": [_migration(move, req) for move in page]}
        if page and len(found) > len(page):
            resp.media["migrations_links"] = _next(req, query, page[-1].uuid)


def _flavor_number(flavor: Flavor, version: Version) -> str | int | None:
    """Return a flavor's id. Nova's versions have a number here: null for an id that is not a number."""
    if version >= mv.COVEY:
        return flavor.id
    return int(flavor.id) if flavor.id.isascii() and flavor.id.isdecimal() else None


def _log_page(query: Mapping[str, str], req: Request, since: Version, most: int) -> LogPage:
    """Return the page of a list plus one entry; all entries before the microversion that introduces pages."""
    if req.version < since:
        return LogPage()
    return LogPage(
        marker=query.get("marker"),
        limit=page_size(query, most) + 1,
        changed_since=moment(query, "changes-since"),
        changed_before=moment(query, "changes-before") if req.version >= mv.CHANGES_BEFORE else None,
    )


def _size(page: LogPage) -> int | None:
    return None if page.limit is None else page.limit - 1


def _next(req: Request, query: Mapping[str, str], marker: str) -> list[Json]:
    return [{"rel": "next", "href": req.link(f"{req.path}?{urlencode({**query, 'marker': marker})}")}]


def _migration(move: Migration, req: Request) -> Json:
    doc: Json = {
        "id": move.id,
        "instance_uuid": move.server_id,
        "status": move.status,
        "source_compute": move.source,
        "source_node": move.source,
        "dest_compute": move.destination,
        "dest_node": move.destination,
        "dest_host": None,
        "old_instance_type_id": _flavor_number(move.old_flavor, req.version),
        "new_instance_type_id": _flavor_number(move.new_flavor, req.version),
        "created_at": microseconds(move.created_at),
        "updated_at": microseconds(move.updated_at),
    }
    if req.version >= mv.MIGRATION_TYPES:
        doc["migration_type"] = move.kind
    if req.version >= mv.MIGRATIONS_PAGED:
        doc["uuid"] = move.uuid
    if req.version >= mv.MIGRATION_OWNERS:
        doc |= {"project_id": move.project_id, "user_id": move.user_id}
    return doc
