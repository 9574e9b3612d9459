"""Server groups and their policies."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum, StrEnum, auto
from itertools import combinations

from covey.model.errors import Invalid
from covey.model.ids import GroupId, ProjectId, ScopeId, ServerId, UserId
from covey.model.scopes import HOST_SCOPE


class Direction(Enum):
    """Whether a policy spreads the members of a group over domains, or gathers them in one."""

    SPREAD = auto()
    GATHER = auto()


class PolicyKind(StrEnum):
    """The kinds of policy by their names in the API; `covey.scheduler.policies` has a module for each."""

    ANTI_AFFINITY = "anti-affinity"
    AFFINITY = "affinity"
    SOFT_ANTI_AFFINITY = "soft-anti-affinity"
    SOFT_AFFINITY = "soft-affinity"

    @property
    def is_soft(self) -> bool:
        """Whether the kind ranks hosts; a hard one rules hosts out."""
        return self.startswith("soft-")

    @property
    def direction(self) -> Direction:
        """Whether the kind spreads members or gathers them."""
        return _DIRECTIONS[self]

    @property
    def has_limit(self) -> bool:
        """Whether a rule (max_server_per_SCOPE) sets how many members a domain holds."""
        return self in _LIMITED


_DIRECTIONS = {
    PolicyKind.ANTI_AFFINITY: Direction.SPREAD,
    PolicyKind.AFFINITY: Direction.GATHER,
    PolicyKind.SOFT_ANTI_AFFINITY: Direction.SPREAD,
    PolicyKind.SOFT_AFFINITY: Direction.GATHER,
}
_LIMITED = {PolicyKind.ANTI_AFFINITY}


@dataclass(frozen=True, slots=True)
class ScopeRef:
    """A scope as a policy refers to it; the implicit host scope has no id."""

    id: ScopeId | None = None
    name: str = HOST_SCOPE


HOST = ScopeRef()

_RULE_PREFIX = "max_server_per_"


@dataclass(frozen=True, slots=True)
class GroupPolicy:
    """One policy of a group."""

    kind: PolicyKind
    scope: ScopeRef = HOST
    target: str | None = None  # the real identifier of a domain; None if the policy names none
    limit: int = 1  # members that a domain holds at most, for kinds that have a limit
    limited: bool = False  # a tenant set the limit, possibly to the default

    @property
    def has_rule(self) -> bool:
        """Whether the limit is shown as a rule."""
        return self.limited or self.limit != 1

    def __str__(self) -> str:
        """The canonical form, without the host scope where it is implied."""
        if self.target is not None:
            return f"{self.kind}:{self.scope.name}:{self.target}"
        return str(self.kind) if self.scope == HOST else f"{self.kind}:{self.scope.name}"


@dataclass(frozen=True, slots=True)
class Group:
    """A server group. Its version changes with its policies, its members and their hosts."""

    id: GroupId
    name: str
    project_id: ProjectId
    user_id: UserId
    policies: tuple[GroupPolicy, ...]
    version: int
    created_at: datetime
    members: tuple[ServerId, ...] = ()

    @property
    def rules(self) -> dict[str, int]:
        """The rules that a tenant set, by name, and any limit other than one."""
        return rules_of(self.policies)


@dataclass(frozen=True, slots=True)
class GroupView:
    """The part of a group that a decision uses: its policies, and how many members each host has.

    A member that moves counts on both its hosts until the move ends.
    """

    policies: tuple[GroupPolicy, ...] = ()
    members_by_host: Mapping[int, int] = field(
        default_factory=dict
    )  # never changed in place: the fleet caches it by identity
    migrating: tuple[tuple[int, int], ...] = ()  # the two hosts of each member that moves
    source_host: int | None = None  # of the server itself, if it is a member that moves; it does not count here
    vacated_hosts: frozenset[int] = frozenset()  # their members leave as well, and do not count for affinity


NO_GROUP = GroupView()


def rules_of(policies: Iterable[GroupPolicy]) -> dict[str, int]:
    """Return the rules of some policies, by name."""
    return {rule_name(policy): policy.limit for policy in policies if policy.has_rule}


def rule_name(policy: GroupPolicy) -> str:
    """Return the name of the rule that sets the limit of a policy."""
    return f"{_RULE_PREFIX}{policy.scope.name}"


def with_rules(policies: tuple[GroupPolicy, ...], rules: Mapping[str, int]) -> tuple[GroupPolicy, ...]:
    """Return the policies with the limits that the rules set. Raises Invalid for a rule without a policy."""
    for name, limit in rules.items():
        if limit < 1:
            raise Invalid(f"The rule {name} is {limit}; it must be at least 1.")
    limits = dict(rules)
    limited = tuple(
        replace(policy, limit=limits.pop(rule_name(policy)), limited=True)
        if policy.kind.has_limit and policy.target is None and rule_name(policy) in limits
        else policy
        for policy in policies
    )
    if limits:
        raise Invalid(_no_such_rule(next(iter(limits))))
    return limited


def _no_such_rule(name: str) -> str:
    if not name.startswith(_RULE_PREFIX):
        return f"There is no rule {name}: rules are {_RULE_PREFIX}SCOPE."
    scope = name.removeprefix(_RULE_PREFIX)
    if scope == HOST_SCOPE:
        return "Only anti-affinity policy supports rules."
    return f"The rule {name} needs the policy anti-affinity:{scope}, without an identifier, in the same group."


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group at one version: its policies, its members by host, and the number of members of each user."""

    version: int
    project_id: ProjectId
    policies: tuple[GroupPolicy, ...]
    members_by_host: Mapping[int, int]
    users: Mapping[UserId, int]
    migrating: tuple[tuple[int, int], ...] = ()
    instances: int = 0  # members with a place that another service runs

    @property
    def members(self) -> int:
        """How many members count against a maximum of the group."""
        return sum(self.users.values()) + self.instances

    def view(self) -> GroupView:
        """Return the part that a decision uses."""
        return GroupView(self.policies, self.members_by_host, self.migrating)

    def at(self, version: int) -> "GroupState":
        """Return the same state at another version."""
        return self._changed(version, self.members_by_host, self.users)

    def with_members(self, user: UserId, hosts: Sequence[int]) -> "GroupState":
        """Return the state with one more member on each of the hosts."""
        members_by_host = dict(self.members_by_host)
        for host in hosts:
            members_by_host[host] = members_by_host.get(host, 0) + 1
        users = {**self.users, user: self.users.get(user, 0) + len(hosts)}
        return self._changed(self.version, members_by_host, users)

    def _changed(self, version: int, members_by_host: Mapping[int, int], users: Mapping[UserId, int]) -> "GroupState":
        """Do what dataclasses.replace does, at a third of its cost: each server in a group changes its state twice."""
        return GroupState(
            version, self.project_id, self.policies, members_by_host, users, self.migrating, self.instances
        )


def check_policies(policies: Sequence[GroupPolicy], display: Callable[[GroupPolicy], object] = str) -> None:
    """Raise Invalid for two policies that repeat or contradict each other; `display` renders a policy."""
    for one, other in combinations(policies, 2):
        problem = _conflict(one, other) if one.scope == other.scope else None
        if problem is not None:
            named = f"The policies {display(one)} and {display(other)}"
            raise Invalid(f"{named} {problem} each other; keep one{_alternative(one, other)}.")


def _conflict(one: GroupPolicy, other: GroupPolicy) -> str | None:
    """Return what is wrong with two policies of one scope, if anything."""
    both_hard = not one.kind.is_soft and not other.kind.is_soft
    same_direction = one.kind.direction is other.kind.direction
    if one.target == other.target:
        if not same_direction:
            return "contradict" if both_hard else None
        return None if _is_limited_spread(one, other) else "repeat"
    gather = same_direction and one.kind.direction is Direction.GATHER
    if both_hard and gather and one.target is not None and other.target is not None:
        return "contradict"  # a host is in one domain of a scope at most
    return None


def _alternative(one: GroupPolicy, other: GroupPolicy) -> str:
    """Return what else makes two policies that conflict acceptable: a limit with an even spread below it."""
    spreads = all(each.kind.direction is Direction.SPREAD and each.target is None for each in (one, other))
    if spreads and one.kind.is_soft is not other.kind.is_soft:
        return f", or set the rule {rule_name(one)} to more than 1"
    return ""


def _is_limited_spread(one: GroupPolicy, other: GroupPolicy) -> bool:
    """Return whether one policy is a limit above one, and the other an even spread below that limit."""
    hard, soft = (one, other) if other.kind.is_soft else (other, one)
    return soft.kind.is_soft and not hard.kind.is_soft and hard.limit > 1
