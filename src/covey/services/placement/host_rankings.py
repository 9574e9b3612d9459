"""Ranks hosts for instances of another scheduler, and stores what it reports of their server groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

import numpy as np

from covey.model.access import Actor
from covey.model.errors import Conflict, Invalid
from covey.model.group_consumers import ConsumerHosts, GroupConsumer, ReportedGroup
from covey.model.groups import Group, GroupPolicy, GroupView, PolicyKind, with_rules
from covey.model.ids import GroupId, ProjectId, ServerId, UserId
from covey.model.instance_refusals import CountedReason, InstanceRefusal, RefusedStep
from covey.model.nova import NovaKind
from covey.model.quotas import UNLIMITED
from covey.ports import Access, Clock
from covey.scheduler.fleet import Fleet
from covey.scheduler.host_ranking import rank_hosts
from covey.services.live_fleet import LiveFleet
from covey.services.placement.generations import retry_on_conflict
from covey.services.placement.member_policies import full_group, is_full
from covey.services.placement.refusal_records import record_refusal
from covey.storage.store import Store, Transaction

_RETENTION = timedelta(hours=1)  # how long a member without allocations stays that is no longer listed
UNKNOWN_HOSTS = "has no resource provider", "have no resource provider"


@dataclass(frozen=True, slots=True)
class RankedHosts:
    """Hosts as the caller named them: admitted ones with weights, the best first, and counted reasons for the rest."""

    hosts: Sequence[tuple[str, float]]
    refusals: tuple[CountedReason, ...]


@dataclass(frozen=True, slots=True)
class HostRankings:
    """Rankings of hosts by the policies of groups."""

    store: Store
    access: Access
    clock: Clock
    live: LiveFleet
    max_group_members: int = UNLIMITED

    def require_rank(self, actor: Actor) -> None:
        """Raise Forbidden, before the request body is read."""
        self.access.require(actor, "placement:host_rankings:create")

    def rank(self, actor: Actor, group: ReportedGroup, instance: str | None, hosts: Sequence[str]) -> RankedHosts:
        """Record the group and its members, and rank hosts for an instance; its own hosts do not count against it.

        Hosts are uuids of resource providers, or names of hosts. Raises Invalid for a policy that Nova does not have.
        """
        self.require_rank(actor)
        members = {*group.members} if instance is None else {*group.members, instance}
        if not self._is_recorded(group.id, members):
            retry_on_conflict(lambda: self._record(group, members))
        with self.store.read() as tx:
            with self.live.fresh(tx) as snapshot:
                fleet = snapshot.fleet  # a ranking reads its structure alone, which never changes in place
            offered = _OfferedHosts.of(hosts, fleet)
            view = self._view(tx, group.id, instance, offered)
        if view is None:
            ranking = RankedHosts((), (full_group(len(hosts), self.max_group_members),))
        else:
            ranking = _rank(fleet, view, offered)
        if instance is not None and ranking.refusals and not ranking.hosts:
            refusal = InstanceRefusal(instance, group.id, RefusedStep.RANKING, self.clock(), ranking.refusals)
            record_refusal(self.store, refusal)
        return ranking

    def _view(
        self, tx: Transaction, group: GroupId, instance: str | None, offered: "_OfferedHosts"
    ) -> GroupView | None:
        """Return the group as a decision on the instance sees it; None if it takes no new member.

        An instance that holds a host itself, which is not offered, is evacuated from it: a migration would hold its
        allocations by now. One that leaves a drained host need not stay with members on drained hosts, which follow it.
        """
        found = tx.groups.by_id(group)
        if found is None:  # deleted since it was recorded
            return GroupView()
        state = tx.groups.server_states({group: found.version})[group]
        consumer_hosts = tx.group_consumers.hosts([group]).get(group, ConsumerHosts())
        if instance is None:
            return consumer_hosts.added_to(state).view()
        before, drained = consumer_hosts.counted_hosts(instance), tx.drains.hosts()
        if not consumer_hosts.hosts_of(instance) and is_full(state, consumer_hosts, instance, self.max_group_members):
            return None
        vacated = consumer_hosts.held_by(instance, instance) - offered.ids
        return consumer_hosts.view_for(state, instance, before, vacated | drained if before & drained else vacated)

    def _is_recorded(self, group: GroupId, members: set[str]) -> bool:
        with self.store.read() as tx:
            if not members:
                return tx.groups.by_id(group) is not None
            known = tx.group_consumers.find(members)
            return len(known) == len(members) and all(each.group == group for each in known.values())

    def _record(self, reported: ReportedGroup, members: set[str]) -> None:
        with self.store.write() as tx:
            record_group(tx, reported, members, self.clock())


def record_group(tx: Transaction, reported: ReportedGroup, members: set[str], now: datetime) -> None:
    """Store a group of Nova and its members. Policies of a group that Covey knows stay. Raises Invalid, Conflict.

    Nova decides whose group it is: a group of another project under this uuid is replaced, with its policies.
    """
    exists = reported.id in tx.groups.lock([reported.id])
    if exists and tx.groups.owners([reported.id])[reported.id] != reported.project_id:
        tx.groups.delete(reported.id)
        exists = False
    if not exists:  # one that another transaction adds now is a conflict, and its members stay
        tx.groups.add(new_group(reported, now))
        tx.nova_mirror.own(NovaKind.GROUP, reported.id)
    known = tx.group_consumers.find(members)
    _reject_own_servers(tx, members)
    left = {each.group for each in known.values()} - {reported.id}
    new = {member: GroupConsumer(reported.id, member) for member in members if _is_new(known.get(member), reported.id)}
    tx.group_consumers.add(new, now)
    tx.group_consumers.delete_absent(reported.id, members, now - _RETENTION)
    tx.groups.bump({reported.id, *left})


def _is_new(known: GroupConsumer | None, group: GroupId) -> bool:
    return known is None or known.group != group


def _reject_own_servers(tx: Transaction, members: set[str]) -> None:
    own = tx.servers.by_ids([ServerId(member) for member in sorted(members)])
    if own:
        raise Conflict(f"Server {own[0].id} is a server of Covey's own Compute API; its group is set there.")


def new_group(reported: ReportedGroup, now: datetime) -> Group:
    """Return the group with the policy of the other service. Raises Invalid."""
    try:
        kind = PolicyKind(reported.policy)
    except ValueError:
        raise Invalid(f"There is no policy {reported.policy}; policies are {', '.join(PolicyKind)}.") from None
    return Group(
        reported.id,
        reported.name,
        ProjectId(reported.project_id),
        UserId(reported.user_id),
        with_rules((GroupPolicy(kind),), reported.rules),
        0,
        now,
    )


@dataclass(frozen=True, slots=True)
class _OfferedHosts:
    """The hosts to rank: as the caller named them, by row; those without a resource provider; and their ids."""

    names: Mapping[int, str]
    missing: int
    ids: frozenset[int]

    @classmethod
    def of(cls, hosts: Sequence[str], fleet: Fleet) -> Self:
        rows = {host: fleet.row_of_uuid.get(host) for host in hosts}
        rows |= {host: fleet.row_of_name.get(host) for host, row in rows.items() if row is None}
        names = {row: host for host, row in rows.items() if row is not None}
        return cls(names, len(rows) - len(names), frozenset(fleet.ids[[*names]].tolist()))


def _rank(fleet: Fleet, view: GroupView, offered: _OfferedHosts) -> RankedHosts:
    mask = np.zeros(len(fleet), dtype=np.bool_)
    mask[[*offered.names]] = True
    ranking = rank_hosts(view, fleet, mask)
    admitted = np.flatnonzero(ranking.admitted)
    best_first = admitted[np.argsort(-ranking.weights[admitted], kind="stable")]
    weighed = zip(best_first.tolist(), ranking.weights[best_first].tolist(), strict=True)
    refusals = [CountedReason(reason.count, reason.one, reason.many) for reason in ranking.refused]
    if offered.missing:
        refusals.append(CountedReason(offered.missing, *UNKNOWN_HOSTS))
    return RankedHosts([(offered.names[row], weight) for row, weight in weighed], tuple(refusals))
