"""The API of the Placement service to copy: one method for each kind of answer."""

import threading
from collections.abc import Mapping
from sys import intern
from typing import Any, NamedTuple

from covey.model.allocations import Consumer
from covey.model.errors import Invalid, NotFound
from covey.model.ledger_copy import ConsumerAllocations, HeldAllocations, LedgerProvider
from covey.model.providers import InventoryRecord
from covey.model.vocabulary import CUSTOM
from covey.remote_api import RemoteApi

_OLDEST, _NEWEST = (1, 28), (1, 39)  # microversions: from 1.28 on, consumers have generations
_PARTS = ("inventories", "traits", "aggregates", "allocations")
_ATTEMPTS = 3  # to read the parts of a provider at one generation
_UNKNOWN_TYPE = "unknown"


class ProviderRow(NamedTuple):
    """A provider in the listing."""

    uuid: str
    name: str
    generation: int
    parent_uuid: str | None
    root_uuid: str

    def describes(self, provider: LedgerProvider | None) -> bool:
        """Return whether this is the current row of the provider."""
        return provider is not None and self == (
            provider.uuid, provider.name, provider.generation, provider.parent_uuid, provider.root_uuid,
        )  # fmt: skip


class Original:
    """The Placement service to copy from."""

    def __init__(self, api: RemoteApi, connections: int) -> None:
        """Negotiate the microversion. Raises Invalid when the service is too old, and what the API raises."""
        self._api = api
        self._counting = threading.Lock()
        self._trait_sets: dict[frozenset[str], frozenset[str]] = {}
        self.connections = connections
        self.requests = 0  # sent so far
        api.version = self.version = negotiate(api.get("/"))

    @property
    def url(self) -> str:
        """The address of the service."""
        return self._api.url

    def rows(self) -> list[ProviderRow]:
        """Return all providers, without what belongs to them."""
        names = ("uuid", "name", "generation", "parent_provider_uuid", "root_provider_uuid")
        found = self._get("/resource_providers")["resource_providers"]
        return [ProviderRow(*(each[name] for name in names)) for each in found]

    def provider(self, row: ProviderRow) -> LedgerProvider | None:
        """Return a provider at one generation; None if it is deleted, or changes faster than it is read."""
        for _ in range(_ATTEMPTS):
            try:
                parts = {part: self._get(f"/resource_providers/{row.uuid}/{part}") for part in _PARTS}
            except NotFound:
                return None
            generations = {part["resource_provider_generation"] for part in parts.values()}
            if len(generations) == 1:
                return self._as_provider(row, generations.pop(), parts)
        return None

    def consumer(self, uuid: str) -> ConsumerAllocations | None:
        """Return a consumer with all its allocations; None if it is deleted."""
        found = self._get(f"/allocations/{uuid}")
        if not found["allocations"]:
            return None
        kind = found.get("consumer_type", _UNKNOWN_TYPE)
        consumer = Consumer(
            uuid,
            intern(found["project_id"]),
            intern(found["user_id"]),
            None if kind == _UNKNOWN_TYPE else intern(kind),
            found["consumer_generation"],
        )
        return ConsumerAllocations(
            consumer, {each: _amounts(has["resources"]) for each, has in found["allocations"].items()}
        )

    def usage(self, project: str) -> dict[str, int]:
        """Return the sums of the allocations of a project, by resource class."""
        # From 1.38 on, the original groups by consumer type, by a query that PostgreSQL rejects.
        usage: dict[str, int] = self._get("/usages", version=_text(_OLDEST), project_id=project)["usages"]
        return usage

    def custom_traits(self) -> frozenset[str]:
        return frozenset(self._get("/traits", name=f"startswith:{CUSTOM}")["traits"])

    def custom_resource_classes(self) -> frozenset[str]:
        names = (each["name"] for each in self._get("/resource_classes")["resource_classes"])
        return frozenset(name for name in names if name.startswith(CUSTOM))

    def _as_provider(self, row: ProviderRow, generation: int, parts: Mapping[str, Any]) -> LedgerProvider:
        traits = frozenset(map(intern, parts["traits"]["traits"]))
        return LedgerProvider(
            row.uuid,
            row.name,
            generation,
            row.parent_uuid,
            row.root_uuid,
            {intern(kind): _inventory(has) for kind, has in parts["inventories"]["inventories"].items()},
            self._trait_sets.setdefault(traits, traits),  # most providers share theirs
            frozenset(parts["aggregates"]["aggregates"]),
            {
                consumer: HeldAllocations(has["consumer_generation"], _amounts(has["resources"]))
                for consumer, has in parts["allocations"]["allocations"].items()
            },
        )

    def _get(self, path: str, *, version: str | None = None, **query: str) -> Any:  # noqa: ANN401 -- a JSON document
        with self._counting:
            self.requests += 1
        return self._api.get(path, version=version, **query)


def negotiate(document: Mapping[str, Any]) -> str:
    """Return the microversion to use, by the version document of the service. Raises Invalid if it is too old."""
    newest = max(tuple(map(int, each["max_version"].split("."))) for each in document["versions"])
    if newest < _OLDEST:
        raise Invalid(f"The original has microversions up to {_text(newest)}; {_text(_OLDEST)} is needed.")
    return _text(min(newest, _NEWEST))


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _amounts(resources: Mapping[str, int]) -> dict[str, int]:
    return {intern(kind): amount for kind, amount in resources.items()}


def _inventory(has: Mapping[str, Any]) -> InventoryRecord:
    return InventoryRecord(
        has["total"], has["reserved"], has["min_unit"], has["max_unit"], has["step_size"], has["allocation_ratio"]
    )
