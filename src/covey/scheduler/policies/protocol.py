"""What a policy kind offers to the rest of the scheduler: one protocol for hard kinds, one for soft kinds.

A kind is stateless. Each method takes the policy (a `GroupPolicy` of that kind) and looks at its arguments alone.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from covey.model.groups import GroupPolicy, GroupView, PolicyKind
from covey.scheduler.batch_state import BatchState
from covey.scheduler.fleet import Fleet, Mask, Rows
from covey.scheduler.policies.scopes import Counts, MemberDomains, ScopedPolicy, Violation
from covey.scheduler.reasons import Reason, Sentences

if TYPE_CHECKING:  # the solver is optional, and slow to import
    from ortools.sat.python.cp_model import CpModel

    from covey.scheduler.rebalancing.flows import DomainFlows, Term


class Relaxation(NamedTuple):
    """A weaker policy: in words, and what replaces the policy. None removes it."""

    words: str
    policy: GroupPolicy | None


class Policy(Protocol):
    """What hard and soft kinds have in common."""

    @property
    def kind(self) -> PolicyKind:
        """The kind's name in the API."""

    def describe(self, policy: GroupPolicy) -> str:
        """Return the policy in words: at most 2 in one rack."""

    def violations(self, members: MemberDomains) -> Iterator[Violation]:
        """Yield the violations by the members; a group has at least one member."""

    def penalty(self, scoped: ScopedPolicy, counts: Counts) -> int:
        """Count the misplaced members. It is zero exactly where `violations` yields nothing."""

    def penalty_term(self, model: "CpModel", scoped: ScopedPolicy, flows: "DomainFlows", *, monotonic: bool) -> "Term":
        """Return the penalty after a rebalance as a term of the solver's model; add the constraints that it needs.

        With `monotonic`, no order of the moves may increase the penalty on the way.
        """


class HardPolicy(Policy, Protocol):
    """A kind that rules hosts out."""

    def mask(self, policy: GroupPolicy, group: GroupView, fleet: Fleet) -> Mask:
        """Return the hosts that admit one more member."""

    def reasons(self, policy: GroupPolicy, group: GroupView, fleet: Fleet, rejected: Mask) -> list[Reason]:
        """Explain why the rejected hosts do not admit one: each rejected host is in one reason."""

    def explain_hosts(self, policy: GroupPolicy, group: GroupView, fleet: Fleet, rows: Rows) -> Sentences:
        """Explain hosts that the mask rules out, with numbers and identifiers, for an administrator."""

    def constrain_batch(self, policy: GroupPolicy, group: GroupView, fleet: Fleet, state: BatchState) -> None:
        """Add the limits that the servers of a batch set each other to its state."""

    def relax(self, policy: GroupPolicy, group: GroupView, fleet: Fleet, others: Mask) -> Relaxation | None:
        """Return the smallest change after which the policy admits one of the `others`: hosts that all else admits."""

    def max_members_per_host(self, policy: GroupPolicy) -> int | None:
        """Return the maximum number of members on a host, for a policy of the host scope; None without a limit."""

    def destinations(self, scoped: ScopedPolicy, counts: Counts) -> Mask | None:
        """Return the hosts to which a rebalance may move members; None for all that the mask admits."""


class SoftPolicy(Policy, Protocol):
    """A kind that ranks hosts."""

    def best(self, policy: GroupPolicy, group: GroupView, fleet: Fleet, candidates: Mask) -> Mask:
        """Return the candidates that no other one beats; there is at least one candidate."""

    def rank_batch(
        self, policy: GroupPolicy, group: GroupView, fleet: Fleet, state: BatchState, batch: "BatchCost"
    ) -> int:
        """Add the cost of hosts to a batch's state; return a number greater than any cost difference, in units."""


class BatchCost(NamedTuple):
    """How a soft policy counts in a batch."""

    servers: int
    unit: int  # what one unit of the policy costs; the policies after it cost less than one unit together
