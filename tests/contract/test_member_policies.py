"""Concurrent writes of allocations keep the policies of groups, on both databases."""

import uuid
from collections import Counter
from collections.abc import Collection
from functools import partial

import pytest

from covey.model.allocations import AllocationRequest
from covey.model.errors import PolicyViolation
from covey.model.group_consumers import ReportedGroup
from covey.model.groups import Group, GroupView
from covey.model.ids import GroupId, HostId, ProjectId
from covey.model.providers import InventoryRecord
from covey.scheduler.fleet import Fleet
from covey.scheduler.reasons import Reason
from covey.scheduler.violations import reasons_against
from covey.services.placement import member_policies
from covey.services.placement.allocations import Allocations
from covey.services.placement.host_rankings import HostRankings
from covey.storage import engine, rows
from covey.storage.groups import Groups
from covey.storage.store import Store
from tests.build import NOW, an_admin
from tests.contract.concurrency import OpenAccess, conflicts, run_concurrently
from tests.contract.test_providers import add, live_fleet, number

HOSTS = 8
GROUP = GroupId(str(uuid.UUID(int=9)))


@pytest.fixture
def hosts(store: Store) -> list[str]:
    with store.write() as tx:
        keys = [add(tx, f"cn{i}") for i in range(HOSTS)]
        tx.inventories.put({number(tx, key): {"VCPU": InventoryRecord(100)} for key in keys})
    return keys


def tell(store: Store, members: list[str], group_id: GroupId = GROUP, **rules: int) -> None:
    group = ReportedGroup(group_id, "anti-affinity", rules, tuple(members), "web", "alice", "g")
    HostRankings(store, OpenAccess(), lambda: NOW, live_fleet(store)).rank(an_admin(), group, None, [])


def ledgers(store: Store) -> list[Allocations]:
    """Two, each with a fleet of its own, as two processes have."""
    return [Allocations(store, OpenAccess(), lambda: NOW, live_fleet(store)) for _ in range(2)]


def claim(ledger: Allocations, instance: str, hosts: list[str]) -> int:
    """Claim the first host that admits the instance, as nova-scheduler does; return how many refused."""
    for tried, host in enumerate(hosts):
        try:
            ledger.replace(an_admin(), AllocationRequest(instance, {host: {"VCPU": 1}}, checked=True))
        except PolicyViolation:
            continue
        return tried
    raise AssertionError("every host refuses")


def held(store: Store, members: list[str]) -> Counter[str]:
    with store.read() as tx:
        return Counter(key for each in tx.allocations.by_consumer(members) for key in each.resources)


@pytest.mark.parametrize("limit", [1, 2])
def test_parallel_claims_put_no_more_than_the_limit_on_a_host(store: Store, hosts: list[str], limit: int) -> None:
    members = [str(uuid.UUID(int=100 + i)) for i in range(HOSTS * limit)]
    tell(store, members, max_server_per_host=limit)
    doors = ledgers(store)
    tasks = [partial(claim, doors[i % 2], member, hosts) for i, member in enumerate(members)]
    assert conflicts(run_concurrently(tasks)) == []
    assert held(store, members) == dict.fromkeys(hosts, limit)


def test_policies_are_judged_while_other_threads_may_use_the_fleet(
    store: Store, hosts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    live, member = live_fleet(store), str(uuid.UUID(int=100))
    tell(store, [member])
    is_locked = []

    def reasons(view: GroupView, host: HostId, fleet: Fleet) -> list[Reason]:
        is_locked.append(live._lock.locked())
        return reasons_against(view, host, fleet)

    monkeypatch.setattr(member_policies, "reasons_against", reasons)
    assert claim(Allocations(store, OpenAccess(), lambda: NOW, live), member, hosts) == 0
    assert is_locked == [False]


def test_parallel_claims_of_one_host_admit_one(store: Store, hosts: list[str]) -> None:
    members = [str(uuid.UUID(int=100 + i)) for i in range(HOSTS)]
    tell(store, members)
    one, two = ledgers(store)
    tasks = [
        partial(
            (one if i % 2 else two).replace,
            an_admin(),
            AllocationRequest(member, {hosts[0]: {"VCPU": 1}}, checked=True),
        )
        for i, member in enumerate(members)
    ]
    refused = conflicts(run_concurrently(tasks))
    assert [type(error) for error in refused] == [PolicyViolation] * (HOSTS - 1)
    assert held(store, members) == {hosts[0]: 1}


def test_parallel_rankings_record_every_member(store: Store, hosts: list[str]) -> None:
    members = [str(uuid.UUID(int=100 + i)) for i in range(HOSTS)]
    assert conflicts(run_concurrently([partial(tell, store, [member]) for member in members])) == []
    with store.read() as tx:
        assert tx.group_consumers.members(GROUP) == members
    assert hosts


def test_member_that_a_concurrent_request_adds_stays(postgresql_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that finds no group adds it. A group that another request adds first keeps its members."""
    connected = engine.connect(postgresql_database)
    store = Store(connected)
    group, first, second = (str(uuid.uuid4()) for _ in range(3))
    requests = iter([second])
    owners, add_group = Groups.owners, Groups.add

    def owners_then_request(self: Groups, ids: Collection[GroupId]) -> dict[GroupId, ProjectId]:
        found = owners(self, ids)
        for member in requests:
            tell(store, [member], GroupId(group))
        return found

    def request_then_add(self: Groups, new: Group) -> None:
        for member in requests:
            tell(store, [member], GroupId(group))
        add_group(self, new)

    monkeypatch.setattr(Groups, "owners", owners_then_request)
    monkeypatch.setattr(Groups, "add", request_then_add)
    tell(store, [first], GroupId(group))
    with store.read() as tx:
        assert tx.group_consumers.members(GroupId(group)) == sorted([first, second])
    connected.dispose()


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that writes of allocations send after they began, each by its first words."""
    sent: list[str] = []
    enter = rows.driver.__enter__

    class Recorder:
        def __init__(self, raw: object) -> None:
            self._raw = raw

        def __getattr__(self, name: str) -> object:
            found = getattr(self._raw, name)
            if name != "execute":
                return found

            def execute(statement: str, *values: object) -> object:
                if not statement.startswith(("PRAGMA", "BEGIN")):
                    sent.append(" ".join(statement.split()[:3]))
                return found(statement, *values)

            return execute

    monkeypatch.setattr(rows.driver, "__enter__", lambda self: Recorder(enter(self)))
    return sent


def test_consumer_in_no_group_costs_no_statement(store: Store, hosts: list[str], statements: list[str]) -> None:
    tell(store, [str(uuid.UUID(int=1))])
    (ledger, _) = ledgers(store)
    ledger.replace(an_admin(), AllocationRequest(str(uuid.UUID(int=2)), {hosts[0]: {"VCPU": 1}}, checked=True))
    statements.clear()
    ledger.replace(an_admin(), AllocationRequest(str(uuid.UUID(int=3)), {hosts[0]: {"VCPU": 1}}, checked=True))
    first, second, third, *others = statements
    assert (first, second) == ("INSERT INTO consumers", "UPDATE resource_providers SET")
    assert third.startswith("SELECT provider_id, resource_class")
    assert len(others) == 3, "the room, the change log, the allocations"
