"""Clients that retry unanswered requests, for load tests with faults."""

import http.client
import random
import threading
import time
from collections.abc import Callable, Sequence

from tests.acceptance import storm

SHORT_TIMEOUT_S = 0.02  # timeout of a client that retries early

Connect = Callable[..., storm.Client]
"""Makes a client of ports and a project, with an optional timeout."""


class RetryingClient:
    """A client that retries unanswered requests with an idempotency key."""

    def __init__(
        self, load_state: storm.LoadState, ports: Sequence[int], number: int, seed: int, connect: Connect = storm.Client
    ) -> None:
        self._load_state = load_state
        self._long_timeout = {project: connect(ports, project) for project in storm.PROJECTS}
        self._short_timeout = {
            project: connect(ports, project, timeout_s=SHORT_TIMEOUT_S) for project in storm.PROJECTS
        }
        self._asked = number
        self._rng = random.Random(seed + number)  # noqa: S311 -- chance, not secrecy

    def send(
        self, what: str, method: str, path: str, body: object = None, *, project: str, key: str | None = None
    ) -> storm.Answer | None:
        gives_up_early = key is not None and self._rng.random() < 0.2
        deadline = time.monotonic() + storm.TIMEOUT_S
        while time.monotonic() < deadline:
            self._asked += 1
            client = (self._short_timeout if gives_up_early else self._long_timeout)[project]
            began = time.monotonic()
            try:
                answer = client.ask(method, path, body, of=self._asked, key=key)
            except (OSError, http.client.HTTPException):
                with self._load_state.lock:
                    self._load_state.counts["unanswered"] += 1
                    if not gives_up_early:
                        waited_s = time.monotonic() - began
                        self._load_state.longest_wait_s = max(self._load_state.longest_wait_s, waited_s)
                if key is None:
                    time.sleep(0.2)
                    return None
                time.sleep(0 if gives_up_early else 0.2)
                gives_up_early = False
            else:
                self._load_state.note(what, answer)
                if answer.status != 503 or key is None:
                    return answer
                time.sleep(0.05)
        self._load_state.failures.append(f"{what} {key}: no answer")
        return None


def client_thread(
    load_state: storm.LoadState,
    number: int,
    ports: Sequence[int],
    over: threading.Event,
    seed: int,
    connect: Connect = storm.Client,
    client: Callable[..., storm.RandomClient] = storm.RandomClient,
) -> Callable[[], None]:
    """Return a task that sends random operations until the event is set."""

    def run() -> None:
        send = RetryingClient(load_state, ports, number, seed, connect).send
        random_client = client(load_state, number, seed, send)
        while not over.is_set():
            random_client.act()

    return run
