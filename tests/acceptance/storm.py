"""Load tests: concurrent clients of several real processes, their operations and their records."""

import http.client
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import sqlalchemy as sa

from covey.model.ids import ImageId
from covey.model.images import ImageStatus, Visibility
from covey.storage import engine, tables
from covey.storage.rows import load
from covey.storage.store import Store
from tests.acceptance.invariants import CLASSES, read, violations
from tests.acceptance.processes import Covey, Process, covey, free_port, running_covey, start_covey
from tests.build import an_image

ANSWER_TIMEOUT_S = 60.0
TIMEOUT_S = 120.0
MEAN_PAUSE_S = 0.1  # on average, before each operation
IMAGE = "11111111-2222-3333-4444-555555555555"
SIZES = {"small": (1, 512, 1), "big": (2, 1024, 2)}
PROJECTS = ("web", "db")
UNLIMITED = dict.fromkeys(("INSTANCES", "CORES", "RAM", "SERVER_GROUPS", "SERVER_GROUP_MEMBERS"), "-1")
HIGH_LIMITS = dict.fromkeys(UNLIMITED, "100000000")  # a limit to check, far above the usage
CONFLICT = "Another request changed the same resource at the same time."
GROUPS: tuple[tuple[tuple[str, ...], dict[str, int]], ...] = (
    *[(("anti-affinity",), {})] * 5,
    *[(("anti-affinity",), {"max_server_per_host": 2})] * 3,
    *[(("affinity",), {})] * 3,
    *[(("soft-anti-affinity",), {})] * 3,
    *[(("soft-affinity",), {})] * 2,
    (("anti-affinity:rack",), {}),
    (("anti-affinity:rack",), {"max_server_per_rack": 3}),
    (("affinity:rack", "anti-affinity"), {}),
    (("anti-affinity", "soft-affinity:rack"), {}),
)


def settings(quota: Mapping[str, str], **more: str) -> dict[str, str]:
    """Return the environment of a service without authentication; further options are GROUP__OPTION."""
    given = {f"QUOTA__{name}": limit for name, limit in quota.items()} | more
    return {"OS_API__AUTH_STRATEGY": "none", "OS_LOG__LEVEL": "warning"} | {f"OS_{k}": v for k, v in given.items()}


def fleet_of(
    hosts: int, vcpus: int, names: str | None = None, flavors: Mapping[str, tuple[int, int, int]] = SIZES
) -> str:
    """Return a fleet file of equal hosts, three in each rack. VCPUs are not overcommitted and run out first."""
    racks = ", ".join(f"rack-{i // 3}" for i in range(hosts))
    sizes = "\n".join(
        f"  - {{name: {name}, id: {name}, vcpus: {cpu}, memory_mb: {memory}, disk_gb: {disk}}}"
        for name, (cpu, memory, disk) in flavors.items()
    )
    return (
        f"hosts:\n  - name: {names or f'host-[01-{hosts:02}]'}\n"
        f"    vcpus: {vcpus}\n    memory_mb: 65536\n    disk_gb: 1000\n"
        f"    ratios: {{VCPU: 1.0}}\n    domains: {{rack: [{racks}]}}\n"
        f"scopes:\n  - {{name: rack}}\nflavors:\n{sizes}\n"
    )


def apply_fleet(directory: Path, database: str, text: str, *, image_data: bool = True) -> None:
    """Make the database have this fleet, and an image. Without data, the image waits for its upload."""
    apply_fleet_file(directory, database, text)
    connected = connect(database)
    with Store(connected).write() as tx:
        image = an_image(id=ImageId(IMAGE), visibility=Visibility.PUBLIC)
        tx.images.add([replace(image, status=ImageStatus.ACTIVE, sha512="0" * 128) if image_data else image])
    connected.dispose()


def apply_fleet_file(directory: Path, database: str, text: str) -> None:
    (directory / "fleet.yaml").write_text(text)
    done = covey(directory, "fleet", "apply", "fleet.yaml", "--database", database)
    assert done.status == 0, done.stderr


@contextmanager
def serving(directory: Path, database: str, processes: int, variables: Mapping[str, str]) -> Iterator[list[Covey]]:
    """Run several `covey serve` on one database, each on its own port."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                running_covey(directory / f"serve-{i}", "serve", "--database", database, variables=variables)
            )
            for i in range(processes)
        ]


@dataclass
class KillableProcess:
    """A `covey serve` or `covey worker` in its own process group, which can be killed and restarted.

    A worker serves no requests.
    """

    directory: Path
    database: str
    variables: Mapping[str, str]
    port: int = field(default_factory=free_port)
    serves: bool = True
    workers: int = 1
    _process: Process | None = None

    @property
    def log(self) -> str:
        return (self.directory / "stderr.log").read_text()

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        serve = ("serve", "--port", str(self.port), "--workers", str(self.workers))
        command = (*(serve if self.serves else ("worker",)), "--database", self.database)
        with (self.directory / "stderr.log").open("ab") as stderr, Path(os.devnull).open("wb") as stdout:
            self._process = start_covey(
                self.directory,
                *command,
                variables=self.variables,
                stdout=stdout,
                stderr=stderr,
                leads_session=True,
            )
        if self.serves:
            wait_until(self._answers, f"{self.port} answers")

    def serving(self) -> list[int]:
        """Return the ids of the serving processes."""
        assert self._process is not None
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in children if b"resource_tracker" not in _command_line(child)]

    def kill(self) -> None:
        """Send SIGKILL to the whole process group."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log
        try:
            return Client([self.port]).ask("GET", "/healthcheck").status == 200
        except (OSError, http.client.HTTPException):
            return False


def _command_line(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # ended just now
        return b""


def wait_until(true: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(0.05)


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    json: Any
    seconds: float = 0.0  # since the request

    @property
    def message(self) -> str:
        if self.status < 400 or not isinstance(self.json, dict):
            return ""
        return str(next(iter(self.json.values())).get("message", ""))


class Client:
    """One thread's connections, one to each process, as an administrator of the project."""

    def __init__(
        self,
        ports: Sequence[int],
        project: str = "web",
        timeout_s: float = ANSWER_TIMEOUT_S,
        address: str = "127.0.0.1",
        identity: Mapping[str, str] | None = None,  # headers; those of a service without authentication by default
    ) -> None:
        self._ports = ports
        self._timeout_s = timeout_s
        self._address = address
        self._identity = {"X-Auth-Token": f"admin:{project}"} if identity is None else identity
        self._open: dict[int, http.client.HTTPConnection] = {}

    def ask(self, method: str, path: str, body: object = None, *, of: int = 0, key: str | None = None) -> Answer:
        """Send a request to process number `of`. Raises OSError or HTTPException when the process is dead."""
        port = self._ports[of % len(self._ports)]
        headers = {
            **self._identity,
            "OpenStack-API-Version": "compute 2.1000, placement 1.39, clustering 1.14",
            "Content-Type": "application/json",
        }
        if key is not None:
            headers["Idempotency-Key"] = key
        connection = self._open.get(port) or http.client.HTTPConnection(self._address, port, timeout=self._timeout_s)
        self._open[port] = connection
        began = time.monotonic()
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            raw = response.read()
        except BaseException:
            self._open.pop(port).close()
            raise
        return Answer(response.status, json.loads(raw) if raw else None, time.monotonic() - began)

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()


def boot_body(name: str, flavor: str = "small", group: str | None = None, **more: Any) -> dict[str, Any]:
    server = {"name": name, "flavorRef": flavor, "imageRef": IMAGE, "networks": "none"} | more
    return {"server": server} | ({} if group is None else {"os:scheduler_hints": {"group": group}})


def group_body(policies: Sequence[str], rules: Mapping[str, int]) -> dict[str, Any]:
    return {"server_group": {"name": "g", "policies": list(policies)} | ({"rules": dict(rules)} if rules else {})}


def run_concurrently(tasks: Sequence[Callable[[], None]], timeout_s: float = TIMEOUT_S) -> None:
    """Run the tasks in threads that start at the same time. Raises the first error of a task."""
    start = threading.Barrier(len(tasks))
    errors: list[BaseException] = []

    def run(task: Callable[[], None]) -> None:
        try:
            start.wait(TIMEOUT_S)
            task()
        except BaseException as error:  # noqa: BLE001 -- raised below, in the test's thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(task,), daemon=True) for task in tasks]
    deadline = time.monotonic() + timeout_s
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), "a client still waits for a response"


@dataclass
class LoadState:
    """Shared state of the clients: groups, servers, and the results of requests."""

    groups: list[str] = field(default_factory=list)  # alternately of the first and the second project
    booted: dict[str, str] = field(default_factory=dict)  # acknowledged servers by name
    multi_creates: dict[str, tuple[int, int]] = field(
        default_factory=dict
    )  # acknowledged (min_count, max_count) by name
    created_groups: set[str] = field(default_factory=set)
    deletion_requested: dict[str, str] = field(
        default_factory=dict
    )  # names of servers with a delete request, successful or not
    counts: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0  # of all responses
    longest_wait_s: float = 0.0  # of requests without a response, by clients that wait for one
    failures: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def create_groups(self, ask: Client, ask_other: Client) -> None:
        for i, (policies, rules) in enumerate(GROUPS):
            answer = (ask, ask_other)[i % 2].ask("POST", "/compute/v2.1/os-server-groups", group_body(policies, rules))
            assert answer.status == 200, answer
            self.groups.append(answer.json["server_group"]["id"])

    def note(self, what: str, answer: Answer) -> None:
        """Count a response. A server error other than 503 is a failure."""
        with self.lock:
            self.counts[f"{what} {answer.status}"] += 1
            self.counts[str(answer.status)] += 1
            self.slowest_s = max(self.slowest_s, answer.seconds)
            if CONFLICT in answer.message:
                self.counts["conflicts"] += 1
            if answer.status >= 500 and answer.status != 503:
                self.failures.append(f"{what}: {answer.status} {answer.message}")

    def total(self, *statuses: int) -> int:
        return sum(self.counts[str(status)] for status in statuses)


Send = Callable[..., Answer | None]
"""Send a request, with retries where that is safe; None when the result is unknown."""


@dataclass
class RandomClient:
    """A client that sends random operations on its own and on other servers."""

    load_state: LoadState
    number: int
    seed: int
    send: Send
    mean_pause_s: float = MEAN_PAUSE_S
    rng: random.Random = field(init=False)
    _made: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed * 1000 + self.number)  # noqa: S311 -- chance, not secrecy

    def act(self) -> None:
        """Send one operation after a random pause, so that operations overlap."""
        time.sleep(self.rng.uniform(0, 2 * self.mean_pause_s))
        verbs = self.verbs()
        (verb,) = self.rng.choices(list(verbs), list(verbs.values()))
        verb()

    def verbs(self) -> dict[Callable[[], None], int]:
        """Return the operations with their weights."""
        return {
            self.boot: 28,
            self.boot_several: 4,
            self.delete: 26,
            self.move: 18,
            self.confirm_or_revert: 12,
            self.shelve: 5,
            self.unshelve: 5,
            self.disable_and_enable_host: 3,
            self.create_and_delete_group: 3,
        }

    def boot(self) -> None:
        name, project, group = self._new()
        body = boot_body(name, self.rng.choice(["small", "small", "big"]), group)
        repeat = self.rng.random() < 0.15
        answer = self.send("boot", "POST", "/compute/v2.1/servers", body, project=project, key=name)
        if answer is None or answer.status != 202:
            return
        server = str(answer.json["server"]["id"])
        with self.load_state.lock:
            self.load_state.booted[name] = server
        if repeat:
            again = self.send("boot again", "POST", "/compute/v2.1/servers", body, project=project, key=name)
            if again is not None and again.status == 202 and again.json["server"]["id"] != server:
                self.load_state.failures.append(f"{name} repeated created {again.json['server']['id']} beside {server}")

    def boot_several(self) -> None:
        name, project, group = self._new()
        min_count, max_count = self.rng.choice([(2, 2), (1, 4), (3, 3), (2, 5)])
        body = boot_body(name, "small", group, min_count=min_count, max_count=max_count)
        answer = self.send("boot many", "POST", "/compute/v2.1/servers", body, project=project, key=name)
        if answer is not None and answer.status == 202:
            with self.load_state.lock:
                self.load_state.multi_creates[name] = (min_count, max_count)

    def delete(self) -> None:
        project = self.rng.choice(PROJECTS)
        if (found := self._choose(self._listed(project))) is not None:
            server, name = found
            with self.load_state.lock:
                self.load_state.deletion_requested[server] = name
            self.send("delete", "DELETE", f"/compute/v2.1/servers/{server}", project=project)

    def move(self) -> None:
        project = self.rng.choice(PROJECTS)
        kind = self.rng.choice(["migrate", "migrate", "live", "live", "resize"])
        bodies: dict[str, dict[str, Any]] = {
            "migrate": {"migrate": None},
            "live": {"os-migrateLive": {"host": None, "block_migration": "auto"}},
            "resize": {"resize": {"flavorRef": self.rng.choice(["small", "big"])}},
        }
        self._act_on(self._listed(project, "ACTIVE"), kind, bodies[kind], project)

    def confirm_or_revert(self) -> None:
        """Confirm or revert a move that waits for confirmation."""
        project = self.rng.choice(PROJECTS)
        request = self.rng.choice(["confirmResize", "revertResize"])
        self._act_on(self._listed(project, "VERIFY_RESIZE"), request, {request: None}, project)

    def stop(self) -> None:
        project = self.rng.choice(PROJECTS)
        self._act_on(self._listed(project, "ACTIVE"), "stop", {"os-stop": None}, project)

    def start(self) -> None:
        project = self.rng.choice(PROJECTS)
        self._act_on(self._listed(project, "SHUTOFF"), "start", {"os-start": None}, project)

    def shelve(self) -> None:
        project = self.rng.choice(PROJECTS)
        self._act_on(self._listed(project, "ACTIVE"), "shelve", {"shelve": None}, project)

    def unshelve(self) -> None:
        project = self.rng.choice(PROJECTS)
        self._act_on(self._listed(project, "SHELVED_OFFLOADED"), "unshelve", {"unshelve": None}, project)

    def disable_and_enable_host(self) -> None:
        """Disable a host, and enable it again soon."""
        services = self.send("list", "GET", "/compute/v2.1/os-services", project="web")
        if services is None or services.status != 200:
            return
        service = self.rng.choice(services.json["services"])["id"]
        for status in ("disabled", "enabled"):
            self.send("host", "PUT", f"/compute/v2.1/os-services/{service}", {"status": status}, project="web")

    def create_and_delete_group(self) -> None:
        """Create a group with a server, and mostly delete the group; the server remains."""
        project = self.rng.choice(PROJECTS)
        policies, rules = self.rng.choice(GROUPS)
        answer = self.send(
            "group", "POST", "/compute/v2.1/os-server-groups", group_body(policies, rules), project=project
        )
        if answer is None or answer.status != 200:
            return
        group = str(answer.json["server_group"]["id"])
        name, _, _ = self._new()
        with self.load_state.lock:
            self.load_state.created_groups.add(group)
        boot = self.send(
            "boot", "POST", "/compute/v2.1/servers", boot_body(name, group=group), project=project, key=name
        )
        if boot is not None and boot.status == 202:
            with self.load_state.lock:
                self.load_state.booted[name] = boot.json["server"]["id"]
        if self.rng.random() < 0.7:
            with self.load_state.lock:
                self.load_state.deletion_requested[group] = ""
            self.send("group gone", "DELETE", f"/compute/v2.1/os-server-groups/{group}", project=project)

    def _act_on(self, servers: list[tuple[str, str]], what: str, body: Mapping[str, object], project: str) -> None:
        if (found := self._choose(servers)) is not None:
            self.send(what, "POST", f"/compute/v2.1/servers/{found[0]}/action", body, project=project)

    def _new(self) -> tuple[str, str, str | None]:
        """Return a unique name, a project, and mostly one of its groups."""
        self._made += 1
        which = self.rng.randrange(len(PROJECTS))
        mine = self.load_state.groups[which :: len(PROJECTS)]
        group = self.rng.choice(mine) if self.rng.random() < 0.85 else None
        return f"s{self.number}x{self._made}", PROJECTS[which], group

    def _listed(self, project: str, status: str = "") -> list[tuple[str, str]]:
        """Return the servers in a state, or in any, with the names of the requests that created them."""
        path = f"/compute/v2.1/servers?status={status}" if status else "/compute/v2.1/servers"
        found = self.send("list", "GET", path, project=project)
        if found is None or found.status != 200:
            return []
        return [(server["id"], server["name"].partition("-")[0]) for server in found.json["servers"]]

    def _choose(self, servers: list[tuple[str, str]]) -> tuple[str, str] | None:
        return servers[int(self.rng.random() * len(servers))] if servers else None


# Checks after the load


class Killable(Protocol):
    """A process that can be killed and started again."""

    def kill(self) -> None: ...

    def start(self) -> None: ...


def kill_at_random(
    killable: Sequence[Killable],
    kills: int,
    pause_s: tuple[float, float],
    over: threading.Event,
    dead_s: tuple[float, float] = (0, 0),
) -> Callable[[], None]:
    """Kill and restart one process after another, with random pauses, until the event is set or all kills are done."""

    def run() -> None:
        rng = random.Random(kills)  # noqa: S311 -- chance, not secrecy
        try:
            for _ in range(kills):
                if over.wait(rng.uniform(*pause_s)):
                    break
                process = rng.choice(killable)
                process.kill()
                time.sleep(rng.uniform(*dead_s))
                process.start()
            time.sleep(1)
        finally:
            over.set()

    return run


def wait_until_idle(connected: sa.Engine) -> None:
    def idle() -> bool:
        with connected.connect() as connection:
            return connection.execute(sa.select(tables.work.c.id).limit(1)).first() is None

    wait_until(idle, "no work is left")


def deadlocks(connected: sa.Engine) -> int:
    """Return the number of deadlocks that the database resolved."""
    if connected.dialect.name != "postgresql":
        return 0
    with connected.connect() as connection:
        text = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        return int(connection.execute(sa.text(text)).scalar_one())


def crashes(logs: Sequence[str]) -> list[str]:
    """Return the log lines of crashes. A guest whose power state is crashed is no crash of Covey."""
    return [line for log in logs for line in log.splitlines() if ".crashed" in line or "Traceback" in line]


def lost_servers(connected: sa.Engine, load_state: LoadState) -> list[str]:
    """Return acknowledged servers that are missing without a delete request, and duplicates."""
    rows = read(connected)
    there = {row.id for row in rows.servers}
    names = Counter(row.name for row in rows.servers)
    groups = {row.id for row in rows.instance_groups}
    found = [
        f"{n}: {s} is gone"
        for n, s in load_state.booted.items()
        if s not in there and s not in load_state.deletion_requested
    ]
    found += [
        f"group {g} is gone"
        for g in load_state.created_groups
        if g not in groups and g not in load_state.deletion_requested
    ]
    found += [f"{count} servers are called {name}" for name, count in names.items() if count > 1]
    left = Counter(row.name.partition("-")[0] for row in rows.servers)
    gone = Counter(name for server, name in load_state.deletion_requested.items() if server not in there)
    for name, (min_count, max_count) in load_state.multi_creates.items():
        if not min_count <= left[name] + gone[name] <= max_count:
            found.append(f"{name} created {left[name]} + {gone[name]} servers, not {min_count} to {max_count}")
    return found


def check_fleet_in_memory(connected: sa.Engine, ports: Sequence[int], *, changed: bool = False) -> None:
    """Assert that each process' fleet in memory equals the rows: it fills the fleet exactly.

    Requests one server more than the capacity, then exactly the capacity, from each process. A process with a wrong
    fleet in memory fails one of the two. Policies need not hold for groups that changed.
    """
    client = Client(ports)
    enable_all_hosts(client)
    delete_every_third_server(connected, client)
    for i in range(len(ports)):
        room = capacity_for(connected, "small")
        assert room > 0
        for wanted, fits in ((room + 1, False), (room, True)):
            name = f"brim{i}{'fits' if fits else 'over'}"
            answer = client.ask(
                "POST", "/compute/v2.1/servers", boot_body(name, min_count=wanted, max_count=wanted), of=i
            )
            assert answer.status == 202, answer
            assert count_placed(connected, name) == (wanted if fits else 0), f"process {i}, room for {room}"
            wait_until_idle(connected)
            assert violations(connected, idle=True, changed=changed) == []
            delete_named(connected, client, name)
    client.close()


def enable_all_hosts(client: Client) -> None:
    for service in client.ask("GET", "/compute/v2.1/os-services").json["services"]:
        if service["status"] != "enabled":
            path = f"/compute/v2.1/os-services/{service['id']}"
            assert client.ask("PUT", path, {"status": "enabled"}).status == 200


def delete_every_third_server(connected: sa.Engine, client: Client) -> None:
    """Delete every third server to free capacity."""
    gone = sorted(row.id for row in read(connected).servers)[::3]
    for i, server in enumerate(gone):
        assert client.ask("DELETE", f"/compute/v2.1/servers/{server}", of=i).status == 204
    wait_until_idle(connected)


def delete_named(connected: sa.Engine, client: Client, name: str) -> None:
    for i, row in enumerate(row for row in read(connected).servers if row.name.startswith(name)):
        assert client.ask("DELETE", f"/compute/v2.1/servers/{row.id}", of=i).status == 204
    wait_until_idle(connected)


def capacity_for(connected: sa.Engine, flavor: str) -> int:
    """Return how many servers of that flavor the rows have capacity for."""
    rows = read(connected)
    need = dict(zip(CLASSES, SIZES[flavor], strict=True))
    fits: dict[int, int] = {}
    for row in rows.inventories:
        free = int((row.total - row.reserved) * row.allocation_ratio) - row.used
        fits[row.provider_id] = min(fits.get(row.provider_id, free), free // need[row.resource_class])
    return sum(fits[row.id] for row in rows.hosts if not row.disabled)


def count_placed(connected: sa.Engine, name: str) -> int:
    """Return how many of these servers were placed on request, in any state since."""
    found = [row for row in read(connected).servers if row.name.startswith(name)]
    return sum(bool(load(row.decision, dict[str, Any])["candidates"]) for row in found)


def connect(database: str) -> sa.Engine:
    return engine.connect(database, pool_size=4)
