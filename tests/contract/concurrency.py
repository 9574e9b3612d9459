"""Concurrent callers in threads, and assertions about the resulting rows."""

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import sqlalchemy as sa

from covey.model.access import Actor, Target
from covey.model.errors import CoveyError
from covey.storage.tables import aggregate_hosts, aggregates, hosts

T = TypeVar("T")
TIMEOUT_S = 60

NO_TARGET = Target()


class OpenAccess:
    """Access rules that allow everything."""

    def allows(self, actor: Actor, rule: str, target: Target = NO_TARGET) -> bool:  # noqa: ARG002
        return True

    def require(self, actor: Actor, rule: str, target: Target = NO_TARGET) -> None:
        pass


def run_concurrently(tasks: Sequence[Callable[[], T]]) -> list[T | CoveyError]:
    """Start all tasks at the same time and return their results or model errors. Raises any other error."""
    start = threading.Barrier(len(tasks))

    def run(task: Callable[[], T]) -> T | CoveyError:
        start.wait(TIMEOUT_S)
        try:
            return task()
        except CoveyError as error:
            return error

    with ThreadPoolExecutor(len(tasks)) as pool:
        running = [pool.submit(run, task) for task in tasks]
        return [each.result(TIMEOUT_S) for each in running]


def successes(results: Sequence[T | CoveyError]) -> list[T]:
    return [result for result in results if not isinstance(result, CoveyError)]


def conflicts(results: Sequence[object]) -> list[CoveyError]:
    return [result for result in results if isinstance(result, CoveyError)]


def zones_by_host(connected: sa.Engine) -> dict[str, str | None]:
    """Return each host's zone; assert that all rows agree on it."""
    members = _members(connected)
    with connected.connect() as connection:
        stored = {row.id: row for row in connection.execute(sa.select(hosts.c.id, hosts.c.name, hosts.c.zone))}
    given: dict[int, set[str]] = defaultdict(set)
    for row in members:
        assert row.zone == row.zone_of_aggregate, "a membership repeats its aggregate's zone"
        given[row.host_id] |= {row.zone} - {None}
    for key, host in stored.items():
        assert given[key] == {host.zone} - {None}, f"the zone of {host.name} is what its aggregates give"
    return {host.name: host.zone for host in stored.values()}


def domains_by_host(connected: sa.Engine) -> dict[tuple[int, str], int]:
    """Return the domain of each host and scope; assert that it is unique."""
    found: dict[tuple[int, str], int] = {}
    for row in _members(connected):
        assert row.scope_id == row.scope_of_aggregate, "a membership repeats its aggregate's scope"
        if row.scope_id is not None:
            assert (row.host_id, row.scope_id) not in found, "a host is in one domain of a scope"
            found[row.host_id, row.scope_id] = row.aggregate_id
    return found


def _members(connected: sa.Engine) -> Sequence[sa.Row[tuple[object, ...]]]:
    rows = sa.select(
        aggregate_hosts,
        aggregates.c.zone.label("zone_of_aggregate"),
        aggregates.c.scope_id.label("scope_of_aggregate"),
    ).join_from(aggregate_hosts, aggregates, aggregate_hosts.c.aggregate_id == aggregates.c.id)
    with connected.connect() as connection:
        return connection.execute(rows).all()
