"""Processes that share a database of three hosts, each in its own rack."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from covey.model.ids import AggregateId
from covey.storage import engine
from tests import claim_history
from tests.build import NOW, a_host
from tests.fleet_in_memory import differences
from tests.functional.client import Answer, Client
from tests.functional.fleets import IMAGE, Cloud, cloud_on
from tests.functional.scopes import add_scope
from tests.postgresql_cluster import Cluster
from tests.sessions import wait_for_last_session

LIVE_MIGRATION = {"os-migrateLive": {"host": None, "block_migration": "auto"}}
HOSTS = ("node-1", "node-2", "node-3")
_DEADLOCKS = sa.text("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
_TRIES = 20  # a pool of dead connections answers 503 a few times


@dataclass
class Racks:
    """The process under test, another one, and the racks rack-1 to rack-3 of node-1 to node-3."""

    here: Cloud
    there: Cloud
    ids: dict[str, AggregateId]
    start: Callable[[], Cloud]  # starts a further process

    def move(self, host: str, rack: str) -> None:
        """Put a host into another rack, in one transaction of the other process."""
        with self.there.store.write() as tx:
            found = tx.hosts.by_name(host)
            assert found is not None
            old = [a for a in tx.aggregates.all() if host in a.hosts]
            tx.aggregates.remove_hosts([(aggregate.id, found.id) for aggregate in old], NOW)
            tx.aggregates.add_hosts([(self.ids[rack], found.id)], NOW)

    def differences(self) -> dict[str, Any]:
        """Return the hosts whose columns in the memory of the process under test differ from the rows."""
        return differences(self.here.store, self.here.assembled.live, self.start().assembled.live)

    def deadlocks(self) -> int:
        """Return how many deadlocks the database has found, once all sessions have ended and reported theirs."""
        for cloud in (self.here, self.there):
            cloud.connection.dispose()
        wait_for_last_session(self.there.connection)
        with self.there.connection.connect() as connection:
            return int(connection.execute(_DEADLOCKS).scalar_one())


@contextmanager
def racks_on(database: str, directory: Path, *, through: str | None = None) -> Iterator[Racks]:
    """Yield the processes; the one under test connects by the URL `through`, if given."""
    with ExitStack() as stack:
        there = stack.enter_context(cloud_on(database, directory, [a_host(name, 64, 131072, 1000) for name in HOSTS]))
        domains = add_scope(there, "rack", {f"rack-{i + 1}": [host] for i, host in enumerate(HOSTS)})
        there.set_quota(instances=-1, cores=-1, ram=-1)
        here = stack.enter_context(cloud_on(through or database, directory))
        ids = {rack: AggregateId(int(aggregate)) for rack, aggregate in domains.items()}
        yield Racks(here, there, ids, lambda: stack.enter_context(cloud_on(database, directory)))


@contextmanager
def recorded_racks(cluster: Cluster, directory: Path) -> Iterator[Racks]:
    """Yield the processes on a database that records the history of claims."""
    with cluster.fresh() as database:
        connected = engine.connect(database)
        claim_history.record(connected)
        connected.dispose()
        with racks_on(database, directory) as made:
            yield made


def request_server(client: Client, group: str | None = None, **fields: Any) -> Answer:
    """POST /servers, for a small server."""
    body = {"server": {"name": "s", "flavorRef": "small", "imageRef": IMAGE, "networks": "none"} | fields}
    return client.post("/servers", body | ({} if group is None else {"os:scheduler_hints": {"group": group}}))


def boot(cloud: Cloud, group: str | None = None, key: str | None = None, **fields: Any) -> str:
    """Create a server and return its id."""
    client = cloud.alice.sending(X_Roles="admin", **({} if key is None else {"Idempotency_Key": key}))
    made = answered(lambda: request_server(client, group, **fields))
    assert made.status == 202, made.text
    return str(made.json["server"]["id"])


def boot_on(cloud: Cloud, host: str, group: str) -> str:
    """Create a server on that host, whatever the policies of its group."""
    return boot(cloud, group, availability_zone=f"nova:{host}")


def answered(request: Callable[[], Answer]) -> Answer:
    """Repeat a request while the database does not answer."""
    for _ in range(_TRIES):
        answer = request()
        if answer.status != 503:
            return answer
    return answer
