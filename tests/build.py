"""Short builders with good defaults, so that a test states only what matters."""

import itertools
import uuid
from datetime import datetime
from typing import Any

from covey.model.access import Actor, with_implied_roles
from covey.model.flavors import Flavor
from covey.model.hosts import NewHost
from covey.model.ids import FlavorId, ImageId, ProjectId, UserId
from covey.model.images import Image
from covey.model.inventory import Inventory, ResourceClass

NOW = datetime(2026, 1, 31, 12, 0, 0)  # noqa: DTZ001 -- times here are in UTC and carry no zone
LATER = datetime(2026, 2, 1, 12, 0, 0)  # noqa: DTZ001

_numbers = itertools.count(1)


def an_actor(user: str = "alice", project: str = "web", *roles: str) -> Actor:
    return Actor(UserId(user), ProjectId(project), with_implied_roles(frozenset(roles or {"member"})))


def an_admin() -> Actor:
    return an_actor("root", "operators", "admin")


def a_host(
    name: str | None = None, vcpus: int = 8, memory_mb: int = 16384, disk_gb: int = 100, *traits: str
) -> NewHost:
    totals = {ResourceClass.VCPU: vcpus, ResourceClass.MEMORY_MB: memory_mb, ResourceClass.DISK_GB: disk_gb}
    has = {str(kind): Inventory(total) for kind, total in totals.items()}
    return NewHost(str(uuid.uuid4()), name or f"host-{next(_numbers)}", has, frozenset(traits))


def a_flavor(name: str | None = None, **fields: Any) -> Flavor:
    name = name or f"flavor-{next(_numbers)}"
    defaults: dict[str, Any] = {"id": FlavorId(f"id-of-{name}"), "vcpus": 1, "memory_mb": 512, "disk_gb": 1}
    return Flavor(name=name, **defaults | fields)


def an_image(name: str = "linux", **fields: Any) -> Image:
    defaults: dict[str, Any] = {
        "id": ImageId(str(uuid.uuid4())),
        "name": name,
        "owner": ProjectId("web"),
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Image(**defaults | fields)
