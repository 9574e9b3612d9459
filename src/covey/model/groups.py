"""Server groups and their policies: what belongs together, and what must stay apart."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from covey.model.errors import Invalid
from covey.model.ids import GroupId, ProjectId, ScopeId, ServerId, UserId
from covey.model.scopes import HOST_SCOPE


class PolicyKind(StrEnum):
    """Together or apart; must or should."""

    ANTI_AFFINITY = "anti-affinity"
    AFFINITY = "affinity"
    SOFT_ANTI_AFFINITY = "soft-anti-affinity"
    SOFT_AFFINITY = "soft-affinity"

    @property
    def is_soft(self) -> bool:
        """Whether it ranks hosts rather than ruling some out."""
        return self in {PolicyKind.SOFT_ANTI_AFFINITY, PolicyKind.SOFT_AFFINITY}


@dataclass(frozen=True, slots=True)
class ScopeRef:
    """A scope as a policy speaks of it; the implicit host scope has no id."""

    id: ScopeId | None = None
    name: str = HOST_SCOPE


HOST = ScopeRef()

_RULE_PREFIX = "max_server_per_"


@dataclass(frozen=True, slots=True)
class GroupPolicy:
    """One policy of a group, with the most members that a domain may hold where that matters."""

    kind: PolicyKind
    scope: ScopeRef = HOST
    target: str | None = None  # the real identifier of a domain; None means whichever
    limit: int = 1
    limited: bool = False  # a tenant set the limit, also where it is the usual one

    @property
    def has_rule(self) -> bool:
        """Whether the limit is worth telling."""
        return self.limited or self.limit != 1

    def __str__(self) -> str:
        """The canonical form, which leaves the host scope out where it can."""
        if self.target is not None:
            return f"{self.kind}:{self.scope.name}:{self.target}"
        return str(self.kind) if self.scope == HOST else f"{self.kind}:{self.scope.name}"


@dataclass(frozen=True, slots=True)
class Group:
    """A server group. The version changes with its policies, its members and their places."""

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
        """The rules that a tenant set: how many servers a domain may hold, where that is not one."""
        return {rule_name(policy): policy.limit for policy in self.policies if policy.has_rule}


@dataclass(frozen=True, slots=True)
class GroupView:
    """What a decision needs to know of a group: its policies, and how many members hold a place on each host.

    A member that moves holds both its places, and nobody knows yet which of the two it will keep.
    """

    policies: tuple[GroupPolicy, ...] = ()
    places: Mapping[int, int] = field(default_factory=dict)  # a new one for each change: it is remembered as it is
    movers: tuple[tuple[int, int], ...] = ()  # the two hosts of each member that moves


def rule_name(policy: GroupPolicy) -> str:
    """What a tenant calls the limit of a policy."""
    return f"{_RULE_PREFIX}{policy.scope.name}"


def with_rules(policies: tuple[GroupPolicy, ...], rules: Mapping[str, int]) -> tuple[GroupPolicy, ...]:
    """The policies with their limits set. Raises Invalid for a rule that no policy can have."""
    limits = dict(rules)
    limited = tuple(
        replace(policy, limit=limits.pop(rule_name(policy)), limited=True)
        if policy.kind is PolicyKind.ANTI_AFFINITY and policy.target is None and rule_name(policy) in limits
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
    """A group at one version: its policies, its members' places, and how many members each user has."""

    version: int
    project_id: ProjectId
    policies: tuple[GroupPolicy, ...]
    places: Mapping[int, int]
    users: Mapping[UserId, int]
    movers: tuple[tuple[int, int], ...] = ()

    def view(self) -> GroupView:
        """What a decision looks at."""
        return GroupView(self.policies, self.places, self.movers)

    def next(self) -> "GroupState":
        """The same, one version on: what a claim of its own made of it."""
        return GroupState(self.version + 1, self.project_id, self.policies, self.places, self.users, self.movers)

    def with_members(self, user: UserId, hosts: Sequence[int]) -> "GroupState":
        """The state after one more member on each of the hosts."""
        places = dict(self.places)
        for host in hosts:
            places[host] = places.get(host, 0) + 1
        users = {**self.users, user: self.users.get(user, 0) + len(hosts)}
        return GroupState(self.version, self.project_id, self.policies, places, users, self.movers)


def check_policies(policies: Sequence[GroupPolicy], say: Callable[[GroupPolicy], object] = str) -> None:
    """Raises Invalid, naming both as the tenant knows them, for two policies that contradict or repeat each other."""
    seen: dict[tuple[bool, ScopeRef, str | None], GroupPolicy] = {}
    for policy in policies:
        together = policy.kind in {PolicyKind.AFFINITY, PolicyKind.SOFT_AFFINITY}
        place = policy.scope, policy.target
        other = seen.get((together, *place))
        if other is not None:
            both = f"{say(other)} and {say(policy)}"
            raise Invalid(f"The policies {both} say the same kind of thing of one place; keep one.")
        seen[together, *place] = policy
        opposite = seen.get((not together, policy.scope, policy.target))
        if opposite and policy.target is None and not policy.kind.is_soft and not opposite.kind.is_soft:
            raise Invalid(f"The policies {say(opposite)} and {say(policy)} contradict each other; keep one.")
