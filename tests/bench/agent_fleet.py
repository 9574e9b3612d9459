"""Many simulated agents in one process: each registers, heartbeats, waits for calls, and reports them done at once.

Reads its parameters as JSON from standard input. Writes a line when all agents are up, and counts as JSON at the end of
its standard input.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

_INVENTORIES = {
    "VCPU": {"total": 64, "allocation_ratio": 4.0},
    "MEMORY_MB": {"total": 262144},
    "DISK_GB": {"total": 10000},
}


@dataclass(slots=True)
class Fleet:
    """The agents, and what they counted."""

    port: int
    agents: int
    heartbeat_s: float
    counts: Counter[str] = field(default_factory=Counter)

    async def run(self) -> None:
        gate = asyncio.Semaphore(8)  # registrations at once
        hosts = [Host(self, f"host-{number:05}") for number in range(self.agents)]

        tasks: list[asyncio.Task[None]] = []

        async def begin(host: "Host") -> None:
            async with gate:
                await host.begin()
            tasks.extend(asyncio.create_task(step) for step in (host.heartbeats(), host.calls()))

        await asyncio.gather(*map(begin, hosts))
        print("up", flush=True)  # noqa: T201 -- the protocol of this process
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        for task in tasks:
            task.cancel()
        print(json.dumps(self.counts), flush=True)  # noqa: T201


@dataclass(slots=True)
class Host:
    """One agent, with two connections: one for long polls, one for the rest."""

    fleet: Fleet
    name: str
    _open: dict[str, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=dict)

    async def begin(self) -> None:
        body = {
            "hypervisor": "bench",
            "version": "1",
            "address": "127.0.0.1",
            "inventories": _INVENTORIES,
            "traits": ["HW_CPU_X86_AVX2"],
            "self_fencing_s": 90,
        }
        await self._ask("short", "PUT", "", body)
        await self._ask("short", "PUT", "/heartbeat", {"state": "up"})

    async def heartbeats(self) -> None:
        loop = asyncio.get_running_loop()
        shift = hash(self.name) % 1000 / 1000 * self.fleet.heartbeat_s
        due = loop.time() + shift
        while True:
            await asyncio.sleep(max(0.0, due - loop.time()))
            due += self.fleet.heartbeat_s
            await self._ask("short", "PUT", "/heartbeat", {"state": "up"})

    async def calls(self) -> None:
        while True:
            taken = await self._ask("poll", "GET", "/calls?wait=20&limit=16", None)
            for call in taken.get("calls", ()):
                report = {"epoch": call["epoch"], "state": "done"}
                await self._ask("poll", "PUT", f"/calls/{call['id']}", report)

    async def _ask(self, connection: str, method: str, path: str, body: object) -> Any:
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} /agent/v1/hosts/{self.name}{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"X-Auth-Token: {self.name}:services\r\nX-Roles: service\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        started = time.perf_counter()
        try:
            reader, writer = self._open.get(connection) or await self._connect(connection)
            writer.write(head.encode() + content)
            header = await reader.readuntil(b"\r\n\r\n")
            length = int(header.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            answer = await reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError):
            self.fleet.counts["broken"] += 1
            self._open.pop(connection, None)
            await asyncio.sleep(1)
            return {}
        status = int(header[9:12])
        self.fleet.counts[f"{method} {path.partition('?')[0].rstrip('0123456789') or '/'} {status}"] += 1
        if connection == "short" and time.perf_counter() - started > 1:
            self.fleet.counts["slower than 1 s"] += 1
        if status == 503:
            await asyncio.sleep(1)
        return json.loads(answer) if status == 200 and answer else {}

    async def _connect(self, connection: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        opened = await asyncio.open_connection("127.0.0.1", self.fleet.port)
        self._open[connection] = opened
        return opened


if __name__ == "__main__":
    asyncio.run(Fleet(**json.loads(sys.stdin.readline())).run())
