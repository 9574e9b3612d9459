"""Hand-made providers and questions, so that a test states only what matters."""

from collections.abc import Iterable, Mapping

from covey.model.providers import InventoryRecord, ProviderRecord
from covey.scheduler.candidates import CandidateQuery, CandidateResult, Providers, RequestGroup, find

SHARES = "MISC_SHARES_VIA_AGGREGATE"

Taken = dict[str, dict[str, int]]
"""Who gives what."""


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
        """One more provider. Traits and aggregates are words; a number is the total of an inventory."""
        above = self.records.get(parent or "")
        stock = {k: v if isinstance(v, InventoryRecord) else InventoryRecord(v) for k, v in inventories.items()}
        self.records[name] = ProviderRecord(
            len(self.records) + 1,
            name,
            name,
            above.id if above else None,
            (above.root_id or above.id) if above else None,
            0,
            stock,
            frozenset(traits.split()),
            frozenset(aggregates.split()),
        )
        return self

    @property
    def providers(self) -> Providers:
        return Providers(self.records.values())

    def find(self, *groups: RequestGroup, limit: int | None = None, **wide: object) -> CandidateResult:
        return find(CandidateQuery(groups, **wide), self.providers, limit)  # type: ignore[arg-type]


def group(suffix: str = "", /, required: str = "", member_of: str = "", **amounts: object) -> RequestGroup:
    """A group; traits and aggregates are words, `a|b` is any of them and `!a` is none of them."""
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


def taken(found: CandidateResult) -> list[Taken]:
    """Who gives what in each candidate, in an order of its own."""
    plain = [{uuid: dict(amounts) for uuid, amounts in one.allocations.items()} for one in found.candidates]
    return sorted(plain, key=lambda one: sorted((uuid, sorted(amounts.items())) for uuid, amounts in one.items()))


def served(found: CandidateResult) -> list[Mapping[str, tuple[str, ...]]]:
    """Which providers serve which group in each candidate, in an order of its own."""
    return sorted((one.mappings for one in found.candidates), key=lambda one: sorted(one.items()))


def names(found: CandidateResult) -> list[str]:
    """The providers of the summaries."""
    return sorted(summary.uuid for summary in found.summaries)


def givers(found: CandidateResult) -> list[str]:
    """Who gives, where each candidate draws on one provider alone."""
    return sorted(only(one.allocations) for one in found.candidates)


def only(things: Iterable[str]) -> str:
    (one,) = things
    return one
