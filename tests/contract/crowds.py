"""Many callers at once, in real threads, and rules that hold whatever they did."""

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
PATIENCE_S = 60

NOBODY_IN_PARTICULAR = Target()


class OpenAccess:
    """Access rules that allow everything, for tests about something else."""

    def allows(self, actor: Actor, rule: str, target: Target = NOBODY_IN_PARTICULAR) -> bool:  # noqa: ARG002
        return True

    def require(self, actor: Actor, rule: str, target: Target = NOBODY_IN_PARTICULAR) -> None:
        pass


def at_once(tasks: Sequence[Callable[[], T]]) -> list[T | CoveyError]:
    """What each task came to, all started together; any error but a model error fails the test."""
    start = threading.Barrier(len(tasks))

    def run(task: Callable[[], T]) -> T | CoveyError:
        start.wait(PATIENCE_S)
        try:
            return task()
        except CoveyError as error:
            return error

    with ThreadPoolExecutor(len(tasks)) as pool:
        running = [pool.submit(run, task) for task in tasks]
        return [each.result(PATIENCE_S) for each in running]


def winners(results: Sequence[T | CoveyError]) -> list[T]:
    return [result for result in results if not isinstance(result, CoveyError)]


def losers(results: Sequence[object]) -> list[CoveyError]:
    return [result for result in results if isinstance(result, CoveyError)]


def zones_by_host(connected: sa.Engine) -> dict[str, str | None]:
    """Each host's zone, after a look at the rows: all say the same, and none says two."""
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
    """The one aggregate that is each host's domain in each scope."""
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
