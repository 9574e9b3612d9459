"""Connections that send half a request, and serving processes that die: a real service goes on."""

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests

from tests.acceptance.processes import Covey, listening, running_covey

THREADS = 64
REQUEST_S = 1
VARIABLES = {
    "OS_API__AUTH_STRATEGY": "none",
    "OS_API__CONNECTION_TIMEOUT_S": "3",
    "OS_API__REQUEST_TIMEOUT_S": str(REQUEST_S),
    "OS_API__THREADS": str(THREADS),
    "OS_SCHEDULER__REBALANCE_TIME_LIMIT_S": "1",
}
TIMEOUT_S = 60
SHORT_S = 10  # in which a service answers that waits for no client
WEBHOOK = "/clustering/v1/webhooks/x/trigger?V=2"
SERVERS = "/compute/v2.1/servers"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Covey]:
    directory = tmp_path_factory.mktemp("hostile")
    database = f"sqlite:///{directory / 'covey.sqlite'}"
    with running_covey(directory, "serve", "--database", database, variables=VARIABLES, preloaded=False) as running:
        yield running


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Covey]:
    """A service that closes no connection during these tests."""
    directory = tmp_path_factory.mktemp("patient")
    variables = VARIABLES | {"OS_API__CONNECTION_TIMEOUT_S": "600"}
    with running_covey(
        directory, "serve", "--database", f"sqlite:///{directory / 'covey.sqlite'}", variables=variables
    ) as running:
        yield running


def send_half(served: Covey, path: str, token: str = "", length: int = 9) -> socket.socket:
    """Send one byte of a body."""
    connection = socket.create_connection(("127.0.0.1", served.port), TIMEOUT_S)
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n"
    connection.sendall(f"{head}{f'X-Auth-Token: {token}' if token else 'X: y'}\r\n\r\n{{".encode())
    return connection


def status(connection: socket.socket) -> int:
    """Return the status of the response; 0 if the connection is closed without one."""
    try:
        answer = connection.recv(4096)
    except ConnectionResetError:
        return 0
    return int(answer.split()[1]) if answer else 0


def get(served: Covey, path: str) -> int:
    headers = {"X-Auth-Token": "bob:other"}
    return requests.get(f"{served.url}{path}", headers=headers, timeout=SHORT_S).status_code


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def test_body_of_a_caller_without_credentials_is_not_read(served: Covey) -> None:
    for path, expected in ((WEBHOOK, 404), (SERVERS, 401)):
        with send_half(served, path) as connection:
            connection.settimeout(SHORT_S)
            assert status(connection) == expected


def test_incomplete_bodies_delay_no_other_request_and_end(served: Covey) -> None:
    with ExitStack() as stack:
        held = [stack.enter_context(send_half(served, SERVERS, "alice:web")) for _ in range(2 * THREADS)]
        for path in ("/healthcheck/live", "/healthcheck", "/metrics", "/compute/v2.1/flavors"):
            assert get(served, path) == 200
        flavor = {"flavor": {"name": "f", "vcpus": 1, "ram": 1, "disk": 1}}
        posted = requests.post(
            f"{served.url}/compute/v2.1/flavors", json=flavor, headers={"X-Auth-Token": "admin"}, timeout=SHORT_S
        )
        assert posted.status_code == 200, "bodies of other projects are read"
        statuses = [status(connection) for connection in held]
    assert statuses.count(503) == 2 * THREADS - THREADS // 8, "a project has a part of the threads"
    assert set(statuses) <= {0, 400, 503}, "the others end with their connections"


def test_incomplete_bodies_of_two_projects_leave_others_and_agents_their_share(patient: Covey) -> None:
    service = {"X-Auth-Token": "agent:service", "X-Roles": "service"}
    with ExitStack() as stack:
        for token in ("mallory:m1", "mallory:m2"):
            for _ in range(THREADS):
                stack.enter_context(send_half(patient, SERVERS, token))
        wait_until(lambda: post(patient, "mallory:m1") == post(patient, "mallory:m2") == 503, "both have what they get")
        statuses = [post(patient, "honest:web") for _ in range(20)]
        beat = requests.put(
            f"{patient.url}/agent/v1/hosts/h/heartbeat", json={"state": "up"}, headers=service, timeout=SHORT_S
        )
    assert statuses == [400] * 20, "the bodies are read, and found invalid"
    assert beat.status_code == 404, "the body is read, and the host unknown"


def test_client_that_hangs_up_frees_what_it_held(patient: Covey) -> None:
    with ExitStack() as stack:
        for _ in range(THREADS // 8):
            stack.enter_context(send_half(patient, SERVERS, "alice:web"))
        wait_until(lambda: post(patient, "alice:web") == 503, "the project has no thread left for a body")
    wait_until(lambda: post(patient, "alice:web") == 400, "it has threads again")


def post(served: Covey, token: str) -> int:
    headers = {"X-Auth-Token": token}
    return requests.post(f"{served.url}{SERVERS}", json={}, headers=headers, timeout=SHORT_S).status_code


def test_body_that_comes_byte_by_byte_ends(served: Covey) -> None:
    with send_half(served, SERVERS, "alice:web", length=100_000) as connection:
        connection.settimeout(0.2)

        def has_ended() -> bool:
            try:
                connection.sendall(b" ")
                return status(connection) in {0, 400}
            except TimeoutError:
                return False
            except BrokenPipeError:
                return True

        wait_until(has_ended, "the connection ends")


def test_time_of_an_honest_slow_upload_is_not_the_services(served: Covey) -> None:
    body = json.dumps({"server_group": {"name": "slow", "policies": ["anti-affinity"]}})
    head = f"POST /compute/v2.1/os-server-groups HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
    with socket.create_connection(("127.0.0.1", served.port), TIMEOUT_S) as connection:
        connection.sendall(f"{head}Content-Type: application/json\r\nX-Auth-Token: slow:slow\r\n\r\n".encode())
        for start in range(0, len(body), 8):
            connection.sendall(body[start : start + 8].encode())
            time.sleep(2.2 * REQUEST_S / (len(body) / 8))
        assert status(connection) == 200


def test_parent_restarts_serving_processes_as_often_as_they_die(served: Covey) -> None:
    for _ in range(4):
        killed = serving_processes(served)
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda killed=killed: set(serving_processes(served)) - set(killed) != set(), "a process starts")  # type: ignore[misc]
    wait_until(lambda: is_live(served), "the service answers again")
    assert served.process.poll() is None


def test_frozen_serving_process_is_replaced(tmp_path: Path) -> None:
    """The kernel gives it connections until it ends: they are reset, and the next ones answered."""
    database = f"sqlite:///{tmp_path / 'covey.sqlite'}"
    options = ("serve", "--workers", "2", "--database", database)
    with running_covey(tmp_path, *options, variables=VARIABLES, preloaded=False) as served:
        wait_until(lambda: listening(served.port) == 2, "both processes listen")
        time.sleep(1)  # each has sent a heartbeat
        os.kill(frozen := serving_processes(served)[-1], signal.SIGSTOP)
        with ThreadPoolExecutor(40) as pool:
            answered = [*pool.map(lambda _: is_live(served), range(40))]  # a timeout would be an error
        assert True in answered
        wait_until(lambda: frozen not in serving_processes(served), "the frozen process ends")
        wait_until(lambda: listening(served.port) == 2, "both processes listen again")
        assert is_live(served)


def serving_processes(served: Covey) -> list[int]:
    pid = served.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_live(served: Covey) -> bool:
    try:
        return get(served, "/healthcheck/live") == 200
    except requests.ConnectionError:
        return False
