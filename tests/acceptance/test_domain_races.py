"""Two hundred concurrent changes of domains in four processes leave no host in two domains of a scope."""

import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import sqlalchemy as sa

from covey.storage.tables import aggregate_hosts, aggregates, hosts
from tests.acceptance import storm
from tests.databases import PostgreSQL

PROCESSES = 4
HOSTS = 20
RACKS = 8  # initially empty domains of the scope
LATE = 20  # aggregates that share hosts, and join the scope later
CLIENTS = 40
REFUSED = re.compile(
    r"Host (host-\d+) is already in aggregate (\S+) of the scope rack, so it can't be added to aggregate (\S+): "
    r"a host is in at most one domain of a scope\."
    r"( The same holds for \d+ more of its hosts\.)?"
)


@dataclass(frozen=True)
class Call:
    """One concurrent request: add a host to an aggregate, or an aggregate to the scope by one of two APIs."""

    aggregate: str
    path: str
    body: dict[str, object]
    host: str | None = None


@dataclass
class Site:
    """Processes that serve one database, and a connection to it."""

    rows: sa.Engine
    ports: list[int]
    logs: Callable[[], list[str]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, postgresql_server: PostgreSQL) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("domains")
    fleet = f"hosts:\n  - {{name: 'host-[01-{HOSTS}]', vcpus: 8, memory_mb: 1024, disk_gb: 10}}\n"
    with postgresql_server.fresh() as database:
        storm.apply_fleet(directory, database, fleet)
        with storm.serving(directory, database, PROCESSES, storm.settings(storm.UNLIMITED)) as running:
            rows = storm.connect(database)
            yield Site(rows, [each.port for each in running], lambda: [each.log for each in running])
            rows.dispose()


def ask(client: storm.Client, method: str, path: str, body: object, of: int = 0) -> storm.Answer:
    return client.ask(method, f"/compute/v2.1{path}", body, of=of)


def make(client: storm.Client, name: str, *members: str) -> int:
    answer = ask(client, "POST", "/os-aggregates", {"aggregate": {"name": name}})
    assert answer.status == 200, answer
    key = int(answer.json["aggregate"]["id"])
    for host in members:
        added = ask(client, "POST", f"/os-aggregates/{key}/action", {"add_host": {"host": host}})
        assert added.status == 200, added
    return key


def calls(client: storm.Client, seed: int) -> list[Call]:
    """Return requests for every host in every rack, and for every late aggregate in the scope by both APIs."""
    rng = random.Random(seed)  # noqa: S311 -- chance, not secrecy
    names = [f"host-{n:02}" for n in range(1, HOSTS + 1)]
    assert ask(client, "POST", "/os-policy-scopes", {"policy_scope": {"name": "rack"}}).status == 200
    made = []
    for n in range(RACKS):
        key = make(client, f"rack-{n}")
        joined = ask(client, "POST", "/os-policy-scopes/rack/action", {"add_aggregate": {"aggregate": key}})
        assert joined.status == 200, joined
        path = f"/os-aggregates/{key}/action"
        made += [Call(f"rack-{n}", path, {"add_host": {"host": host}}, host) for host in names]
    for n in range(LATE):
        key = make(client, f"late-{n}", *rng.sample(names, 3))
        inside: dict[str, object] = {"set_metadata": {"metadata": {"policy_scope": "rack", "shelf": "3"}}}
        made.append(Call(f"late-{n}", "/os-policy-scopes/rack/action", {"add_aggregate": {"aggregate": key}}))
        made.append(Call(f"late-{n}", f"/os-aggregates/{key}/action", inside))
    rng.shuffle(made)
    return made


def race(site: Site, wanted: list[Call]) -> list[tuple[Call, storm.Answer]]:
    """Send the calls from concurrent clients, each to the processes in turn."""
    answers: list[tuple[Call, storm.Answer]] = []
    lock = threading.Lock()

    def client(number: int) -> Callable[[], None]:
        def run() -> None:
            mine = storm.Client(site.ports)
            for i, call in enumerate(wanted[number::CLIENTS]):
                answer = ask(mine, "POST", call.path, call.body, of=number + i)
                with lock:
                    answers.append((call, answer))
            mine.close()

        return run

    storm.run_concurrently([client(number) for number in range(CLIENTS)])
    return answers


def membership(rows: sa.Engine) -> list[tuple[str, str, str | None]]:
    """Return aggregate, host and scope of each membership; assert that its copy of the scope is correct."""
    wanted = (
        sa.select(aggregates.c.name, hosts.c.name, aggregates.c.scope_id, aggregate_hosts.c.scope_id)
        .join_from(aggregate_hosts, aggregates, aggregate_hosts.c.aggregate_id == aggregates.c.id)
        .join(hosts, aggregate_hosts.c.host_id == hosts.c.id)
    )
    with rows.connect() as connection:
        found = connection.execute(wanted).all()
    assert [row for row in found if row[2] != row[3]] == [], "a membership repeats its aggregate's scope"
    return [(aggregate, host, scope) for aggregate, host, scope, _ in found]


def test_two_hundred_concurrent_changes_leave_no_host_in_two_domains(site: Site) -> None:
    before = storm.deadlocks(site.rows)
    client = storm.Client(site.ports)
    wanted = calls(client, seed=11)
    client.close()
    assert len(wanted) == 200
    answers = race(site, wanted)

    counts = Counter(answer.status for _, answer in answers)
    assert set(counts) == {200, 409}, [answer for _, answer in answers if answer.status not in {200, 409}]
    for call, answer in answers:
        if answer.status == 409:
            refused = REFUSED.fullmatch(answer.message)
            assert refused, answer.message
            host, first, second, _ = refused.groups()
            assert second == call.aggregate != first
            assert call.host in {None, host}

    now = membership(site.rows)
    domains = Counter(host for _, host, scope in now if scope is not None)
    assert max(domains.values()) == 1, domains
    assert len(domains) == HOSTS, "each host was requested, so each is in a domain"
    inside = {aggregate for aggregate, _, scope in now if scope is not None}
    for call, answer in answers:
        won = (call.aggregate in inside) if call.host is None else (call.aggregate, call.host) in {m[:2] for m in now}
        assert won == (answer.status == 200), (call, answer)
    assert storm.deadlocks(site.rows) == before
    assert storm.crashes(site.logs()) == []
