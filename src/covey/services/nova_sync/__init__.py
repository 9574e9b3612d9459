"""Mirrors what only Nova knows: compute nodes, aggregates, flavors, instances and server groups.

`covey sync nova` calls it directly, so no access rules apply. A run writes what differs, in one transaction: a run that
fails leaves the last complete state, and the next one repairs what was missed. An object whose name Covey has for one
of its own is left out until the clash ends, and `covey status` names both. The first run reads everything. Later ones
read the servers that changed, until the next complete reading.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from covey.model.errors import CoveyError, Unavailable
from covey.model.group_consumers import GroupConsumer
from covey.model.groups import PolicyKind
from covey.model.ids import GroupId
from covey.model.nova import NovaCloud, NovaHost, NovaKind
from covey.ports import Clock
from covey.services.nova_sync.catalogue import write_aggregates, write_flavors
from covey.services.nova_sync.nova import Nova
from covey.services.placement.host_rankings import new_group
from covey.storage.store import Store, Transaction

_OVERLAP = timedelta(minutes=5)
_REFUSALS_KEPT = timedelta(minutes=10)  # of instances that the mirror does not have yet
_RETENTION = timedelta(hours=1)  # how long a member without allocations stays that Nova no longer lists


@dataclass(frozen=True, slots=True)
class SyncReport:
    """How many of each kind Nova has, how many rows changed, and what could not be mirrored."""

    counts: dict[str, int]
    changes: int
    warnings: tuple[str, ...]


_SUPERSEDED = SyncReport(
    {}, 0, ("Another `covey sync nova` began later and has written its reading. Run one of them.",)
)


@dataclass(slots=True)
class NovaSync:
    """Mirrors one cloud."""

    store: Store
    nova: Nova
    clock: Clock
    full_interval: timedelta = timedelta(minutes=10)  # between readings of all servers
    _full_at: datetime | None = None
    _changed_at: datetime | None = None  # the latest change of a server that was read, by Nova's clock

    def run(self) -> SyncReport:
        """Read Nova once, and write what differs. Raises what the API or the database raises, and records it."""
        began_at = self.clock()
        since = self._since(began_at)
        try:
            with self.store.read() as tx:
                groups_before = tx.nova_mirror.owned(NovaKind.GROUP)
            cloud = self.nova.with_unlisted_groups(self.nova.read(since), groups_before)
            with self.store.write() as tx:
                before = tx.nova_mirror.lock_state()
                if before is not None and before.read_at is not None and began_at < before.read_at <= self.clock():
                    return _SUPERSEDED  # a later time is of a clock that was ahead
                report = _write(tx, cloud, began_at, groups_before)
                tx.nova_mirror.set_read(self.nova.url, began_at, report.warnings, changed=report.changes > 0)
        except CoveyError as error:
            with self.store.write() as tx:
                tx.nova_mirror.set_error(self._url(), error.message)
            raise
        self._full_at = began_at if since is None else self._full_at
        self._changed_at = cloud.changed_at or self._changed_at
        return report

    def _url(self) -> str | None:
        try:
            return self.nova.url
        except Unavailable:  # neither Keystone nor Nova has answered yet
            return None

    def _since(self, now: datetime) -> datetime | None:
        """Return the moment from which changed servers are read; None to read all.

        Nova's own clock counts. A change may become visible a little after its time.
        """
        if self._full_at is None or self._changed_at is None or now - self._full_at >= self.full_interval:
            return None
        return self._changed_at - _OVERLAP


def _write(tx: Transaction, cloud: NovaCloud, now: datetime, groups_before: set[str]) -> SyncReport:
    hosts, warnings = _admitted_hosts(tx, cloud.hosts)
    unknown = sorted({told.policy for told in cloud.groups.values()} - {*PolicyKind})
    cloud = replace(cloud, groups={key: told for key, told in cloud.groups.items() if told.policy not in unknown})
    changes = tx.nova_mirror.set_hosts(hosts) + _write_servers(tx, cloud, now)
    aggregate_changes, about_aggregates = write_aggregates(tx, cloud.aggregates, now)
    flavor_changes, about_flavors = write_flavors(tx, cloud.flavors, cloud.flavor_access, now)
    if aggregate_changes:
        tx.topology.begin_change()  # before groups, which claims lock while they hold the token
    changes += aggregate_changes + flavor_changes + _write_groups(tx, cloud, now, groups_before)
    warnings += about_aggregates + about_flavors
    counts = {
        "hosts": len(cloud.hosts),
        "aggregates": len(cloud.aggregates),
        "flavors": len(cloud.flavors),
        "servers": tx.nova_mirror.count_servers(),
        "groups": len(cloud.groups),
    }
    warnings += _about_unread_groups(cloud.unread_groups)
    warnings += [f"Groups with the policy {policy} are not mirrored: Nova has no such policy." for policy in unknown]
    return SyncReport(counts, changes, tuple(warnings))


def _about_unread_groups(unread: Mapping[str, str]) -> list[str]:
    return [
        f"Nova does not show {len(unread)} server groups that it has not deleted, such as {group}: {why} They stay as "
        "they are. `covey sync nova` needs a user that is an administrator for Nova."
        for group, why in [*unread.items()][:1]
    ]


def _admitted_hosts(tx: Transaction, new: Mapping[str, NovaHost]) -> tuple[dict[str, NovaHost], list[str]]:
    """Return the compute nodes that can be mirrored, and a sentence about each of the others.

    Names of resource providers are unique, so a node with the name of a host of Covey's own has no provider.
    """
    taken = tx.nova_mirror.taken_host_names([each.name for each in new.values()])
    sentences = [
        f"The compute node {each.name} of Nova ({key}) is not mirrored: Covey's own host has its name, so nova-compute "
        "cannot register its resource provider. Rename or remove one of the two."
        for key, each in new.items()
        if each.name in taken
    ]
    return {key: each for key, each in new.items() if each.name not in taken}, sentences


def _write_servers(tx: Transaction, cloud: NovaCloud, now: datetime) -> int:
    out_of_reach = [key for key, server in cloud.servers.items() if server.is_out_of_reach]
    known = tx.nova_mirror.find_servers(out_of_reach)
    servers = {**cloud.servers} | {key: cloud.servers[key].updating(known.get(key)) for key in out_of_reach}
    if cloud.is_partial:
        return tx.nova_mirror.change_servers(servers, cloud.deleted_servers)
    changes = tx.nova_mirror.set_servers(servers)
    tx.instance_refusals.delete_absent(now - _REFUSALS_KEPT)
    return changes


def _write_groups(tx: Transaction, cloud: NovaCloud, now: datetime, before: set[str]) -> int:
    """Mirror groups and their members. The policies of a group that Covey knows stay: they are set in Covey.

    A group that was added since the reading began stays, although the reading lacks it, and so does an unread one.
    """
    all_owned = tx.nova_mirror.owned(NovaKind.GROUP)
    owned = {GroupId(each) for each in (all_owned & before) - cloud.unread_groups.keys()}
    members = {member: GroupConsumer(told.id, member) for told in cloud.groups.values() for member in told.members}
    known = tx.group_consumers.find_members()
    joined = {member: each for member, each in members.items() if known.get(member) != each}
    left = {member for member, each in known.items() if member not in members and each.group in owned}
    moving = _new_migrations(tx, cloud.migrations, known | members)
    touched = {each.group for each in (*joined.values(), *moving.values())}
    touched |= {known[member].group for member in joined if member in known}
    gone = sorted(owned - cloud.groups.keys())
    tx.groups.lock({*touched, *(known[member].group for member in left), *gone})  # members change under these locks
    existing = tx.groups.ids()
    new = [new_group(told, now) for key, told in cloud.groups.items() if key not in existing]
    tx.groups.add_all(new)
    held = tx.allocations.held_by(sorted(moving))  # under the locks
    tx.group_consumers.add(joined | {each: moving[each] for each in held}, now)
    deleted = tx.group_consumers.delete_members(left, now - _RETENTION)
    tx.groups.delete_all(gone)
    tx.groups.bump((touched | {known[member].group for member in deleted}) - set(gone))
    tx.nova_mirror.set_owned(NovaKind.GROUP, cloud.groups.keys() | (all_owned - owned))
    return len(joined) + len(held) + len(deleted) + len(new) + len(gone)


def _new_migrations(
    tx: Transaction, migrations: Mapping[str, str], members: Mapping[str, GroupConsumer]
) -> dict[str, GroupConsumer]:
    """Return the migrations of members that Covey does not know: those that began before it knew their members.

    The ledger adds all others when they get the allocations of their members.
    """
    told = {each: members[server] for each, server in migrations.items() if server in members}
    unknown = told.keys() - tx.group_consumers.find(told).keys()
    held = tx.allocations.held_by(sorted(unknown))
    return {each: told[each] for each in sorted(held)}
