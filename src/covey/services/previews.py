"""Previews: how many more servers of a flavor fit into a group, and where, without claiming anything."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from covey.model.access import Actor
from covey.model.groups import Group, GroupState
from covey.model.ids import HostId
from covey.model.nova import NovaKind
from covey.model.quotas import UNLIMITED, QuotaUse
from covey.model.resources import quota_sizes
from covey.model.servers import PlacementRequest
from covey.ports import Access
from covey.scheduler.decide import Decision, decide
from covey.scheduler.explain import Explanation, explain
from covey.scheduler.fleet import Fleet
from covey.scheduler.planning import reject_unknown_zone
from covey.scheduler.request_spec import RequestSpec
from covey.services.audits import MemberDomains, domains_of_hosts, scopes_of
from covey.services.groups import Groups
from covey.services.live_fleet import LiveFleet
from covey.services.nova_plans import NovaPlan
from covey.services.obfuscation import obfuscation_for
from covey.services.quotas import Quotas
from covey.services.servers import Servers, image_traits, reject_small_flavor
from covey.storage.store import Store, Transaction

MAX_COUNT = 10_000  # servers in one preview; also used to find how many fit
_EXPLAIN = "covey:placement:explain"
_QUOTA = "The quota leaves {} more servers of this flavor."
_LARGE = "A group may have {} members, which leaves {} more."
_MEMBERS = "server_group_members"
_SEED = 0  # equal requests get equal answers as long as the fleet does not change


@dataclass(frozen=True, slots=True)
class PreviewRequest:
    """Servers to preview."""

    flavor: str
    count: int
    image: str | None = None
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """The domains of the servers that fit, and the reason why the rest do not fit."""

    group: Group
    requested: int
    placements: Sequence[MemberDomains]
    reason: str | None
    at_least: bool  # more may fit: all did, no more are allowed, or the search or the answer is not exact

    @property
    def fits(self) -> int:
        return len(self.placements)


@dataclass(frozen=True, slots=True)
class Previews:
    """Runs the scheduler for a group and stores nothing."""

    store: Store
    access: Access
    groups: Groups
    servers: Servers
    live: LiveFleet
    quotas: Quotas
    tenant_message: Callable[[Explanation], str]
    operator_message: Callable[[Explanation], str]
    exact: bool  # whether tenants see numbers of hosts
    max_members: int = UNLIMITED  # of a group, of all users together

    def preview(
        self, actor: Actor, group: str, request: PreviewRequest, quota_in_nova: Callable[[], QuotaUse]
    ) -> Preview:
        """Raises NotFound for an unknown group, Invalid for an unknown flavor, image or zone.

        A tenant's preview has no more servers than the tenant's quota leaves; that of a group of Nova is Nova's quota.
        The maximum of members limits operators as well.
        The members of such a group go to the compute nodes that are mirrored. Raises what `quota_in_nova` raises.
        """
        flavor = self.servers.flavor_for(actor, request.flavor)
        image = self.servers.image_for(actor, request.image)
        reject_small_flavor(flavor, image)
        required, forbidden = image_traits(image)
        operator = self.access.allows(actor, _EXPLAIN)
        with self.store.read() as tx:
            of_nova = tx.nova_mirror.owns(NovaKind.GROUP, self.groups.get_authorized(tx, actor, group, "preview").id)
        quota = quota_in_nova() if of_nova and not operator else None  # without a transaction: it asks Nova
        with self.store.read() as tx:
            found = self.groups.get_authorized(tx, actor, group, "preview")
            placement = PlacementRequest(
                zone=request.zone, image_required_traits=required, image_forbidden_traits=forbidden
            )
            requirements = self.servers.requirements_for(found.project_id, flavor, placement)
            state = tx.groups.states({found.id: found.version})[found.id]
            sizes = {**quota_sizes(flavor), _MEMBERS: 1}
            left = None if operator else (quota or self._quota(tx, actor, found, state, sizes)).left_for(sizes)
            spec = RequestSpec.for_flavor(flavor, requirements, state.view())
            fleet = self.live.read(tx).fleet
            if of_nova:
                fleet = NovaPlan.read(tx, fleet).only_nova()
            reject_unknown_zone(requirements, fleet)
            obfuscation = obfuscation_for(tx, self.access, actor, found.project_id)
        allowed = _Allowed.of_quota(left)
        if self.max_members != UNLIMITED:
            allowed = min(allowed, _Allowed.of_group(state, self.max_members), key=lambda each: each.count)
        if operator or self.exact:
            chosen, at_least, reason = self._decide(spec, fleet, request.count, allowed, operator=operator)
        else:
            chosen, at_least, reason = self._decide_coarsely(spec, fleet, request.count, allowed)
        placements = list(domains_of_hosts(chosen, scopes_of(found), fleet, obfuscation))
        return Preview(found, request.count, placements, reason, at_least)

    def _quota(
        self, tx: Transaction, actor: Actor, group: Group, state: GroupState, sizes: Mapping[str, int]
    ) -> QuotaUse:
        use = self.quotas.use_in(tx, group.project_id, sizes)
        return replace(use, used={**use.used, _MEMBERS: state.users.get(actor.user_id, 0)})

    def _decide(
        self, spec: RequestSpec, fleet: Fleet, requested: int, allowed: "_Allowed", *, operator: bool
    ) -> tuple[Sequence[HostId], bool, str | None]:
        """Return the hosts to show, whether more may fit, and why no more are shown."""
        spec = replace(spec, count=min(requested, allowed.count))
        if not spec.count:
            return (), True, allowed.reason
        decision = decide(spec, fleet, _SEED)
        fits = len(decision.chosen)
        if fits == spec.count:
            return decision.chosen, True, None if fits == requested else allowed.reason
        message = self.operator_message if operator else self.tenant_message
        return decision.chosen, not decision.proved, message(_explained(spec, fleet, decision, requested))

    def _decide_coarsely(
        self, spec: RequestSpec, fleet: Fleet, requested: int, allowed: "_Allowed"
    ) -> tuple[Sequence[HostId], bool, str | None]:
        """Return the same for a tenant who sees no numbers of hosts: no count exceeds the headroom.

        So the scheduler decides about all servers that are allowed, and the result is rounded.
        """
        left = allowed.count
        shown, reason = min(requested, left), None if requested <= left else allowed.reason
        if not shown:
            return (), True, reason
        spec = replace(spec, count=left)
        decision = decide(spec, fleet, _SEED)
        fits = _rounded(len(decision.chosen)) if len(decision.chosen) < spec.count else spec.count
        if fits < shown:
            shown, reason = fits, self.tenant_message(_explained(spec, fleet, decision, requested))
        chosen = decide(replace(spec, count=shown), fleet, _SEED).chosen if shown else ()
        return chosen, True, reason


@dataclass(frozen=True, slots=True)
class _Allowed:
    """How many more servers the group may have, and what limits them."""

    count: int
    reason: str

    @classmethod
    def of_quota(cls, left: int | None) -> "_Allowed":
        count = MAX_COUNT if left is None else min(left, MAX_COUNT)
        return cls(count, _QUOTA.format(count))

    @classmethod
    def of_group(cls, state: GroupState, maximum: int) -> "_Allowed":
        count = max(0, maximum - state.members)
        return cls(count, _LARGE.format(maximum, count))


def _explained(spec: RequestSpec, fleet: Fleet, decision: Decision, requested: int) -> Explanation:
    why = explain(spec, fleet, decision.chosen, proved=decision.proved)
    return replace(why, placed=0) if requested == MAX_COUNT else why  # the caller set no count


def _rounded(number: int) -> int:
    """Return the power of two at or below the number: it seldom moves when another project boots a server."""
    return 1 << (number.bit_length() - 1) if number else 0
