"""Builders of providers and queries: a test states only the fields that matter."""

from collections.abc import Iterable, Mapping

from covey.model.providers import InventoryRecord, ProviderRecord
from covey.scheduler.candidates import CandidateQuery, CandidateResult, RequestGroup, find
from covey.scheduler.fleet import Fleet

SHARES = "MISC_SHARES_VIA_AGGREGATE"

Allocations = dict[str, dict[str, int]]
"""Amounts by provider and resource class."""


class Forest:
    """Providers by name; a name is also the uuid."""

    def __init__(self) -> None:
        self.records: dict[str, ProviderRecord] = {}

    def add(
        self,
        name: str,
        parent: str | None = None,
        traits: str = "",
        aggregates: str = "",
        **inventories: int | InventoryRecord,
    ) -> "Forest":
        """Add a provider. Traits and aggregates are words; a number is the total of an inventory."""
        parent_record = self.records.get(parent or "")
        inventory_records = {
            k: v if isinstance(v, InventoryRecord) else InventoryRecord(v) for k, v in inventories.items()
        }
        self.records[name] = ProviderRecord(
            len(self.records) + 1,
            name,
            name,
            parent_record.id if parent_record else None,
            (parent_record.root_id or parent_record.id) if parent_record else None,
            0,
            inventory_records,
            frozenset(traits.split()),
            frozenset(aggregates.split()),
        )
        return self

    @property
    def fleet(self) -> Fleet:
        return Fleet(self.records.values())

    def find(self, *groups: RequestGroup, limit: int | None = None, **parameters: object) -> CandidateResult:
        return find(CandidateQuery(groups, **parameters), self.fleet, limit)  # type: ignore[arg-type]


def group(suffix: str = "", /, required: str = "", member_of: str = "", **amounts: object) -> RequestGroup:
    """Return a request group. Traits and aggregates are words: `a|b` is any of them, `!a` is forbidden."""
    fields = {key: amounts.pop(key) for key in ("in_tree",) if key in amounts}
    return RequestGroup(
        suffix,
        amounts,  # type: ignore[arg-type]
        any_of(required),
        none_of(required),
        any_of(member_of),
        none_of(member_of),
        **fields,  # type: ignore[arg-type]
    )


def any_of(words: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(word.split("|")) for word in words.split() if not word.startswith("!"))


def none_of(words: str) -> frozenset[str]:
    return frozenset(word[1:] for word in words.split() if word.startswith("!"))


def allocations_of(result: CandidateResult) -> list[Allocations]:
    """Return the allocations of each candidate, sorted."""
    by_provider = [{uuid: dict(amounts) for uuid, amounts in one.allocations.items()} for one in result.candidates]
    return sorted(by_provider, key=lambda one: sorted((uuid, sorted(amounts.items())) for uuid, amounts in one.items()))


def mappings_of(result: CandidateResult) -> list[Mapping[str, tuple[str, ...]]]:
    """Return the mappings of each candidate, sorted."""
    return sorted((one.mappings for one in result.candidates), key=lambda one: sorted(one.items()))


def summarized(result: CandidateResult) -> list[str]:
    """Return the providers of the summaries."""
    return sorted(summary.uuid for summary in result.summaries)


def sole_providers(result: CandidateResult) -> list[str]:
    """Return the only provider of each candidate."""
    return sorted(only(one.allocations) for one in result.candidates)


def only(items: Iterable[str]) -> str:
    (one,) = items
    return one
