"""Servers created while groups, scopes and domains change follow the latest policies."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance import storm
from tests.acceptance.invariants import read, violations
from tests.budgets import operations
from tests.databases import PostgreSQL, SQLite

pytestmark = pytest.mark.soak

BOOTS = operations(200)
BOOTERS = 4
WAVE = 9  # servers for each group after the changes end
SEEDS = (7, 1789)
GROUPS = 6
NAMES = ("rack", "row")  # of the scope, alternately
VARIABLES = storm.settings(storm.UNLIMITED, WORKER__POLL_INTERVAL_S="0.05")
COMPUTE = "/compute/v2.1"
POLICIES: tuple[tuple[tuple[str, ...], dict[str, int]], ...] = (
    (("anti-affinity",), {"max_server_per_host": 4}),
    (("anti-affinity:{0}",), {"max_server_per_{0}": 9}),
    (("affinity:{0}", "soft-anti-affinity"), {}),
    (("anti-affinity:{0}:{1}", "soft-affinity:{0}"), {}),
    (("affinity:{0}:{1}",), {}),
    (("soft-anti-affinity:{0}", "soft-affinity"), {}),
    (("soft-anti-affinity",), {}),
)

Document = dict[str, Any]
Wave = tuple[Sequence[str | None], Sequence[str | None]]


@dataclass
class Scenario:
    """Shared state of all threads: groups, domains, results of requests, and the stop signal."""

    ports: Sequence[int]
    seed: int
    load_state: storm.LoadState = field(default_factory=storm.LoadState)
    racks: list[int] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    remaining: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(BOOTS))
    stopped: threading.Event = field(default_factory=threading.Event)

    def actor_thread(self, number: int, action: "Callable[[Actor], None]") -> Callable[[], None]:
        """Return a task that repeats one action until the test stops."""

        def run() -> None:
            actor = Actor(self, number)
            try:
                while not self.stopped.is_set():
                    action(actor)
            finally:
                self.stopped.set()  # one failure stops all threads
                actor.client.close()

        return run


@dataclass
class Actor:
    """One client, with its own random numbers."""

    scenario: Scenario
    number: int
    client: storm.Client = field(init=False)
    rng: random.Random = field(init=False)
    asked: int = 0

    def __post_init__(self) -> None:
        self.client = storm.Client(self.scenario.ports)
        self.rng = random.Random(self.scenario.seed * 1000 + self.number)  # noqa: S311 -- chance, not secrecy

    def send(self, what: str, method: str, path: str, body: object = None, of: int | None = None) -> storm.Answer:
        """Send a request to the processes in turn, or to process number `of`."""
        self.asked += 1
        answer = self.client.ask(method, COMPUTE + path, body, of=self.number + self.asked if of is None else of)
        self.scenario.load_state.note(what, answer)
        return answer

    def act(self, what: str, path: str, body: object = None) -> storm.Answer:
        return self.send(what, "POST", f"{path}/action", {what: body})

    def group(self) -> str:
        return f"/os-server-groups/{self.rng.choice(self.scenario.load_state.groups)}"


def create_server(actor: Actor) -> None:
    if not actor.scenario.remaining.acquire(blocking=False):
        actor.scenario.stopped.set()
        return
    group = actor.group().rpartition("/")[2]
    actor.send("boot", "POST", "/servers", storm.boot_body(f"early{actor.number}x{actor.asked}", group=group))


def update_group(actor: Actor) -> None:
    """Update policies and rules, only rules, or the name; the scope may be renamed concurrently."""
    policies, rules = actor.rng.choice(POLICIES)
    scope, rack = actor.rng.choice(NAMES), actor.rng.choice(actor.scenario.racks)
    bodies: tuple[Document, ...] = (
        {
            "policies": [policy.format(scope, rack) for policy in policies],
            "rules": {rule.format(scope): limit for rule, limit in rules.items()},
        },
        {"rules": {"max_server_per_host": actor.rng.randint(1, 5)}},
        {"name": f"name-{actor.asked}"},
    )
    actor.send("change", "PUT", actor.group(), {"server_group": actor.rng.choices(bodies, (4, 2, 1))[0]})


def change_membership(actor: Actor) -> None:
    """Remove a server from its group and add it to another, whether that violates a policy or not."""
    group = actor.group()
    members = actor.send("show", "GET", group).json["server_group"]["members"]
    candidates = [server["id"] for server in actor.send("list", "GET", "/servers").json["servers"]]
    if members and actor.rng.random() < 0.8:
        candidates = [actor.rng.choice(members)]
        actor.act("remove_instance", group, {"instance_id": candidates[0]})
    if candidates:
        request = {"instance_id": actor.rng.choice(candidates), "enforce": actor.rng.random() < 0.3}
        actor.act("add_instance", actor.group(), request)


def rename_scope(actor: Actor) -> None:
    scope = next(
        s for s in actor.send("scopes", "GET", "/os-policy-scopes").json["policy_scopes"] if s["name"] != "host"
    )
    name = NAMES[scope["name"] == NAMES[0]]
    actor.send("rename", "PUT", f"/os-policy-scopes/{scope['id']}", {"policy_scope": {"name": name}})


def move_host(actor: Actor) -> None:
    """Move a host to another rack, unless another thread moves it."""
    host, rack = actor.rng.choice(actor.scenario.hosts), actor.rng.choice(actor.scenario.racks)
    found = actor.send("racks", "GET", "/os-aggregates").json["aggregates"]
    for old_rack in (aggregate["id"] for aggregate in found if host in aggregate["hosts"]):
        actor.act("remove_host", f"/os-aggregates/{old_rack}", {"host": host})
    actor.act("add_host", f"/os-aggregates/{rack}", {"host": host})


def read_reports(actor: Actor) -> None:
    group = actor.group()
    actor.send("audit", "GET", f"{group}/audit?violations=true")
    actor.act("preview", group, {"flavor": "small", "count": 5})
    actor.act("rebalance", group, {"dry_run": True})
    actor.send("groups", "GET", "/os-server-groups")


def run_changes(directory: Path, database: str, processes: int, seed: int) -> None:
    storm.apply_fleet(directory, database, storm.fleet_of(12, 64))
    with storm.serving(directory, database, processes, VARIABLES) as running:
        scenario, rows = Scenario([each.port for each in running], seed), storm.connect(database)
        actor = Actor(scenario, 0)
        _set_up(actor)
        actions = [create_server] * BOOTERS + [
            update_group,
            update_group,
            change_membership,
            rename_scope,
            move_host,
            move_host,
            read_reports,
        ]
        storm.run_concurrently(
            [scenario.actor_thread(i, action) for i, action in enumerate(actions, 1)], 2 * storm.TIMEOUT_S
        )
        _check_final_policies(actor)
        storm.wait_until_idle(rows)
        print(dict(sorted(scenario.load_state.counts.items())))  # noqa: T201
        assert scenario.load_state.failures == []
        assert scenario.load_state.counts["boot 202"] == BOOTS + (1 + WAVE) * GROUPS
        assert scenario.load_state.total(503) == 0
        assert violations(rows, idle=True, changed=True) == []
        assert storm.crashes([each.log for each in running]) == []
        assert storm.deadlocks(rows) == 0
        assert scenario.load_state.counts["conflicts"] == 0
        assert {row.vm_state for row in read(rows).servers} >= {"active", "error"}
        actor.client.close()
        rows.dispose()


def _set_up(actor: Actor) -> None:
    """Allow identifiers in the scope, and create the groups."""
    flags = {"policy_scope": {"allow_identifiers": True}}
    assert actor.send("open", "PUT", "/os-policy-scopes/rack", flags).status == 200
    aggregates = actor.send("racks", "GET", "/os-aggregates").json["aggregates"]
    actor.scenario.racks = [aggregate["id"] for aggregate in aggregates]
    actor.scenario.hosts = sorted(host for aggregate in aggregates for host in aggregate["hosts"])
    for _ in range(GROUPS):
        created = actor.send("found", "POST", "/os-server-groups", storm.group_body(["soft-anti-affinity"], {}))
        actor.scenario.load_state.groups.append(created.json["server_group"]["id"])


def _check_final_policies(actor: Actor) -> None:
    """Set a final policy for each group, and assert that concurrent new servers follow it."""
    move_host(actor)
    rename_scope(actor)
    scope = next(
        s["name"] for s in actor.send("s", "GET", "/os-policy-scopes").json["policy_scopes"] if s["name"] in NAMES
    )
    aggregates = {
        str(a["id"]): len(a["hosts"]) for a in actor.send("racks", "GET", "/os-aggregates").json["aggregates"]
    }
    target = max(aggregates, key=lambda rack: aggregates[rack])
    racks = [rack for rack, hosts in aggregates.items() if hosts]
    expectations: list[tuple[str, dict[str, int], str, Callable[[Wave], None]]] = [
        (f"anti-affinity:{scope}", {f"max_server_per_{scope}": 5}, scope, lambda wave: _assert_apart(wave, racks, 5)),
        ("anti-affinity", {}, "host", lambda wave: _assert_apart(wave, actor.scenario.hosts, 1)),
        (f"affinity:{scope}", {}, scope, _assert_together),
        (f"soft-anti-affinity:{scope}", {}, scope, lambda wave: _assert_even(wave, racks)),
        (f"soft-affinity:{scope}", {}, scope, _assert_packed),
        (f"affinity:{scope}:{target}", {}, scope, lambda wave: _assert_inside(wave, target)),
    ]
    before: dict[str, Document] = {}
    for i, (group, (policy, rules, _, _)) in enumerate(
        zip(actor.scenario.load_state.groups, expectations, strict=True)
    ):
        # One process caches the group, another updates it, and the first must see the update.
        actor.send("boot", "POST", "/servers", storm.boot_body(f"knows{i}", group=group), of=i)
        body = {"server_group": {"policies": [policy], "rules": rules}}
        assert actor.send("last change", "PUT", f"/os-server-groups/{group}", body, of=i + 1).status == 200
        before[group] = _audit(actor, group)
        actor.send("boot", "POST", "/servers", storm.boot_body(f"last0x{i}", group=group), of=i)
    storm.run_concurrently([_wave_thread(actor.scenario, number) for number in range(1, WAVE)])
    for group, (policy, _, place, check) in zip(actor.scenario.load_state.groups, expectations, strict=True):
        after = _audit(actor, group)
        old = {member["instance_id"]: member["placements"][place] for member in before[group]["members"]}
        new = {m["instance_id"]: m["placements"][place] for m in after["members"] if m["instance_id"] not in old}
        broken = [v for v in after["violations"] if not v["soft"] and set(v["members"]) & new.keys()]
        assert broken == [] or policy == f"affinity:{scope}", broken  # earlier members may be in several racks
        try:
            check((list(old.values()), list(new.values())))
        except AssertionError as error:
            raise AssertionError(f"{policy}: {old} before, {new} since") from error


def _wave_thread(scenario: Scenario, number: int) -> Callable[[], None]:
    def run() -> None:
        actor = Actor(scenario, number)
        groups = list(enumerate(scenario.load_state.groups))
        for i, group in groups[number % GROUPS :] + groups[: number % GROUPS]:
            actor.send("boot", "POST", "/servers", storm.boot_body(f"last{number}x{i}", group=group))
        actor.client.close()

    return run


def _audit(actor: Actor, group: str) -> Document:
    found: Document = actor.send("audit", "GET", f"/os-server-groups/{group}/audit?violations=true").json
    document: Document = found["server_group_policy_audit"]
    return document


# Assertions about the domains of new servers, given the domains of earlier members. Capacity is sufficient.


def _assert_apart(wave: Wave, places: Sequence[str], limit: int) -> None:
    old, new = map(Counter, wave)
    room = sum(max(0, limit - old[place]) for place in places)
    assert new.total() == min(WAVE, room)
    assert all(old[place] + new[place] <= limit for place in new)


def _assert_together(wave: Wave) -> None:
    old, new = ({place for place in places if place is not None} for places in wave)
    assert len(wave[1]) == WAVE
    assert new <= old if old else len(new) == 1


def _assert_even(wave: Wave, places: Sequence[str]) -> None:
    old, new = map(Counter, wave)
    assert new.total() == WAVE
    least = min((old + new)[place] for place in places)
    assert all((old + new)[place] <= least + 1 for place in new)


def _assert_packed(wave: Wave) -> None:
    old: Counter[str | None] = Counter(place for place in wave[0] if place is not None)
    assert len(wave[1]) == WAVE
    (chosen,) = set(wave[1])
    assert old[chosen] == max(old.values(), default=0)


def _assert_inside(wave: Wave, target: str) -> None:
    assert wave[1] == [target] * WAVE


@pytest.mark.parametrize("seed", SEEDS)
def test_new_servers_follow_the_latest_policies_in_four_processes_on_postgresql(
    tmp_path: Path, postgresql_server: PostgreSQL, seed: int
) -> None:
    with postgresql_server.fresh() as database:
        run_changes(tmp_path, database, 4, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_new_servers_follow_the_latest_policies_in_one_process_on_sqlite(
    tmp_path: Path, sqlite_server: SQLite, seed: int
) -> None:
    with sqlite_server.fresh(tmp_path) as database:
        run_changes(tmp_path, database, 1, seed)
