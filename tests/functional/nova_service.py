"""A Nova that speaks HTTP: compute services, instances and migrations, with the writes that Nova makes to Placement.

Its conductor and computes work when an instance is looked at, unless a test stops them. Real Nova is in
tests/conformance/nova.
"""

import json
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from covey import remote_api
from covey.services.nova_sync import NovaSync, SyncReport
from covey.services.nova_sync.nova import Nova as NovaReader
from tests.functional.nova_consumers import OWNER, Nova

ADDRESS = ("127.0.0.1", 0)
TOKEN = "nova-admin"
NO_VALID_HOST = "No valid host was found."
_TASKS = {"live-migration": "migrating", "migration": "resize_migrating"}


class Refused(Exception):
    """A request that Nova answers with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Instance:
    id: str
    host: str
    status: str = "ACTIVE"
    task: str | None = None
    locked: bool = False
    group: str | None = None

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.id,
            "tenant_id": "web",
            "user_id": "alice",
            "status": self.status,
            "locked": self.locked,
            "flavor": {"extra_specs": {}},
            "pinned_availability_zone": "",
            "OS-EXT-SRV-ATTR:host": self.host,
            "OS-EXT-STS:task_state": self.task,
        }


@dataclass
class Migration:
    number: int
    uuid: str
    instance: Instance
    destination: str
    kind: str
    created_at: str
    status: str = "accepted"
    source: str = ""
    state: str = "ACTIVE"  # of the instance, before and after
    error: str | None = None

    @property
    def ended(self) -> bool:
        return self.status in {"completed", "confirmed", "error", "failed", "cancelled"}

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.number,
            "uuid": self.uuid,
            "instance_uuid": self.instance.id,
            "status": self.status,
            "migration_type": self.kind,
            "source_compute": self.source,
            "dest_compute": self.destination,
            "created_at": self.created_at,
        }


@dataclass
class NovaService:
    """Nova's API on one side, and on the other its writes to Placement, which is the cloud of the test."""

    ledger: Nova
    instances: dict[str, Instance] = field(default_factory=dict)
    migrations: list[Migration] = field(default_factory=list)
    disabled: dict[str, str] = field(default_factory=dict)  # reasons, by host
    down: set[str] = field(default_factory=set)
    stubborn: set[str] = field(default_factory=set)  # hosts whose services are not disabled
    filtered: set[str] = field(default_factory=set)  # hosts that a filter of Nova's rules out
    picky: dict[str, set[str]] = field(default_factory=dict)  # hosts that it rules out for one instance
    working: bool = True  # whether migrations go on
    answering: bool = True
    unreadable: set[str] = field(default_factory=set)  # instances for which Nova fails
    out_of_reach: set[str] = field(default_factory=set)  # instances in a cell that is down
    versioned: bool = True  # whether the address has a version
    lost: set[str] = field(default_factory=set)  # methods whose requests are carried out, without an answer
    faulty: dict[str, int] = field(default_factory=dict)  # statuses of responses to actions on instances
    faults_after: bool = False  # whether such an action is carried out
    live: str = "possible"  # refused by the API; or the status as which a live migration ends
    confirmed_elsewhere: int | None = None  # status of a confirmation if the owner of an instance is faster
    groups: list[str] = field(default_factory=list)  # those without members
    page: int = 1000  # groups in a response
    deleted_between_pages: str | None = None  # a group
    is_admin: bool = True  # or else the token's project has no group
    faults: set[str] = field(default_factory=set)  # groups for which Nova answers 500
    requests: list[tuple[str, str, Any]] = field(default_factory=list)  # those that change something
    url: str = ""

    def boot(self, host: str, group: str | None = None, **state: Any) -> str:
        """Add an instance that holds its allocations."""
        key = str(uuid.uuid4()) if group is None else self.ledger.member(group, "soft-anti-affinity")
        self.ledger.place(key, host)
        self.instances[key] = Instance(key, host, group=group, **state)
        return key

    def resize_unseen(self, source: str, destination: str, group: str) -> tuple[str, str]:
        """Add a member that waits after a resize, of whose group Covey has not heard; return it and the migration."""
        key = str(uuid.uuid4())
        self.ledger.place(key, source)
        migration = self.ledger.leave(key)
        self.ledger.place(key, destination)
        instance = self.instances[key] = Instance(key, destination, "VERIFY_RESIZE", group=group)
        now = self.ledger.cloud.time().isoformat()
        number = len(self.migrations) + 1
        made = Migration(number, migration, instance, destination, "resize", now, "finished", source)
        self.migrations.append(made)
        return key, migration

    def sync(self) -> SyncReport:
        """Run `covey sync nova` once."""
        api = remote_api.connect("compute", url=f"{self.url}/v2.1", token=TOKEN)
        cloud = self.ledger.cloud
        return NovaSync(cloud.store, NovaReader(api), cloud.time).run()

    def hosts(self) -> dict[str, str]:
        return {key: instance.host for key, instance in self.instances.items()}

    # Requests

    def handle(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        if not self.answering:
            raise Refused(503, "The server is currently unavailable.")
        if method != "GET":
            self.requests.append((method, path, body))
        parts = [part for part in path.removeprefix("/v2.1").split("/") if part]
        found = self._route(method, parts, query, body)
        if method in self.lost:
            raise ConnectionAbortedError
        return found

    def _route(self, method: str, parts: list[str], query: dict[str, str], body: Any) -> Any:  # noqa: C901, PLR0911, PLR0912 -- a line a route
        match method, *parts:
            case ["GET"]:
                return {"version": {"version": "2.96"}} if self.versioned else {"versions": []}
            case "GET", "os-services":
                return {"services": [self._service(name) for name in self.ledger.computes]}
            case "PUT", "os-services", host:
                return self._set_service(host, body)
            case "GET", "os-hypervisors", "detail":
                return {"hypervisors": [self._hypervisor(*each) for each in self.ledger.computes.items()]}
            case "GET", "servers", "detail":
                return {"servers": [self._shown(instance) for instance in self.instances.values()]}
            case "GET", "os-aggregates":
                return {"aggregates": []}
            case "GET", "flavors", "detail":
                return {"flavors": []}
            case "GET", "os-server-groups":
                return {"server_groups": self._page_of_groups(int(query["offset"]))}
            case "GET", "os-server-groups", key:
                return {"server_group": self._group(key)}
            case "GET", "os-migrations":
                return {"migrations": [each.shown() for each in self._migrations(query)]}
            case "GET", "servers", key:
                return {"server": self._shown(self._instance(key))}
            case "GET", "servers", key, "os-instance-actions":
                return {"instanceActions": [{"request_id": "req-1"}] if self._latest(key) else []}
            case "GET", "servers", key, "os-instance-actions", _:
                return {"instanceAction": {"events": [{"result": "Error", "details": self._latest(key).error}]}}
            case "POST", "servers", key, "action":
                return self._act_or_fail(self._instance(key), *next(iter(body.items())))
            case "DELETE", "servers", key, "migrations", _:
                return self._abort(self._latest(key))
        raise Refused(404, "The resource could not be found.")

    def _migrations(self, query: dict[str, str]) -> list[Migration]:
        if "status" in query:
            return [each for each in self.migrations if each.status == query["status"]]
        return [each for each in self.migrations if each.instance.id == query["instance_uuid"]][-1:]

    def _groups(self) -> list[dict[str, Any]]:
        members: dict[str, list[str]] = defaultdict(list)
        for instance in self.instances.values():
            if instance.group is not None:
                members[instance.group].append(instance.id)
        of_nova = {"name": "g", "policy": "soft-anti-affinity", "rules": {}, **OWNER}
        return [
            {"id": group, "members": members[group], **of_nova} for group in dict.fromkeys([*self.groups, *members])
        ]

    def _page_of_groups(self, offset: int) -> list[dict[str, Any]]:
        found = self._groups()[offset : offset + self.page] if self.is_admin else []
        if self.deleted_between_pages in self.groups:
            self.groups.remove(self.deleted_between_pages)
        return found

    def _group(self, key: str) -> dict[str, Any]:
        if key in self.faults:
            raise Refused(500, "Unexpected API Error.")
        found = next((each for each in self._groups() if each["id"] == key), None)
        if found is None:
            raise Refused(404, f"Instance group {key} could not be found.")
        if not self.is_admin:
            raise Refused(403, "Policy doesn't allow os_compute_api:os-server-groups:show to be performed.")
        return found

    def _service(self, host: str) -> dict[str, Any]:
        status = "disabled" if host in self.disabled else "enabled"
        return {"id": host, "host": host, "zone": "nova", "status": status, "disabled_reason": self.disabled.get(host)}

    def _set_service(self, host: str, body: Any) -> Any:
        if host in self.stubborn and body["status"] == "disabled":
            raise Refused(500, "Unexpected API Error.")
        if body["status"] == "enabled":
            self.disabled.pop(host, None)
        else:
            self.disabled[host] = body["disabled_reason"]
        return {"service": self._service(host)}

    def _hypervisor(self, name: str, key: str) -> dict[str, Any]:
        service = self._service(name)
        return {
            "id": key,
            "hypervisor_hostname": name,
            "service": {"host": name, "disabled_reason": service["disabled_reason"]},
            "status": service["status"],
            "state": "down" if name in self.down else "up",
        }

    def _shown(self, instance: Instance) -> dict[str, Any]:
        if instance.id in self.out_of_reach:
            return {"id": instance.id, "tenant_id": "web", "status": "UNKNOWN"}
        return instance.shown()

    def _instance(self, key: str) -> Instance:
        """Return an instance, after its migration went on."""
        if key not in self.instances:
            raise Refused(404, f"Instance {key} could not be found.")
        if key in self.unreadable:
            raise Refused(500, "Unexpected API Error.")
        if self.working and key not in self.out_of_reach:
            for migration in self.migrations:
                if migration.instance.id == key and not migration.ended:
                    self._continue(migration)
        return self.instances[key]

    def _latest(self, key: str) -> Migration:
        return [each for each in self.migrations if each.instance.id == key][-1]

    def _act_or_fail(self, instance: Instance, action: str, body: Any) -> Any:
        if instance.id not in self.faulty:
            return self._act(instance, action, body)
        if self.faults_after:
            self._act(instance, action, body)
        raise Refused(self.faulty[instance.id], "Unexpected API Error.")

    def _act(self, instance: Instance, action: str, body: Any) -> Any:
        if instance.task is not None:
            raise Refused(409, f"Cannot '{action}' instance {instance.id} while it is in task_state {instance.task}")
        if action == "confirmResize":
            migration = self._latest(instance.id)
            self.ledger.delete(migration.uuid)
            migration.status, instance.status = "confirmed", migration.state
            if self.confirmed_elsewhere is not None:
                raise Refused(
                    self.confirmed_elsewhere,
                    f"Cannot 'confirmResize' instance {instance.id} while it is in vm_state stopped",
                )
            return None
        if action == "os-migrateLive" and self.live == "refused":
            raise Refused(400, f"Instance {instance.id} has a device that cannot be migrated live.")
        kind = {"os-migrateLive": "live-migration", "migrate": "migration"}[action]
        assert "force" not in body, "Nova's scheduler checks the host"
        now = self.ledger.cloud.time().isoformat()
        made = Migration(
            len(self.migrations) + 1, "", instance, body["host"], kind, now, source=instance.host, state=instance.status
        )
        self.migrations.append(made)
        instance.task = _TASKS[kind]
        return None

    # The conductor and the computes

    def _continue(self, migration: Migration) -> None:
        if migration.status == "accepted":
            self._claim(migration)
        elif migration.status == "running":
            self._arrive(migration)

    def _claim(self, migration: Migration) -> None:
        """Hand the allocations to the migration, and claim the destination, as Nova's conductor and scheduler do."""
        instance, destination = migration.instance, migration.destination
        migration.uuid = self.ledger.leave(instance.id)
        if migration.kind == "live-migration" and self.live in {"error", "failed"}:
            self._return(migration, self.live, "Migration pre-check error: no shared storage.")
            return
        ruled_out = destination in {*self.disabled, *self.filtered, *self.picky.get(instance.id, ())}
        if ruled_out or self.ledger.claim(instance.id, destination).status != 204:
            self._return(migration, "error", f"{NO_VALID_HOST} There are not enough hosts available.")
        else:
            migration.status = "running"

    def _arrive(self, migration: Migration) -> None:
        instance = migration.instance
        instance.host, instance.task = migration.destination, None
        if migration.kind == "live-migration":
            self.ledger.delete(migration.uuid)
            migration.status = "completed"
        else:
            migration.status, instance.status = "finished", "VERIFY_RESIZE"

    def _return(self, migration: Migration, status: str, error: str) -> None:
        """Give the instance its allocations on the source back."""
        instance = migration.instance
        held = self.ledger.placement.get(f"/allocations/{instance.id}").json
        generation = held.get("consumer_generation")
        moved = self.ledger.placement.get(f"/allocations/{migration.uuid}").json["consumer_generation"]
        answer = self.ledger.exchange(
            instance=(instance.id, [migration.source], generation), migration=(migration.uuid, (), moved)
        )
        assert answer.status == 204, answer.text
        migration.status, migration.error, instance.task = status, error, None

    def _abort(self, migration: Migration) -> None:
        if migration.kind != "live-migration" or migration.status != "running":
            raise Refused(400, f"Migration {migration.number} is in state {migration.status}; it must be running.")
        self._return(migration, "cancelled", "The migration was aborted.")


@contextmanager
def running_nova(ledger: Nova) -> Iterator[NovaService]:
    """Serve the API of a Nova on loopback."""
    service = NovaService(ledger)
    server = ThreadingHTTPServer(ADDRESS, _handler(service.handle))
    service.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(handle: Callable[..., Any]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            split = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(split.query).items()}
            try:
                status, found = 200, handle(self.command, split.path, query, body)
            except Refused as refused:
                status, found = refused.status, {"refused": {"code": refused.status, "message": str(refused)}}
            except ConnectionAbortedError:
                self.close_connection = True
                return
            content = b"" if found is None else json.dumps(found).encode()
            self.send_response(status if content or status != 200 else 202)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 -- names that the server calls

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    return Handler
