"""A small cloud in process. Its worker runs on demand, and its accounting is checked after every step."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest
import sqlalchemy as sa

from covey import bootstrap, clock_and_ids, logs
from covey.access import OsloAccess
from covey.api import app
from covey.api.authentication.noauth import NoAuth
from covey.api.metrics import Metrics
from covey.assembly import Assembled, assemble
from covey.bootstrap import Settings
from covey.drivers.simulated import Simulated
from covey.model.errors import DriverFault
from covey.model.flavors import Flavor
from covey.model.hosts import NewHost
from covey.model.ids import FlavorId, ImageId
from covey.model.images import ImageStatus, Visibility
from covey.model.inventory import ResourceClass
from covey.model.resources import quota_size
from covey.model.servers import Server
from covey.model.work import Job, JobKind
from covey.ports import Driver
from covey.request_slots import RequestSlots
from covey.storage import engine, tables
from covey.storage.rows import load
from covey.storage.store import Store
from tests.acceptance.openapi_resources import PUBLIC_KEY
from tests.build import NOW, a_host, an_image
from tests.functional.client import Answer, Client, Service

IMAGE = "11111111-2222-3333-4444-555555555555"
UNKNOWN_ID = "99999999-9999-9999-9999-999999999999"  # of no resource
SIZES = {"small": (1, 1024, 10), "big": (2, 2048, 20), "whole": (8, 16384, 100), "giant": (9, 1024, 10)}
CLASSES = tuple(ResourceClass)
_A_MOMENT_S = 1.0


class Time:
    """A clock that can be advanced."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def __call__(self) -> datetime:
        return clock_and_ids.now() + self._ahead

    def advance(self, seconds: float) -> None:
        self._ahead += timedelta(seconds=seconds)


@dataclass
class FailingDriver:
    """A driver that records its calls, and fails on the hosts and verbs that a test names."""

    hosts: set[str] = field(default_factory=set)
    verbs: set[str] = field(default_factory=set)
    done: list[tuple[str, str, str]] = field(default_factory=list)  # (verb, server, host)

    is_instant = True

    def spawn(self, server: Server, host: str, epoch: int) -> None:  # noqa: ARG002
        self._do("spawn", server, host)

    def destroy(self, server: Server, host: str, epoch: int) -> None:  # noqa: ARG002
        self.done.append(("destroy", server.id, host))

    def detach(self, server: Server, host: str, epoch: int) -> None:  # noqa: ARG002
        self.done.append(("detach", server.id, host))

    def move(self, server: Server, source: str, destination: str, epoch: int, *, live: bool) -> None:  # noqa: ARG002
        self._do("live" if live else "move", server, destination)

    def abort(self, server: Server, source: str, destination: str, epoch: int) -> bool:  # noqa: ARG002
        self.done.append(("abort", server.id, source))
        return True

    def console_log(self, server: Server, host: str, lines: int | None) -> str:  # noqa: ARG002
        return f"console of {server.id} on {host}"

    def evacuate(self, server: Server, source: str, destination: str, epoch: int) -> None:  # noqa: ARG002
        self._do("evacuate", server, destination)

    def power(self, server: Server, host: str, verb: str, epoch: int) -> None:  # noqa: ARG002
        self._do(verb, server, host)

    def _do(self, verb: str, server: Server, host: str) -> None:
        self.done.append((verb, server.id, host))
        if host in self.hosts or verb in self.verbs:
            raise DriverFault(f"{host} would not {verb}")


@dataclass
class Cloud:
    """The service, its worker and its database."""

    service: Service
    assembled: Assembled
    store: Store
    connection: sa.Engine
    time: Time

    @property
    def alice(self) -> Client:
        """A tenant of the project web."""
        return self.service.as_("alice:web", "2.1000")

    @property
    def bob(self) -> Client:
        """A tenant of another project."""
        return self.service.as_("bob:db", "2.1000")

    @property
    def admin(self) -> Client:
        """An operator, in a third project."""
        return self.service.as_("admin:operators", "2.1000")

    # The worker

    def step(self) -> int:
        """Run the jobs that are due, once."""
        done = self.assembled.worker().run_once()
        if done:
            self.check()
        return done

    def settle(self) -> None:
        """Run jobs until none is left, including those that are due soon."""
        while self.step() or self._make_next_action_due():
            pass

    def _make_next_action_due(self) -> bool:
        """Return whether an action of a cluster or a node is due soon, and make it due now."""
        waits = [
            (row.due_at - self.time()).total_seconds()
            for row in self.rows(tables.work)
            if row.verb == JobKind.CLUSTER_ACTION
        ]
        if not waits or min(waits) > _A_MOMENT_S:
            return False
        self.time.advance(max(0.0, min(waits)))
        return True

    def jobs(self) -> list[Job]:
        """Return the waiting jobs, without taking them."""
        day = timedelta(days=1)
        self.store.clock = lambda: self.time() + day
        with self.store.write() as tx:
            jobs = tx.work.take(-day.total_seconds(), 1000)
        self.store.clock = self.time
        return jobs

    # Requests of tenants and operators

    def request_server(self, client: Client, name: str = "s", group: str | None = None, **fields: Any) -> Answer:
        """POST /servers; `hints` are scheduler hints, the rest are attributes of the server."""
        hints = fields.pop("hints", {}) | ({} if group is None else {"group": group})
        body: dict[str, Any] = {"server": {"name": name, "flavorRef": "small", "imageRef": IMAGE} | fields}
        if client.version is None or client.version not in {"2.1", "2.36"}:
            body["server"].setdefault("networks", "none")
        answer = client.post("/servers", body | ({"os:scheduler_hints": hints} if hints else {}))
        self.check()
        return answer

    def boot(self, client: Client | None = None, name: str = "s", group: str | None = None, **fields: Any) -> str:
        """Create a running server."""
        answer = self.request_server(client or self.alice, name, group, **fields)
        assert answer.status == 202, answer.text
        self.settle()
        return str(answer.json["server"]["id"])

    def boot_on(self, host: str, group: str | None = None, **fields: Any) -> str:
        """Create a running server of alice on that host, regardless of its group's policies."""
        operator = self.service.as_("alice:web", "2.1000").sending(X_Roles="admin")
        return self.boot(operator, group=group, availability_zone=f"nova:{host}", **fields)

    def group(self, *policies: str, client: Client | None = None, **rules: int) -> str:
        body = {"name": "g", "policies": list(policies)} | ({"rules": rules} if rules else {})
        made = (client or self.alice).post("/os-server-groups", {"server_group": body})
        assert made.status == 200, made.text
        return str(made.json["server_group"]["id"])

    def add_key_pair(self, name: str, client: Client | None = None) -> None:
        body = {"keypair": {"name": name, "public_key": PUBLIC_KEY}}
        assert (client or self.alice).post("/os-keypairs", body).status == 201

    def act(self, client: Client, server: str, action: str, body: Any = None) -> Answer:
        answer = client.post(f"/servers/{server}/action", {action: body})
        self.check()
        return answer

    def run_action(self, client: Client, server: str, action: str, body: Any = None) -> None:
        """Run an action and its jobs."""
        answer = self.act(client, server, action, body)
        assert answer.status in {200, 202, 204}, answer.text
        self.settle()

    def delete(self, *servers: str) -> None:
        for server in servers:
            assert self.admin.delete(f"/servers/{server}").status == 204
        self.settle()

    def set_quota(self, project: str = "web", **limits: int) -> None:
        assert self.admin.put(f"/os-quota-sets/{project}", {"quota_set": limits}).status == 200

    def set_host(self, name: str, **change: Any) -> None:
        """Disable a host, or force it down."""
        found = self.admin.get("/os-services", host=name).json["services"][0]["id"]
        answer = self.admin.put(f"/os-services/{found}", change)
        assert answer.status == 200, answer.text

    def set_down(self, name: str, *, down: bool = True) -> None:
        self.set_host(name, forced_down=down)

    # Observations

    def show(self, server: str, client: Client | None = None) -> dict[str, Any]:
        answer = (client or self.admin).get(f"/servers/{server}")
        assert answer.status == 200, answer.text
        shown: dict[str, Any] = answer.json["server"]
        return shown

    def status(self, server: str) -> str:
        return str(self.show(server)["status"])

    def host(self, server: str) -> str | None:
        found: str | None = self.show(server)["OS-EXT-SRV-ATTR:host"]
        return found

    def hosts(self, servers: Iterable[str]) -> list[str | None]:
        return [self.host(server) for server in servers]

    def servers(self, **query: str) -> list[dict[str, Any]]:
        """Return all migrations, oldest first."""
        found = self.admin.get("/servers/detail", all_tenants="1", sort_key="created_at", sort_dir="asc", **query)
        shown: list[dict[str, Any]] = found.json["servers"]
        return shown

    def members(self, group: str) -> set[str]:
        return set(self.admin.get(f"/os-server-groups/{group}").json["server_group"]["members"])

    def log(self, server: str, client: Client | None = None) -> list[tuple[str, str | None]]:
        """Return a server's instance actions and whether they failed, newest first."""
        answer = (client or self.alice).get(f"/servers/{server}/os-instance-actions")
        return [(action["action"], action["message"]) for action in answer.json["instanceActions"]]

    def last_event(self, server: str, client: Client | None = None) -> dict[str, Any]:
        """Return the last event of a server's last instance action."""
        client = client or self.alice
        newest = client.get(f"/servers/{server}/os-instance-actions").json["instanceActions"][0]["request_id"]
        answer = client.get(f"/servers/{server}/os-instance-actions/{newest}")
        event: dict[str, Any] = answer.json["instanceAction"]["events"][-1]
        return event

    def use(self, project: str = "web") -> tuple[int, int, int]:
        """Return the instances, cores and MB that a project's quota counts."""
        quota = self.admin.get(f"/os-quota-sets/{project}/detail").json["quota_set"]
        return quota["instances"]["in_use"], quota["cores"]["in_use"], quota["ram"]["in_use"]

    def used(self) -> dict[str, int]:
        """Return the used VCPUs of each host with some."""
        with self.connection.connect() as connection:
            found = connection.execute(
                sa.select(tables.hosts.c.name, tables.inventories.c.used)
                .join_from(tables.inventories, tables.hosts, tables.inventories.c.provider_id == tables.hosts.c.id)
                .where(tables.inventories.c.resource_class == ResourceClass.VCPU)
            )
            return {name: used for name, used in found if used}

    def rows(self, table: sa.Table) -> list[Any]:
        with self.connection.connect() as connection:
            return list(connection.execute(sa.select(table)))

    def is_empty(self) -> bool:
        """Return whether no server left a trace: no usage, allocations, quota counts or jobs."""
        left = (tables.allocations, tables.consumers, tables.instance_group_members, tables.work, tables.servers)
        counted = [(row.instances, row.cores, row.ram) for row in self.rows(tables.quota_usages)]
        return not self.used() and not any(map(self.rows, left)) and not any(map(any, counted))

    def check(self) -> None:
        """Assert that allocations, inventories and quotas agree."""
        read = (
            tables.allocations,
            tables.inventories,
            tables.servers,
            tables.migrations,
            tables.quota_usages,
            tables.hosts,
        )
        with self.connection.connect() as connection:
            allocations, inventories, servers, migrations, usages, hosts = (
                list(connection.execute(sa.select(table))) for table in read
            )
        taken: dict[tuple[int, str], int] = defaultdict(int)
        for row in allocations:
            taken[row.provider_id, row.resource_class] += row.used
        used = {(row.provider_id, row.resource_class): row.used for row in inventories}
        assert taken == {key: amount for key, amount in used.items() if amount}
        ids = {host.id for host in hosts}  # other providers may serve a part of a server
        on_hosts = {(row.consumer_uuid, row.provider_id) for row in allocations if row.provider_id in ids}
        _check_places(on_hosts, servers, migrations)
        _check_use(servers, migrations, usages)
        self._check_fleet(used)

    def _check_fleet(self, used: dict[tuple[int, str], int]) -> None:
        """Assert that the fleet in memory equals the rows."""
        with self.store.read() as tx, self.assembled.server_tasks.destinations.live.fresh(tx) as snapshot:
            fleet = snapshot.fleet
            believed = {
                (int(host), kind): int(fleet.capacity[line, row] - fleet.free[line, row])
                for row, host in enumerate(fleet.ids)
                for kind, line in fleet.inventories.classes.items()
                if fleet.inventories.exists[line, row]
            }
        assert believed == used


def _check_places(held: set[tuple[str, int]], servers: list[Any], migrations: list[Any]) -> None:
    """Assert that servers hold allocations on their hosts, and migrations on the source hosts."""
    moves = {row.server_id: row.uuid for row in migrations if row.status in {"preparing", "finished"}}
    wanted = set()
    for row in servers:
        if row.second_host_id is None and row.host_id is not None:
            wanted.add((row.id, row.host_id))
        elif row.second_host_id is not None:
            arrived = row.vm_state == "resized"
            wanted.add((row.id, row.host_id if arrived else row.second_host_id))
            wanted.add((moves[row.id], row.second_host_id if arrived else row.host_id))
    assert held == wanted


def _check_use(servers: list[Any], migrations: list[Any], usages: list[Any]) -> None:
    """Assert the quota counts; a server during a resize counts with the larger flavor."""
    sizes: dict[str, list[Flavor]] = {row.id: [load(row.flavor, Flavor)] for row in servers}
    for row in migrations:
        if row.status in {"preparing", "finished"}:
            sizes[row.server_id] += [load(row.old_flavor, Flavor), load(row.new_flavor, Flavor)]
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in servers:
        cores, ram = zip(*map(quota_size, sizes[row.id]), strict=True)
        larger = max(cores), max(ram)
        for i, amount in enumerate((1, *larger)):
            sums[row.project_id][i] += amount
    counted = {row.project_id: [row.instances, row.cores, row.ram] for row in usages}
    assert {project: use for project, use in counted.items() if any(use)} == sums


class BuildCloud(Protocol):
    """Builds a cloud of a number of hosts, named node-1 and so on, or of the given hosts.

    Without hosts (None) it is another process on the same database.
    """

    def __call__(
        self,
        hosts: int | Iterable[NewHost] | None = 3,
        *overrides: tuple[str, str, object],
        driver: Driver | None = None,
    ) -> Cloud: ...


@pytest.fixture
def build_cloud(database: str, tmp_path: Path) -> Iterator[BuildCloud]:
    """Builds the cloud of a test."""
    engines = []

    def build(
        hosts: int | Iterable[NewHost] | None = 3, *overrides: tuple[str, str, object], driver: Driver | None = None
    ) -> Cloud:
        connected = engine.connect(database)
        engines.append(connected)
        store = Store(connected)
        if hosts is not None:
            _fill(store, [a_host(f"node-{i + 1}") for i in range(hosts)] if isinstance(hosts, int) else hosts)
        return _cloud(database, tmp_path, store, connected, driver or Simulated(), *overrides)

    yield build
    for connected in engines:
        connected.dispose()


@contextmanager
def cloud_on(
    database: str,
    directory: Path,
    hosts: Iterable[NewHost] | None = None,
    driver: Driver | None = None,
    **pool: Any,
) -> Iterator[Cloud]:
    """Yield a process on a database, to which the hosts are added first, with settings of its connection pool."""
    connected = engine.connect(database, **pool)
    store = Store(connected)
    if hosts is not None:
        _fill(store, hosts)
    try:
        yield _cloud(database, directory, store, connected, driver or Simulated())
    finally:
        connected.dispose()


@pytest.fixture(scope="module")
def module_cloud(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """A cloud for a whole module, for long parameter tables that change nothing."""
    connected = engine.connect(module_database)
    store = Store(connected)
    _fill(store, [a_host(f"node-{i + 1}") for i in range(3)])
    yield _cloud(module_database, tmp_path_factory.mktemp("cloud"), store, connected, Simulated())
    connected.dispose()


@pytest.fixture
def cloud(build_cloud: BuildCloud) -> Cloud:
    """Three empty hosts, node-1 to node-3, of 8 VCPUs, 16 GB of memory and 100 GB of disk each."""
    return build_cloud()


def _fill(store: Store, hosts: Iterable[NewHost]) -> None:
    sizes = [
        Flavor(FlavorId(name), name, vcpus, memory_mb, disk_gb) for name, (vcpus, memory_mb, disk_gb) in SIZES.items()
    ]
    with store.write() as tx:
        tx.hosts.add(list(hosts), NOW)
        tx.flavors.add(sizes, NOW)
        tx.images.add(
            [an_image(id=ImageId(IMAGE), visibility=Visibility.PUBLIC, status=ImageStatus.ACTIVE, sha512="0" * 128)]
        )


def _cloud(
    database: str,
    directory: Path,
    store: Store,
    connected: sa.Engine,
    driver: Driver,
    *overrides: tuple[str, str, object],
) -> Cloud:
    policy = directory / "policy.yaml"
    policy.touch()
    defaults = (
        ("database", "connection", database),
        ("api", "auth_strategy", "none"),
        ("oslo_policy", "policy_file", str(policy)),
        ("api", "max_limit", 1000),
        ("api", "explain_to_tenants", "counts"),
        ("scheduler", "max_attempts", 3),
    )
    conf = Settings(overrides=(*defaults, *overrides)).load()
    logs.configure("error", "json")
    access, time, noauth, metrics = OsloAccess(conf), Time(), NoAuth(), Metrics()
    store.clock = time
    made = assemble(conf, store, access, time, RequestSlots(), metrics.count_claim_conflict, accounts=noauth)
    if conf.driver.backend == "simulated":
        made = replace(
            made, builds=replace(made.builds, driver=driver), server_tasks=replace(made.server_tasks, driver=driver)
        )
    settings = bootstrap.api_settings(conf)
    parts = app.AppParts(
        made.services, store.ping, access, time, clock_and_ids.new_uuid, noauth, noauth, settings, metrics
    )
    for group, option, _ in overrides:  # options belong to the process: unset those of this cloud
        conf.clear_override(option, group)
    return Cloud(Service(app.build(parts)), made, store, connected, time)
