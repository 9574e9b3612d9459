"""Who leaves and who arrives, as integer variables: conserved kind by kind, and within the room of every spot."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from ortools.sat.python.cp_model import CpModel, IntVar, LinearExpr

from covey.model.groups import HOST
from covey.scheduler.fleet import RESOURCES
from covey.scheduler.rebalancing.host_classes import HostClass
from covey.scheduler.rebalancing.measures import Counts, Measure
from covey.scheduler.rebalancing.problem import Problem

Term = LinearExpr | int


@dataclass(slots=True)
class Traffic:
    """What comes and goes in the domains of one scope."""

    counts: Counts  # before
    leaving: dict[int, list[IntVar]] = field(default_factory=lambda: defaultdict(list))
    arriving: dict[int, list[IntVar]] = field(default_factory=lambda: defaultdict(list))
    lots: list[tuple[HostClass, list[IntVar]]] = field(default_factory=list)  # empty hosts, each a domain of its own

    @property
    def busy(self) -> list[int]:
        """The domains that members are in or may come to, lots aside."""
        return sorted({*(self.counts[:-1].nonzero()[0].tolist()), *(d for d in self.arriving if d >= 0)})

    def after(self, domain: int) -> Term:
        """How many are there in the end."""
        return int(self.counts[domain]) + sum(self.arriving[domain]) - sum(self.leaving[domain])


class Flows:
    """The variables. Members of a kind are alike, so nothing says who goes where."""

    def __init__(self, model: CpModel, case: Problem, spots: Sequence[HostClass]) -> None:
        self.case, self.spots = case, spots
        self.leave = [model.new_int_var(0, len(crew.ids), "") for crew in case.crews]
        self.arrive = {
            (number, kind): model.new_int_var(0, most, "")
            for number, spot in enumerate(spots)
            for kind, most in enumerate(spot.most)
            if most
        }
        for kind in range(len(case.kinds)):
            leaving = [self.leave[number] for number, crew in enumerate(case.crews) if crew.kind == kind]
            model.add(sum(leaving) == sum(v for (_, each), v in self.arrive.items() if each == kind))
        self._keep_to_the_room(model)

    @property
    def variables(self) -> list[IntVar]:
        return [*self.leave, *self.arrive.values()]

    def traffic(self, measure: Measure) -> Traffic:
        """The same by the domains that a policy speaks of."""
        domain_of = measure.domains.of_host
        traffic = Traffic(measure.counts(self.case.rows))
        for crew, variable in zip(self.case.crews, self.leave, strict=True):
            traffic.leaving[int(domain_of[crew.row])].append(variable)
        for number, variables in self._by_spot().items():
            spot = self.spots[number]
            if measure.policy.scope == HOST and spot.rows.size > 1:
                traffic.lots.append((spot, list(variables.values())))
            else:
                traffic.arriving[int(domain_of[spot.row])] += variables.values()
        return traffic

    def _keep_to_the_room(self, model: CpModel) -> None:
        kinds = self.case.kinds
        leaving = defaultdict(list)
        for crew, variable in zip(self.case.crews, self.leave, strict=True):
            leaving[crew.row].append((kinds[crew.kind].amounts, variable))
        for number, arriving in self._by_spot().items():
            spot = self.spots[number]
            for resource in range(len(RESOURCES)):
                wanted = sum(kinds[kind].amounts[resource] * variable for kind, variable in arriving.items())
                if isinstance(wanted, int):
                    continue  # nobody asks for any
                given_back = sum(a[resource] * v for a, v in leaving[spot.row]) if spot.rows.size == 1 else 0
                fits = model.add(wanted <= spot.free[resource] + given_back)
                if spot.free[resource] < 0:  # over-full: room first, or nobody who asks for any
                    some = model.new_bool_var("")
                    fits.only_enforce_if(some)
                    model.add(wanted == 0).only_enforce_if(~some)

    def _by_spot(self) -> dict[int, dict[int, IntVar]]:
        found: dict[int, dict[int, IntVar]] = defaultdict(dict)
        for (spot, kind), variable in self.arrive.items():
            found[spot][kind] = variable
        return found
