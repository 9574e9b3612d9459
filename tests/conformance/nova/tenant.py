"""A tenant and an operator of the laboratory: what the stories do, through the SDK."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from openstack.connection import Connection
from requests import Response

from tests.conformance.nova.cloud import START_S, Lab, eventually

_BUSY = {"BUILD", "RESIZE", "MIGRATING", "REBUILD", "SHELVED"}
_VERSION = "2.90"
_COVEY_VERSION = "compute 2.1000"
Json = dict[str, Any]


@dataclass
class Tenant:
    """Requests to Nova, and to Covey for what Nova does not have."""

    lab: Lab
    cloud: Connection = field(init=False)
    image: str = field(init=False)
    flavors: dict[str, str] = field(default_factory=dict)
    domains: dict[str, dict[str, str]] = field(default_factory=dict)  # by scope, then by compute

    def __post_init__(self) -> None:
        self.connect()
        self.image = self.image_id("linux")
        self.create_flavor("small")
        self.create_flavor("medium", vcpus=2)

    def connect(self) -> None:
        """Read the catalogue again."""
        self.cloud = self.lab.connect()

    def image_id(self, name: str) -> str:
        return str(self.cloud.image.find_image(name, ignore_missing=False).id)

    def create_flavor(self, name: str, extra_specs: Mapping[str, str] | None = None, vcpus: int = 1) -> None:
        """Create a flavor, unless there is one of the name."""
        if name in self.flavors:
            return
        made = self.cloud.compute.create_flavor(name=name, vcpus=vcpus, ram=64 * vcpus, disk=1)
        if extra_specs:
            self.cloud.compute.create_flavor_extra_specs(made, dict(extra_specs))
        self.flavors[name] = made.id

    # The topology: aggregates in Nova, scopes in Covey

    def add_scope(self, name: str, domains: dict[str, str]) -> None:
        """Create a scope in Covey, and aggregates in Nova that are its domains: the domain of each compute."""
        self.covey("POST", "/os-policy-scopes", {"policy_scope": {"name": name}})
        for domain in sorted(set(domains.values())):
            hosts = [host for host in domains if domains[host] == domain]
            self.create_aggregate(domain, hosts, metadata={"policy_scope": name})
        self.domains[name] = domains

    def create_aggregate(
        self, name: str, hosts: Sequence[str], zone: str | None = None, metadata: Mapping[str, str] | None = None
    ) -> Any:
        """Create an aggregate in Nova, and return it."""
        compute = self.cloud.compute
        aggregate = compute.create_aggregate(name=name, **({"availability_zone": zone} if zone else {}))
        for host in hosts:
            compute.add_host_to_aggregate(aggregate, host)
        return compute.set_aggregate_metadata(aggregate, dict(metadata)) if metadata else aggregate

    @contextmanager
    def aggregate(
        self, name: str, hosts: Sequence[str], zone: str | None = None, metadata: Mapping[str, str] | None = None
    ) -> Iterator[Any]:
        """Yield an aggregate of Nova that is gone after the block."""
        made = self.create_aggregate(name, hosts, zone, metadata)
        try:
            yield made
        finally:
            for host in hosts:
                self.cloud.compute.remove_host_from_aggregate(made, host)
            self.cloud.compute.delete_aggregate(made)

    def covey(self, method: str, path: str, body: object = None) -> Json:
        """Send a request to Covey's Compute API, at the microversion of its own."""
        answer = self.cloud.session.request(
            f"{self.lab.covey_url}/compute/v2.1{path}",
            method,
            json=body,
            headers={"OpenStack-API-Version": _COVEY_VERSION},
        )
        found: Json = answer.json()
        return found

    # Placement, whichever it is

    def placement(self, path: str) -> Json:
        """Return what is at a path of Placement."""
        answer = self.cloud.placement.get(path, microversion="1.36")
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    def providers(self, query: str = "") -> dict[str, str]:
        """Return the uuids of resource providers, by name."""
        return {one["name"]: one["uuid"] for one in self.placement(f"/resource_providers{query}")["resource_providers"]}

    def allocations(self, consumer: str) -> dict[str, Json]:
        """Return what a consumer holds, by the name of the provider."""
        names = {uuid: name for name, uuid in self.providers().items()}
        held = self.placement(f"/allocations/{consumer}")["allocations"]
        return {names[uuid]: one["resources"] for uuid, one in held.items()}

    @contextmanager
    def trait(self, trait: str, host: str) -> Iterator[None]:
        """Let a host have a trait until the block ends."""
        self.cloud.placement.put(f"/traits/{trait}", microversion="1.36")
        path = f"/resource_providers/{self.providers()[host]}/traits"
        self._change_traits(path, {trait}, set())
        try:
            yield
        finally:
            self._change_traits(path, set(), {trait})

    def _change_traits(self, path: str, added: set[str], removed: set[str]) -> None:
        body = self.placement(path)
        body["traits"] = sorted({*body["traits"], *added} - removed)
        answer = self.cloud.placement.put(path, json=body, microversion="1.36")
        assert answer.status_code == 200, answer.text

    # Groups and servers, in Nova

    def create_group(self, policy: str, *policies: str, rules: dict[str, int] | None = None, **of_nova: int) -> str:
        """Create a group in Nova; policies of Covey replace Nova's under the same uuid."""
        body: Json = {"name": "group", "policy": policy} | ({"rules": of_nova} if of_nova else {})
        made = self.cloud.compute.post("/os-server-groups", json={"server_group": body}, microversion="2.64")
        assert made.status_code == 200, made.text
        group = made.json()["server_group"]
        if policies:
            told = {key: group[key] for key in ("name", "policy", "members", "project_id", "user_id")}
            asked = self.cloud.placement.post(
                "/host_rankings", json={"group": told | {"uuid": group["id"], "rules": of_nova}, "hosts": []}
            )
            assert asked.status_code == 200, asked.text
            self.set_policies(group["id"], *policies, **(rules or {}))
        return str(group["id"])

    def set_policies(self, group: str, *policies: str, **rules: int) -> None:
        """Set the policies of a group, in Covey."""
        self.covey("PUT", f"/os-server-groups/{group}", {"server_group": {"policies": list(policies), "rules": rules}})

    def post_server(
        self,
        group: str | None = None,
        count: int = 1,
        flavor: str = "small",
        cloud: Connection | None = None,
        **fields: str,
    ) -> Response:
        """Send a request to create servers; `cloud` may be the connection of another user."""
        body: Json = {
            "server": {
                "name": f"s-{time.monotonic_ns()}",
                "imageRef": self.image,
                "flavorRef": self.flavors[flavor],
                "networks": "none",
                "min_count": count,
                "return_reservation_id": count > 1,
                **fields,
            }
        }
        if group is not None:
            body["os:scheduler_hints"] = {"group": group}
        answer: Response = (cloud or self.cloud).compute.post("/servers", json=body, microversion=_VERSION)
        return answer

    def request(self, group: str | None = None, count: int = 1, **more: Any) -> list[str]:
        """Create servers in one request, and return their ids."""
        answer = self.post_server(group, count, **more)
        assert answer.status_code == 202, answer.text
        if count == 1:
            return [str(answer.json()["server"]["id"])]
        reservation = answer.json()["reservation_id"]
        found = self.cloud.compute.get(f"/servers?reservation_id={reservation}", microversion=_VERSION).json()
        return [str(server["id"]) for server in found["servers"]]

    def boot(self, group: str | None = None, number: int = 1, **more: Any) -> list[str]:
        """Create servers by parallel requests and wait for them; some may be in ERROR."""
        made = self.request_in_parallel(group, number, **more)
        self.wait(made)
        return made

    def request_in_parallel(self, group: str | None = None, number: int = 1, **more: Any) -> list[str]:
        """Create servers by parallel requests."""
        with ThreadPoolExecutor(number) as pool:
            requests = [pool.submit(self.request, group, **more) for _ in range(number)]
            return [server for each in requests for server in each.result()]

    def start(self, group: str | None = None, number: int = 1, **more: Any) -> list[str]:
        """Create servers, all of which become ACTIVE."""
        made = self.boot(group, number, **more)
        shown = self.shown(made)
        assert {one["status"] for one in shown} == {"ACTIVE"}, [
            one.get("fault", {}).get("message") for one in shown if one["status"] != "ACTIVE"
        ]
        return made

    def all(self) -> dict[str, Json]:
        """Return all servers of all projects, by id. One request costs less than one for each server."""
        answer = self.cloud.compute.get("/servers/detail?all_tenants=1", microversion=_VERSION)
        assert answer.status_code == 200, answer.text
        return {server["id"]: server for server in answer.json()["servers"]}

    def shown(self, servers: Sequence[str]) -> list[Json]:
        found = self.all()
        return [found[server] for server in servers]

    def show(self, server: str) -> Json:
        return self.shown([server])[0]

    def wait(self, servers: Sequence[str], *wanted: str, within_s: float = START_S) -> None:
        """Wait until servers have one of the states; without any, until Nova is done with them."""

        def are_done() -> bool:
            found = self.all()
            return all(_is_done(found.get(server), wanted) for server in servers)

        eventually(are_done, f"{', '.join(servers)} are {' or '.join(wanted) or 'done'}", within_s=within_s)

    def act(self, server: str, action: str, body: object = None, *wanted: str) -> None:
        """Run an action and wait for its end."""
        answer = self.cloud.compute.post(f"/servers/{server}/action", json={action: body}, microversion=_VERSION)
        assert answer.status_code in {200, 202, 204}, answer.text
        self.wait([server], *wanted)

    def migrations(self, server: str) -> list[Json]:
        """Return the migrations of a server, the newest first, also those that have ended."""
        answer = self.cloud.compute.get(f"/os-migrations?instance_uuid={server}", microversion=_VERSION)
        assert answer.status_code == 200, answer.text
        return sorted(answer.json()["migrations"], key=lambda one: one["id"], reverse=True)

    def active(self, servers: Sequence[str]) -> list[str]:
        return [one["id"] for one in self.shown(servers) if one["status"] == "ACTIVE"]

    def host(self, server: str) -> str:
        return self.hosts([server])[0]

    def hosts(self, servers: Sequence[str]) -> list[str]:
        return [str(one["OS-EXT-SRV-ATTR:host"]) for one in self.shown(servers)]

    def spread(self, servers: Sequence[str], scope: str | None = None) -> Counter[str]:
        """Count servers by host, or by the domain of a scope."""
        hosts = self.hosts(servers)
        return Counter(hosts if scope is None else [self.domains[scope][host] for host in hosts])

    def delete(self, servers: Sequence[str], *, wait: bool = True) -> None:
        """Delete servers, and wait until they are gone."""
        for server in servers:
            self.cloud.compute.delete(f"/servers/{server}")
        if wait:
            eventually(lambda: not self.all().keys() & set(servers), "servers are deleted")


def _is_done(server: Json | None, wanted: Sequence[str]) -> bool:
    if server is None:
        return False
    if wanted:
        return server["status"] in wanted
    return server["status"] not in _BUSY and not server["OS-EXT-STS:task_state"]
