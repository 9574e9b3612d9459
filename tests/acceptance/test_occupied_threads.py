"""Clients that try to occupy all threads of a real serving process: health checks and refusals are answered at once."""

import base64
import http.client
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Self

import bcrypt
import pytest
import requests
import yaml

from tests.acceptance import storm
from tests.acceptance.processes import Covey, running_covey
from tests.postgresql_cluster import Cluster

THREADS = 64
RUN_S = 5.0
BOUND_S = 1.0  # on any machine: a health check that waits for a thread takes longer
ANSWER_S = 10.0
TIMEOUT_S = 20
SERVERS = "/compute/v2.1/servers"
PASSWORD = "secret-of-all"


@dataclass
class Live:
    """What /healthcheck/live took, every tenth of a second while the context is open."""

    port: int
    seconds: list[float] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(TIMEOUT_S)

    def _ask(self) -> None:
        while not self._over.wait(0.1):
            began = time.monotonic()
            try:
                status = ask(self.port, "/healthcheck/live")
            except OSError:
                status = 0
            self.seconds.append(time.monotonic() - began if status == 200 else TIMEOUT_S)


def ask(port: int, path: str, **headers: str) -> int:
    return send(port, "GET", path, None, {name.replace("_", "-"): value for name, value in headers.items()})


def post(port: int, path: str, body: str) -> int:
    return send(port, "POST", path, body, {"Content-Type": "application/json"})


def send(port: int, method: str, path: str, body: str | None, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


@contextmanager
def repeated(number: int, action: Callable[[], object]) -> Iterator[None]:
    """Repeat an action in threads while the context is open."""
    over = threading.Event()

    def repeat() -> None:
        while not over.is_set():
            action()

    threads = [threading.Thread(target=repeat, daemon=True) for _ in range(number)]
    for thread in threads:
        thread.start()
    yield
    over.set()
    for thread in threads:
        thread.join(TIMEOUT_S)


def half_body(port: int, path: str, **headers: str) -> socket.socket:
    """Send the head of a request with a body, and one byte of that."""
    connection = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", "Content-Length: 9"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    connection.sendall("\r\n".join([*lines, "", "{"]).encode())
    return connection


@pytest.fixture
def with_users(tmp_path: Path) -> Iterator[Covey]:
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(12)).decode()
    users = [{"name": name, "password_hash": hashed, "project": name, "roles": ["member"]} for name in ("ann", "ben")]
    projects = [{"id": name, "name": name} for name in ("ann", "ben")]
    (tmp_path / "users.yaml").write_text(yaml.safe_dump({"projects": projects, "users": users}))
    variables = {"OS_API__USERS_FILE": str(tmp_path / "users.yaml"), "OS_API__THREADS": str(THREADS)}
    arguments = ("serve", "--database", f"sqlite:///{tmp_path / 'covey.sqlite'}")
    with running_covey(tmp_path, *arguments, variables=variables) as running:
        yield running


def test_incomplete_bodies_and_wrong_passwords_delay_no_health_check(with_users: Covey) -> None:
    port, answers = with_users.port, Counter[int]()
    for name in ("ann", "ben"):
        assert ask(port, SERVERS, Authorization=basic(name, PASSWORD)) == 200
    with ExitStack() as stack:
        for name in ("ann", "ben"):
            for _ in range(THREADS):
                half = half_body(port, SERVERS, Authorization=basic(name, PASSWORD))
                stack.enter_context(half)
        numbers = iter(range(10**9))

        def guess() -> None:
            """Send a new wrong password, or one of four, whose check others may wait for."""
            number = next(numbers)
            password = f"wrong{number if number % 2 else number % 8}"
            answers.update([ask(port, SERVERS, Authorization=basic("ann", password))])

        with repeated(THREADS, guess), Live(port) as live:
            time.sleep(RUN_S)
        assert ask(port, SERVERS, Authorization=basic("ben", PASSWORD)) == 200, "a cached user is served"
    print(f"live: median {median(live.seconds):.3f} s, most {max(live.seconds):.3f} s; {dict(answers)}")  # noqa: T201
    assert max(live.seconds) < BOUND_S
    assert set(answers) <= {401, 503}


def test_more_clients_than_threads_are_answered_while_the_database_is_frozen(tmp_path: Path, cluster: Cluster) -> None:
    seconds, answers = list[float](), Counter[int]()
    variables = storm.settings({}, API__THREADS=str(THREADS))

    def listed(port: int) -> None:
        began = time.monotonic()
        try:
            answers.update([ask(port, SERVERS, X_Auth_Token="alice:web")])
        except OSError:
            answers.update([0])
        seconds.append(time.monotonic() - began)
        time.sleep(0.5)

    def check_health(port: int) -> None:
        ask(port, "/healthcheck")
        time.sleep(0.1)  # without it, 32 clients take all of the processors

    with (
        cluster.fresh() as database,
        running_covey(tmp_path, "serve", "--database", database, variables=variables) as served,
    ):
        assert ask(served.port, SERVERS, X_Auth_Token="alice:web") == 200
        cluster.freeze()
        try:
            health = repeated(THREADS // 2, lambda: check_health(served.port))
            with repeated(160, lambda: listed(served.port)), health, Live(served.port) as live:
                time.sleep(1.5 * ANSWER_S)
        finally:
            cluster.go_on()
        storm.wait_until(lambda: ask(served.port, SERVERS, X_Auth_Token="alice:web") == 200, "it serves again")
    print(f"live: most {max(live.seconds):.3f} s; lists: most {max(seconds):.1f} s, {dict(answers)}")  # noqa: T201
    assert max(live.seconds) < BOUND_S
    assert max(seconds) < ANSWER_S
    assert answers[503] > 160


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that accepts connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        yield listener.getsockname()[1]


def test_silent_keystone_delays_no_health_check_and_every_request_is_answered(tmp_path: Path, silent_port: int) -> None:
    keystone = f"http://127.0.0.1:{silent_port}/v3"
    options = {"auth_type": "password", "auth_url": keystone, "username": "covey", "password": "x"}
    options |= {"project_name": "service", "user_domain_name": "Default", "project_domain_name": "Default"}
    lines = [f"{name} = {value}" for name, value in options.items()]
    (tmp_path / "covey.conf").write_text(
        "\n".join(["[api]", "auth_strategy = keystone", "[keystone_authtoken]", *lines])
    )
    arguments = ("serve", "--database", f"sqlite:///{tmp_path / 'covey.sqlite'}", "--config-file", "covey.conf")
    seconds, answers, numbers = list[float](), Counter[int](), iter(range(10**9))

    def listed(port: int) -> None:
        began = time.monotonic()
        try:
            answers.update([ask(port, SERVERS, X_Auth_Token=f"made-up-{next(numbers)}")])
        except OSError:
            answers.update([0])
        seconds.append(time.monotonic() - began)
        time.sleep(0.3)

    def sign_in(port: int) -> None:
        body = '{"name": "a", "password": "b", "project": "c"}'
        answers.update([post(port, "/dashboard/session", body)])
        time.sleep(0.3)

    variables = {"OS_API__THREADS": str(THREADS)}
    with running_covey(tmp_path, *arguments, variables=variables) as served:
        assert ask(served.port, SERVERS) == 401, "without a token, Keystone is not asked"
        signing_in = repeated(THREADS, lambda: sign_in(served.port))
        with repeated(2 * THREADS, lambda: listed(served.port)), signing_in, Live(served.port) as live:
            time.sleep(RUN_S)
    print(f"live: most {max(live.seconds):.3f} s; lists: most {max(seconds):.1f} s, {dict(answers)}")  # noqa: T201
    assert max(live.seconds) < BOUND_S
    assert max(seconds) < ANSWER_S
    assert set(answers) == {503}, "never 500"


def test_idle_connections_delay_no_request(with_users: Covey) -> None:
    port = with_users.port
    with ExitStack() as stack:
        for number in range(1500):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), TIMEOUT_S))
            if number % 2:
                connection.sendall(b"GET /healthcheck/live HT")
        with Live(port) as live:
            time.sleep(RUN_S)
        assert ask(port, SERVERS, Authorization=basic("ann", PASSWORD)) == 200
    print(f"live: most {max(live.seconds):.3f} s")  # noqa: T201
    assert max(live.seconds) < BOUND_S


def test_downloads_that_are_not_read_delay_no_request_and_end(tmp_path: Path) -> None:
    variables = storm.settings({}, API__THREADS=str(THREADS), API__CONNECTION_TIMEOUT_S="3", API__REQUEST_TIMEOUT_S="1")
    variables |= {
        "OS_LOG__LEVEL": "info",
        "OS_IMAGE__DATA_DIR": str(tmp_path / "images"),
        "OS_SCHEDULER__REBALANCE_TIME_LIMIT_S": "1",
    }
    arguments = ("serve", "--database", f"sqlite:///{tmp_path / 'covey.sqlite'}")
    images = "/image/v2/images"
    with running_covey(tmp_path, *arguments, variables=variables) as served, ExitStack() as stack:
        headers = {"X-Auth-Token": "alice:web"}
        body = {"name": "big", "disk_format": "raw", "container_format": "bare"}
        image = requests.post(f"{served.url}{images}", json=body, headers=headers, timeout=TIMEOUT_S).json()["id"]
        media = headers | {"Content-Type": "application/octet-stream"}
        data = bytes(32 << 20)
        put = requests.put(f"{served.url}{images}/{image}/file", data, headers=media, timeout=TIMEOUT_S)
        assert put.status_code == 204
        for _ in range(THREADS + 8):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", served.port))
            head = f"GET {images}/{image}/file HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Auth-Token: alice:web\r\n\r\n"
            connection.sendall(head.encode())
        with Live(served.port) as live:
            time.sleep(2)
            assert ask(served.port, SERVERS, X_Auth_Token="alice:web") == 200
        assert max(live.seconds) < BOUND_S
        path = f"{images}/{image}/file"
        storm.wait_until(lambda: ask(served.port, path, X_Auth_Token="alice:web") == 200, "a slow download ends")
    assert "http.response_not_read" in served.log
