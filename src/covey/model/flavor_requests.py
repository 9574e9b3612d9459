"""What a flavor requests of resource providers: by its size, and by extra specs as Nova documents them.

- `resources:CLASS=N` sets one amount, in place of what the size gives; 0 requests none of the class.
- `resourcesSUFFIX:CLASS=N` and `traitSUFFIX:NAME=required|forbidden` form a granular group: one provider serves it all.
- `group_policy=none|isolate` says whether one provider may serve several granular groups.
"""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache

from covey.model.errors import Invalid
from covey.model.flavors import Flavor
from covey.model.inventory import ResourceClass
from covey.model.providers import MAX_INT
from covey.model.resources import Resources

_RESOURCES = re.compile(r"resources([a-zA-Z0-9_-]{0,64}):(.*)", re.DOTALL)
_TRAIT = re.compile(r"trait([a-zA-Z0-9_-]{0,64}):(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Z0-9_]{1,255}")
_GROUP_POLICIES = {"none": False, "isolate": True}
_TRAIT_VALUES = ("required", "forbidden")
# Nova places servers by these; Covey has no rule for them, and would place a server where it must not be.
_UNSUPPORTED = ("accel:", "aggregate_instance_extra_specs:", "capabilities:", "pci_passthrough:")
_UNSUPPORTED_KEYS = {"hw:cpu_policy": "shared", "hw:numa_nodes": "1"}  # with the one value that asks for nothing


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


def total_of(amounts: Resources, groups: Collection[GranularGroup]) -> Resources:
    """Return the sum of amounts and of the resources of granular groups."""
    if not groups:
        return amounts
    total = Counter(dict(amounts))
    for group in groups:
        total.update(dict(group.resources))
    return Resources(total)


def resource_request(flavor: Flavor) -> ResourceRequest:
    """Return what a server of the flavor needs. Raises Invalid for an extra spec that Covey cannot follow."""
    specs = tuple(flavor.extra_specs.items())
    return _request(flavor.vcpus, flavor.memory_mb, server_disk_gb(flavor), specs)


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
        _reject_unsupported(key, value)
        if found := _RESOURCES.fullmatch(key):
            parts.setdefault(found[1], _Part()).resources[found[2]] = _amount(key, value)
        elif found := _TRAIT.fullmatch(key):
            part = parts.setdefault(found[1], _Part())
            (part.required if value == "required" else part.forbidden).add(found[2])
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


def _reject_unsupported(key: str, value: str) -> None:
    if key.startswith(_UNSUPPORTED) or _UNSUPPORTED_KEYS.get(key, value) != value:
        raise Invalid(f"The flavor's extra spec {key}={value} asks for a placement that this service does not support.")
