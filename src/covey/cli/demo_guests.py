"""The groups of `covey demo --libvirt`: servers that are real guests, each a boot sector that greets on its console."""

import base64
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import requests
import yaml

from covey.model.errors import CoveyError, Unavailable

IMAGE, FLAVOR = "demo-guest", "nano"
_VERSION = "compute 2.90"
_TIMEOUT_S = 10.0
_UP_WITHIN_S = 120.0
_POLL_S = 0.5
# It sets up the serial line (9600 8N1), writes "A guest of the Covey demo has booted." to it, and halts for ever:
# xor %ax,%ax; mov %ax,%ds; mov %ax,%ss; mov $0x7c00,%sp; mov $0xe3,%ax; xor %dx,%dx; int $0x14; mov $text,%si;
# lodsb, wait for bit 5 of port 0x3fd, outb to 0x3f8 until the byte is 0; sti; hlt; jmp to hlt.
_SECTOR = base64.b64decode(
    "+jHAjtiO0LwAfPy44wAx0s0Uvi58rITAdBBQuv0D7KggdPtYuvgD7uvr+/Tr/EEgZ3Vlc3Qgb2YgdGhlIENvdmV5IGRlbW8gaGFzIGJvb3RlZC4NCgA="
)


class Group(NamedTuple):
    """A group of the demo, whose servers have its name."""

    name: str
    policy: str
    size: int


GROUPS = (Group("db", "affinity", 2), Group("web", "soft-anti-affinity", 3))


def disk() -> bytes:
    """Return the data of the image: a raw disk."""
    return (_SECTOR.ljust(510, b"\0") + b"\x55\xaa").ljust(1 << 20, b"\0")


@dataclass(slots=True)
class Client:
    """The demo's service, as one of its users."""

    url: str
    user: str
    password: str
    _session: requests.Session = field(default_factory=requests.Session)

    def ask(self, method: str, path: str, body: object = None, data: bytes | None = None) -> Any:  # noqa: ANN401 -- JSON
        """Return the document of the answer. Raises Unavailable."""
        headers = {"OpenStack-API-Version": _VERSION}
        if data is not None:
            headers["Content-Type"] = "application/octet-stream"
        try:
            answer = self._session.request(
                method,
                self.url + path,
                json=body,
                data=data,
                headers=headers,
                auth=(self.user, self.password),
                timeout=_TIMEOUT_S,
            )
        except requests.RequestException as error:
            raise Unavailable(f"{self.url} does not answer: {error}") from error
        if not answer.ok:
            raise Unavailable(f"{method} {path} returned {answer.status_code}: {answer.text}")
        return answer.json() if answer.content else None


def start(admin: Client, tenant: Client) -> None:
    """Start the groups that do not exist yet, once the agent is up. Raises Unavailable."""
    _wait_for(lambda: _is_up(admin), "the agent")
    image = _image(admin)
    flavors = tenant.ask("GET", "/compute/v2.1/flavors")["flavors"]
    flavor = next(each["id"] for each in flavors if each["name"] == FLAVOR)
    known = {group["name"] for group in tenant.ask("GET", "/compute/v2.1/os-server-groups")["server_groups"]}
    for group in GROUPS:
        if group.name not in known:
            _boot(tenant, group, image, flavor)


def _boot(tenant: Client, group: Group, image: str, flavor: str) -> None:
    wanted = {"server_group": {"name": group.name, "policy": group.policy}}
    made = tenant.ask("POST", "/compute/v2.1/os-server-groups", wanted)["server_group"]
    server = {"name": group.name, "imageRef": image, "flavorRef": flavor, "networks": "none"}
    numbers = {"min_count": group.size, "max_count": group.size}
    hints = {"os:scheduler_hints": {"group": made["id"]}}
    tenant.ask("POST", "/compute/v2.1/servers", {"server": server | numbers, **hints})


def _image(admin: Client) -> str:
    """Return the id of the image, which has its data."""
    for found in admin.ask("GET", f"/image/v2/images?name={IMAGE}")["images"]:
        if found["status"] == "active":
            return str(found["id"])
    wanted = {"name": IMAGE, "disk_format": "raw", "container_format": "bare", "visibility": "public"}
    image = str(admin.ask("POST", "/image/v2/images", wanted)["id"])
    admin.ask("PUT", f"/image/v2/images/{image}/file", data=disk())
    return image


def _is_up(admin: Client) -> bool:
    try:
        services = admin.ask("GET", "/compute/v2.1/os-services?binary=nova-compute")["services"]
    except Unavailable:  # the service starts
        return False
    return any(each["state"] == "up" for each in services)


def _wait_for(ready: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _UP_WITHIN_S
    while not ready():
        if time.monotonic() > deadline:
            raise Unavailable(f"{what} is not up after {_UP_WITHIN_S:g} seconds.")
        time.sleep(_POLL_S)


def main() -> None:
    """Start the groups of the demo. Arguments: its URL, and its clouds.yaml."""
    url, clouds = sys.argv[1], yaml.safe_load(Path(sys.argv[2]).read_text())["clouds"]
    try:
        start(*(Client(url, user, clouds[user]["auth"]["password"]) for user in ("admin", "demo")))
    except CoveyError as error:
        sys.exit(f"The demo's groups are not started: {error.message}")
