"""Affinity: new nodes join the policy's server group and, when the policy names one, an availability zone."""

from typing import NotRequired, TypedDict, cast

from covey.model.clustering.policies.context import (
    PolicyCheckFailed,
    PolicyContext,
    capacity_change,
    properties_of,
    section,
)
from covey.model.clustering.specs import Binding, Document, Policy

_DATA_KEY = "AffinityPolicy"
_DRS, _DRS_ZONE = "drs", "nova"


class ServerGroupProperties(TypedDict):
    """The server group of an affinity policy."""

    name: NotRequired[str]
    policies: str | list[str]
    rules: NotRequired[dict[str, int]]  # since 1.1


class AffinityProperties(TypedDict):
    """The properties of an affinity policy."""

    servergroup: ServerGroupProperties
    availability_zone: NotRequired[str]
    enable_drs_extension: bool


def affinity_properties(policy: Policy) -> AffinityProperties:
    """Return the properties of an affinity policy. Raises BadSpec."""
    return cast("AffinityProperties", properties_of(policy))


def binding_data(policy: Policy, group: str, *, inherited: bool) -> Document:
    """Return the data of a binding with a server group; an inherited group outlives the binding."""
    version = float(policy.type.rpartition("-")[2])  # Senlin stores the version as a number
    return {_DATA_KEY: {"version": version, "data": {"servergroup_id": group, "inherited_group": inherited}}}


def group_of(binding: Binding) -> str | None:
    """Return the server group of a binding."""
    found = _data(binding).get("servergroup_id")
    return found if isinstance(found, str) else None


def is_inherited(binding: Binding) -> bool:
    """Return whether the server group existed before the binding."""
    return _data(binding).get("inherited_group") is not False


def pre_op(binding: Binding, context: PolicyContext, data: Document) -> Document:
    """Add the placement of each new node."""
    count = capacity_change(context, data)
    if count <= 0:
        return data
    properties = affinity_properties(binding.policy)
    group = group_of(binding)
    if group is None:
        raise PolicyCheckFailed("The binding has no server group: detach the policy and attach it again.")
    zone = properties.get("availability_zone")
    if properties["enable_drs_extension"]:
        zone = f"{zone or _DRS_ZONE}:{_vsphere_host(context)}"
    placement = ({"zone": zone} if zone else {}) | {"servergroup": group}
    return {**data, "placement": {"count": count, "placements": [dict(placement) for _ in range(count)]}}


def is_drs_host(name: str) -> bool:
    """Return whether a host is a vSphere cluster with DRS, by its name."""
    return _DRS in name.lower()


def _vsphere_host(context: PolicyContext) -> str:
    found = next((name for name in context.hypervisors() if is_drs_host(name)), None)
    if found is None:
        raise PolicyCheckFailed("No suitable vSphere host is available.", replaces_data=True)
    return found


def _data(binding: Binding) -> Document:
    return section(section(binding.data, _DATA_KEY), "data")
