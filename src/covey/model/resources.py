"""Resources: an amount for each resource class, as one value; and the resources that a flavor requests.

A flavor requests resources by its size, and by extra specs as Nova documents them:
- `resources:CLASS=N` sets one amount, in place of what the size gives; 0 requests none of the class.
- `resourcesSUFFIX:CLASS=N` and `traitSUFFIX:NAME=required|forbidden` form a granular group: one provider serves it all.
- `group_policy=none|isolate` says whether one provider may serve several granular groups.
"""

import re
from collections import Counter
from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from covey.model.errors import Invalid
from covey.model.extra_specs import reject_unsupported
from covey.model.flavors import Flavor
from covey.model.inventory import ResourceClass
from covey.model.providers import MAX_INT
from covey.model.quotas import CLASS, COUNTED, COUNTED_CLASSES

_RESOURCES = re.compile(r"resources([a-zA-Z0-9_-]{0,64}):(.*)", re.DOTALL)
_TRAIT = re.compile(r"trait([a-zA-Z0-9_-]{0,64}):(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Z0-9_]{1,255}")
_GROUP_POLICIES = {"none": False, "isolate": True}
_TRAIT_VALUES = ("required", "forbidden")

_FIRST = {str(kind): position for position, kind in enumerate(ResourceClass)}


class Resources(Mapping[str, int]):
    """Immutable and hashable. VCPU, MEMORY_MB and DISK_GB come first, then the others by name; none is zero."""

    __slots__ = ("_amounts", "_hash")

    def __init__(self, amounts: Mapping[str, int]) -> None:
        names = sorted((name for name, amount in amounts.items() if amount), key=class_position)
        self._amounts = {str(name): amounts[name] for name in names}
        self._hash = hash(tuple(self._amounts.items()))

    def __getitem__(self, name: str) -> int:
        return self._amounts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def items(self) -> ItemsView[str, int]:
        return self._amounts.items()  # faster than what Mapping derives

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resources) and self._amounts == other._amounts

    def __mul__(self, times: int) -> "Resources":
        return Resources({name: amount * times for name, amount in self._amounts.items()})

    def __repr__(self) -> str:
        return f"Resources({self._amounts})"

    def without(self, name: str) -> "Resources":
        """Return the other amounts."""
        return Resources({other: amount for other, amount in self._amounts.items() if other != name})

    def with_amount(self, name: str, amount: int) -> "Resources":
        """Return the same resources with another amount of one class."""
        return Resources({**self._amounts, name: amount})


@lru_cache(maxsize=1024)
def server_resources(vcpus: int, memory_mb: int, disk_gb: int) -> Resources:
    """Return the resources of a server without custom ones."""
    return Resources({ResourceClass.VCPU: vcpus, ResourceClass.MEMORY_MB: memory_mb, ResourceClass.DISK_GB: disk_gb})


def class_position(name: str) -> tuple[int, str]:
    """Return a key that sorts VCPU, MEMORY_MB and DISK_GB first, then the others by name."""
    return _FIRST.get(name, len(_FIRST)), name


@dataclass(frozen=True, slots=True)
class GranularGroup:
    """Resources and traits that one provider serves."""

    suffix: str
    resources: Resources
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """What one server needs. The providers of a host's tree serve the amounts together, and each group alone."""

    amounts: Resources
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()
    groups: tuple[GranularGroup, ...] = ()
    isolate: bool = False

    @property
    def total(self) -> Resources:
        """The amounts of all groups together."""
        return total_of(self.amounts, self.groups)

    @property
    def granular_traits(self) -> frozenset[str]:
        """The traits that granular groups require."""
        return traits_of(self.groups)


@lru_cache(maxsize=1024)
def total_of(amounts: Resources, groups: tuple[GranularGroup, ...]) -> Resources:
    """Return the sum of amounts and of the resources of granular groups."""
    if not groups:
        return amounts
    total = Counter(dict(amounts))
    for group in groups:
        total.update(dict(group.resources))
    return Resources(total)


@lru_cache(maxsize=1024)
def traits_of(groups: tuple[GranularGroup, ...]) -> frozenset[str]:
    """Return the traits that granular groups require."""
    return frozenset[str]().union(*(group.required for group in groups))


def resource_request(flavor: Flavor) -> ResourceRequest:
    """Return what a server of the flavor needs. Raises Invalid for an extra spec that Covey cannot follow."""
    specs = tuple(flavor.extra_specs.items())
    return _request(flavor.vcpus, flavor.memory_mb, server_disk_gb(flavor), specs)


def quota_sizes(flavor: Flavor) -> Mapping[str, int]:
    """Return what a server of the flavor uses of each quota of its project, by the quota's name: what it claims.

    A flavor that Covey cannot follow counts by its size: a server of it may be older than the extra spec's rule.
    """
    specs = tuple(flavor.extra_specs.items())
    return _quota_sizes(flavor.vcpus, flavor.memory_mb, server_disk_gb(flavor), specs)


def quota_size(flavor: Flavor) -> tuple[int, int]:
    """Return the cores and the MB of memory that a server of the flavor uses of its project's quota."""
    sizes = quota_sizes(flavor)
    return sizes["cores"], sizes["ram"]


def class_sizes(flavor: Flavor) -> dict[str, int]:
    """Return the quota sizes of resource classes alone, which count what a server holds on its host."""
    return {name: size for name, size in quota_sizes(flavor).items() if name not in COUNTED}


def server_disk_gb(flavor: Flavor) -> int:
    """Return the disk of a server: root disk, ephemeral disk and swap."""
    return flavor.disk_gb + flavor.ephemeral_gb + -(-flavor.swap_mb // 1024)


def check_spec(key: str, value: str) -> None:
    """Raise Invalid for an extra spec whose key or value is malformed."""
    if found := _RESOURCES.fullmatch(key):
        _check_name(key, found[2], "a resource class such as CUSTOM_GPU")
        _amount(key, value)
    elif found := _TRAIT.fullmatch(key):
        _check_name(key, found[2], "a trait such as HW_CPU_X86_AVX2")
        if value not in _TRAIT_VALUES:
            raise Invalid(f"The extra spec {key} is {value!r}; it must be required or forbidden.")
    elif key == "group_policy" and value not in _GROUP_POLICIES:
        raise Invalid(f"The extra spec group_policy is {value!r}; it must be none or isolate.")


@lru_cache(maxsize=4096)
def _request(vcpus: int, memory_mb: int, disk_gb: int, specs: tuple[tuple[str, str], ...]) -> ResourceRequest:
    size = {ResourceClass.VCPU: vcpus, ResourceClass.MEMORY_MB: memory_mb, ResourceClass.DISK_GB: disk_gb}
    parts: dict[str, _Part] = {"": _Part({str(name): amount for name, amount in size.items()})}
    for key, value in specs:
        check_spec(key, value)
        if found := _RESOURCES.fullmatch(key):
            parts.setdefault(found[1], _Part()).resources[found[2]] = _amount(key, value)
        elif found := _TRAIT.fullmatch(key):
            part = parts.setdefault(found[1], _Part())
            (part.required if value == "required" else part.forbidden).add(found[2])
        else:
            reject_unsupported(key, value)
    common = parts.pop("")
    groups = tuple(_group(suffix, part) for suffix, part in sorted(parts.items()))
    policy = dict(specs).get("group_policy")
    if len(groups) > 1 and policy is None:
        raise Invalid(
            "The flavor has several groups of numbered resources; its extra spec group_policy must say "
            "whether one provider may serve several of them (none or isolate)."
        )
    amounts = Resources(common.resources)
    if not amounts and not groups:
        raise Invalid("The flavor requests no resources: its size and its extra specs are zero.")
    return ResourceRequest(
        amounts,
        frozenset(common.required),
        frozenset(common.forbidden),
        groups,
        policy is not None and _GROUP_POLICIES[policy],
    )


@lru_cache(maxsize=4096)
def _quota_sizes(vcpus: int, memory_mb: int, disk_gb: int, specs: tuple[tuple[str, str], ...]) -> Mapping[str, int]:
    try:
        total = _request(vcpus, memory_mb, disk_gb, specs).total
    except Invalid:
        total = server_resources(vcpus, memory_mb, disk_gb)
    sizes = dict.fromkeys(COUNTED, 0) | {"instances": 1}
    for name, amount in total.items():
        quota = COUNTED_CLASSES.get(name, CLASS + name)
        sizes[quota] = sizes.get(quota, 0) + amount
    return MappingProxyType(sizes)


@dataclass(slots=True)
class _Part:
    resources: dict[str, int] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    forbidden: set[str] = field(default_factory=set)


def _group(suffix: str, part: _Part) -> GranularGroup:
    resources = Resources(part.resources)
    if not resources:
        raise Invalid(
            f"The flavor has trait{suffix} extra specs but no resources{suffix}; add the resources whose "
            "provider must have the traits."
        )
    return GranularGroup(suffix, resources, frozenset(part.required), frozenset(part.forbidden))


def _amount(key: str, value: str) -> int:
    if not value.isdecimal() or int(value) > MAX_INT:
        raise Invalid(f"The extra spec {key} is {value!r}; it must be a whole number from 0 to {MAX_INT}.")
    return int(value)


def _check_name(key: str, name: str, example: str) -> None:
    if not _NAME.fullmatch(name):
        raise Invalid(f"The extra spec {key} does not name {example}.")
