"""The existing resources of the service under test, as the user of schemathesis sees them."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import requests

PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43
_IDLE_TIMEOUT_S = 5.0
_OLDEST_FIRST = "sort_key=created_at&sort_dir=asc"


@dataclass
class Resources:
    """Ids and names of existing resources. Constant ones are requested once, changing ones each time."""

    url: str
    auth: tuple[str, str] | None
    _down: str | None = None

    @cached_property
    def flavors(self) -> Mapping[str, str]:
        """Return the names by id; resources that schemathesis creates come last."""
        return {flavor["id"]: flavor["name"] for flavor in self._list(f"/flavors?{_OLDEST_FIRST}")}

    @cached_property
    def images(self) -> list[str]:
        """Return the ids, the image with the fewest properties first."""
        found = self._list("/images", self.url.replace("/compute/v2.1", "/image/v2"))
        return [image["id"] for image in sorted(found, key=len)]

    @cached_property
    def group(self) -> str:
        return self._create("/os-server-groups", {"server_group": {"name": "kept", "policies": ["affinity"]}})

    @cached_property
    def server(self) -> str:
        wanted = {"name": "kept", "flavorRef": next(iter(self.flavors)), "imageRef": self.images[0], "networks": "none"}
        return self._create("/servers", {"server": wanted, "os:scheduler_hints": {"group": self.group}})

    @cached_property
    def key_pair(self) -> str:
        self._ask("POST", "/os-keypairs", {"keypair": {"name": "kept", "public_key": PUBLIC_KEY}})
        return "kept"

    @cached_property
    def by_text_id(self) -> dict[str, str]:
        """Return one resource of each kind with text ids, for all requests but its deletion."""
        return {
            "/servers": self.server,
            "/os-server-groups": self.group,
            "/flavors": next(iter(self.flavors)),
            "/os-keypairs": self.key_pair,
            "/os-policy-scopes": self._create("/os-policy-scopes", {"policy_scope": {"name": "kept"}}),
        }

    @cached_property
    def by_number_or_uuid(self) -> dict[str, str]:
        """Return one resource of each other kind."""
        host = next(iter(self.hosts), "")
        aggregate = self._create("/os-aggregates", {"aggregate": {"name": "kept"}})
        return {"/os-aggregates": aggregate, "/os-hypervisors": host, "/os-services": host}

    @cached_property
    def kept(self) -> set[str]:
        """Return the resources that other requests need."""
        return {*self.flavors, *self.by_text_id.values(), *self.by_number_or_uuid.values()}

    @property
    def hosts(self) -> Mapping[str, str]:
        """Return the names by id; empty without access."""
        return {host["id"]: host["hypervisor_hostname"] for host in self._list("/os-hypervisors")}

    @property
    def zones(self) -> list[str]:
        return [zone["zoneName"] for zone in self._list("/os-availability-zone") if zone["zoneState"]["available"]]

    @property
    def scopes(self) -> list[str]:
        return [scope["name"] for scope in self._list("/os-policy-scopes")]

    @property
    def migrations(self) -> list[str]:
        return [move["uuid"] for move in self._list("/os-migrations")]

    def instance_action_ids(self, server: str) -> list[str]:
        """Return the request ids of a server's instance actions."""
        return [
            instance_action["request_id"] for instance_action in self._list(f"/servers/{server}/os-instance-actions")
        ]

    def flavor_and_host(self, server: str) -> tuple[str | None, str | None]:
        """Return a server's flavor and host once no task runs; neither if the server is gone."""
        deadline = time.monotonic() + _IDLE_TIMEOUT_S
        while True:
            found = self._ask("GET", f"/servers/{server}").json().get("server", {})
            if found.get("OS-EXT-STS:task_state") is None or time.monotonic() > deadline:
                return found.get("flavor", {}).get("original_name"), found.get("OS-EXT-SRV-ATTR:host")
            time.sleep(0.02)

    def empty(self, aggregate: str) -> None:
        """Remove all hosts from an aggregate."""
        found = self._ask("GET", f"/os-aggregates/{aggregate}").json().get("aggregate", {})
        for host in found.get("hosts", ()):
            self._ask("POST", f"/os-aggregates/{aggregate}/action", {"remove_host": {"host": host}})

    def force_down(self, name: str | None) -> None:
        """Force only this host down; no effect without access."""
        if name == self._down:
            return
        for host, called in self.hosts.items():
            if called in {name, self._down}:
                self._ask("PUT", f"/os-services/{host}", {"forced_down": called == name})
        self._down = name

    def _list(self, path: str, url: str | None = None) -> list[dict[str, Any]]:
        answer = self._ask("GET", path, url=url)
        found: list[dict[str, Any]] = next(iter(answer.json().values())) if answer.ok else []
        return found

    def _create(self, path: str, body: object) -> str:
        """Create a resource and return its id; None without access."""
        answer = self._ask("POST", path, body)
        return str(next(iter(answer.json().values()))["id"]) if answer.ok else ""

    def _ask(self, method: str, path: str, body: object = None, url: str | None = None) -> requests.Response:
        headers = {"OpenStack-API-Version": "compute 2.1000"}
        return requests.request(
            method, f"{url or self.url}{path}", json=body, auth=self.auth, headers=headers, timeout=30
        )
