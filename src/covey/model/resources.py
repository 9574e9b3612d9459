"""Resources: an amount for each resource class, as one value."""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from covey.model.inventory import ResourceClass

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
