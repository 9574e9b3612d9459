"""Eight clients write allocations to the same providers through Placement, and create servers through Compute.

Both APIs share one capacity: it is never exceeded, and no request that fits is refused.
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
CONFLICT = "placement.concurrent_update"
NEW_SERVER = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}

Amounts = Mapping[str, Mapping[str, int]]  # by provider, by class
Requests = Mapping[str, Amounts]  # by consumer


def body(request: Amounts, generation: int | None) -> dict[str, Any]:
    """Return the body for one consumer. Its type is not INSTANCE, whose allocations Covey manages."""
    return {
        "allocations": {provider: {"resources": amounts} for provider, amounts in request.items()},
        "project_id": "web",
        "user_id": "clerk",
        "consumer_generation": generation,
        "consumer_type": "CRATE",
    }


def resources(document: Mapping[str, Any]) -> Amounts:
    """Return the allocations in a consumer's document."""
    return {provider: given["resources"] for provider, given in document["allocations"].items()}


def consumer(number: int) -> str:
    return f"c0000000-0000-4000-8000-{number:012}"


SHARED = [consumer(number) for number in range(4)]  # consumers that all clients write


@dataclass(frozen=True)
class Held:
    """A consumer's allocations since a time between `sent` and `answered`."""

    sent: float
    answered: float
    amounts: Amounts


@dataclass(frozen=True)
class Refusal:
    """A request that was refused for lack of capacity on each provider it could use."""

    sent: float
    answered: float
    requests: Requests
    lacking: tuple[tuple[str, str], ...]  # provider, class


@dataclass
class Journal:
    """Shared record of the clients' requests and results."""

    capacity: Mapping[str, Mapping[str, int]]
    hosts: Mapping[str, str]  # providers of hosts by name
    held: dict[str, list[Held]] = field(default_factory=lambda: defaultdict(list))
    refusals: list[Refusal] = field(default_factory=list)
    writes: Counter[str] = field(default_factory=Counter)  # by provider: writes that increment its generation
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    running_clients: int = CLIENTS
    lock: Lock = field(default_factory=Lock)

    def note(self, what: str, answer: storm.Answer) -> storm.Answer:
        with self.lock:
            self.counts[f"{what} {answer.status}"] += 1
            if answer.status >= 500:
                self.failures.append(f"{what}: {answer.status} {answer.json}")
        return answer

    def report_error(self, sentence: str) -> None:
        with self.lock:
            self.failures.append(sentence)

    def unjustified_refusals(self) -> list[str]:
        """Return refusals despite free capacity, even if all consumers held their maximum at that time."""
        return [f"{refusal} had room at {place}" for refusal in self.refusals if (place := self._room(refusal))]

    def _room(self, refusal: Refusal) -> tuple[str, str] | None:
        for provider, kind in refusal.lacking:
            wanted = sum(request.get(provider, {}).get(kind, 0) for request in refusal.requests.values())
            others = (self.held[each] for each in self.held.keys() - refusal.requests.keys())
            most = sum(_max_held(each, refusal, provider, kind) for each in others)
            if most + wanted <= self.capacity[provider][kind]:
                return provider, kind
        return None


def _max_held(held: list[Held], when: Refusal, provider: str, kind: str) -> int:
    """Return the maximum that a consumer can have held during a request."""
    last_start = max((each.sent for each in held if each.answered < when.sent), default=0.0)
    possible = (each for each in held if each.sent <= when.answered and each.answered >= last_start)
    return max((each.amounts.get(provider, {}).get(kind, 0) for each in possible), default=0)


@dataclass
class AllocationClient:
    """A client that writes allocations of its own and of shared consumers, and sometimes creates servers.

    It uses the processes in turn.
    """

    journal: Journal
    client: storm.Client
    number: int
    seed: int
    rng: random.Random = field(init=False)
    own: list[str] = field(init=False)
    servers: list[str] = field(default_factory=list)
    asked: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed * 1000 + self.number)  # noqa: S311 -- chance, not secrecy
        self.own = [consumer(10 * (self.number + 1) + i) for i in range(3)]

    def work(self) -> None:
        verbs: dict[Callable[[], None], int] = {
            self.put: 25,
            self.put_many: 20,
            self.shrink: 14,
            self.empty: 8,
            self.delete: 24,
            self.boot: 8,
            self.delete_server: 8,
        }
        try:
            for _ in range(OPERATIONS):
                (verb,) = self.rng.choices(list(verbs), list(verbs.values()))
                verb()
        finally:
            with self.journal.lock:
                self.journal.running_clients -= 1

    def put(self) -> None:
        self.write({self._random_consumer(): self._random_request()})

    def put_many(self) -> None:
        """Write several consumers in one request; one of them may release all its allocations."""
        released, *grown = [self.rng.choice(self.own), *self.rng.sample(SHARED, self.rng.randint(1, 2))]
        requests = {each: self._random_request() for each in grown}
        self.write(requests | {released: {} if self.rng.random() < 0.5 else self._random_request()}, many=True)

    def shrink(self) -> None:
        """Reduce all amounts of a consumer by one, which always fits."""
        consumer_id = self.rng.choice(self.own)
        held = self.show(consumer_id)["allocations"]
        less = {
            provider: {kind: amount - 1 for kind, amount in given["resources"].items() if amount > 1}
            for provider, given in held.items()
        }
        if held and not self.write({consumer_id: {provider: amounts for provider, amounts in less.items() if amounts}}):
            self.journal.report_error(f"{consumer_id} could not shrink from {held} to {less}")

    def empty(self) -> None:
        self.write({self.rng.choice(self.own): {}})

    def delete(self) -> None:
        consumer_id = self._random_consumer()
        sent = time.monotonic()
        answer = self.ask("delete", "DELETE", f"/placement/allocations/{consumer_id}")
        if answer.status == 204:
            with self.journal.lock:
                self.journal.held[consumer_id].append(Held(sent, time.monotonic(), {}))
        elif answer.status != 404:
            self.journal.report_error(f"delete: {answer}")

    def boot(self) -> None:
        name = f"race-{self.number}-{self.asked}"
        sent = time.monotonic()
        answer = self.ask("boot", "POST", "/compute/v2.1/servers", storm.boot_body(name))
        answered = time.monotonic()
        if answer.status != 202:
            self.journal.report_error(f"boot: {answer}")
            return
        server = str(answer.json["server"]["id"])
        shown = self.ask("show", "GET", f"/compute/v2.1/servers/{server}").json["server"]
        host = shown["OS-EXT-SRV-ATTR:host"]
        with self.journal.lock:
            self.journal.counts["placed" if host else "not placed"] += 1
            if host:  # for the rest of the test: no response reports when it is released
                self.journal.held[server].append(Held(sent, answered, {self.journal.hosts[host]: NEW_SERVER}))
            else:
                places = [(provider, "VCPU") for provider in self.journal.hosts.values()]
                requests = {server: dict.fromkeys(self.journal.hosts.values(), NEW_SERVER)}
                self.journal.refusals.append(Refusal(sent, answered, requests, tuple(places)))
        self.servers.append(server)

    def delete_server(self) -> None:
        if self.servers:
            server = self.servers.pop(self.rng.randrange(len(self.servers)))
            self.ask("unboot", "DELETE", f"/compute/v2.1/servers/{server}")

    def write(self, requests: Requests, *, many: bool = False) -> bool:
        """Write allocations, with retries after conflicts; return whether they fit."""
        for _ in range(TRIES):
            before = {consumer_id: self.show(consumer_id) for consumer_id in requests}
            sent = time.monotonic()
            answer = self.send(requests, before, many=many)
            answered = time.monotonic()
            if answer.status == 204:
                self._record_write(requests, before, sent, answered)
                return True
            error = answer.json["errors"][0]
            if answer.status != 409:
                self.journal.report_error(f"{requests}: {answer}")
                return False
            if error["code"] != CONFLICT:
                found = FULL.search(error["detail"])
                if found is None:
                    self.journal.report_error(f"refused for another reason than capacity: {answer}")
                    return False
                with self.journal.lock:
                    self.journal.counts["no room"] += 1
                    self.journal.refusals.append(Refusal(sent, answered, requests, ((found[2], found[1]),)))
                return False
            with self.journal.lock:
                self.journal.counts["conflicts"] += 1
                if not requests.keys() & set(SHARED):
                    self.journal.failures.append(f"no other client writes {list(requests)}: {error['detail']}")
        self.journal.report_error(f"{requests} had a conflict {TRIES} times")
        return False

    def send(self, requests: Requests, before: Mapping[str, dict[str, Any]], *, many: bool) -> storm.Answer:
        bodies = {
            consumer_id: body(request, before[consumer_id].get("consumer_generation"))
            for consumer_id, request in requests.items()
        }
        if many:
            return self.ask("post", "POST", "/placement/allocations", bodies)
        (consumer_id,) = requests
        return self.ask("put", "PUT", f"/placement/allocations/{consumer_id}", bodies[consumer_id])

    def show(self, consumer_id: str) -> dict[str, Any]:
        answer = self.ask("look", "GET", f"/placement/allocations/{consumer_id}")
        assert answer.status == 200, answer
        found: dict[str, Any] = answer.json
        return found

    def ask(self, what: str, method: str, path: str, body: object = None) -> storm.Answer:
        self.asked += 1
        return self.journal.note(what, self.client.ask(method, path, body, of=self.number + self.asked))

    def _record_write(
        self, requests: Requests, before: Mapping[str, dict[str, Any]], sent: float, answered: float
    ) -> None:
        counted = {provider for request in requests.values() for provider in request}
        for consumer_id, request in requests.items():
            if not request:  # a released allocation counts too; only this client changes its own
                counted |= before[consumer_id]["allocations"].keys()
        with self.journal.lock:
            self.journal.writes.update(counted)
            for consumer_id, request in requests.items():
                self.journal.held[consumer_id].append(Held(sent, answered, request))
        for consumer_id in requests.keys() & set(self.own):
            after = self.show(consumer_id)
            expected = before[consumer_id].get("consumer_generation", 0) + 1 if requests[consumer_id] else None
            if after.get("consumer_generation") != expected or resources(after) != requests[consumer_id]:
                self.journal.report_error(
                    f"{consumer_id} should hold {requests[consumer_id]} as generation {expected}, and has {after}"
                )

    def _random_consumer(self) -> str:
        return self.rng.choice(self.own * 2 + SHARED)

    def _random_request(self) -> Amounts:
        chosen = self.rng.sample(sorted(self.journal.capacity), self.rng.randint(1, 2))
        return {
            provider: {"VCPU": self.rng.randint(1, 3)} | ({"DISK_GB": 1} if self.rng.random() < 0.5 else {})
            for provider in chosen
        }


def watch(journal: Journal, client: storm.Client, rows: sa.Engine) -> None:
    """Check until all clients finish that generations only grow and no provider exceeds its capacity."""
    last: dict[str, int] = defaultdict(int)
    requests_sent = 0
    while journal.running_clients:
        for provider, capacity in journal.capacity.items():
            for what in ("usages", "allocations"):
                requests_sent += 1
                path = f"/placement/resource_providers/{provider}/{what}"
                answer = journal.note("watch", client.ask("GET", path, of=requests_sent))
                generation = answer.json["resource_provider_generation"]
                if generation < last[provider]:
                    journal.report_error(f"generation {generation} of {provider} after {last[provider]}")
                last[provider] = generation
                used = Counter(answer.json["usages"]) if what == "usages" else _sum(answer.json["allocations"])
                if any(used[kind] > most for kind, most in capacity.items()):
                    journal.report_error(f"{what} of {provider}: {used} of {capacity}")
        for sentence in violations(rows):
            journal.report_error(sentence)
    client.close()


def _sum(allocations: Mapping[str, Any]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in allocations.values():
        total.update(each["resources"])
    return total


def create_journal(client: storm.Client) -> Journal:
    """Create a provider that is no host; return a journal with the capacity of all providers."""
    created = client.ask("POST", "/placement/resource_providers", {"name": "shelf", "uuid": SHELF})
    assert created.status == 200, created
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
    return Journal(capacity, {each["name"]: each["uuid"] for each in providers if each["uuid"] != SHELF})


def generations(rows: sa.Engine) -> Counter[str]:
    with rows.connect() as connection:
        of = tables.resource_providers.c
        return Counter({row.uuid: row.generation for row in connection.execute(sa.select(of.uuid, of.generation))})


def free(rows: sa.Engine) -> dict[str, Counter[str]]:
    """Return the free amounts by provider and class, from the rows."""
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


def check_retries(writer: AllocationClient, rows: sa.Engine) -> None:
    """Without concurrency, a refused request succeeds if and only if it fits."""
    for number, refusal in enumerate(tuple(writer.journal.refusals)):
        if not refusal.requests.keys() <= {consumer(i) for i in range(1000)}:
            continue  # a boot
        if number % 3 == 0:
            writer.delete()
        left = free(rows)
        for consumer_id in refusal.requests:
            for provider, amounts in resources(writer.show(consumer_id)).items():
                left[provider].update(amounts)
        for request in refusal.requests.values():
            for provider, amounts in request.items():
                left[provider].subtract(amounts)
        fits = all(amount >= 0 for of in left.values() for amount in of.values())
        assert writer.write(refusal.requests, many=len(refusal.requests) > 1) == fits, (refusal, left)
        writer.journal.counts["retried, room" if fits else "retried, no room"] += 1
        assert violations(rows) == []


def release_everything(journal: Journal, client: storm.Client, rows: sa.Engine) -> None:
    """Delete all allocations and servers."""
    for i, consumer_id in enumerate(journal.held):
        assert client.ask("DELETE", f"/placement/allocations/{consumer_id}", of=i).status in {204, 404}
    storm.delete_named(rows, client, "race-")
    assert {provider: dict(has) for provider, has in free(rows).items()} == journal.capacity


def check_both_apis(client: storm.Client, journal: Journal, rows: sa.Engine, processes: int) -> None:
    """Assert that writes of one API in one process apply to the other API in every process immediately."""
    large_consumer, small_consumer = consumer(900), consumer(901)
    for i in range(processes):
        host = sorted(journal.hosts)[i % HOSTS]
        host_provider = journal.hosts[host]
        assert write(client, i, small_consumer, {host_provider: {"VCPU": 1}})
        left = {provider: has["VCPU"] for provider, has in free(rows).items() if provider != SHELF}
        assert write(client, i, large_consumer, {provider: {"VCPU": amount} for provider, amount in left.items()})
        for j in range(processes):
            assert candidate_providers(client, j) == {SHELF}, f"filled by {i}, looked at by {j}"
            assert boot(client, j, f"full-{i}-{j}") is None, f"filled by {i}, booted by {j}"
        assert client.ask("DELETE", f"/placement/allocations/{small_consumer}", of=i).status == 204
        for j in range(processes):
            assert candidate_providers(client, j) == {SHELF, host_provider}, f"emptied by {i}, looked at by {j}"
        assert boot(client, i + 1, f"last-{i}") == host
        for j in range(processes):
            assert candidate_providers(client, j) == {SHELF}, f"booted by {i + 1}, looked at by {j}"
            assert not write(client, j, small_consumer, {host_provider: {"VCPU": 1}}), (
                f"booted by {i + 1}, written by {j}"
            )
        storm.wait_until_idle(rows)
        assert violations(rows, idle=True) == []
        assert client.ask("DELETE", f"/placement/allocations/{large_consumer}", of=i).status == 204
        for name in (f"full-{i}-", f"last-{i}"):
            storm.delete_named(rows, client, name)


def write(client: storm.Client, of: int, consumer_id: str, request: Amounts) -> bool:
    """Write a new consumer's allocations; return whether they fit."""
    answer = client.ask("PUT", f"/placement/allocations/{consumer_id}", body(request, None), of=of)
    assert answer.status == 204 or FULL.search(answer.json["errors"][0]["detail"]), answer
    return answer.status == 204


def candidate_providers(client: storm.Client, of: int) -> set[str]:
    """Return a process' allocation candidates for one VCPU."""
    found = client.ask("GET", "/placement/allocation_candidates?resources=VCPU:1", of=of).json["allocation_requests"]
    return {provider for each in found for provider in each["allocations"]}


def boot(client: storm.Client, of: int, name: str) -> str | None:
    """Create a server and return its host."""
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
        journal = create_journal(client)
        before = generations(rows)
        writers = [AllocationClient(journal, storm.Client(ports), number, seed) for number in range(CLIENTS)]
        watcher = storm.Client(ports)
        storm.run_concurrently([*(writer.work for writer in writers), lambda: watch(journal, watcher, rows)])
        storm.wait_until_idle(rows)
        print(dict(sorted(journal.counts.items())), "deadlocks", storm.deadlocks(rows))  # noqa: T201
        assert journal.failures == []
        assert journal.unjustified_refusals() == []
        assert violations(rows, idle=True) == []
        assert generations(rows) - before == journal.writes
        assert storm.deadlocks(rows) == 0
        for what in ("conflicts", "no room", "placed", "delete 204"):
            assert journal.counts[what] > 0, f"{what}: 0"

        check_retries(writers[0], rows)
        assert journal.failures == []
        assert journal.counts["retried, room"] > 0
        assert journal.counts["retried, no room"] > 0
        release_everything(journal, client, rows)
        check_both_apis(client, journal, rows, processes)
        storm.check_fleet_in_memory(rows, ports)
        assert storm.crashes([each.log for each in running]) == []
        for each in (client, *(writer.client for writer in writers)):
            each.close()
        rows.dispose()


@pytest.mark.parametrize("seed", [20260301, 20260302])
def test_eight_clients_never_exceed_capacity_in_four_postgresql_processes(
    tmp_path: Path, postgresql_server: PostgreSQL, seed: int
) -> None:
    with postgresql_server.fresh() as database:
        race(tmp_path, database, 4, seed)


def test_eight_clients_never_exceed_capacity_in_one_sqlite_process(tmp_path: Path, sqlite_server: SQLite) -> None:
    with sqlite_server.fresh(tmp_path) as database:
        race(tmp_path, database, 1, 20260303)
