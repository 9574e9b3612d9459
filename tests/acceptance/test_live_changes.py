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
NAMES = ("rack", "row")  # that the scope has in turn
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
class Square:
    """Shared state of all threads: groups, domains, results of requests, and the stop signal."""

    ports: Sequence[int]
    seed: int
    town: storm.Town = field(default_factory=storm.Town)
    racks: list[int] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    left: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(BOOTS))
    over: threading.Event = field(default_factory=threading.Event)

    def person(self, number: int, does: "Callable[[Person], None]") -> Callable[[], None]:
        """Start a thread that repeats one action until the test stops."""

        def run() -> None:
            me = Person(self, number)
            try:
                while not self.over.is_set():
                    does(me)
            finally:
                self.over.set()  # one failure stops all threads
                me.client.close()

        return run


@dataclass
class Person:
    """One client, and its dice."""

    square: Square
    number: int
    client: storm.Client = field(init=False)
    dice: random.Random = field(init=False)
    asked: int = 0

    def __post_init__(self) -> None:
        self.client = storm.Client(self.square.ports)
        self.dice = random.Random(self.square.seed * 1000 + self.number)  # noqa: S311 -- chance, not secrecy

    def say(self, what: str, method: str, path: str, body: object = None, of: int | None = None) -> storm.Answer:
        """Ask one process after another, unless it has to be a certain one."""
        self.asked += 1
        answer = self.client.ask(method, COMPUTE + path, body, of=self.number + self.asked if of is None else of)
        self.square.town.note(what, answer)
        return answer

    def act(self, what: str, path: str, body: object = None) -> storm.Answer:
        return self.say(what, "POST", f"{path}/action", {what: body})

    def group(self) -> str:
        return f"/os-server-groups/{self.dice.choice(self.square.town.groups)}"


def boot(me: Person) -> None:
    if not me.square.left.acquire(blocking=False):
        me.square.over.set()
        return
    group = me.group().rpartition("/")[2]
    me.say("boot", "POST", "/servers", storm.boot_body(f"early{me.number}x{me.asked}", group=group))


def change(me: Person) -> None:
    """Policies with rules, rules alone, or the name; the scope may have another name by then."""
    policies, rules = me.dice.choice(POLICIES)
    scope, rack = me.dice.choice(NAMES), me.dice.choice(me.square.racks)
    bodies: tuple[Document, ...] = (
        {
            "policies": [policy.format(scope, rack) for policy in policies],
            "rules": {rule.format(scope): limit for rule, limit in rules.items()},
        },
        {"rules": {"max_server_per_host": me.dice.randint(1, 5)}},
        {"name": f"name-{me.asked}"},
    )
    me.say("change", "PUT", me.group(), {"server_group": me.dice.choices(bodies, (4, 2, 1))[0]})


def enrol(me: Person) -> None:
    """Remove a server from its group and add it to another, whether that violates a policy or not."""
    group = me.group()
    members = me.say("show", "GET", group).json["server_group"]["members"]
    candidates = [server["id"] for server in me.say("list", "GET", "/servers").json["servers"]]
    if members and me.dice.random() < 0.8:
        candidates = [me.dice.choice(members)]
        me.act("remove_instance", group, {"instance_id": candidates[0]})
    if candidates:
        request = {"instance_id": me.dice.choice(candidates), "enforce": me.dice.random() < 0.3}
        me.act("add_instance", me.group(), request)


def rename(me: Person) -> None:
    scope = next(s for s in me.say("scopes", "GET", "/os-policy-scopes").json["policy_scopes"] if s["name"] != "host")
    name = NAMES[scope["name"] == NAMES[0]]
    me.say("rename", "PUT", f"/os-policy-scopes/{scope['id']}", {"policy_scope": {"name": name}})


def carry(me: Person) -> None:
    """Move a host to another rack, unless another thread moves it."""
    host, rack = me.dice.choice(me.square.hosts), me.dice.choice(me.square.racks)
    found = me.say("racks", "GET", "/os-aggregates").json["aggregates"]
    for home in (aggregate["id"] for aggregate in found if host in aggregate["hosts"]):
        me.act("remove_host", f"/os-aggregates/{home}", {"host": host})
    me.act("add_host", f"/os-aggregates/{rack}", {"host": host})


def look(me: Person) -> None:
    group = me.group()
    me.say("audit", "GET", f"{group}/audit?violations=true")
    me.act("preview", group, {"flavor": "small", "count": 5})
    me.act("rebalance", group, {"dry_run": True})
    me.say("groups", "GET", "/os-server-groups")


def live(directory: Path, database: str, processes: int, seed: int) -> None:
    storm.apply_fleet(directory, database, storm.fleet_of(12, 64))
    with storm.serving(directory, database, processes, VARIABLES) as running:
        square, rows = Square([each.port for each in running], seed), storm.connect(database)
        me = Person(square, 0)
        _found(me)
        people = [boot] * BOOTERS + [change, change, enrol, rename, carry, carry, look]
        storm.at_once([square.person(i, does) for i, does in enumerate(people, 1)], 2 * storm.PATIENCE_S)
        _last_words(me)
        storm.wait_until_idle(rows)
        print(dict(sorted(square.town.tally.items())))  # noqa: T201
        assert square.town.wrong == []
        assert square.town.tally["boot 202"] == BOOTS + (1 + WAVE) * GROUPS
        assert square.town.total(503) == 0
        assert violations(rows, idle=True, changed=True) == []
        assert storm.crashes([each.log for each in running]) == []
        assert storm.deadlocks(rows) == 0
        assert square.town.tally["overtaken"] == 0
        assert {row.vm_state for row in read(rows).servers} >= {"active", "error"}
        me.client.close()
        rows.dispose()


def _found(me: Person) -> None:
    """The scope opens for identifiers; there are some groups."""
    flags = {"policy_scope": {"allow_identifiers": True}}
    assert me.say("open", "PUT", "/os-policy-scopes/rack", flags).status == 200
    aggregates = me.say("racks", "GET", "/os-aggregates").json["aggregates"]
    me.square.racks = [aggregate["id"] for aggregate in aggregates]
    me.square.hosts = sorted(host for aggregate in aggregates for host in aggregate["hosts"])
    for _ in range(GROUPS):
        made = me.say("found", "POST", "/os-server-groups", storm.group_body(["soft-anti-affinity"], {}))
        me.square.town.groups.append(made.json["server_group"]["id"])


def _last_words(me: Person) -> None:
    """Each group gets a policy that stays, and at once a wave of servers from all sides, which must keep to it."""
    carry(me)
    rename(me)
    scope = next(s["name"] for s in me.say("s", "GET", "/os-policy-scopes").json["policy_scopes"] if s["name"] in NAMES)
    aggregates = {str(a["id"]): len(a["hosts"]) for a in me.say("racks", "GET", "/os-aggregates").json["aggregates"]}
    target = max(aggregates, key=lambda rack: aggregates[rack])
    racks = [rack for rack, hosts in aggregates.items() if hosts]
    words: list[tuple[str, dict[str, int], str, Callable[[Wave], None]]] = [
        (f"anti-affinity:{scope}", {f"max_server_per_{scope}": 5}, scope, lambda wave: _apart(wave, racks, 5)),
        ("anti-affinity", {}, "host", lambda wave: _apart(wave, me.square.hosts, 1)),
        (f"affinity:{scope}", {}, scope, _together),
        (f"soft-anti-affinity:{scope}", {}, scope, lambda wave: _even(wave, racks)),
        (f"soft-affinity:{scope}", {}, scope, _drawn),
        (f"affinity:{scope}:{target}", {}, scope, lambda wave: _inside(wave, target)),
    ]
    before: dict[str, Document] = {}
    for i, (group, (policy, rules, _, _)) in enumerate(zip(me.square.town.groups, words, strict=True)):
        # One process knows the group, another changes it, and the first has to notice.
        me.say("boot", "POST", "/servers", storm.boot_body(f"knows{i}", group=group), of=i)
        body = {"server_group": {"policies": [policy], "rules": rules}}
        assert me.say("last change", "PUT", f"/os-server-groups/{group}", body, of=i + 1).status == 200
        before[group] = _audit(me, group)
        me.say("boot", "POST", "/servers", storm.boot_body(f"last0x{i}", group=group), of=i)
    storm.at_once([_wave(me.square, number) for number in range(1, WAVE)])
    for group, (policy, _, place, holds) in zip(me.square.town.groups, words, strict=True):
        after = _audit(me, group)
        old = {member["instance_id"]: member["placements"][place] for member in before[group]["members"]}
        new = {m["instance_id"]: m["placements"][place] for m in after["members"] if m["instance_id"] not in old}
        broken = [v for v in after["violations"] if not v["soft"] and set(v["members"]) & new.keys()]
        assert broken == [] or policy == f"affinity:{scope}", broken  # where those that were there first are scattered
        try:
            holds((list(old.values()), list(new.values())))
        except AssertionError as error:
            raise AssertionError(f"{policy}: {old} before, {new} since") from error


def _wave(square: Square, number: int) -> Callable[[], None]:
    def run() -> None:
        me = Person(square, number)
        groups = list(enumerate(square.town.groups))
        for i, group in groups[number % GROUPS :] + groups[: number % GROUPS]:
            me.say("boot", "POST", "/servers", storm.boot_body(f"last{number}x{i}", group=group))
        me.client.close()

    return run


def _audit(me: Person, group: str) -> Document:
    found: Document = me.say("audit", "GET", f"/os-server-groups/{group}/audit?violations=true").json
    document: Document = found["server_group_policy_audit"]
    return document


# What must hold of a wave's places, by the places of those that were there before. There is room for all.


def _apart(wave: Wave, places: Sequence[str], limit: int) -> None:
    old, new = map(Counter, wave)
    room = sum(max(0, limit - old[place]) for place in places)
    assert new.total() == min(WAVE, room)
    assert all(old[place] + new[place] <= limit for place in new)


def _together(wave: Wave) -> None:
    old, new = ({place for place in places if place is not None} for places in wave)
    assert len(wave[1]) == WAVE
    assert new <= old if old else len(new) == 1


def _even(wave: Wave, places: Sequence[str]) -> None:
    old, new = map(Counter, wave)
    assert new.total() == WAVE
    least = min((old + new)[place] for place in places)
    assert all((old + new)[place] <= least + 1 for place in new)


def _drawn(wave: Wave) -> None:
    old: Counter[str | None] = Counter(place for place in wave[0] if place is not None)
    assert len(wave[1]) == WAVE
    (chosen,) = set(wave[1])
    assert old[chosen] == max(old.values(), default=0)


def _inside(wave: Wave, target: str) -> None:
    assert wave[1] == [target] * WAVE


@pytest.mark.parametrize("seed", SEEDS)
def test_four_processes_follow_every_change_on_postgresql(
    tmp_path: Path, postgresql_server: PostgreSQL, seed: int
) -> None:
    with postgresql_server.fresh() as database:
        live(tmp_path, database, 4, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_process_follows_every_change_on_sqlite(tmp_path: Path, sqlite_server: SQLite, seed: int) -> None:
    with sqlite_server.fresh(tmp_path) as database:
        live(tmp_path, database, 1, seed)
