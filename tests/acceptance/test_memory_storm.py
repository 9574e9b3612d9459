"""Threads of two processes claim, move, delete and change the structure at once: memory equals rows in both."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from covey.model.errors import CoveyError
from covey.model.providers import InventoryRecord
from tests.acceptance import storm
from tests.budgets import operations
from tests.build import NOW, a_host
from tests.fleet_in_memory import differences
from tests.functional.fleets import Cloud
from tests.functional.racks import LIVE_MIGRATION, Racks, racks_on, request_server
from tests.lossy_proxy import LossyProxy
from tests.postgresql_cluster import Cluster

pytestmark = pytest.mark.soak

OPERATIONS = operations(150)  # of each thread
SEED = 77


class Actor:
    """One thread's requests to one of the processes."""

    def __init__(self, racks: Racks, cloud: Cloud, number: int, counts: "Counter[str]") -> None:
        self.racks, self.cloud, self.number, self.counts = racks, cloud, number, counts
        self.rng = random.Random(SEED + number)  # noqa: S311 -- chance, not secrecy
        self.servers: list[str] = []
        self.admin = cloud.alice.sending(X_Roles="admin")

    def claim(self) -> None:
        """Create a server; move or delete an earlier one."""
        made = request_server(self.admin)
        self.counts[f"boot {made.status}"] += 1
        if made.status == 202:
            self.servers.append(made.json["server"]["id"])
        if len(self.servers) > 3:
            server = self.rng.choice(self.servers)
            if self.rng.random() < 0.4:
                self.counts[f"move {self.admin.post(f'/servers/{server}/action', LIVE_MIGRATION).status}"] += 1
            else:
                self.servers.remove(server)
                self.counts[f"delete {self.admin.delete(f'/servers/{server}').status}"] += 1

    def work(self) -> None:
        with suppress(CoveyError):  # the answer to a commit was lost; the job is due again
            self.cloud.assembled.worker().run_once()
        time.sleep(0.01)

    def change(self) -> None:
        """Change the structure in one of many ways."""
        host, rack = f"node-{self.rng.randint(1, 3)}", f"rack-{self.rng.randint(1, 3)}"
        kinds: dict[str, Callable[[], None]] = {
            "rack": lambda: self.racks.move(host, rack),
            "inventory": lambda: self._put(host, "VCPU", self.rng.choice([48, 64, 80])),
            "custom": lambda: self._put(host, "CUSTOM_GPU", self.rng.randint(1, 4)),
            "lost class": lambda: self._drop(host, "CUSTOM_GPU"),
            "trait": lambda: self._trait(host),
            "host": self._add_and_delete_host,
        }
        kind = self.rng.choice([*kinds])
        try:
            kinds[kind]()
            self.counts[kind] += 1
        except CoveyError as error:
            self.counts[f"{kind} {type(error).__name__}"] += 1

    def _put(self, host: str, kind: str, total: int) -> None:
        with self.cloud.store.write() as tx:
            found = tx.hosts.by_name(host)
            assert found is not None
            tx.inventories.put({found.id: {kind: InventoryRecord(total)}})

    def _drop(self, host: str, kind: str) -> None:
        with self.cloud.store.write() as tx:
            found = tx.hosts.by_name(host)
            assert found is not None
            tx.inventories.drop([(found.id, kind)])

    def _trait(self, host: str) -> None:
        with self.cloud.store.write() as tx:
            found = tx.hosts.by_name(host)
            assert found is not None
            change = tx.hosts.remove_traits if "CUSTOM_SSD" in found.traits else tx.hosts.add_traits
            change([(found.id, "CUSTOM_SSD")])

    def _add_and_delete_host(self) -> None:
        name = f"late-{self.number}-{self.rng.random()}"
        with self.cloud.store.write() as tx:
            tx.hosts.add([a_host(name, 1)], NOW)
        with self.cloud.store.write() as tx:
            found = tx.hosts.by_name(name)
            assert found is not None
            if not tx.servers.names_on([found.id]):
                tx.hosts.delete([found.id])


def thread(actor: Actor, act: Callable[[Actor], None], over: threading.Event, times: int | None) -> Callable[[], None]:
    """Return a task that repeats an action: so often, then all threads end; or until they end."""

    def run() -> None:
        done = 0
        try:
            while not over.is_set() and (times is None or done < times):
                act(actor)
                done += 1
        finally:
            over.set()

    return run


def test_memory_equals_rows_after_concurrent_claims_and_changes(tmp_path: Path, cluster: Cluster) -> None:
    with cluster.fresh() as database, LossyProxy(cluster.socket) as proxy:
        through = proxy.url(str(sa.engine.make_url(database).database))
        with racks_on(database, tmp_path, through=through) as racks:
            run_storm(racks, proxy)
            for cloud in (racks.here, racks.there):
                assert differences(cloud.store, cloud.assembled.live, racks.start().assembled.live) == {}


def run_storm(racks: Racks, proxy: LossyProxy) -> None:
    counts, over = Counter[str](), threading.Event()

    def lose() -> None:
        while not over.wait(0.3):
            proxy.lose_answers(1)

    clouds = (racks.here, racks.there)
    actions = [(Actor.claim, OPERATIONS), (Actor.claim, OPERATIONS), (Actor.work, None), (Actor.change, None)]
    pairs = [(cloud, *action) for action in actions for cloud in clouds]
    tasks = [
        thread(Actor(racks, cloud, number, counts), act, over, times)
        for number, (cloud, act, times) in enumerate(pairs)
    ]
    storm.run_concurrently([*tasks, lose], 4 * storm.TIMEOUT_S)
    print(dict(sorted(counts.items())), "lost answers", proxy.lost)  # noqa: T201
    assert proxy.lost > 0
