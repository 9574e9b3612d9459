"""Allocation candidates by brute force: try every provider for every need and check each rule on the records."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product

from covey.model.providers import ProviderRecord
from covey.scheduler.candidates import CandidateQuery, RequestGroup

SHARES = "MISC_SHARES_VIA_AGGREGATE"

Need = tuple[RequestGroup, dict[str, int]]
Answer = tuple[frozenset[tuple[str, str, int]], frozenset[tuple[str, frozenset[str]]]]
"""The provider, class and amount of each allocation; and the providers that serve each request group."""


class Reference:
    """The rules of allocation candidates, one method each, for the providers and a query."""

    def __init__(self, records: Sequence[ProviderRecord], query: CandidateQuery) -> None:
        self.records = records
        self.by_id = {record.id: record for record in records}
        self.query = query

    def answers(self) -> set[Answer]:
        return set(self._answers())

    def summarized(self, answers: set[Answer]) -> set[str]:
        """Return the providers that the summaries of these answers must list."""
        allocated = {uuid for parts, _ in answers for uuid, _, _ in parts}
        if not self.query.nested:
            return allocated
        roots = {self.root(record).id for record in self.records if record.uuid in allocated}
        return {record.uuid for record in self.records if self.root(record).id in roots}

    def _answers(self) -> Iterator[Answer]:
        needs: list[Need] = []
        for group in self.query.groups:
            whole = dict(group.resources)
            needs += [(group, whole)] if group.suffix else [(group, {name: n}) for name, n in whole.items()]
        for anchor in self.records:
            if anchor.parent_id is None and self._root_matches(anchor):
                within = [record for record in self.records if self._reaches(record, anchor)]
                for chosen in product(within, repeat=len(needs)):
                    if self._is_candidate(needs, chosen, anchor):
                        yield self._answer(needs, chosen)

    def root(self, record: ProviderRecord) -> ProviderRecord:
        while record.parent_id is not None:
            record = self.by_id[record.parent_id]
        return record

    def _ancestors(self, record: ProviderRecord) -> set[int]:
        ancestors = {record.id}
        while record.parent_id is not None:
            record = self.by_id[record.parent_id]
            ancestors.add(record.id)
        return ancestors

    def _root_matches(self, anchor: ProviderRecord) -> bool:
        return self.query.root_required <= anchor.traits and not self.query.root_forbidden & anchor.traits

    def _reaches(self, record: ProviderRecord, anchor: ProviderRecord) -> bool:
        tree = [other for other in self.records if self.root(other) is anchor]
        shared = SHARES in record.traits and any(record.aggregates & other.aggregates for other in tree)
        return shared or self.root(record) is anchor

    def _is_candidate(self, needs: Sequence[Need], chosen: Sequence[ProviderRecord], anchor: ProviderRecord) -> bool:
        each_fits = all(
            self._may_serve(group, record, anchor)
            and all(_can_allocate(record, name, n) for name, n in amounts.items())
            for (group, amounts), record in zip(needs, chosen, strict=True)
        )
        return (
            each_fits
            and self._have_traits(needs, chosen)
            and self._isolated(needs, chosen)
            and self._in_subtrees(needs, chosen)
            and self._sums_fit(needs, chosen)
            and (self.query.nested or self._one_provider_per_tree(needs, chosen))
        )

    def _may_serve(self, group: RequestGroup, record: ProviderRecord, anchor: ProviderRecord) -> bool:
        in_tree = self.root(record) is anchor
        if group.forbidden & record.traits:
            return False
        if group.suffix:
            member_of = excluded = record.aggregates
        else:
            member_of = record.aggregates
            excluded = record.aggregates | anchor.aggregates
        inside = all(wanted & member_of for wanted in group.member_of)
        if not group.suffix and in_tree:
            inside = inside or all(wanted & anchor.aggregates for wanted in group.member_of)
        if not inside or group.not_member_of & excluded:
            return False
        if group.in_tree is None:
            return True
        named = next((other for other in self.records if other.uuid == group.in_tree), None)
        named_tree = named is not None and self.root(named) is self.root(record)
        return named_tree and (in_tree or bool(group.suffix))

    def _have_traits(self, needs: Sequence[Need], chosen: Sequence[ProviderRecord]) -> bool:
        for group in self.query.groups:
            serving = [record for (of, _), record in zip(needs, chosen, strict=True) if of is group]
            between = frozenset[str]().union(*(record.traits for record in serving))
            if not all(wanted & between for wanted in group.required):
                return False
        return True

    def _isolated(self, needs: Sequence[Need], chosen: Sequence[ProviderRecord]) -> bool:
        granular = [record.id for (group, _), record in zip(needs, chosen, strict=True) if group.suffix]
        return not self.query.isolate or len(set(granular)) == len(granular)

    def _in_subtrees(self, needs: Sequence[Need], chosen: Sequence[ProviderRecord]) -> bool:
        for suffixes in self.query.same_subtrees:
            rows = [record for (group, _), record in zip(needs, chosen, strict=True) if group.suffix in suffixes]
            if not any(all(top.id in self._ancestors(record) for record in rows) for top in rows):
                return False
        return True

    def _sums_fit(self, needs: Sequence[Need], chosen: Sequence[ProviderRecord]) -> bool:
        sums = self._sums(needs, chosen)
        for (identity, name), amount in sums.items():
            inventory = self.by_id[identity].inventories[name]
            if inventory.used + amount > inventory.capacity or amount > inventory.max_unit:
                return False
        return True

    def _one_provider_per_tree(self, needs: Sequence[Need], chosen: Sequence[ProviderRecord]) -> bool:
        allocated = {identity for identity, _ in self._sums(needs, chosen)}
        return len({self.root(self.by_id[identity]).id for identity in allocated}) == len(allocated)

    def _sums(self, needs: Sequence[Need], chosen: Sequence[ProviderRecord]) -> Counter[tuple[int, str]]:
        sums: Counter[tuple[int, str]] = Counter()
        for (_, amounts), record in zip(needs, chosen, strict=True):
            for name, amount in amounts.items():
                sums[record.id, name] += amount
        return sums

    def _answer(self, needs: Sequence[Need], chosen: Sequence[ProviderRecord]) -> Answer:
        serving: dict[str, set[str]] = {}
        for (group, _), record in zip(needs, chosen, strict=True):
            serving.setdefault(group.suffix, set()).add(record.uuid)
        parts = ((self.by_id[i].uuid, name, amount) for (i, name), amount in self._sums(needs, chosen).items())
        return frozenset(parts), frozenset((suffix, frozenset(uuids)) for suffix, uuids in serving.items())


def _can_allocate(record: ProviderRecord, name: str, amount: int) -> bool:
    inventory = record.inventories.get(name)
    return (
        inventory is not None
        and inventory.used + amount <= (inventory.total - inventory.reserved) * inventory.allocation_ratio
        and inventory.min_unit <= amount <= inventory.max_unit
        and amount % inventory.step_size == 0
    )
