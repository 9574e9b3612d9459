"""Eight clients write allocations to the same few providers, while others boot on those that are hosts.

Whatever they do, one capacity serves both: it is never exceeded, and no request that fits is refused.
"""

import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
import sqlalchemy as sa

from covey.storage import tables
from tests.acceptance import storm
from tests.acceptance.invariants import violations
from tests.budgets import operations
from tests.databases import PostgreSQL, SQLite

pytestmark = pytest.mark.soak

CLIENTS = 8
OPERATIONS = operations(40)  # of each client
TRIES = 200
HOSTS, VCPUS = 4, 8
SHELF = "5e1f0000-0000-4000-8000-000000000000"  # a provider that is no host
FULL = re.compile(r"for '(\w+)' on resource provider '([-0-9a-f]+)'\. The requested amount would exceed the capacity")
OVERTAKEN = "placement.concurrent_update"
NEW_SERVER = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}

Amounts = Mapping[str, Mapping[str, int]]  # by provider, by class
Wishes = Mapping[str, Amounts]  # by consumer


def body(request: Amounts, generation: int | None) -> dict[str, Any]:
    """What is sent for one consumer. Its type is none that servers have: those are the service's own to account for."""
    return {
        "allocations": {provider: {"resources": amounts} for provider, amounts in request.items()},
        "project_id": "web",
        "user_id": "clerk",
        "consumer_generation": generation,
        "consumer_type": "CRATE",
    }


def resources(document: Mapping[str, Any]) -> Amounts:
    """What a consumer's document says that it holds."""
    return {provider: given["resources"] for provider, given in document["allocations"].items()}


def consumer(number: int) -> str:
    return f"c0000000-0000-4000-8000-{number:012}"


SHARED = [consumer(number) for number in range(4)]  # consumers that all clients write


@dataclass(frozen=True)
class Held:
    """What a consumer held from some moment between these two on."""

    sent: float
    answered: float
    amounts: Amounts


@dataclass(frozen=True)
class Refusal:
    """A wish that there was no room for, wherever it might have gone."""

    sent: float
    answered: float
    wishes: Wishes
    lacking: tuple[tuple[str, str], ...]  # provider, class


@dataclass
class Books:
    """What the clients know together of what they did."""

    capacity: Mapping[str, Mapping[str, int]]
    hosts: Mapping[str, str]  # the providers of hosts, by name
    held: dict[str, list[Held]] = field(default_factory=lambda: defaultdict(list))
    refusals: list[Refusal] = field(default_factory=list)
    writes: Counter[str] = field(default_factory=Counter)  # by provider: those that its generation counts
    tally: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    at_work: int = CLIENTS
    lock: Lock = field(default_factory=Lock)

    def note(self, what: str, answer: storm.Answer) -> storm.Answer:
        with self.lock:
            self.tally[f"{what} {answer.status}"] += 1
            if answer.status >= 500:
                self.wrong.append(f"{what}: {answer.status} {answer.json}")
        return answer

    def complain(self, sentence: str) -> None:
        with self.lock:
            self.wrong.append(sentence)

    def unfounded(self) -> list[str]:
        """Refusals of what there was room for, even if all_servers held the most that they can have held just then."""
        return [f"{refusal} had room at {place}" for refusal in self.refusals if (place := self._room(refusal))]

    def _room(self, refusal: Refusal) -> tuple[str, str] | None:
        for provider, kind in refusal.lacking:
            wanted = sum(request.get(provider, {}).get(kind, 0) for request in refusal.wishes.values())
            others = (self.held[each] for each in self.held.keys() - refusal.wishes.keys())
            most = sum(_most(each, refusal, provider, kind) for each in others)
            if most + wanted <= self.capacity[provider][kind]:
                return provider, kind
        return None


def _most(held: list[Held], when: Refusal, provider: str, kind: str) -> int:
    """The most that a consumer may have held while a request was under way."""
    last_start = max((each.sent for each in held if each.answered < when.sent), default=0.0)
    possible = (each for each in held if each.sent <= when.answered and each.answered >= last_start)
    return max((each.amounts.get(provider, {}).get(kind, 0) for each in possible), default=0)


@dataclass
class Clerk:
    """One client: writes what its own consumers hold, and what those hold that all share; boots a server now and then.

    Asks another process each time.
    """

    books: Books
    client: storm.Client
    number: int
    seed: int
    dice: random.Random = field(init=False)
    own: list[str] = field(init=False)
    servers: list[str] = field(default_factory=list)
    asked: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed * 1000 + self.number)  # noqa: S311 -- chance, not secrecy
        self.own = [consumer(10 * (self.number + 1) + i) for i in range(3)]

    def work(self) -> None:
        verbs: dict[Callable[[], None], int] = {
            self.put: 25,
            self.put_many: 20,
            self.shrink: 14,
            self.empty: 8,
            self.delete: 24,
            self.boot: 8,
            self.unboot: 8,
        }
        try:
            for _ in range(OPERATIONS):
                (verb,) = self.dice.choices(list(verbs), list(verbs.values()))
                verb()
        finally:
            with self.books.lock:
                self.books.at_work -= 1

    def put(self) -> None:
        self.write({self._random_consumer(): self._wish()})

    def put_many(self) -> None:
        """Some get something, and one of them may give up all it has: room that goes from one to another."""
        giver, *takers = [self.dice.choice(self.own), *self.dice.sample(SHARED, self.dice.randint(1, 2))]
        wishes = {each: self._wish() for each in takers}
        self.write(wishes | {giver: {} if self.dice.random() < 0.5 else self._wish()}, many=True)

    def shrink(self) -> None:
        """Of everything one less, which there is always room for."""
        who = self.dice.choice(self.own)
        held = self.look(who)["allocations"]
        less = {
            provider: {kind: amount - 1 for kind, amount in given["resources"].items() if amount > 1}
            for provider, given in held.items()
        }
        if held and not self.write({who: {provider: amounts for provider, amounts in less.items() if amounts}}):
            self.books.complain(f"{who} could not shrink from {held} to {less}")

    def empty(self) -> None:
        self.write({self.dice.choice(self.own): {}})

    def delete(self) -> None:
        who = self._random_consumer()
        sent = time.monotonic()
        answer = self.ask("delete", "DELETE", f"/placement/allocations/{who}")
        if answer.status == 204:
            with self.books.lock:
                self.books.held[who].append(Held(sent, time.monotonic(), {}))
        elif answer.status != 404:
            self.books.complain(f"delete: {answer}")

    def boot(self) -> None:
        name = f"race-{self.number}-{self.asked}"
        sent = time.monotonic()
        answer = self.ask("boot", "POST", "/compute/v2.1/servers", storm.boot_body(name))
        answered = time.monotonic()
        if answer.status != 202:
            self.books.complain(f"boot: {answer}")
            return
        server = str(answer.json["server"]["id"])
        shown = self.ask("show", "GET", f"/compute/v2.1/servers/{server}").json["server"]
        host = shown["OS-EXT-SRV-ATTR:host"]
        with self.books.lock:
            self.books.tally["placed" if host else "not placed"] += 1
            if host:  # for the rest of the test: no response reports when it is released
                self.books.held[server].append(Held(sent, answered, {self.books.hosts[host]: NEW_SERVER}))
            else:
                places = [(provider, "VCPU") for provider in self.books.hosts.values()]
                wishes = {server: dict.fromkeys(self.books.hosts.values(), NEW_SERVER)}
                self.books.refusals.append(Refusal(sent, answered, wishes, tuple(places)))
        self.servers.append(server)

    def unboot(self) -> None:
        if self.servers:
            server = self.servers.pop(self.dice.randrange(len(self.servers)))
            self.ask("unboot", "DELETE", f"/compute/v2.1/servers/{server}")

    def write(self, wishes: Wishes, *, many: bool = False) -> bool:
        """Writes it, again and again until it is there or there is no room; tells which."""
        for _ in range(TRIES):
            before = {who: self.look(who) for who in wishes}
            sent = time.monotonic()
            answer = self.send(wishes, before, many=many)
            answered = time.monotonic()
            if answer.status == 204:
                self._written(wishes, before, sent, answered)
                return True
            error = answer.json["errors"][0]
            if answer.status != 409:
                self.books.complain(f"{wishes}: {answer}")
                return False
            if error["code"] != OVERTAKEN:
                found = FULL.search(error["detail"])
                if found is None:
                    self.books.complain(f"refused, but not for want of room: {answer}")
                    return False
                with self.books.lock:
                    self.books.tally["no room"] += 1
                    self.books.refusals.append(Refusal(sent, answered, wishes, ((found[2], found[1]),)))
                return False
            with self.books.lock:
                self.books.tally["overtaken"] += 1
                if not wishes.keys() & set(SHARED):
                    self.books.wrong.append(f"no other client writes {list(wishes)}: {error['detail']}")
        self.books.complain(f"{wishes} was overtaken {TRIES} times")
        return False

    def send(self, wishes: Wishes, before: Mapping[str, dict[str, Any]], *, many: bool) -> storm.Answer:
        bodies = {who: body(request, before[who].get("consumer_generation")) for who, request in wishes.items()}
        if many:
            return self.ask("post", "POST", "/placement/allocations", bodies)
        (who,) = wishes
        return self.ask("put", "PUT", f"/placement/allocations/{who}", bodies[who])

    def look(self, who: str) -> dict[str, Any]:
        answer = self.ask("look", "GET", f"/placement/allocations/{who}")
        assert answer.status == 200, answer
        found: dict[str, Any] = answer.json
        return found

    def ask(self, what: str, method: str, path: str, body: object = None) -> storm.Answer:
        self.asked += 1
        return self.books.note(what, self.client.ask(method, path, body, of=self.number + self.asked))

    def _written(self, wishes: Wishes, before: Mapping[str, dict[str, Any]], sent: float, answered: float) -> None:
        counted = {provider for request in wishes.values() for provider in request}
        for who, request in wishes.items():
            if not request:  # a released allocation counts too; only this client changes its own
                counted |= before[who]["allocations"].keys()
        with self.books.lock:
            self.books.writes.update(counted)
            for who, request in wishes.items():
                self.books.held[who].append(Held(sent, answered, request))
        for who in wishes.keys() & set(self.own):
            after = self.look(who)
            expected = before[who].get("consumer_generation", 0) + 1 if wishes[who] else None
            if after.get("consumer_generation") != expected or resources(after) != wishes[who]:
                self.books.complain(f"{who} should hold {wishes[who]} as generation {expected}, and has {after}")

    def _random_consumer(self) -> str:
        return self.dice.choice(self.own * 2 + SHARED)

    def _wish(self) -> Amounts:
        chosen = self.dice.sample(sorted(self.books.capacity), self.dice.randint(1, 2))
        return {
            provider: {"VCPU": self.dice.randint(1, 3)} | ({"DISK_GB": 1} if self.dice.random() < 0.5 else {})
            for provider in chosen
        }


def watch(books: Books, client: storm.Client, rows: sa.Engine) -> None:
    """Looks on until all clerks are done: at whole moments, generations only grow and nothing is over capacity."""
    last: dict[str, int] = defaultdict(int)
    looks = 0
    while books.at_work:
        for provider, capacity in books.capacity.items():
            for what in ("usages", "allocations"):
                looks += 1
                path = f"/placement/resource_providers/{provider}/{what}"
                answer = books.note("watch", client.ask("GET", path, of=looks))
                generation = answer.json["resource_provider_generation"]
                if generation < last[provider]:
                    books.complain(f"generation {generation} of {provider} after {last[provider]}")
                last[provider] = generation
                used = Counter(answer.json["usages"]) if what == "usages" else _sum(answer.json["allocations"])
                if any(used[kind] > most for kind, most in capacity.items()):
                    books.complain(f"{what} of {provider}: {used} of {capacity}")
        for sentence in violations(rows):
            books.complain(sentence)
    client.close()


def _sum(allocations: Mapping[str, Any]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in allocations.values():
        total.update(each["resources"])
    return total


def found_books(client: storm.Client) -> Books:
    """Beside the hosts a provider that is none; and what there is of each."""
    made = client.ask("POST", "/placement/resource_providers", {"name": "shelf", "uuid": SHELF})
    assert made.status == 200, made
    stock = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": VCPUS}, "DISK_GB": {"total": 100}}}
    assert client.ask("PUT", f"/placement/resource_providers/{SHELF}/inventories", stock).status == 200
    providers = client.ask("GET", "/placement/resource_providers").json["resource_providers"]
    capacity = {}
    for each in providers:
        has = client.ask("GET", f"/placement/resource_providers/{each['uuid']}/inventories").json["inventories"]
        capacity[each["uuid"]] = {
            kind: int((i["total"] - i["reserved"]) * i["allocation_ratio"]) for kind, i in has.items()
        }
    assert [has["VCPU"] for has in capacity.values()] == [VCPUS] * (HOSTS + 1)
    return Books(capacity, {each["name"]: each["uuid"] for each in providers if each["uuid"] != SHELF})


def generations(rows: sa.Engine) -> Counter[str]:
    with rows.connect() as connection:
        of = tables.resource_providers.c
        return Counter({row.uuid: row.generation for row in connection.execute(sa.select(of.uuid, of.generation))})


def free(rows: sa.Engine) -> dict[str, Counter[str]]:
    """What is left of everything, by the rows: by provider, by class."""
    joined = tables.inventories.join(
        tables.resource_providers, tables.inventories.c.provider_id == tables.resource_providers.c.id
    )
    found: dict[str, Counter[str]] = defaultdict(Counter)
    with rows.connect() as connection:
        for row in connection.execute(
            sa.select(tables.resource_providers.c.uuid, tables.inventories).select_from(joined)
        ):
            capacity = int((row.total - row.reserved) * row.allocation_ratio)
            found[row.uuid][row.resource_class] = capacity - row.used
    return found


def check_retries(clerk: Clerk, rows: sa.Engine) -> None:
    """In the quiet, every request that found no room gets it exactly if the rows have it."""
    for number, refusal in enumerate(tuple(clerk.books.refusals)):
        if not refusal.wishes.keys() <= {consumer(i) for i in range(1000)}:
            continue  # a boot
        if number % 3 == 0:
            clerk.delete()
        left = free(rows)
        for who in refusal.wishes:
            for provider, amounts in resources(clerk.look(who)).items():
                left[provider].update(amounts)
        for request in refusal.wishes.values():
            for provider, amounts in request.items():
                left[provider].subtract(amounts)
        fits = all(amount >= 0 for of in left.values() for amount in of.values())
        assert clerk.write(refusal.wishes, many=len(refusal.wishes) > 1) == fits, (refusal, left)
        clerk.books.tally["retried, room" if fits else "retried, no room"] += 1
        assert violations(rows) == []


def clear(books: Books, client: storm.Client, rows: sa.Engine) -> None:
    """Everybody gives back everything."""
    for i, who in enumerate(books.held):
        assert client.ask("DELETE", f"/placement/allocations/{who}", of=i).status in {204, 404}
    storm.delete_named(rows, client, "race-")
    assert {provider: dict(has) for provider, has in free(rows).items()} == books.capacity


def check_doors(client: storm.Client, books: Books, rows: sa.Engine, processes: int) -> None:
    """Hosts that one process filled through Placement are full for boots, at once and in every process; and back."""
    filler, crumb = consumer(900), consumer(901)
    for i in range(processes):
        host = sorted(books.hosts)[i % HOSTS]
        spot = books.hosts[host]
        assert write(client, i, crumb, {spot: {"VCPU": 1}})
        left = {provider: has["VCPU"] for provider, has in free(rows).items() if provider != SHELF}
        assert write(client, i, filler, {provider: {"VCPU": amount} for provider, amount in left.items()})
        for j in range(processes):
            assert with_room(client, j) == {SHELF}, f"filled by {i}, looked at by {j}"
            assert boot(client, j, f"full-{i}-{j}") is None, f"filled by {i}, booted by {j}"
        assert client.ask("DELETE", f"/placement/allocations/{crumb}", of=i).status == 204
        for j in range(processes):
            assert with_room(client, j) == {SHELF, spot}, f"emptied by {i}, looked at by {j}"
        assert boot(client, i + 1, f"last-{i}") == host
        for j in range(processes):
            assert with_room(client, j) == {SHELF}, f"booted by {i + 1}, looked at by {j}"
            assert not write(client, j, crumb, {spot: {"VCPU": 1}}), f"booted by {i + 1}, written by {j}"
        storm.wait_until_idle(rows)
        assert violations(rows, idle=True) == []
        assert client.ask("DELETE", f"/placement/allocations/{filler}", of=i).status == 204
        for name in (f"full-{i}-", f"last-{i}"):
            storm.delete_named(rows, client, name)


def write(client: storm.Client, of: int, who: str, request: Amounts) -> bool:
    """A new consumer's allocations; whether there was room for them."""
    answer = client.ask("PUT", f"/placement/allocations/{who}", body(request, None), of=of)
    assert answer.status == 204 or FULL.search(answer.json["errors"][0]["detail"]), answer
    return answer.status == 204


def with_room(client: storm.Client, of: int) -> set[str]:
    """The providers that a process offers for one VCPU."""
    found = client.ask("GET", "/placement/allocation_candidates?resources=VCPU:1", of=of).json["allocation_requests"]
    return {provider for each in found for provider in each["allocations"]}


def boot(client: storm.Client, of: int, name: str) -> str | None:
    """The host that a new server got."""
    answer = client.ask("POST", "/compute/v2.1/servers", storm.boot_body(name), of=of)
    assert answer.status == 202, answer
    shown = client.ask("GET", f"/compute/v2.1/servers/{answer.json['server']['id']}", of=of).json["server"]
    host: str | None = shown["OS-EXT-SRV-ATTR:host"]
    assert (shown["status"] == "ERROR") == (host is None), shown
    return host


def race(directory: Path, database: str, processes: int, seed: int) -> None:
    storm.apply_fleet(directory, database, storm.fleet_of(HOSTS, VCPUS))
    variables = storm.settings(storm.UNLIMITED, WORKER__POLL_INTERVAL_S="0.05")
    with storm.serving(directory, database, processes, variables) as running:
        ports = [each.port for each in running]
        rows, client = storm.connect(database), storm.Client(ports)
        books = found_books(client)
        before = generations(rows)
        clerks = [Clerk(books, storm.Client(ports), number, seed) for number in range(CLIENTS)]
        watcher = storm.Client(ports)
        storm.at_once([*(clerk.work for clerk in clerks), lambda: watch(books, watcher, rows)])
        storm.wait_until_idle(rows)
        print(dict(sorted(books.tally.items())), "deadlocks", storm.deadlocks(rows))  # noqa: T201
        assert books.wrong == []
        assert books.unfounded() == []
        assert violations(rows, idle=True) == []
        assert generations(rows) - before == books.writes
        assert storm.deadlocks(rows) == 0
        for what in ("overtaken", "no room", "placed", "delete 204"):
            assert books.tally[what] > 0, f"nothing was {what}"

        check_retries(clerks[0], rows)
        assert books.wrong == []
        assert books.tally["retried, room"] > 0
        assert books.tally["retried, no room"] > 0
        clear(books, client, rows)
        check_doors(client, books, rows, processes)
        storm.check_memory(rows, ports)
        assert storm.crashes([each.log for each in running]) == []
        for each in (client, *(clerk.client for clerk in clerks)):
            each.close()
        rows.dispose()


@pytest.mark.parametrize("seed", [20260301, 20260302])
def test_eight_clients_race_on_four_postgresql_processes(
    tmp_path: Path, postgresql_server: PostgreSQL, seed: int
) -> None:
    with postgresql_server.fresh() as database:
        race(tmp_path, database, 4, seed)


def test_eight_clients_race_on_one_sqlite_process(tmp_path: Path, sqlite_server: SQLite) -> None:
    with sqlite_server.fresh(tmp_path) as database:
        race(tmp_path, database, 1, 20260303)
