"""The time of `GET /allocation_candidates` in process, from the query string to the response body."""

from collections.abc import Callable, Iterator

import msgspec

from covey.api.placement.candidate_queries import read_query
from covey.api.placement.candidates import show
from covey.api.versions import Version
from covey.model.providers import InventoryRecord, ProviderRecord
from covey.scheduler.candidates import find
from covey.scheduler.fleet import Fleet
from tests.bench.decisions import timed
from tests.bench.table import Row, Target

LATEST = Version(1, 39)
PROVIDERS, AGGREGATES, COMMON_TRAITS = 10_000, 40, 30
AMOUNTS = "VCPU:2,MEMORY_MB:4096,DISK_GB:20"


def _uuid(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


QUERIES: dict[str, tuple[dict[str, list[str]], int]] = {
    "limit 50": ({"limit": ["50"]}, 5_000),
    "limit 1,000": ({"limit": ["1000"]}, 20_000),
    "limit 1,000, a trait, not in 5 aggregates": (
        {
            "limit": ["1000"],
            "required": ["CUSTOM_SSD"],
            "member_of": ["!in:" + ",".join(_uuid(number) for number in range(5))],
        },
        20_000,
    ),
}


def flat(count: int) -> Iterator[ProviderRecord]:
    """Yield hosts of a fleet in use: all different, every second with an SSD, one in 40 in each aggregate."""
    common = frozenset(f"HW_CPU_X86_{number}" for number in range(COMMON_TRAITS))
    for number in range(1, count + 1):
        has = {
            "VCPU": InventoryRecord(64, allocation_ratio=4.0, used=number * 7 % 200),
            "MEMORY_MB": InventoryRecord(262_144, reserved=512, used=number * 7919 % 200_000),
            "DISK_GB": InventoryRecord(2_000, used=number % 1_000),
        }
        traits = common | {"CUSTOM_SSD"} if number % 2 else common
        name, aggregate = f"node-{number}", _uuid(number % AGGREGATES)
        yield ProviderRecord(
            number, _uuid(2**20 + number), name, None, None, 0, has, frozenset(traits), frozenset({aggregate})
        )


def nested(count: int) -> Iterator[ProviderRecord]:
    """Yield the same hosts, with VCPUs and memory in two child providers."""
    for number, record in enumerate(flat(count // 3), start=1):
        disk = {"DISK_GB": record.inventories["DISK_GB"]}
        rest = {name: has for name, has in record.inventories.items() if name not in disk}
        root = number * 3
        yield ProviderRecord(root, _uuid(root), record.name, None, None, 0, disk, record.traits, record.aggregates)
        for node in (1, 2):
            yield ProviderRecord(root + node, _uuid(root + node), f"{record.name}-{node}", root, root, 0, rest)


def measure(repeats: int, log: Callable[[str], None], count: int = PROVIDERS) -> Iterator[Row]:
    """Yield a row for each query, for flat providers and for trees."""
    for kind, records in (("flat", flat), ("in trees", nested)):
        log(f"candidates: {count:,} providers, {kind}")
        providers = Fleet(records(count))
        for name, (query_fields, target_us) in QUERIES.items():
            given = {"resources": [AMOUNTS], **query_fields}
            limits = (Target("cpu_us", at_most=target_us),) if kind == "flat" and count == PROVIDERS else ()
            sizes: list[int] = []

            def call(_: int, given: dict[str, list[str]] = given, of: Fleet = providers) -> tuple[int, int]:
                query, limit = read_query(given, LATEST)
                result = find(query, of, limit)
                return len(result.candidates), len(msgspec.json.encode(show(result, query, LATEST)))

            timing = timed(call, repeats, sizes.extend)
            note = f"{sizes[0]:,} candidates, {sizes[1] // 1000:,} kB"
            yield timing.row(f"candidates, {count:,} providers {kind}, {name}", note, *limits)
