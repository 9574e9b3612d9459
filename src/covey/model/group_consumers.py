"""Consumers of allocations that another service runs, such as Nova's instances, as members of server groups."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from covey.model.groups import GroupState, GroupView
from covey.model.ids import GroupId


@dataclass(frozen=True, slots=True)
class GroupConsumer:
    """A consumer whose allocations are on the hosts of a member of a group.

    It is the member itself, or a migration that holds the allocations which the member leaves.
    """

    group: GroupId
    member: str


@dataclass(frozen=True, slots=True)
class MemberInstance:
    """A member that another service runs. Its name and status are those of the mirror, if it has the instance."""

    group: GroupId
    id: str
    name: str | None
    status: str | None

    @property
    def is_mirrored(self) -> bool:
        """Whether the mirror has the instance."""
        return self.name is not None


@dataclass(slots=True)
class ConsumerHosts:
    """The hosts on which the consumers of one group hold allocations. A host is the root of a provider tree.

    A member counts on each of them, except on those that it was evacuated from.
    """

    _hosts: dict[str, dict[str, frozenset[int]]] = field(default_factory=lambda: defaultdict(dict))
    _left: dict[str, frozenset[int]] = field(default_factory=dict)  # by consumer, on the hosts that it left

    def hosts_of(self, member: str) -> frozenset[int]:
        """Return the hosts of a member: its own, and those that its migrations hold."""
        return frozenset[int]().union(*self._hosts.get(member, {}).values())

    def counted_hosts(self, member: str) -> frozenset[int]:
        """Return the hosts on which a member counts."""
        return frozenset[int]().union(*(self._counted(member, consumer) for consumer in self._hosts.get(member, ())))

    def hold(self, member: str, consumer: str, hosts: Iterable[int], left: Iterable[int] = ()) -> None:
        """Set the hosts on which one consumer of a member holds allocations, and those of them that it left."""
        self._hosts[member][consumer] = frozenset(hosts)
        self._left[consumer] = frozenset(left)

    def held_by(self, member: str, consumer: str) -> frozenset[int]:
        """Return the hosts on which one consumer of a member holds allocations."""
        return self._hosts.get(member, {}).get(consumer, frozenset())

    def host_by_member(self) -> dict[str, int]:
        """Return one host of each member: its own, or the one that a migration holds."""
        hosts = {member: self._counted(member, member) or self.counted_hosts(member) for member in self._hosts}
        return {member: min(held) for member, held in sorted(hosts.items()) if held}

    def added_to(self, state: GroupState, without: str | None = None) -> GroupState:
        """Return the state of the group with these hosts; those of one member may be left out."""
        hosts = [sorted(hosts) for hosts in self._all(without)]
        if not hosts:
            return state
        members_by_host = Counter(state.members_by_host)
        members_by_host.update(host for each in hosts for host in each)
        migrating = tuple((each[0], each[1]) for each in hosts if len(each) > 1)
        return replace(
            state, members_by_host=dict(members_by_host), migrating=state.migrating + migrating, instances=len(hosts)
        )

    def view_for(self, state: GroupState, member: str, before: frozenset[int], vacated: frozenset[int]) -> GroupView:
        """Return what a decision on a member sees that had the hosts `before`: it does not count against itself.

        It need not stay with members on `vacated` hosts: these members leave as well.
        """
        view = self.added_to(state, without=member).view()
        return replace(view, source_host=min(before, default=None), vacated_hosts=vacated)

    def _all(self, without: str | None) -> Iterator[frozenset[int]]:
        return (hosts for member in self._hosts if member != without and (hosts := self.counted_hosts(member)))

    def _counted(self, member: str, consumer: str) -> frozenset[int]:
        return self.held_by(member, consumer) - self._left.get(consumer, frozenset())


@dataclass(frozen=True, slots=True)
class ReportedGroup:
    """A server group as another service reports it."""

    id: GroupId
    policy: str
    rules: Mapping[str, int]
    members: tuple[str, ...]
    project_id: str
    user_id: str
    name: str
