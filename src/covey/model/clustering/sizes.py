"""Cluster sizes: resize and scaling requests, the bounds they must meet, and the desired capacity that follows."""

import math
from dataclasses import dataclass
from enum import StrEnum

from covey.model.clustering.actions import Verb
from covey.model.clustering.clusters import NO_MAXIMUM, Cluster
from covey.model.clustering.errors import BadSpec
from covey.model.clustering.spec_schema import Boolean, Integer, Number
from covey.model.clustering.specs import Document
from covey.model.errors import Invalid

MAX_NODES_PER_CLUSTER = 1000  # the default of the option
_MAX_NUMBER = 1_000_000  # of a size or a percentage
_INTEGER, _NUMBER, _BOOLEAN = Integer(""), Number(""), Boolean("")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that an operator configures."""

    max_clusters_per_project: int = 100
    max_nodes_per_cluster: int = MAX_NODES_PER_CLUSTER
    action_timeout_s: int = 3600  # the default of a cluster's timeout
    max_profiles_per_project: int = 1000
    max_policies_per_project: int = 1000
    max_receivers_per_project: int = 1000
    max_orphan_nodes_per_project: int = 1000


class AdjustmentType(StrEnum):
    """The meaning of a resize's number."""

    EXACT = "EXACT_CAPACITY"
    BY_NUMBER = "CHANGE_IN_CAPACITY"
    BY_PERCENTAGE = "CHANGE_IN_PERCENTAGE"


@dataclass(frozen=True, slots=True)
class ResizeRequest:
    """A request for another size, other bounds, or both. A strict request fails where others are truncated."""

    adjustment_type: AdjustmentType | None = None
    number: float = 0
    min_size: int | None = None
    max_size: int | None = None
    min_step: int = 0
    strict: bool = True

    @property
    def inputs(self) -> dict[str, object]:
        """The inputs of the action; parse_resize reads them back."""
        bounds = {"min_size": self.min_size, "max_size": self.max_size}
        inputs: dict[str, object] = {name: bound for name, bound in bounds.items() if bound is not None}
        if self.adjustment_type is not None:
            inputs |= {"adjustment_type": str(self.adjustment_type), "number": self.number}
        if self.min_step:
            inputs["min_step"] = self.min_step
        return inputs | {"strict": self.strict}


@dataclass(frozen=True, slots=True)
class ResizePlan:
    """The new bounds and size of a cluster. A negative change removes nodes."""

    min_size: int
    max_size: int
    desired_capacity: int
    change: int


def parse_resize(given: Document, max_nodes: int = MAX_NODES_PER_CLUSTER) -> ResizeRequest:
    """Parse the body of a resize request or the inputs of its action. Raises Invalid."""
    params = {key: value for key, value in given.items() if value is not None}
    adjustment = _adjustment_type(params.get("adjustment_type"))
    if adjustment is None and "number" in params:
        raise Invalid("Missing adjustment_type value for size adjustment.")
    if adjustment is not None and "number" not in params:
        raise Invalid("Missing number value for size adjustment.")
    if adjustment is None and not params.keys() & {"min_size", "max_size"}:
        raise Invalid("Not enough parameters to do resize action.")
    request = ResizeRequest(
        adjustment_type=adjustment,
        number=0 if adjustment is None else _number(adjustment, params["number"]),
        min_size=_bound(params, "min_size", 0, max_nodes),
        max_size=_bound(params, "max_size", NO_MAXIMUM, max_nodes),
        min_step=(_bound(params, "min_step", 0, max_nodes) or 0) if adjustment is AdjustmentType.BY_PERCENTAGE else 0,
        strict=_BOOLEAN.read(params.get("strict", True)),
    )
    _reject_crossed_bounds(request.min_size, request.max_size)
    return request


def check_size_params(
    request: ResizeRequest, cluster: Cluster, nodes: int, max_nodes: int = MAX_NODES_PER_CLUSTER
) -> None:
    """Raises Invalid when the request cannot succeed. Its own bounds bind its number, strict or not."""
    _reject_size(request, cluster, _desired(request, cluster, nodes), max_nodes)


def plan_resize(
    request: ResizeRequest, cluster: Cluster, nodes: int, max_nodes: int = MAX_NODES_PER_CLUSTER
) -> ResizePlan:
    """Return the result of a resize; a request that is not strict is truncated to the bounds. Raises Invalid."""
    min_size = cluster.min_size if request.min_size is None else request.min_size
    max_size = cluster.max_size if request.max_size is None else request.max_size
    desired = _desired(request, cluster, nodes)
    if not request.strict:
        desired = truncate_desired(desired, min_size, max_size, max_nodes)
    _reject_size(request, cluster, desired, max_nodes)
    is_change = request.adjustment_type is not None or desired != cluster.desired_capacity
    return ResizePlan(min_size, max_size, desired, desired - nodes if is_change else 0)


def calculate_desired(adjustment: AdjustmentType, number: float, nodes: int, min_step: int = 0) -> int:
    """Return the number of nodes after an adjustment. A percentage changes at least one node."""
    if adjustment is AdjustmentType.EXACT:
        return int(number)
    if adjustment is AdjustmentType.BY_NUMBER:
        return nodes + int(number)
    part = nodes * number / 100
    size = max(1, int(abs(part))) if part else 0
    return nodes + int(math.copysign(max(size, min_step), number)) if number else nodes


def truncate_desired(desired: int, min_size: int, max_size: int, max_nodes: int = MAX_NODES_PER_CLUSTER) -> int:
    """Return the size within the bounds that is nearest to the desired one."""
    return max(min_size, min(desired, max_nodes if max_size == NO_MAXIMUM else max_size))


def parse_count(inputs: Document, default: int | None = None) -> int | None:
    """Return the number of nodes that a scaling request names, or the default. Raises Invalid."""
    given = inputs.get("count")
    if given is None:
        return default
    count = _integer("count", given)
    if count < 0:
        raise Invalid("Value must be >= 0 for field 'count'.")
    return count


def check_scale_count(verb: Verb, count: int | None, nodes: int, max_nodes: int = MAX_NODES_PER_CLUSTER) -> None:
    """Raises Invalid for a count that no cluster allows. The action checks the cluster's own bounds."""
    if count == 0:
        direction = "scale-out" if verb is Verb.CLUSTER_SCALE_OUT else "scale-in"
        raise Invalid(f"Count for {direction} request cannot be 0.")
    if verb is Verb.CLUSTER_SCALE_OUT and count is not None:
        _reject_too_many(nodes + count, max_nodes)


def check_max_size(cluster: Cluster, desired: int, max_nodes: int = MAX_NODES_PER_CLUSTER) -> None:
    """Raises Invalid when the desired size exceeds the cluster's max_size or the operator's limit."""
    if NO_MAXIMUM != cluster.max_size < desired:
        raise Invalid(f"The target capacity ({desired}) is greater than the cluster's max_size ({cluster.max_size}).")
    _reject_too_many(desired, max_nodes)


def check_min_size(cluster: Cluster, desired: int) -> None:
    """Raises Invalid when the desired size is below the cluster's min_size."""
    if desired < cluster.min_size:
        raise Invalid(f"The target capacity ({desired}) is less than the cluster's min_size ({cluster.min_size}).")


def check_new_cluster(desired: int, min_size: int, max_size: int, max_nodes: int = MAX_NODES_PER_CLUSTER) -> None:
    """Raises Invalid for sizes that a new cluster cannot have."""
    _reject_outside(desired, min_size, max_size)
    _reject_crossed_bounds(min_size, max_size)
    _reject_too_many(desired, max_nodes)


def _desired(request: ResizeRequest, cluster: Cluster, nodes: int) -> int:
    if request.adjustment_type is None:
        return cluster.desired_capacity
    return calculate_desired(request.adjustment_type, request.number, nodes, request.min_step)


def _reject_size(request: ResizeRequest, cluster: Cluster, desired: int, max_nodes: int) -> None:
    _reject_crossed_bounds(request.min_size, request.max_size)
    _reject_bounds(request, cluster)
    if request.adjustment_type is None:
        return
    _reject_outside(desired, request.min_size, request.max_size)
    if request.strict and request.min_size is None:
        check_min_size(cluster, desired)
    if request.strict and request.max_size is None:
        check_max_size(cluster, desired, max_nodes)
    if request.strict:
        _reject_too_many(desired, max_nodes)


def _reject_crossed_bounds(min_size: int | None, max_size: int | None) -> None:
    if min_size is not None and max_size is not None and NO_MAXIMUM != max_size < min_size:
        raise Invalid(f"The specified min_size ({min_size}) is greater than the specified max_size ({max_size}).")


def _reject_outside(desired: int, min_size: int | None, max_size: int | None) -> None:
    if min_size is not None and desired < min_size:
        raise Invalid(f"The target capacity ({desired}) is less than the specified min_size ({min_size}).")
    if max_size is not None and NO_MAXIMUM != max_size < desired:
        raise Invalid(f"The target capacity ({desired}) is greater than the specified max_size ({max_size}).")


def _reject_bounds(request: ResizeRequest, cluster: Cluster) -> None:
    """Compare a new bound with the bound and the size that stay."""
    min_size, max_size, size = request.min_size, request.max_size, cluster.desired_capacity
    size_stays = request.adjustment_type is None and request.strict
    if min_size is not None:
        beyond = f"The specified min_size ({min_size}) is greater than the current"
        if max_size is None and NO_MAXIMUM != cluster.max_size < min_size:
            raise Invalid(f"{beyond} max_size ({cluster.max_size}) of the cluster.")
        if size_stays and min_size > size:
            raise Invalid(f"{beyond} desired_capacity ({size}) of the cluster.")
    if max_size is not None and max_size != NO_MAXIMUM:
        short = f"The specified max_size ({max_size}) is less than the current"
        if min_size is None and max_size < cluster.min_size:
            raise Invalid(f"{short} min_size ({cluster.min_size}) of the cluster.")
        if size_stays and max_size < size:
            raise Invalid(f"{short} desired_capacity ({size}) of the cluster.")


def _reject_too_many(desired: int, max_nodes: int) -> None:
    if desired > max_nodes:
        raise Invalid(
            f"The target capacity ({desired}) is greater than the maximum number of nodes allowed per cluster "
            f"({max_nodes})."
        )


def _adjustment_type(given: object) -> AdjustmentType | None:
    if given is None:
        return None
    try:
        return AdjustmentType(str(given))
    except ValueError:
        raise Invalid(f"Value '{given}' is not acceptable for field 'adjustment_type'.") from None


def _number(adjustment: AdjustmentType, given: object) -> float:
    try:
        number = _NUMBER.read(given)
    except BadSpec:
        raise Invalid(f"The value for number must be a number: '{given}'.") from None
    _reject_out_of_range("number", number, -_MAX_NUMBER, _MAX_NUMBER)
    if adjustment is AdjustmentType.EXACT and number < 0:
        raise Invalid("The 'number' must be non-negative integer for adjustment type 'EXACT_CAPACITY'.")
    return number if adjustment is AdjustmentType.BY_PERCENTAGE else int(number)


def _bound(params: Document, name: str, minimum: int, maximum: int) -> int | None:
    return None if name not in params else _integer(name, params[name], minimum, maximum)


def _integer(name: str, given: object, minimum: int = -_MAX_NUMBER, maximum: int = _MAX_NUMBER) -> int:
    try:
        number = _INTEGER.read(given)
    except BadSpec:
        raise Invalid(f"The value for {name} must be an integer: '{given}'.") from None
    _reject_out_of_range(name, number, minimum, maximum)
    return number


def _reject_out_of_range(name: str, number: float, minimum: int, maximum: int) -> None:
    if number < minimum:
        raise Invalid(f"The value for the {name} field must be greater than or equal to {minimum}.")
    if number > maximum:
        raise Invalid(f"The value for the {name} field must be less than or equal to {maximum}.")
