"""Hostile clients, in a process of their own, which reads its parameters as JSON and writes what was answered."""

import base64
import http.client
import json
import os
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

_PAUSE_S = 0.05  # before a refused attack is repeated
_LONG_PAUSE_S = 0.5  # where an attack holds what it gets
_IDLE = 100  # connections of a thread
_PROPERTIES = "&".join(f"p{number}=v" for number in range(40))
_TAGS = ",".join(f"t{number}" for number in range(50))
_HEADERS = {"Content-Type": "application/json", "OpenStack-API-Version": "compute 2.1000"}


@dataclass(slots=True)
class Attacker:
    """A member of a project, with a group to rebalance."""

    port: int
    seconds: float
    credentials: str  # of the header Authorization
    group: str
    until: float = field(init=False)
    answered: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.until = time.monotonic() + self.seconds

    def run(self, name: str) -> None:
        """Repeat the attack in its threads."""
        number, attack = ATTACKS[name]

        def repeat() -> None:
            while time.monotonic() < self.until:
                try:
                    attack(self)
                except (OSError, http.client.HTTPException) as error:
                    self.note(type(error).__name__)
                    time.sleep(_PAUSE_S)

        threads = [threading.Thread(target=repeat, daemon=True) for _ in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, self.until + 1 - time.monotonic()))

    def note(self, answer: object) -> None:
        with self._lock:
            self.answered[str(answer)] += 1

    def ask(self, method: str, path: str, body: object = None, credentials: str | None = None) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.seconds)
        headers = {"Authorization": credentials or self.credentials, **_HEADERS}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            self.note(connection.getresponse().status)
        finally:
            connection.close()

    def send_half(self, path: str) -> None:
        """Send one byte of a body of nine, and wait for what happens."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=self.seconds) as connection:
            head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n"
            connection.sendall(f"{head}Authorization: {self.credentials}\r\n\r\n{{".encode())
            words = connection.recv(4096).split()
            self.note(words[1].decode() if words else "closed")
        time.sleep(_LONG_PAUSE_S)

    def idle(self) -> None:
        """Open connections that send nothing, until they are closed."""
        with ExitStack() as stack:
            opened = [
                stack.enter_context(socket.create_connection(("127.0.0.1", self.port), timeout=self.seconds))
                for _ in range(_IDLE)
            ]
            opened[-1].recv(1)
            self.note("closed")

    def send_half_or_guess(self) -> None:
        (self.guess if random.random() < 0.5 else lambda: self.send_half("/compute/v2.1/servers"))()  # noqa: S311

    def stream(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.seconds)
        connection.request("GET", "/dashboard/events", headers={"Authorization": self.credentials})
        response = connection.getresponse()
        self.note(response.status)
        with suppress(OSError):
            while response.status == http.HTTPStatus.OK and time.monotonic() < self.until:
                response.readline()
        connection.close()
        time.sleep(_LONG_PAUSE_S)

    def guess(self) -> None:
        secret = base64.b64encode(b"bench:" + os.urandom(9).hex().encode()).decode()
        self.ask("GET", "/compute/v2.1/servers", credentials=f"Basic {secret}")

    def plan(self) -> None:
        action = {"rebalance": {"dry_run": True}}
        self.ask("POST", f"/compute/v2.1/os-server-groups/{self.group}/action", action)


# The threads of each attack, and what each repeats. The numbers are those of issue 15.
ATTACKS: dict[str, tuple[int, Callable[[Attacker], None]]] = {
    "none": (0, lambda _: None),
    "1 half-sent bodies for a webhook": (64, lambda it: it.send_half("/clustering/v1/webhooks/x/trigger?V=2")),
    "1 half-sent bodies with credentials": (128, lambda it: it.send_half("/compute/v2.1/servers")),
    "1 idle connections": (15, Attacker.idle),
    "3 lists by 50 tags": (4, lambda it: it.ask("GET", f"/compute/v2.1/servers/detail?tags={_TAGS}&not-tags=u")),
    "3 lists by 500 tags": (4, lambda it: it.ask("GET", f"/compute/v2.1/servers?tags={','.join([_TAGS] * 10)}")),
    "3 images by 40 properties": (4, lambda it: it.ask("GET", f"/image/v2/images?{_PROPERTIES}")),
    "4 regular expressions": (4, lambda it: it.ask("GET", "/compute/v2.1/servers?name=(a%2B)%2B%24")),
    "5 wrong passwords": (100, Attacker.guess),
    "6 unknown methods": (4, lambda it: it.ask(f"VERB{os.urandom(8).hex()}", "/compute/v2.1/servers")),
    "6 long methods": (4, lambda it: it.ask("V" * 8000 + os.urandom(8).hex(), "/compute/v2.1/servers")),
    "6 metrics without credentials": (200, lambda it: it.ask("GET", "/metrics")),
    "7 event streams": (32, Attacker.stream),
    "7 rebalance dry runs": (8, Attacker.plan),
    "1 and 5 together": (160, Attacker.send_half_or_guess),
}


def main() -> None:
    os.nice(10)  # hostile clients have machines of their own
    parameters = json.load(sys.stdin)
    name = parameters.pop("name")
    attacker = Attacker(**parameters)
    attacker.run(name)
    json.dump(attacker.answered, sys.stdout)


if __name__ == "__main__":
    main()
