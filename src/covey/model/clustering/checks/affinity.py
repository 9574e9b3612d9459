"""Affinity: new nodes go into the server group that came with the policy, and where it says, into a zone."""

from typing import NotRequired, TypedDict, cast

from covey.model.clustering.checks.situation import Refused, Situation, growth, section, terms
from covey.model.clustering.specs import Binding, Document, Policy

_HERE = "AffinityPolicy"
_DRS, _DRS_ZONE = "drs", "nova"


class GroupTerms(TypedDict):
    """The server group that a policy wants."""

    name: NotRequired[str]
    policies: str | list[str]
    rules: NotRequired[dict[str, int]]  # since 1.1


class Terms(TypedDict):
    """What an affinity policy wants."""

    servergroup: GroupTerms
    availability_zone: NotRequired[str]
    enable_drs_extension: bool


def read_terms(policy: Policy) -> Terms:
    """What an affinity policy wants. Raises BadSpec."""
    return cast("Terms", terms(policy))


def binding_data(policy: Policy, group: str, *, inherited: bool) -> Document:
    """What a binding remembers of its server group; one that it did not make outlives it."""
    version = float(policy.type.rpartition("-")[2])  # a number, as the policy's document has it
    return {_HERE: {"version": version, "data": {"servergroup_id": group, "inherited_group": inherited}}}


def group_of(binding: Binding) -> str | None:
    """The server group of a binding."""
    found = _data(binding).get("servergroup_id")
    return found if isinstance(found, str) else None


def is_inherited(binding: Binding) -> bool:
    """Whether the server group was there before the binding."""
    return _data(binding).get("inherited_group") is not False


def before(binding: Binding, situation: Situation, data: Document) -> Document:
    """Says of each new node where it goes."""
    count = growth(situation, data)
    if count <= 0:
        return data
    wanted = read_terms(binding.policy)
    group = group_of(binding)
    if group is None:
        raise Refused("It has no server group: detach it, and attach it again.")
    zone = wanted.get("availability_zone")
    if wanted["enable_drs_extension"]:
        zone = f"{zone or _DRS_ZONE}:{_vsphere_host(situation)}"
    place = ({"zone": zone} if zone else {}) | {"servergroup": group}
    return {**data, "placement": {"count": count, "placements": [dict(place) for _ in range(count)]}}


def _vsphere_host(situation: Situation) -> str:
    found = next((name for name in situation.hypervisors() if _DRS in name.lower()), None)
    if found is None:
        raise Refused("No suitable vSphere host is available.", alone=True)
    return found


def _data(binding: Binding) -> Document:
    return section(section(binding.data, _HERE), "data")
