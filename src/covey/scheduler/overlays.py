"""Overlays: large dicts of which each version of the fleet has its own, without a copy for each change."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MAX_CHANGES = 1024


class Overlay(Mapping[K, V]):
    """An immutable mapping: a base that versions share, and the few changes since. Many changes make a new base."""

    __slots__ = ("_base", "_changes")

    def __init__(self, base: dict[K, V], changes: dict[K, V | None] | None = None) -> None:
        self._base = base
        self._changes = {} if changes is None else changes  # None for a key that is gone

    def __getitem__(self, key: K) -> V:
        value = self._changes[key] if key in self._changes else self._base[key]
        if value is None:
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[K]:
        return iter(self._merged())

    def __len__(self) -> int:
        return len(self._merged())

    def values_of(self, keys: Iterable[K]) -> list[V]:
        """Return the values of those of the keys that are there, in their order."""
        base, changes = self._base, self._changes
        if changes:
            found = (changes[key] if key in changes else base.get(key) for key in keys)
            return [value for value in found if value is not None]
        return [value for key in keys if (value := base.get(key)) is not None]

    def changed(self, changes: Mapping[K, V | None]) -> "Overlay[K, V]":
        """Return the mapping with other values; None removes a key."""
        if not changes:
            return self
        other = Overlay(self._base, {**self._changes, **changes})
        return other if len(other._changes) <= _MAX_CHANGES else Overlay(other._merged())

    def _merged(self) -> dict[K, V]:
        if not self._changes:
            return self._base
        merged = self._base.copy()
        for key, value in self._changes.items():
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = value
        return merged
