"""How large a cluster shall be: what a request says of it, what stands against it, and the number in the end."""

import math
from dataclasses import dataclass
from enum import StrEnum

from covey.model.clustering.actions import Verb
from covey.model.clustering.clusters import NO_MAXIMUM, Cluster
from covey.model.clustering.errors import BadSpec
from covey.model.clustering.spec_schema import Boolean, Integer, Number
from covey.model.clustering.specs import Document
from covey.model.errors import Invalid

MOST = 1000  # nodes of a cluster, unless the operator says otherwise
_FARTHEST = 1_000_000  # a size, or a percentage, beyond which nobody means it
_INTEGER, _NUMBER, _BOOLEAN = Integer(""), Number(""), Boolean("")


class Adjustment(StrEnum):
    """What the number of a resize means."""

    EXACT = "EXACT_CAPACITY"
    BY_NUMBER = "CHANGE_IN_CAPACITY"
    BY_PERCENTAGE = "CHANGE_IN_PERCENTAGE"


@dataclass(frozen=True, slots=True)
class Resize:
    """A request for another size, other bounds, or both. A strict one is refused rather than made to fit."""

    adjustment: Adjustment | None = None
    number: float = 0
    min_size: int | None = None
    max_size: int | None = None
    min_step: int = 0
    strict: bool = True

    @property
    def inputs(self) -> dict[str, object]:
        """How an action keeps it; read_resize reads it back."""
        of_bounds = {"min_size": self.min_size, "max_size": self.max_size}
        kept: dict[str, object] = {name: bound for name, bound in of_bounds.items() if bound is not None}
        if self.adjustment is not None:
            kept |= {"adjustment_type": str(self.adjustment), "number": self.number}
        if self.min_step:
            kept["min_step"] = self.min_step
        return kept | {"strict": self.strict}


@dataclass(frozen=True, slots=True)
class NewSize:
    """What becomes of a cluster, and by how many nodes it grows; below zero, it shrinks."""

    min_size: int
    max_size: int
    desired_capacity: int
    growth: int


def read_resize(given: Document, most: int = MOST) -> Resize:
    """Reads the body of a resize, or what an action kept of it. Raises Invalid."""
    said = {key: value for key, value in given.items() if value is not None}
    adjustment = _adjustment(said.get("adjustment_type"))
    if adjustment is None and "number" in said:
        raise Invalid("Missing adjustment_type value for size adjustment.")
    if adjustment is not None and "number" not in said:
        raise Invalid("Missing number value for size adjustment.")
    if adjustment is None and not said.keys() & {"min_size", "max_size"}:
        raise Invalid("Not enough parameters to do resize action.")
    wanted = Resize(
        adjustment=adjustment,
        number=0 if adjustment is None else _number(adjustment, said["number"]),
        min_size=_bound(said, "min_size", 0, most),
        max_size=_bound(said, "max_size", NO_MAXIMUM, most),
        min_step=(_bound(said, "min_step", 0, most) or 0) if adjustment is Adjustment.BY_PERCENTAGE else 0,
        strict=_BOOLEAN.read(said.get("strict", True)),
    )
    _refuse_crossed(wanted.min_size, wanted.max_size)
    return wanted


def check_resize(wanted: Resize, cluster: Cluster, nodes: int, most: int = MOST) -> None:
    """Refuses at once what can't be. Bounds in the request bind its own number, strict or not. Raises Invalid."""
    _refuse(wanted, cluster, _goal(wanted, cluster, nodes), most)


def resized(wanted: Resize, cluster: Cluster, nodes: int, most: int = MOST) -> NewSize:
    """What a resize comes to for a cluster of so many nodes; unless it is strict, it is made to fit. Raises Invalid."""
    low = cluster.min_size if wanted.min_size is None else wanted.min_size
    high = cluster.max_size if wanted.max_size is None else wanted.max_size
    goal = _goal(wanted, cluster, nodes)
    if not wanted.strict:
        goal = fitted(goal, low, high, most)
    _refuse(wanted, cluster, goal, most)
    moved = wanted.adjustment is not None or goal != cluster.desired_capacity
    return NewSize(low, high, goal, goal - nodes if moved else 0)


def changed(adjustment: Adjustment, number: float, nodes: int, min_step: int = 0) -> int:
    """How many nodes there are after an adjustment. A percentage of few nodes is at least one of them."""
    if adjustment is Adjustment.EXACT:
        return int(number)
    if adjustment is Adjustment.BY_NUMBER:
        return nodes + int(number)
    part = nodes * number / 100
    size = max(1, int(abs(part))) if part else 0
    return nodes + int(math.copysign(max(size, min_step), number)) if number else nodes


def fitted(goal: int, low: int, high: int, most: int = MOST) -> int:
    """The size within the bounds that is nearest to the goal."""
    return max(low, min(goal, most if high == NO_MAXIMUM else high))


def read_count(inputs: Document, default: int | None = None) -> int | None:
    """How many nodes a scaling asks for; the default where it does not say. Raises Invalid."""
    given = inputs.get("count")
    if given is None:
        return default
    count = _whole("count", given)
    if count < 0:
        raise Invalid("Value must be >= 0 for field 'count'.")
    return count


def check_scaling(verb: Verb, count: int | None, nodes: int, most: int = MOST) -> None:
    """Refuses at once what no cluster allows; a cluster's own bounds are for the action to see to. Raises Invalid."""
    if count == 0:
        way = "scale-out" if verb is Verb.CLUSTER_SCALE_OUT else "scale-in"
        raise Invalid(f"Count for {way} request cannot be 0.")
    if verb is Verb.CLUSTER_SCALE_OUT and count is not None:
        _refuse_too_many(nodes + count, most)


def check_growth(cluster: Cluster, goal: int, most: int = MOST) -> None:
    """Whether a cluster may grow to so many nodes; that may still be too few. Raises Invalid."""
    if NO_MAXIMUM != cluster.max_size < goal:
        raise Invalid(f"The target capacity ({goal}) is greater than the cluster's max_size ({cluster.max_size}).")
    _refuse_too_many(goal, most)


def check_shrinkage(cluster: Cluster, goal: int) -> None:
    """Whether a cluster may shrink to so many nodes; that may still be too many. Raises Invalid."""
    if goal < cluster.min_size:
        raise Invalid(f"The target capacity ({goal}) is less than the cluster's min_size ({cluster.min_size}).")


def check_new(desired: int, min_size: int, max_size: int, most: int = MOST) -> None:
    """Whether a cluster can begin with such sizes. Raises Invalid."""
    _refuse_outside(desired, min_size, max_size)
    _refuse_crossed(min_size, max_size)
    _refuse_too_many(desired, most)


def _goal(wanted: Resize, cluster: Cluster, nodes: int) -> int:
    if wanted.adjustment is None:
        return cluster.desired_capacity
    return changed(wanted.adjustment, wanted.number, nodes, wanted.min_step)


def _refuse(wanted: Resize, cluster: Cluster, goal: int, most: int) -> None:
    _refuse_crossed(wanted.min_size, wanted.max_size)
    _refuse_bounds(wanted, cluster)
    if wanted.adjustment is None:
        return
    _refuse_outside(goal, wanted.min_size, wanted.max_size)
    if wanted.strict and wanted.min_size is None:
        check_shrinkage(cluster, goal)
    if wanted.strict and wanted.max_size is None:
        check_growth(cluster, goal, most)
    if wanted.strict:
        _refuse_too_many(goal, most)


def _refuse_crossed(min_size: int | None, max_size: int | None) -> None:
    if min_size is not None and max_size is not None and NO_MAXIMUM != max_size < min_size:
        raise Invalid(f"The specified min_size ({min_size}) is greater than the specified max_size ({max_size}).")


def _refuse_outside(goal: int, min_size: int | None, max_size: int | None) -> None:
    if min_size is not None and goal < min_size:
        raise Invalid(f"The target capacity ({goal}) is less than the specified min_size ({min_size}).")
    if max_size is not None and NO_MAXIMUM != max_size < goal:
        raise Invalid(f"The target capacity ({goal}) is greater than the specified max_size ({max_size}).")


def _refuse_bounds(wanted: Resize, cluster: Cluster) -> None:
    """One new bound against the other that stays, and against the size that stays."""
    low, high, size = wanted.min_size, wanted.max_size, cluster.desired_capacity
    size_stays = wanted.adjustment is None and wanted.strict
    if low is not None:
        beyond = f"The specified min_size ({low}) is greater than the current"
        if high is None and NO_MAXIMUM != cluster.max_size < low:
            raise Invalid(f"{beyond} max_size ({cluster.max_size}) of the cluster.")
        if size_stays and low > size:
            raise Invalid(f"{beyond} desired_capacity ({size}) of the cluster.")
    if high is not None and high != NO_MAXIMUM:
        short = f"The specified max_size ({high}) is less than the current"
        if low is None and high < cluster.min_size:
            raise Invalid(f"{short} min_size ({cluster.min_size}) of the cluster.")
        if size_stays and high < size:
            raise Invalid(f"{short} desired_capacity ({size}) of the cluster.")


def _refuse_too_many(goal: int, most: int) -> None:
    if goal > most:
        raise Invalid(
            f"The target capacity ({goal}) is greater than the maximum number of nodes allowed per cluster ({most})."
        )


def _adjustment(given: object) -> Adjustment | None:
    if given is None:
        return None
    try:
        return Adjustment(str(given))
    except ValueError:
        raise Invalid(f"Value '{given}' is not acceptable for field 'adjustment_type'.") from None


def _number(adjustment: Adjustment, given: object) -> float:
    try:
        number = _NUMBER.read(given)
    except BadSpec:
        raise Invalid(f"The value for number must be a number: '{given}'.") from None
    _refuse_out_of_range("number", number, -_FARTHEST, _FARTHEST)
    if adjustment is Adjustment.EXACT and number < 0:
        raise Invalid("The 'number' must be non-negative integer for adjustment type 'EXACT_CAPACITY'.")
    return number if adjustment is Adjustment.BY_PERCENTAGE else int(number)


def _bound(said: Document, name: str, least: int, most: int) -> int | None:
    return None if name not in said else _whole(name, said[name], least, most)


def _whole(name: str, given: object, least: int = -_FARTHEST, most: int = _FARTHEST) -> int:
    try:
        number = _INTEGER.read(given)
    except BadSpec:
        raise Invalid(f"The value for {name} must be an integer: '{given}'.") from None
    _refuse_out_of_range(name, number, least, most)
    return number


def _refuse_out_of_range(name: str, number: float, least: int, most: int) -> None:
    if number < least:
        raise Invalid(f"The value for the {name} field must be greater than or equal to {least}.")
    if number > most:
        raise Invalid(f"The value for the {name} field must be less than or equal to {most}.")
