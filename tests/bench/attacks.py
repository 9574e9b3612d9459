"""`python -m tests.bench.attacks`: boots over 32 honest connections beside each attack. `make attack` runs it.

The targets are a p99 of the boots under a second, and /healthcheck/live under 100 ms.
"""

import argparse
import base64
import json
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import yaml

from covey.cli import users
from tests.bench import runs
from tests.bench.attackers import ATTACKS
from tests.bench.backends import BACKENDS
from tests.bench.boots import Bench, Sizes, running_bench
from tests.bench.table import percentile

CONNECTIONS = 32
MEMBERS = 40
P99_TARGET_MS, LIVE_TARGET_MS = 1_000, 100
_ENOUGH = 10_000_000  # requests: the time ends a run
_PROBE_INTERVAL_S = 0.05


class Probe(threading.Thread):
    """Measures /healthcheck/live until it is stopped."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port, self.stopped = port, threading.Event()
        self.ms: list[float] = []

    def run(self) -> None:
        while not self.stopped.wait(_PROBE_INTERVAL_S):
            connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
            began = time.perf_counter()
            connection.request("GET", "/healthcheck/live")
            assert connection.getresponse().status == 200
            self.ms.append((time.perf_counter() - began) * 1e3)
            connection.close()


def add_attacker(bench: Bench, directory: Path) -> dict[str, Any]:
    """Add a user with a crowded group; return what the attacks need."""
    password = secrets.token_urlsafe(9)
    path = directory / "users.yaml"
    document = yaml.safe_load(path.read_text())
    users.write(path, users.with_user(document, "mallory", "mallory", ("member",), password))
    credentials = "Basic " + base64.b64encode(f"mallory:{password}".encode()).decode()
    time.sleep(2)  # the service reads the users again

    def ask(method: str, url: str, body: object) -> Any:
        connection = HTTPConnection("127.0.0.1", bench.running.port, timeout=60)
        headers = {"Authorization": credentials, "OpenStack-API-Version": "compute 2.1000"}
        connection.request(method, url, json.dumps(body), headers | {"Content-Type": "application/json"})
        answer = connection.getresponse()
        raw = answer.read()
        assert answer.status < 300, raw
        return json.loads(raw)

    new = {"server_group": {"name": "crowded", "policies": ["affinity"]}}
    group = ask("POST", "/compute/v2.1/os-server-groups", new)["server_group"]["id"]
    body = json.loads(bench.boots[0].partition("\r\n\r\n")[2])
    body["server"] |= {"min_count": MEMBERS, "max_count": MEMBERS}
    ask("POST", "/compute/v2.1/servers", body | {"os:scheduler_hints": {"group": group}})
    ask("PUT", f"/compute/v2.1/os-server-groups/{group}", {"server_group": {"policies": ["anti-affinity"]}})
    return {"port": bench.running.port, "credentials": credentials, "group": group}


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def measure(bench: Bench, attacker: dict[str, Any], name: str, seconds: float) -> bool:
    """Print the figures beside one attack. Return whether they meet the targets."""
    attack = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.attackers"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    probe = Probe(bench.running.port)
    probe.start()
    answers: list[str] = []
    order = json.dumps(attacker | {"name": name, "seconds": seconds + 1})
    waits = threading.Thread(target=lambda: answers.append(attack.communicate(order)[0]))
    waits.start()
    time.sleep(1)
    run = runs.load(bench.running.port, bench.boots, CONNECTIONS, _ENOUGH, seconds, lambda: (0.0, None))
    probe.stopped.set()
    waits.join(seconds + 30)
    p99, live = percentile(run.latencies_ms, 0.99), percentile(probe.ms, 0.99)
    statuses = {status: number for status, number in run.statuses.items() if status != "unanswered"}
    met = p99 < P99_TARGET_MS and live < LIVE_TARGET_MS
    figures = (run.rate, p99, max(run.latencies_ms), live, max(probe.ms))
    numbers = " | ".join(f"{figure:8.0f}" for figure in figures)
    say(f"| {name:36} | {numbers} | {'met' if met else 'MISSED':6} | {statuses} | {answers[0]} |")
    return met


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.attacks", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each attack")
    parser.add_argument("--database", choices=BACKENDS, default="postgresql")
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=2_000)
    parser.add_argument("--only", action="append", choices=ATTACKS, help="run this attack only; may be repeated")
    chosen = parser.parse_args()
    sizes = Sizes(hosts=chosen.hosts, groups=chosen.groups)
    with (
        tempfile.TemporaryDirectory(prefix="covey-attacks-", ignore_cleanup_errors=True) as temporary,
        BACKENDS[chosen.database](Path(temporary)) as backend,
        running_bench(backend, Path(temporary), sizes, "") as bench,
    ):
        attacker = add_attacker(bench, Path(temporary))
        bench.boot(CONNECTIONS, sizes.warm_up)
        bench.analyze()
        say(f"{backend.name}, {chosen.hosts:,} hosts, {CONNECTIONS} connections, {chosen.seconds:.0f} s each")
        say("| attack | boots/s | p99 ms | worst ms | live p99 ms | live worst ms | target | boots | answers |")
        say("| --- |" + " ---: |" * 5 + " --- |" * 3)
        met = [measure(bench, attacker, name, chosen.seconds) for name in chosen.only or ATTACKS]
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
