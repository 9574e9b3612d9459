"""A cloud that changes at random: its records, as storage would read them, and the fleet that follows the changes."""

from dataclasses import dataclass, field, replace
from random import Random

from covey.model.fleet_records import AggregateRecord, FleetChange, HostRecord
from covey.model.groups import HOST, GroupPolicy, GroupView, PolicyKind, ScopeRef
from covey.model.ids import HostId, ProjectId, ScopeId
from covey.model.providers import ProviderRecord
from covey.model.resources import Resources
from covey.scheduler.fleet import Fleet
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from tests.property.candidates_reference import SHARES
from tests.property.test_candidate_laws import AGGREGATES, TRAITS, inventory, subset

CLASSES = ["VCPU", "MEMORY_MB", "DISK_GB", "VF"]
SCOPES = [ScopeRef(ScopeId(f"id-of-{name}"), name) for name in ("rack", "switch")]
PROJECTS = [ProjectId("web"), ProjectId("shop")]
ZONES = [None, "az-1", "az-2"]
DOMAINS = range(1, 6)  # ids of aggregates


@dataclass
class World:
    """The records by id; inventories hold the present use."""

    rng: Random
    providers: dict[int, ProviderRecord] = field(default_factory=dict)
    hosts: dict[int, HostRecord] = field(default_factory=dict)
    aggregates: dict[int, AggregateRecord] = field(default_factory=dict)
    _uuids: int = 0
    _before: dict[int, ProviderRecord] = field(default_factory=dict)  # the change in progress

    def fleet(self) -> Fleet:
        """Return the fleet of the present records."""
        return Fleet(self.providers.values(), self.hosts.values(), self.aggregates.values())

    def change(self) -> FleetChange:
        """Change some records, and return the change as storage reads it."""
        providers: dict[int, ProviderRecord | None] = {}
        hosts: dict[int, HostRecord | None] = {}
        aggregates: dict[int, AggregateRecord | None] = {}
        self._before = dict(self.providers)
        for _ in range(self.rng.choice([1, 1, 1, 2, 5])):
            kind = self.rng.choice(["new", "gone", "provider", "provider", "move", "host", "host", "host", "aggregate"])
            known = sorted(self.providers)
            if kind == "new" or not known:
                self._put(self.rng.choice([max(known, default=0) + 1, self.rng.randint(1, 12)]), providers, hosts)
            elif kind == "gone":
                self._remove(self.rng.choice(known), providers, hosts)
            elif kind == "provider":
                each = self.rng.choice(known)
                self._set(providers, self._record(each, self.providers[each].uuid, self.providers[each].parent_id))
            elif kind == "move":
                self._move(self.rng.choice(known), providers)
            elif kind == "host" and self.hosts:
                each = self.rng.choice(sorted(self.hosts))
                name = self.hosts[each].name if self.rng.random() < 0.8 else f"node-{each}-{self.rng.randint(1, 9)}"
                hosts[each] = self.hosts[each] = self._host(each, name)
            elif kind == "aggregate":
                self._change_aggregate(aggregates)
        return FleetChange(providers, hosts, aggregates)

    def take(self, fleet: Fleet) -> None:
        """Take or return amounts, in the records and in the fleet."""
        each = self.rng.choice([*self.providers, 77])
        amounts = Resources({name: self.rng.randint(-1, 2) for name in self.rng.sample(CLASSES, 2)})
        fleet.take_all([(each, amounts)])
        record = self.providers.get(each)
        if record is not None:
            inventories = {
                name: replace(has, used=has.used + amounts.get(name, 0)) for name, has in record.inventories.items()
            }
            self.providers[each] = replace(record, inventories=inventories)

    def spec(self) -> RequestSpec:
        """Draw a request."""
        rng, ids = self.rng, [*self.providers, 77]
        policies = tuple(
            GroupPolicy(
                rng.choice([*PolicyKind]),
                scope := rng.choice([HOST, *SCOPES]),
                None
                if rng.random() < 0.7
                else f"node-{rng.choice(ids)}"
                if scope == HOST
                else str(rng.choice(DOMAINS)),
                rng.randint(1, 2),
            )
            for _ in range(rng.randint(0, 2))
        )
        members_by_host = {rng.choice(ids): rng.randint(1, 2) for _ in range(rng.randint(0, 3))}
        required = HostRequirements(
            rng.choice(PROJECTS),
            rng.choice([None, None, "az-1", "nova"]),
            subset(rng, TRAITS, 0.2),
            subset(rng, TRAITS, 0.1),
            ignored_hosts=frozenset({HostId(rng.choice(ids))} if rng.random() < 0.1 else ()),
        )
        amounts = Resources({name: rng.randint(0, 2) for name in CLASSES})
        return RequestSpec(amounts, rng.choice([1, 1, 3]), 1, required, GroupView(policies, members_by_host))

    def _put(self, each: int, providers: dict[int, ProviderRecord | None], hosts: dict[int, HostRecord | None]) -> None:
        """Add a provider, or replace it by another one of the same id."""
        if each in self.providers:
            self._remove(each, providers, hosts)
        self._uuids += 1
        parents = [other for other in sorted(self.providers) if other != each]
        parent = self.rng.choice(parents) if parents and self.rng.random() < 0.3 else None
        self._set(providers, self._record(each, f"rp-{self._uuids}", parent))
        if parent is None and self.rng.random() < 0.9:
            hosts[each] = self.hosts[each] = self._host(each, f"node-{each}")

    def _remove(
        self, gone: int, providers: dict[int, ProviderRecord | None], hosts: dict[int, HostRecord | None]
    ) -> None:
        """Remove a provider and all below it."""
        for each in self._tree(gone):
            del self.providers[each]
            providers[each] = None
            if self.hosts.pop(each, None):
                hosts[each] = None

    def _move(self, each: int, providers: dict[int, ProviderRecord | None]) -> None:
        """Move a provider and all below it to another parent, or make it a root."""
        tree = self._tree(each)
        parents = [other for other in sorted(self.providers) if other not in tree]
        parent = self.rng.choice([None, *parents])
        above = None if parent is None else self.providers[parent]
        root = each if above is None else above.root_id or above.id
        for other in tree:
            under = parent if other == each else self.providers[other].parent_id
            moved = replace(self.providers[other], parent_id=under, root_id=None if other == root else root)
            self._set(providers, moved)

    def _tree(self, top: int) -> list[int]:
        tree = [top]
        for each in tree:
            tree += [other.id for other in self.providers.values() if other.parent_id == each]
        return tree

    def _set(self, providers: dict[int, ProviderRecord | None], read: ProviderRecord) -> None:
        """Write a record. What storage reads has a use of its own; that of known inventories must not count."""
        old = self._before.get(read.id)
        providers[read.id] = read
        known = old.inventories if old is not None and old.uuid == read.uuid else {}
        inventories = {
            name: replace(has, used=known[name].used) if name in known else has
            for name, has in read.inventories.items()
        }
        self.providers[read.id] = replace(read, inventories=inventories)

    def _record(self, each: int, uuid: str, parent: int | None) -> ProviderRecord:
        above = None if parent is None else self.providers[parent]
        root = None if above is None else above.root_id or above.id
        inventories = {name: inventory(self.rng) for name in CLASSES if self.rng.random() < 0.85}
        traits = subset(self.rng, TRAITS, 0.4) | subset(self.rng, [SHARES], 0.15)
        return ProviderRecord(each, uuid, uuid, parent, root, 0, inventories, traits, subset(self.rng, AGGREGATES, 0.4))

    def _host(self, each: int, name: str) -> HostRecord:
        inside = frozenset(self.rng.sample(DOMAINS, self.rng.choice([0, 1, 1, 2, 3])))
        state = self.rng.random() < 0.8, self.rng.random() < 0.8
        return HostRecord(HostId(each), name, *state, self.rng.choice(ZONES), inside)

    def _change_aggregate(self, aggregates: dict[int, AggregateRecord | None]) -> None:
        each = self.rng.choice(DOMAINS)
        if self.rng.random() < 0.2:
            self.aggregates.pop(each, None)
            aggregates[each] = None
            return
        scope = self.rng.choice([None, *(scope.id for scope in SCOPES), *(scope.id for scope in SCOPES)])
        projects = frozenset(project for project in PROJECTS if self.rng.random() < 0.15)
        record = AggregateRecord(each, f"uuid-{each}", scope, projects, subset(self.rng, TRAITS, 0.1))
        aggregates[each] = self.aggregates[each] = record
