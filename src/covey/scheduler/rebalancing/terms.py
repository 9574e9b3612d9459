"""What is left of a policy's violations, as a term of the model; beside it, what the policy forbids on the way."""

from ortools.sat.python.cp_model import CpModel

from covey.model.groups import PolicyKind
from covey.scheduler.fleet import NO_DOMAIN
from covey.scheduler.rebalancing.flows import Flows, Term, Traffic
from covey.scheduler.rebalancing.measures import Measure


def penalty(model: CpModel, flows: Flows, measure: Measure, *, steady: bool) -> Term:
    """The measure's value in the end. A steady one does not get worse on the way there, for the sake of another."""
    traffic, total = flows.traffic(measure), len(flows.case.members)
    if measure.target is not None:
        there = traffic.after(measure.target) if measure.target >= 0 else 0
        return there if measure.apart else total - there
    if not measure.apart:
        return _scattered(model, traffic, total, steady=steady)
    judge = _crowded if measure.policy.kind is PolicyKind.ANTI_AFFINITY else _uneven
    return judge(model, traffic, measure) + traffic.after(NO_DOMAIN)


def _crowded(model: CpModel, traffic: Traffic, measure: Measure) -> Term:
    """How many are too many, domain by domain. Whoever arrives must find less than the limit there."""
    limit, over = measure.policy.limit, []
    for domain in traffic.busy:
        before, after = int(traffic.counts[domain]), traffic.after(domain)
        if before <= limit:
            model.add(after <= limit)
            continue
        more = model.new_int_var(0, before - limit, "")
        model.add(more >= after - limit)
        over.append(more)
        if traffic.arriving[domain]:
            some = model.new_bool_var("")
            model.add(after <= limit).only_enforce_if(some)
            model.add(sum(traffic.arriving[domain]) == 0).only_enforce_if(~some)
    for lot, variables in traffic.lots:
        model.add(sum(variables) <= limit * lot.rows.size)
    return sum(over)


def _scattered(model: CpModel, traffic: Traffic, total: int, *, steady: bool) -> Term:
    """How many are outside of the domain where most are: one of them is home."""
    if not traffic.busy:
        return total
    counts, away = traffic.counts, model.new_int_var(0, total, "")
    before = total - int(counts[:NO_DOMAIN].max())
    worst = model.new_int_var(before, total, "")
    model.add_max_equality(worst, [away, before])
    homes = {domain: model.new_bool_var("") for domain in traffic.busy}
    model.add_exactly_one(homes.values())
    gone = {domain: sum(variables) for domain, variables in traffic.leaving.items()}
    fullest = max(traffic.busy, key=lambda domain: int(counts[domain]))
    # Follows from the rest, but lets the solver see at once that whoever is not at home has to move there.
    model.add(sum(gone.values()) + away >= sum((total - int(counts[d])) * home for d, home in homes.items()))
    for domain, home in homes.items():
        model.add(away >= total - traffic.after(domain)).only_enforce_if(home)
        if counts[domain] == counts[fullest] or not steady:
            continue
        # A new home has to grow from the others before those of the old one follow, or it would get worse on the way.
        others = sum(number for where, number in gone.items() if where not in {domain, fullest})
        model.add(int(counts[domain]) + others + int(counts[fullest]) >= 2 * (total - worst) - 1).only_enforce_if(home)
    return away


def _uneven(model: CpModel, traffic: Traffic, measure: Measure) -> Term:
    """By how much more than one the fullest and the emptiest domain differ."""
    total = int(traffic.counts.sum())
    usable = int(measure.usable.sum())
    most, beyond = model.new_int_var(0, total, ""), model.new_int_var(0, total, "")
    least = model.new_int_var(0, total // usable if usable else total, "")
    idle = measure.usable.copy()
    for domain in traffic.busy:
        model.add(most >= traffic.after(domain))
        if measure.usable[domain]:
            model.add(least <= traffic.after(domain))
        idle[domain] = False
    for lot, variables in traffic.lots:
        model.add(lot.rows.size * most >= sum(variables))
        model.add(lot.rows.size * least <= sum(variables))
        idle[lot.rows] = False
    if idle.any():
        model.add(least == 0)
    # Follows from the rest, but gives the solver a level to begin with.
    model.add(most * len(measure.domains.names) >= total - traffic.after(NO_DOMAIN))
    model.add(beyond >= most - least - 1)
    return beyond
