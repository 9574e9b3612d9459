"""The resources of /agent/v1. A host is addressed by its name, and only by the user that its agent is bound to."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import falcon

from covey.api.agent import schemas
from covey.api.authentication import Authenticator
from covey.api.downloads import Downloads
from covey.api.requests import Json, Request, query_lists, read_body, read_output
from covey.model.agents import AgentState, CallState, Registration, Report, TakenCall
from covey.model.errors import Unauthorized
from covey.model.servers import Power
from covey.services.agents import Agents
from covey.services.agents.registrations import ReportedInventory
from covey.services.agents.work import HostServer, PowerEvent

_DEFAULT_LIMIT = "16"
_CHECK_S = 2.0  # the wait after which an agent's user may have been revoked


class Versions:
    """GET /v1: the version."""

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        links = [{"rel": "self", "href": req.link("/v1/")}]
        resp.media = {"version": {"id": "v1.0", "status": "CURRENT", "links": links}}


@dataclass(frozen=True, slots=True)
class AgentHosts:
    """A host: its registration, heartbeats, servers, calls and events."""

    agents: Agents
    authenticate: Authenticator
    clock: Callable[[], float] = time.monotonic

    def on_put(self, req: Request, resp: falcon.Response, name: str) -> None:
        schemas.HOST.check(name)
        self.agents.require(req.actor)
        body = read_body(req, schemas.REGISTER)
        inventories = {
            kind: ReportedInventory(each["total"], each.get("reserved", 0), each.get("allocation_ratio"))
            for kind, each in body["inventories"].items()
        }
        new = Registration(
            body["hypervisor"],
            body["version"],
            body["address"],
            frozenset(body["traits"]),
            body.get("self_fencing_s"),
            body.get("machine_id"),
        )
        host = self.agents.registrations.register(req.actor, name, new, inventories)
        resp.media = {
            "host": {"name": host.name, "uuid": host.uuid, "state": AgentState.STARTING},
            "heartbeat_s": self.agents.heartbeat_s,
            "call_lease_s": self.agents.work.call_lease_s,
        }

    def on_put_heartbeat(self, req: Request, resp: falcon.Response, name: str) -> None:
        self.agents.require(req.actor)
        body = read_body(req, schemas.HEARTBEAT)
        state, machine = AgentState(body["state"]), body.get("machine_id")
        lease_s = self.agents.registrations.heartbeat(req.actor, name, state, machine)
        resp.media = {"heartbeat_s": self.agents.heartbeat_s, "lease_s": lease_s}

    def on_get_servers(self, req: Request, resp: falcon.Response, name: str) -> None:
        resp.media = {"servers": [_server(each) for each in self.agents.work.servers(req.actor, name)]}

    def on_post_orphans(self, req: Request, resp: falcon.Response, name: str) -> None:
        self.agents.require(req.actor)
        servers = read_body(req, schemas.ORPHANS)["servers"]
        locations = self.agents.work.locations(req.actor, name, servers)
        resp.media = {"servers": [{"id": server, "location": location} for server, location in locations.items()]}

    def on_get_calls(self, req: Request, resp: falcon.Response, name: str) -> None:
        query = schemas.CALLS.check(query_lists(req), schemas.ANY_VERSION)
        wait_s = min(float(query.get("wait", "0")), schemas.MAX_WAIT_S)
        began = self.clock()
        taken = self.agents.work.calls(req.actor, name, wait_s, int(query.get("limit", _DEFAULT_LIMIT)))
        if taken and self.clock() - began >= _CHECK_S:
            self._reject_revoked(req)
        resp.media = {"calls": [_call(each) for each in taken]}

    def _reject_revoked(self, req: Request) -> None:
        """Raise Unauthorized for a user who was revoked during the wait. The calls are due again after their lease."""
        if self.authenticate(req.env) != req.actor:
            raise Unauthorized("The user of the agent has changed. Send the request again.")

    def on_put_call(self, req: Request, resp: falcon.Response, name: str, call: int) -> None:
        self.agents.require(req.actor)
        body = read_output(req, schemas.REPORT)
        progress = {name: int(number) for name, number in (body.get("progress") or {}).items()}
        report = Report(
            body["epoch"], CallState(body["state"]), progress or None, body.get("result"), body.get("error")
        )
        resp.media = {"abort": self.agents.work.report(req.actor, name, call, report)}

    def on_post_events(self, req: Request, resp: falcon.Response, name: str) -> None:
        self.agents.require(req.actor)
        events = read_body(req, schemas.EVENTS)["events"]
        seen = [PowerEvent(event["server"], event.get("epoch", 0), Power(event["power"])) for event in events]
        resp.media = {"repeat": self.agents.work.record_events(req.actor, name, seen)}


@dataclass(frozen=True, slots=True)
class AgentImages:
    """GET: the data of an image that a server of the agent's hosts uses, as a stream."""

    agents: Agents
    downloads: Downloads

    def on_get(self, req: Request, resp: falcon.Response, key: str) -> None:
        self.downloads.send(req, resp, self.agents.work.image(req.actor, key))


def is_open(req: Request) -> bool:
    """Return whether a path needs no authentication: version discovery."""
    return req.path.rstrip("/") in {"", "/v1"}


def is_routine(req: Request) -> bool:
    """Return whether agents repeat this request at short intervals: heartbeats and polls."""
    return req.path.endswith(("/heartbeat", "/calls"))


def routes(agents: Agents, downloads: Downloads, authenticate: Authenticator) -> list[tuple[str, object, str | None]]:
    """Return the routes of the agent API."""
    hosts = AgentHosts(agents, authenticate)
    below = ("heartbeat", "servers", "orphans", "calls", "events")
    return [
        ("/", Versions(), None),
        ("/v1", Versions(), None),
        ("/v1/hosts/{name}", hosts, None),
        *((f"/v1/hosts/{{name}}/{part}", hosts, part) for part in below),
        ("/v1/hosts/{name}/calls/{call:int}", hosts, "call"),
        ("/v1/images/{key}/file", AgentImages(agents, downloads), None),
    ]


def _server(each: HostServer) -> Json:
    return {"guest": each.guest, "epoch": each.epoch, "task": each.task, "location": each.location}


def _call(taken: TakenCall) -> Json:
    return {
        "id": taken.id,
        "verb": taken.verb,
        "epoch": taken.epoch,
        "guest": taken.guest,
        "arguments": taken.arguments,
    }
