"""Rebalance plans for servers that several providers serve: as good as on plain hosts, and each move can be served."""

from collections import Counter
from dataclasses import replace
from random import Random

from hypothesis import event, given, settings

from covey.model.claims import Allocations
from covey.model.fleet_records import AggregateRecord, HostRecord
from covey.model.groups import GroupPolicy, PolicyKind
from covey.model.ids import HostId
from covey.model.providers import ProviderRecord
from covey.model.resources import Resources
from covey.scheduler.candidates import CandidateQuery, find
from covey.scheduler.decide import decide
from covey.scheduler.fleet import Fleet
from covey.scheduler.rebalancing import Member, Plan, hosts_after, plan
from covey.scheduler.request_spec import HostRequirements
from tests.budgets import examples
from tests.property.test_candidate_laws import forest, rng_seeds
from tests.property.test_provider_allocation_laws import spec_and_query
from tests.property.test_rebalance_laws import World, law, worlds

CHILD = 100  # the child of host 1 is provider 101
ROUNDS = 10
forest_law = settings(law, max_examples=examples(60))


class SplitWorld(World):
    """The same hosts, whose VCPUs a child provider has."""

    def fleet(self) -> Fleet:
        records = list[ProviderRecord]()
        for host in self.hosts:
            whole = host.provider()
            cpus = {"VCPU": whole.inventories["VCPU"]}
            rest = {name: each for name, each in whole.inventories.items() if name != "VCPU"}
            number = CHILD + host.id
            records.append(replace(whole, inventories=rest))
            records.append(ProviderRecord(number, f"cpus-{number}", f"cpus-{number}", host.id, host.id, 0, cpus))
        within = {h.id: frozenset(a.id for a in self.aggregates if h.id in a.hosts) for h in self.hosts}
        hosts = [HostRecord(h.id, h.name, h.enabled, h.up, h.zone, within[h.id]) for h in self.hosts]
        return Fleet(records, hosts, [each.record() for each in self.aggregates])

    def plan(self, seed: int = 1) -> Plan:
        held = [
            replace(
                member,
                held={
                    member.host: member.amounts.without("VCPU"),
                    CHILD + member.host: Resources({"VCPU": member.amounts["VCPU"]}),
                },
            )
            for member in self.members
        ]
        return plan(self.policies, held, self.fleet(), seed, timeout_s=60)


@law
@given(worlds())
def test_servers_of_child_providers_are_planned_as_well_as_those_of_plain_hosts(world: World) -> None:
    split = SplitWorld(world.policies, world.members, world.hosts, world.aggregates)
    rebalance = split.plan()
    after = world.values(hosts_after(world.members, rebalance.moves))
    best, moves = world.best()
    if rebalance.blocked:
        assert (world.rank(after), len(rebalance.moves)) >= (best, moves)
    else:
        assert (world.rank(after), len(rebalance.moves)) == (best, moves)
        assert not rebalance.optimal or rebalance.bound == moves


@forest_law
@given(rng_seeds)
def test_every_planned_move_has_an_allocation_candidate_at_its_time(seed: int) -> None:
    rng = Random(seed)  # noqa: S311 -- not used for secrets
    for _ in range(ROUNDS):
        records, (spec, query) = forest(rng), spec_and_query(rng)
        roots = [each.id for each in records if each.parent_id is None]
        hosts = [HostRecord(HostId(root), f"name-{root}") for root in roots]
        fleet = Fleet(records, hosts, list[AggregateRecord]())
        decision = decide(replace(spec, count=3), fleet, seed=rng.randint(0, 9))
        served = list(decision.allocations(spec.amounts))
        fleet.take_all(use for each in served for use in each.items())
        needs = HostRequirements(required_traits=spec.requirements.required_traits)
        members = [
            Member(f"m{n}", host, spec.amounts, needs, True, spec.granular, spec.isolate, held)
            for n, (host, held) in enumerate(zip(decision.chosen, served, strict=True))
        ]
        policy = GroupPolicy(rng.choice([PolicyKind.ANTI_AFFINITY, PolicyKind.SOFT_ANTI_AFFINITY, PolicyKind.AFFINITY]))
        rebalance = plan([policy], members, fleet, 1, timeout_s=60)
        left, holds = _after(records, served, 1), {member.id: member.held or {} for member in members}
        for move in rebalance.moves:
            options = _candidates_on(move.destination, query, left)
            assert options
            holds_after = options[0] if len(options) == 1 else None
            if holds_after is None:
                break  # which one the plan counts with is not known
            left = _after(left, [holds[move.member]], -1)
            left = _after(left, [holds_after], 1)
        event(f"moves: {len(rebalance.moves)}, violations after: {len(rebalance.after)}")


def _after(records: list[ProviderRecord], served: list[Allocations], sign: int) -> list[ProviderRecord]:
    taken: Counter[tuple[int, str]] = Counter()
    for allocations in served:
        for provider, amounts in allocations.items():
            taken.update({(provider, name): sign * amount for name, amount in amounts.items()})
    return [
        replace(
            each,
            inventories={
                name: replace(inventory, used=inventory.used + taken[each.id, name])
                for name, inventory in each.inventories.items()
            },
        )
        for each in records
    ]


def _candidates_on(host: int, query: CandidateQuery, records: list[ProviderRecord]) -> list[Allocations]:
    """Return the candidates of the tree of a host: those that the fleet has without the other trees."""
    ids = {each.uuid: each.id for each in records}
    sharing = [each for each in records if "MISC_SHARES_VIA_AGGREGATE" in each.traits]
    own = [each for each in records if (each.root_id or each.id) == host]
    parents = [each for each in records if each.id in {s.root_id or s.id for s in sharing}]
    kept = {each.id: each for each in (*own, *sharing, *parents)}
    while missing := [each for each in records if each.id in {k.parent_id for k in kept.values()} - kept.keys()]:
        kept |= {each.id: each for each in missing}
    found = find(query, Fleet([*kept.values()])).candidates
    return [{ids[uuid]: Resources(each) for uuid, each in one.allocations.items()} for one in found]
