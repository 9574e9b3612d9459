"""Flows: how many members leave and arrive, as integer variables, within the room of every host class."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from ortools.sat.python.cp_model import CpModel, IntVar, LinearExpr

from covey.model.groups import HOST
from covey.scheduler.policies.scopes import Counts, ScopedPolicy
from covey.scheduler.rebalancing.host_classes import HostClass
from covey.scheduler.rebalancing.problem import Problem

Term = LinearExpr | int


@dataclass(slots=True)
class DomainFlows:
    """The members that leave and arrive, by the domains of one policy's scope."""

    counts: Counts  # before
    members: int  # those that are counted, each once
    leaving: dict[int, list[IntVar]] = field(default_factory=lambda: defaultdict(list))
    arriving: dict[int, list[IntVar]] = field(default_factory=lambda: defaultdict(list))
    host_classes: list[tuple[HostClass, list[IntVar]]] = field(default_factory=list)  # empty hosts, each a domain

    @property
    def busy(self) -> list[int]:
        """The domains that hold members or may receive some, without `host_classes`."""
        return sorted({*(self.counts[:-1].nonzero()[0].tolist()), *(d for d in self.arriving if d >= 0)})

    def after(self, domain: int) -> Term:
        """Return the number of members in the domain after the moves."""
        return int(self.counts[domain]) + sum(self.arriving[domain]) - sum(self.leaving[domain])


class Flows:
    """The variables. Members of a class are interchangeable, so no variable names a member."""

    def __init__(self, model: CpModel, problem: Problem, host_classes: Sequence[HostClass]) -> None:
        self.problem, self.host_classes = problem, host_classes
        self.leave = [model.new_int_var(0, len(group.ids), "") for group in problem.move_groups]
        self.arrive = {
            (number, member_class): model.new_int_var(0, most, "")
            for number, host_class in enumerate(host_classes)
            for member_class, most in enumerate(host_class.most)
            if most
        }
        groups = list(zip(problem.move_groups, self.leave, strict=True))
        for number in range(len(problem.member_classes)):
            leaving = [variable for group, variable in groups if group.member_class == number]
            arriving = [variable for (_, member_class), variable in self.arrive.items() if member_class == number]
            model.add(sum(leaving) == sum(arriving))
        self._limit_to_room(model)

    @property
    def variables(self) -> list[IntVar]:
        return [*self.leave, *self.arrive.values()]

    def by_domain(self, scoped: ScopedPolicy) -> DomainFlows:
        """Return the flows by the domains of a policy."""
        rows = self.problem.rows
        flows = DomainFlows(scoped.counts(rows), int((~np.isin(rows, scoped.exempt)).sum()))
        for group, variable in zip(self.problem.move_groups, self.leave, strict=True):
            for domain in scoped.counted_in(group.row):
                flows.leaving[domain].append(variable)
        for number, variables in self._arrivals().items():
            host_class = self.host_classes[number]
            if scoped.policy.scope == HOST and host_class.rows.size > 1:
                flows.host_classes.append((host_class, list(variables.values())))
            else:
                for domain in scoped.counted_in(host_class.row):
                    flows.arriving[domain] += variables.values()
        return flows

    def _limit_to_room(self, model: CpModel) -> None:
        classes = self.problem.member_classes
        leaving = defaultdict(list)
        for group, variable in zip(self.problem.move_groups, self.leave, strict=True):
            leaving[group.row].append((classes[group.member_class].total, variable))
        for number, arriving in self._arrivals().items():
            host_class = self.host_classes[number]
            for resource, free in host_class.free.items():
                taken = sum(classes[each].total.get(resource, 0) * variable for each, variable in arriving.items())
                if isinstance(taken, int):
                    continue  # no member that may arrive takes any
                single = host_class.rows.size == 1
                freed = (
                    sum(amounts.get(resource, 0) * left for amounts, left in leaving[host_class.row]) if single else 0
                )
                fits = model.add(taken <= free + freed)
                if free < 0:  # over-full: enough leaves, or nothing arrives that takes any
                    has_room = model.new_bool_var("")
                    fits.only_enforce_if(has_room)
                    model.add(taken == 0).only_enforce_if(~has_room)

    def _arrivals(self) -> dict[int, dict[int, IntVar]]:
        """Return the variables of arriving members, by host class and member class."""
        found: dict[int, dict[int, IntVar]] = defaultdict(dict)
        for (host_class, member_class), variable in self.arrive.items():
            found[host_class][member_class] = variable
        return found
