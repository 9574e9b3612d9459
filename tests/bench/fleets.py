"""The fleet of the benchmarks: partly used hosts in racks of 40 and switches of 400, generated from a seed."""

import random
from dataclasses import dataclass

from covey.clock_and_ids import new_uuid, now
from covey.fleet_file import parse
from covey.model.fleet_records import HostRecord
from covey.model.ids import HostId, ScopeId
from covey.model.inventory import ResourceClass
from covey.model.providers import InventoryRecord, ProviderRecord
from covey.model.resources import server_resources
from covey.scheduler.fleet import Fleet
from covey.services.fleets import Fleets
from covey.storage.store import Store
from tests.plain_fleets import PlainAggregate, PlainHost, plain_fleet

SEED = 20260101
VCPUS, VCPU_RATIO, MEMORY_MB, DISK_GB = 32, 4.0, 131072, 2000
HOSTS_PER_RACK, HOSTS_PER_SWITCH = 40, 400
MEMBERS = 20
CARD, CARD_TRAITS = "CUSTOM_CARD", ("CUSTOM_A", "CUSTOM_B")
AMOUNTS = server_resources(1, 2048, 20)  # of one server

Usage = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Hosts:
    """The usage of each host, and the hosts of the members of some groups."""

    used: list[Usage]
    groups: list[list[int]]  # rows


def hosts(number: int, groups: int = 64) -> Hosts:
    """Return the hosts; equal numbers give equal hosts."""
    rng = random.Random(f"{SEED}-{number}")  # noqa: S311 -- repeatable
    used = [
        (
            rng.randrange(VCPUS * 2),
            rng.randrange(MEMORY_MB // 2),
            rng.randrange(DISK_GB // 2),
        )
        for _ in range(number)
    ]
    return Hosts(used, [rng.sample(range(number), MEMBERS) for _ in range(groups)])


def fleet(generated: Hosts) -> Fleet:
    """Return the hosts as the columns of a decision."""
    capacity = (int(VCPUS * VCPU_RATIO), MEMORY_MB, DISK_GB)
    records = [PlainHost(HostId(row + 1), f"n{row}", capacity, used) for row, used in enumerate(generated.used)]
    racks = _domains(len(records), HOSTS_PER_RACK, "rack", 1)
    return plain_fleet(records, [*racks, *_domains(len(records), HOSTS_PER_SWITCH, "switch", 1 + len(racks))])


def tree_fleet(generated: Hosts) -> Fleet:
    """Return the hosts with two child providers each, which have cards and one of two traits."""
    capacity, number = (int(VCPUS * VCPU_RATIO), MEMORY_MB, DISK_GB), len(generated.used)
    hosts = [PlainHost(HostId(row + 1), f"n{row}", capacity, used) for row, used in enumerate(generated.used)]
    cards = (
        ProviderRecord(
            number + 2 * row + 1 + n,
            f"card-{row}-{n}",
            f"card-{row}-{n}",
            row + 1,
            row + 1,
            0,
            {CARD: InventoryRecord(2)},
            frozenset({trait}),
        )
        for row in range(number)
        for n, trait in enumerate(CARD_TRAITS)
    )
    return Fleet([*(host.provider() for host in hosts), *cards], [HostRecord(host.id, host.name) for host in hosts])


def _domains(number: int, size: int, scope: str, first_id: int) -> list[PlainAggregate]:
    return [
        PlainAggregate(
            first_id + i,
            f"{scope}-{i}",
            frozenset(HostId(row + 1) for row in range(start, min(start + size, number))),
            ScopeId(scope),
        )
        for i, start in enumerate(range(0, number, size))
    ]


def fleet_file(number: int) -> str:
    """Return a fleet file with the same racks and switches, empty hosts, a flavor and an image."""
    entries = "".join(
        f"""
  - name: n[{start}-{min(start + HOSTS_PER_RACK, number) - 1}]
    vcpus: {VCPUS}
    memory_mb: {MEMORY_MB}
    disk_gb: {DISK_GB}
    ratios: {{VCPU: {VCPU_RATIO}}}
    domains: {{rack: rack-{start // HOSTS_PER_RACK}, switch: switch-{start // HOSTS_PER_SWITCH}}}"""
        for start in range(0, number, HOSTS_PER_RACK)
    )
    vcpus, memory_mb, disk_gb = AMOUNTS.values()
    return f"""hosts:{entries}
scopes:
  - name: rack
  - name: switch
flavors:
  - {{name: bench, id: bench, vcpus: {vcpus}, memory_mb: {memory_mb}, disk_gb: {disk_gb}}}
images:
  - name: bench
"""


def add_to(store: Store, number: int) -> None:
    """Apply the fleet file to a database."""
    ratios = dict.fromkeys(ResourceClass, 1.0)
    Fleets(store, now, new_uuid, ratios).apply(parse(fleet_file(number), "fleet.yaml"), lambda _: None)
