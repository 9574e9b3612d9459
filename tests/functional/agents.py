"""A cloud whose hosts have agents, which a test plays."""

from dataclasses import dataclass
from typing import Any

from tests.functional.client import Answer, Client
from tests.functional.fleets import BuildCloud, Cloud

BACKEND = ("driver", "backend", "agents")
INVENTORIES = {
    "VCPU": {"total": 8, "reserved": 0, "allocation_ratio": 1.0},
    "MEMORY_MB": {"total": 16384, "reserved": 0, "allocation_ratio": 1.0},
    "DISK_GB": {"total": 100, "reserved": 0, "allocation_ratio": 1.0},
}


@dataclass(frozen=True)
class HostAgent:
    """The agent of one host."""

    cloud: Cloud
    host: str
    client: Client

    def register(self, **fields: Any) -> Answer:
        body = {
            "hypervisor": "QEMU",
            "version": "1.0",
            "address": f"10.0.0.{self.host.rpartition('-')[2]}",
            "inventories": INVENTORIES,
            "traits": ["HW_CPU_X86_AVX"],
            "self_fencing_s": None,
        }
        return self.client.put(f"/hosts/{self.host}", body | fields)

    def heartbeat(self, state: str = "up", **fields: Any) -> Answer:
        return self.client.put(f"/hosts/{self.host}/heartbeat", {"state": state} | fields)

    def start(self, **fields: Any) -> "HostAgent":
        """Register, and report up."""
        registered = self.register(**fields)
        assert registered.status == 200, registered.text
        assert self.heartbeat().status == 200
        return self

    def calls(self, **query: str) -> list[Any]:
        answer = self.client.get(f"/hosts/{self.host}/calls", **query)
        assert answer.status == 200, answer.text
        taken: list[Any] = answer.json["calls"]
        return taken

    def call(self) -> Any:
        """Take the only call."""
        (taken,) = self.calls()
        return taken

    def report(self, call: Any, state: str = "done", **fields: Any) -> Answer:
        body = {"epoch": call["epoch"], "state": state} | fields
        return self.client.put(f"/hosts/{self.host}/calls/{call['id']}", body)


def agent_of(cloud: Cloud, host: str, user: str | None = None) -> HostAgent:
    """Return the agent of a host, which has a user of its own."""
    client = cloud.service.as_(f"{user or host}:services").sending(X_Roles="service").below("/agent/v1")
    return HostAgent(cloud, host, client)


def with_agents(build_cloud: BuildCloud, hosts: int = 3, *overrides: tuple[str, str, object]) -> Cloud:
    """Return a cloud of that many hosts, node-1 and so on, whose agents are up."""
    cloud = build_cloud(hosts, BACKEND, *overrides)
    for number in range(1, hosts + 1):
        agent_of(cloud, f"node-{number}").start()
    return cloud


def work(cloud: Cloud, hosts: int = 3) -> list[tuple[str, str]]:
    """Let all agents carry out their calls. Return (host, verb) of each."""
    done: list[tuple[str, str]] = []
    while True:
        cloud.step()
        new = []
        for number in range(1, hosts + 1):
            agent = agent_of(cloud, f"node-{number}")
            for call in agent.calls():
                assert agent.report(call).status == 200
                new.append((agent.host, call["verb"]))
        if not new and not cloud.step():
            return done
        done += new


def boot(cloud: Cloud, hosts: int = 3, **fields: Any) -> str:
    """Create a server that its agent starts."""
    answer = cloud.request_server(cloud.alice, **fields)
    assert answer.status == 202, answer.text
    work(cloud, hosts)
    return str(answer.json["server"]["id"])


def host_of(cloud: Cloud, server: str) -> HostAgent:
    """Return the agent of a server's host."""
    shown = cloud.admin.get(f"/servers/{server}").json["server"]
    return agent_of(cloud, shown["OS-EXT-SRV-ATTR:host"])
