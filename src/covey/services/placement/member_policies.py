"""Holds consumers that are members of server groups to their groups' hard policies, when allocations are written.

A write finds out that a consumer is in a group when it locks the consumer. It then rolls back and starts again with the
group locked before everything else, as every claim does. A write whose consumers are in no group pays nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from covey.model.allocations import AllocationRequest
from covey.model.claims import Allocations
from covey.model.errors import Busy, PolicyViolation, StaleClaim
from covey.model.group_consumers import ConsumerHosts, GroupConsumer
from covey.model.groups import GroupState
from covey.model.ids import GroupId, HostId
from covey.model.instance_refusals import CountedReason, InstanceRefusal, RefusedStep
from covey.model.quotas import UNLIMITED
from covey.scheduler.fleet import Fleet
from covey.scheduler.provider_trees import SHARES
from covey.scheduler.violations import reasons_against
from covey.services.live_fleet import LiveFleet
from covey.storage.store import Transaction

T = TypeVar("T")

_ATTEMPTS = 8
NO_GROUPS: frozenset[GroupId] = frozenset()


class GroupsFound(Exception):
    """Consumers of a write belong to these groups, which it has not locked."""

    def __init__(self, groups: frozenset[GroupId]) -> None:
        super().__init__(groups)
        self.groups = groups


def with_groups_locked(attempt: Callable[[frozenset[GroupId]], T]) -> T:
    """Return the result of a transaction that gets the groups of its consumers to lock. Raises Busy."""
    groups = NO_GROUPS
    for _ in range(_ATTEMPTS):
        try:
            return attempt(groups)
        except GroupsFound as found:
            groups |= found.groups
        except StaleClaim:  # the topology changed
            continue
    raise Busy("The server groups of these consumers kept changing under this request. Try again in a moment.")


def require_locked(found: frozenset[GroupId], locked: frozenset[GroupId]) -> None:
    """Raise GroupsFound if consumers belong to groups that are not locked."""
    if not found <= locked:
        raise GroupsFound(found)


@dataclass(frozen=True, slots=True)
class MemberPolicies:
    """Works in the transaction of a write, before it locks consumers."""

    live: LiveFleet
    max_members: int = UNLIMITED  # of a group

    def check(
        self,
        tx: Transaction,
        groups: frozenset[GroupId],
        requests: Sequence[Sequence[AllocationRequest]],
        now: datetime,
    ) -> None:
        """Lock groups, and check the requests one after the other. Raises PolicyViolation, also StaleClaim at the end.

        Only hosts that are new for a member are checked: an evacuation holds both hosts in one write, and a failed move
        returns to the host that its migration holds, also a migration that began before Covey knew the member.
        """
        tx.topology.hold()
        versions = tx.groups.lock(groups)
        states, consumer_hosts = tx.groups.server_states(versions), dict(tx.group_consumers.hosts(versions))
        consumers = tx.group_consumers.find(write.consumer for request in requests for write in request)
        drained = tx.drains.hosts()  # before the fleet, for which all claims of the process wait
        given_up = _given_up(tx, requests, consumers)
        with self.live.fresh(tx) as snapshot:
            fleet, token = snapshot.fleet, snapshot.token  # policies read its structure alone, which stays as it is
        of_groups = defaultdict(ConsumerHosts, consumer_hosts)
        check = _PolicyCheck(fleet, states, of_groups, consumers, given_up, drained, now, self.max_members)
        migrations = {
            consumer: each for request in requests for consumer, each in check.find_migrations(request).items()
        }
        check.consumers = {**consumers, **migrations}
        for request in requests:
            check.admit(request)
        tx.topology.require(token)
        tx.group_consumers.add(migrations, now)
        self.settle(tx, groups, [write.consumer for r in requests for write in r if not write.resources])

    def lock(self, tx: Transaction, groups: frozenset[GroupId]) -> None:
        """Lock the groups of consumers that give up their allocations."""
        tx.groups.lock(groups)

    def settle(self, tx: Transaction, groups: frozenset[GroupId], emptied: Sequence[str]) -> None:
        """Mark that hosts of members of locked groups change, and forget migrations whose allocations are gone."""
        if groups:
            if emptied:
                tx.group_consumers.delete_migrations(emptied)
            tx.groups.bump(groups)


def _given_up(
    tx: Transaction, requests: Sequence[Sequence[AllocationRequest]], members: Mapping[str, GroupConsumer]
) -> dict[str, Allocations]:
    """Return what consumers that are no members hold, and give up in a request with others."""
    emptied = {write.consumer for request in requests if len(request) > 1 for write in request if not write.resources}
    unknown = sorted(emptied - members.keys())
    return tx.allocations.held_by(unknown) if unknown else {}


@dataclass(slots=True)
class _PolicyCheck:
    fleet: Fleet
    states: Mapping[GroupId, GroupState]
    consumer_hosts: Mapping[GroupId, ConsumerHosts]
    consumers: Mapping[str, GroupConsumer]
    given_up: Mapping[str, Allocations]  # by consumers that are no members
    drained: frozenset[int]  # hosts that all members leave
    now: datetime
    max_members: int

    def find_migrations(self, request: Sequence[AllocationRequest]) -> dict[str, GroupConsumer]:
        """Return the consumers to which this request hands allocations that a member gives up."""
        given_up = {
            write.consumer: self._held(write.consumer) - self._hosts(write)
            for write in request
            if write.consumer in self.consumers
        }
        found: dict[str, GroupConsumer] = {}
        for write in request:
            hosts = self._hosts(write)
            if write.consumer not in self.consumers and hosts:
                giver = next((member for member, hosts_left in given_up.items() if hosts <= hosts_left), None)
                if giver is not None:
                    found[write.consumer] = self.consumers[giver]
        return found

    def admit(self, request: Sequence[AllocationRequest]) -> None:
        """Count the hosts of a request. Raises PolicyViolation if a hard policy does not admit a new one."""
        writes: dict[GroupConsumer, list[AllocationRequest]] = defaultdict(list)
        for write in request:
            consumer = self.consumers.get(write.consumer)
            if consumer is not None and consumer.group in self.states:
                writes[consumer].append(write)
        providers = {each for write in request for each in self.given_up.get(write.consumer, ())}
        returned = frozenset(self.fleet.ids[self.fleet.root[self.fleet.rows(providers)]].tolist())
        for consumer, of_member in writes.items():
            self._admit_member(consumer, of_member, returned)

    def _admit_member(
        self, consumer: GroupConsumer, writes: Sequence[AllocationRequest], returned: frozenset[int]
    ) -> None:
        consumer_hosts, state = self.consumer_hosts[consumer.group], self.states[consumer.group]
        held, counted = consumer_hosts.hosts_of(consumer.member), consumer_hosts.counted_hosts(consumer.member)
        own_before = consumer_hosts.held_by(consumer.member, consumer.member)
        for write in writes:
            consumer_hosts.hold(consumer.member, write.consumer, self._hosts(write))
        # A member that keeps its host beside a new one is evacuated: its old host is down.
        vacated = own_before & consumer_hosts.held_by(consumer.member, consumer.member)
        vacated |= self.drained if counted & self.drained else vacated
        view = consumer_hosts.view_for(state, consumer.member, counted, vacated)
        new = sorted(consumer_hosts.hosts_of(consumer.member) - held - returned)
        if new and not held and is_full(state, consumer_hosts, consumer.member, self.max_members):
            raise self._violation(
                consumer, f"it has its maximum of {self.max_members} members", full_group(1, self.max_members)
            )
        for host in new:
            reasons = reasons_against(view, HostId(host), self.fleet)
            if reasons:
                first = CountedReason(1, reasons[0].one, reasons[0].many)
                raise self._violation(consumer, "; ".join(f"its host {reason.one}" for reason in reasons), first)

    def _violation(self, consumer: GroupConsumer, why: str, reason: CountedReason) -> PolicyViolation:
        return PolicyViolation(
            f"Allocations of consumer {consumer.member} would violate the policies of server group "
            f"{consumer.group}: {why}.",
            InstanceRefusal(consumer.member, consumer.group, RefusedStep.CLAIM, self.now, (reason,)),
        )

    def _held(self, consumer: str) -> frozenset[int]:
        found = self.consumers[consumer]
        return self.consumer_hosts[found.group].held_by(found.member, consumer)

    def _hosts(self, write: AllocationRequest) -> frozenset[int]:
        return hosts_of_providers(self.fleet, write.resources)


def is_full(state: GroupState, consumer_hosts: ConsumerHosts, member: str, maximum: int) -> bool:
    """Return whether the others of a group, by Covey's servers and these consumer_hosts, leave no room for a member."""
    return maximum != UNLIMITED and consumer_hosts.added_to(state, without=member).members >= maximum


def full_group(hosts: int, maximum: int) -> CountedReason:
    """Return the reason why hosts take no further member of a full group."""
    words = f"can't take another member of the group, which has its maximum of {maximum}"
    return CountedReason(hosts, words, words)


def hosts_of_providers(fleet: Fleet, uuids: Sequence[str] | Mapping[str, object]) -> frozenset[int]:
    """Return the hosts of providers: the roots of their trees. A sharing provider belongs to none."""
    roots = {int(fleet.root[row]) for uuid in uuids if (row := fleet.row_of_uuid.get(uuid)) is not None}
    return frozenset(int(fleet.ids[root]) for root in roots if SHARES not in fleet.traits[root])
