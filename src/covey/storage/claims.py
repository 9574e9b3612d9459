"""Claims: take room on hosts by an UPDATE that succeeds only while there is room, and write new servers."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from covey.clock_and_ids import new_version, now
from covey.model.changes import UsageChange
from covey.model.claims import NewServer, Plan
from covey.model.errors import StaleClaim
from covey.model.ids import GroupId, HostId, ProjectId
from covey.model.inventory import NO_UNIT_LIMITS, AllocationUnits
from covey.model.providers import MAX_CAPACITY
from covey.model.quotas import COUNTED, UNLIMITED
from covey.model.resources import quota_size, server_disk_gb
from covey.model.servers import POWER_STATES
from covey.model.work import FIRST_EPOCH, JobKind
from covey.ports import Clock
from covey.storage.changes import FleetChanges, find_token, hold, reject_other
from covey.storage.groups import LOCK_GROUPS
from covey.storage.idempotency import IdempotencyKeys
from covey.storage.quotas import add_up, find_held
from covey.storage.rows import Row, as_array, driver, dump, execute, insert_rows, pipeline
from covey.storage.tables import (
    allocations,
    consumers,
    instance_actions,
    instance_group_members,
    server_boot_data,
    server_tags,
    servers,
    work,
)

Amount = tuple[int, str, int]
"""A provider, one of its resource classes, and how much of it."""

_CAPACITY = f"CAST(FLOOR(LEAST((i.total - i.reserved) * i.allocation_ratio, {MAX_CAPACITY})) AS BIGINT)"

# All claims lock rows in one order, so two claims cannot deadlock.
_TAKE_POSTGRESQL = f"""
    WITH want AS (
        SELECT * FROM unnest((SELECT %s::int[]), (SELECT %s::text[]), (SELECT %s::bigint[]))
            AS w(provider_id, resource_class, n)
    ), held AS MATERIALIZED (
        SELECT i.provider_id, i.resource_class FROM inventories i JOIN want w USING (provider_id, resource_class)
        ORDER BY 1, 2 FOR UPDATE OF i
    )
    UPDATE inventories i SET used = i.used + w.n
    FROM want w JOIN held USING (provider_id, resource_class)
    WHERE i.provider_id = w.provider_id AND i.resource_class = w.resource_class
      AND (w.n < 0 OR i.used + w.n <= {_CAPACITY})
    RETURNING i.provider_id, i.resource_class, i.min_unit, i.max_unit, i.step_size
"""  # noqa: S608 -- nothing of a caller's is in it
_ADD_SPAWNS_POSTGRESQL = f"""
    INSERT INTO work (verb, server_id, arguments, epoch, due_at, leased_until)
    SELECT '{JobKind.SPAWN}', s.id, '{{}}', %s, t.due, CASE WHEN t.lease > 0 THEN t.due END
    FROM (SELECT COALESCE(%s::timestamp, timezone('utc', statement_timestamp())) + lease * interval '1 second' AS due,
                 lease FROM (SELECT %s::float8 AS lease) AS l) AS t, unnest(%s::text[]) AS s(id)
"""  # noqa: S608 -- nothing of a caller's is in it
_TAKE_SQLITE = """
    UPDATE inventories AS i SET used = i.used + w.n
    FROM (SELECT value ->> 0 AS provider_id, value ->> 1 AS resource_class, value ->> 2 AS n FROM json_each(?)) AS w
    WHERE i.provider_id = w.provider_id AND i.resource_class = w.resource_class
      AND (w.n < 0 OR i.used + w.n <= CAST((i.total - i.reserved) * i.allocation_ratio AS INTEGER))
    RETURNING provider_id, resource_class, min_unit, max_unit, step_size
"""
_LIMITS = """
    SELECT NULL, resource, hard_limit FROM quota_classes WHERE class_name = 'default'
    UNION ALL SELECT project_id, resource, hard_limit FROM quotas WHERE project_id IN ?
"""
_USAGES = "SELECT project_id, instances, cores, ram FROM quota_usages WHERE project_id IN ?"
_ADD_USAGE = """
    INSERT INTO quota_usages (project_id, instances, cores, ram) VALUES ({0}, {0}, {0}, {0})
    ON CONFLICT (project_id) DO UPDATE SET instances = quota_usages.instances + excluded.instances,
        cores = quota_usages.cores + excluded.cores, ram = quota_usages.ram + excluded.ram
    RETURNING instances, cores, ram
"""
_SET_USAGE = (
    "UPDATE quota_usages SET instances = instances + {0}, cores = cores + {0}, ram = ram + {0} WHERE project_id = {0}"
)
_CONSUMER = ("uuid", "project_id", "user_id", "consumer_type", "generation")
_ALLOCATION = ("consumer_uuid", "provider_id", "resource_class", "used")
_SERVER = (
    "id", "name", "project_id", "user_id", "host_id", "vm_state", "task_state", "power_state",
    "flavor", "flavor_id", "request", "image_id", "details", "reservation_id", "locked",
    "vcpus", "memory_mb", "disk_gb", "fault", "decision", "created_at", "updated_at",
)  # fmt: skip
_BOOT_DATA = ("server_id", "user_data", "key_name", "public_key")
_JOB = ("verb", "server_id", "arguments", "due_at", "leased_until", "epoch")
_ACTION = (
    "server_id", "action", "request_id", "user_id", "project_id", "started_at", "updated_at", "message", "events",
)  # fmt: skip


class Claims:
    """Takes room and writes what belongs to it, in the caller's transaction."""

    def __init__(self, connection: sa.Connection, clock: Clock | None = None) -> None:
        self._connection = connection
        self._clock = clock
        self._postgresql = connection.dialect.name == "postgresql"

    def lock_groups(
        self, groups: Iterable[GroupId], projects: Iterable[ProjectId]
    ) -> tuple[dict[GroupId, int], dict[str | None, dict[str, int]]]:
        """Hold the topology token, and lock groups, for a claim.

        Return the versions of the groups, and the quota limits of projects; the key None has the default limits.
        """
        with pipeline(self._connection):
            hold(self._connection, shared=True)
            locked = execute(self._connection, LOCK_GROUPS, sorted(set(groups)))
            limited = execute(self._connection, _LIMITS, sorted(set(projects)))
        limits: dict[str | None, dict[str, int]] = defaultdict(dict)
        for project, resource, limit in limited.fetchall():
            limits[project][resource] = limit
        return {GroupId(group): version for group, version in locked.fetchall()}, limits

    def take(self, uses: Iterable[UsageChange]) -> None:
        """Take room, or return it where amounts are negative. Raises StaleClaim with the hosts that lack room."""
        taken = list(uses)
        amounts = _by_class(taken)
        if amounts:
            _reject_stale(amounts, self._take(amounts), taken)

    def take_amounts(self, amounts: Sequence[Amount]) -> Callable[[], list[Amount]]:
        """Take amounts of any class of any provider. Return a function that lists the amounts without room.

        In a pipeline, call it after the pipeline ends.
        """
        cursor = self._take(amounts) if amounts else None

        def refused() -> list[Amount]:
            taken = {row[:2] for row in cursor.fetchall()} if cursor else set()
            return [amount for amount in amounts if amount[:2] not in taken]

        return refused

    def _take(self, amounts: Sequence[Amount]) -> Any:  # noqa: ANN401 -- the driver's cursor
        with driver(self._connection) as raw:
            if self._postgresql:
                return raw.execute(_TAKE_POSTGRESQL, [as_array(column) for column in zip(*amounts, strict=True)])
            return raw.execute(_TAKE_SQLITE, (dump(amounts),))

    def commit(self, plan: Plan, writer: str, lease_s: float, token: str | None) -> int:
        """Write the plan's servers with all that belongs to them; their jobs are leased to the caller for that time.

        Return the new version of the groups that grew. Raises StaleClaim when a host has too little room, a project
        outgrew its quota, or the topology token is not the one that the plan stands on; the caller then rolls back.
        Every claim locks room before usage, so two claims cannot deadlock. The caller holds the token (lock_groups).
        """
        version = new_version()
        placed, new_servers = plan.placed, [*plan.placed, *plan.failed]
        uses = [UsageChange(*use) for new in placed for use in new.allocations.items()]
        amounts, classes = _by_class(uses), _limited_classes(plan)
        with pipeline(self._connection):
            taken = self._take(amounts) if amounts else None
            self._add_servers(new_servers)
            self._add_allocations(placed)
            self._add_members(placed, version)
            self._add_work(placed, lease_s)
            added = self._add_usage(new_servers)  # locks the projects, so what follows sees their other claims
            held = find_held(self._connection, classes) if classes else None
            FleetChanges(self._connection).add_uses(uses, writer)
            present = find_token(self._connection) if placed and token is not None else None
        usage = {project: dict(zip(COUNTED, cursor.fetchall()[0], strict=True)) for project, cursor in added.items()}
        if taken is not None:
            _reject_stale(amounts, taken, uses)
        _reject_overrun(plan, usage)
        if held is not None:
            _reject_overrun(plan, add_up(held, classes))
        if present is not None:
            reject_other(present.fetchone()[0], token)
        if plan.answers or plan.unused_keys:
            keys = IdempotencyKeys(self._connection)
            keys.answer(plan.answers)
            keys.delete(plan.unused_keys)
        return version

    def add_usage(self, project: str, instances: int, cores: int, ram: int) -> None:
        """Add to the usage of a project, or subtract from it."""
        mark = "%s" if self._postgresql else "?"
        with driver(self._connection) as raw:
            if min(instances, cores, ram) < 0:  # the check constraint also applies to the inserted values
                raw.execute(_SET_USAGE.format(mark), (instances, cores, ram, project))
            else:
                raw.execute(_ADD_USAGE.format(mark), (project, instances, cores, ram)).fetchall()

    def usages(self, projects: Iterable[ProjectId]) -> dict[ProjectId, dict[str, int]]:
        """Return how many servers, cores and MB of memory each of the projects has."""
        ids = sorted(projects)
        rows = execute(self._connection, _USAGES, ids).fetchall() if ids else ()
        used = {project: counts for project, *counts in rows}
        return {project: dict(zip(COUNTED, used.get(project, (0, 0, 0)), strict=True)) for project in ids}

    def usage(self, project: str, *, lock: bool = False) -> dict[str, int]:
        """Return how many servers, cores and MB of memory a project has; with `lock`, lock the row."""
        if lock:
            self.add_usage(project, 0, 0, 0)
        return self.usages([ProjectId(project)])[ProjectId(project)]

    def _add_servers(self, new_servers: Sequence[NewServer]) -> None:
        insert_rows(self._connection, servers, _SERVER, [_server_row(new) for new in new_servers])
        insert_rows(self._connection, instance_actions, _ACTION, [_action_row(new) for new in new_servers])
        tags = [(new.server.id, tag) for new in new_servers for tag in sorted(new.server.tags)]
        insert_rows(self._connection, server_tags, ("server_id", "tag"), tags)
        boot_data = [
            (new.server.id, new.boot.user_data, new.boot.key_name, new.boot.public_key)
            for new in new_servers
            if new.boot is not None
        ]
        insert_rows(self._connection, server_boot_data, _BOOT_DATA, boot_data)

    def _add_allocations(self, placed: Sequence[NewServer]) -> None:
        rows: list[Row] = [(new.server.id, new.server.project_id, new.server.user_id, "INSTANCE", 1) for new in placed]
        insert_rows(self._connection, consumers, _CONSUMER, rows)
        rows = [
            (new.server.id, provider, kind, amount)
            for new in placed
            for provider, amounts in new.allocations.items()
            for kind, amount in amounts.items()
        ]
        insert_rows(self._connection, allocations, _ALLOCATION, rows)

    def _add_members(self, placed: Sequence[NewServer], version: int) -> None:
        grouped = [(new.server.id, new.server.group_id) for new in placed if new.server.group_id is not None]
        insert_rows(self._connection, instance_group_members, ("server_id", "group_id"), grouped)
        ids = sorted({group for _, group in grouped})
        if ids:
            execute(self._connection, "UPDATE instance_groups SET version = ? WHERE id IN ?", version, ids)

    def _add_work(self, placed: Sequence[NewServer], lease_s: float) -> None:
        """Add the jobs that spawn the servers. Times are as in storage.work."""
        if not placed:
            return
        ids, epoch = [new.server.id for new in placed], FIRST_EPOCH if lease_s else 0
        if self._postgresql:
            present = None if self._clock is None else self._clock()
            with driver(self._connection) as raw:
                raw.execute(_ADD_SPAWNS_POSTGRESQL, (epoch, present, lease_s, as_array(ids)))
            return
        due = (self._clock or now)() + timedelta(seconds=lease_s)
        rows = [(JobKind.SPAWN, server, "{}", due, due if lease_s else None, epoch) for server in ids]
        insert_rows(self._connection, work, _JOB, rows)

    def _add_usage(self, new_servers: Sequence[NewServer]) -> dict[ProjectId, Any]:
        """Return the driver's cursor for each project, with its usage after the claim."""
        sums: dict[ProjectId, list[int]] = {}
        for new in new_servers:
            total = sums.setdefault(new.server.project_id, [0, 0, 0])
            for i, n in enumerate((1, *quota_size(new.server.flavor))):
                total[i] += n
        statement = _ADD_USAGE.format("%s" if self._postgresql else "?")
        with driver(self._connection) as raw:
            return {project: raw.execute(statement, (project, *sums[project])) for project in sorted(sums)}


def _limited_classes(plan: Plan) -> dict[ProjectId, list[str]]:
    """Return the quotas of resource classes that the plan uses more of."""
    classes = {project: [name for name in limits if name not in COUNTED] for project, limits in plan.limits.items()}
    return {project: names for project, names in classes.items() if names}


def _reject_overrun(plan: Plan, usage: Mapping[ProjectId, Mapping[str, int]]) -> None:
    """Raise StaleClaim if a project grew since its usage was read, and now exceeds a limit."""
    for project, used in usage.items():
        limits = plan.limits.get(project, {})
        if any(n > limits.get(name, UNLIMITED) != UNLIMITED for name, n in used.items()):
            raise StaleClaim(frozenset())


def _reject_stale(amounts: Sequence[Amount], taken: Any, uses: Sequence[UsageChange]) -> None:  # noqa: ANN401
    rows = taken.fetchall()
    if len(rows) < len(amounts):
        done = {row[:2] for row in rows}
        raise StaleClaim(frozenset(HostId(p) for p, kind, _ in amounts if (p, kind) not in done))
    restricted = {row[:2]: AllocationUnits(*row[2:]) for row in rows if row[2:] != NO_UNIT_LIMITS}
    if restricted:
        _reject_unallocatable(restricted, uses)


def _reject_unallocatable(restricted: Mapping[tuple[int, str], AllocationUnits], uses: Sequence[UsageChange]) -> None:
    """Raise StaleClaim for hosts whose inventories do not allow the amount of one server."""
    rejected = {
        HostId(use.provider)
        for use in uses
        for kind, amount in use.amounts.items()
        if amount > 0 and not restricted.get((use.provider, kind), NO_UNIT_LIMITS).allow(amount)
    }
    if rejected:
        raise StaleClaim(frozenset(rejected))


def _by_class(uses: Iterable[UsageChange]) -> list[Amount]:
    """Return the sum for each inventory, in the order in which claims lock."""
    sums: dict[tuple[int, str], int] = defaultdict(int)
    for provider, amounts in uses:
        for kind, amount in amounts.items():
            sums[provider, kind] += amount
    return [(provider, kind, amount) for (provider, kind), amount in sorted(sums.items()) if amount]


def _server_row(new: NewServer) -> tuple[object, ...]:
    s = new.server
    return (
        s.id,
        s.name,
        s.project_id,
        s.user_id,
        s.host_id,
        str(s.vm_state),
        None if s.task is None else str(s.task),
        POWER_STATES[s.power],
        dump(s.flavor),
        s.flavor.id,
        dump(s.request),
        s.request.image_id,
        dump(s.details),
        s.details.reservation_id,
        s.details.locked,
        s.flavor.vcpus,
        s.flavor.memory_mb,
        server_disk_gb(s.flavor),
        None if s.fault is None else dump(s.fault),
        dump(s.placement),
        s.created_at,
        s.created_at,
    )


def _action_row(new: NewServer) -> tuple[object, ...]:
    s = new.server
    message = None if s.fault is None else "Error"
    return (s.id, "create", new.request_id, s.user_id, s.project_id, s.created_at, s.created_at, message, "[]")
