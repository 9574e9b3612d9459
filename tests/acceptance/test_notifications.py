"""Notifications through a real RabbitMQ, received by an oslo.messaging listener."""

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest
import requests
from oslo_config import cfg

from tests.acceptance.processes import Covey, Process, running_covey
from tests.acceptance.rabbitmq import RabbitMQ, running_rabbitmq

pytestmark = pytest.mark.needs_program("rabbitmq")

TIMEOUT_S = 120.0  # patience on a busy machine
FLEET = """\
hosts:
  - {name: "host-[1-3]", vcpus: 8, memory_mb: 16384, disk_gb: 100, zone: az-1}
flavors:
  - {name: tiny, vcpus: 1, memory_mb: 512, disk_gb: 1}
"""


@dataclass
class RecordingEndpoint:
    """A listener's endpoint that records what it receives."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    arrived: threading.Condition = field(default_factory=threading.Condition)

    def info(self, _: Any, publisher_id: str, event_type: str, payload: Any, metadata: Any) -> None:
        self._hear("INFO", publisher_id, event_type, payload, metadata)

    def error(self, _: Any, publisher_id: str, event_type: str, payload: Any, metadata: Any) -> None:
        self._hear("ERROR", publisher_id, event_type, payload, metadata)

    def first(self, count: int) -> list[dict[str, Any]]:
        """Wait for exactly this many notifications."""
        with self.arrived:
            self.arrived.wait_for(lambda: len(self.messages) >= count, TIMEOUT_S)
            assert len(self.messages) == count, [message["event_type"] for message in self.messages]
            taken, self.messages = self.messages, []
            return taken

    def _hear(self, priority: str, publisher_id: str, event_type: str, payload: Any, metadata: Any) -> None:
        with self.arrived:
            self.messages.append(
                {
                    "priority": priority,
                    "publisher_id": publisher_id,
                    "event_type": event_type,
                    "name": payload["nova_object.name"],
                    "version": payload["nova_object.version"],
                    "data": payload["nova_object.data"],
                    "message_id": metadata["message_id"],
                    "timestamp": metadata["timestamp"],
                }
            )
            self.arrived.notify_all()


@contextmanager
def listening(url: str) -> Iterator[RecordingEndpoint]:
    """Listen like a program written for Nova."""
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[])
    transport = oslo_messaging.get_notification_transport(conf, url)
    heard = RecordingEndpoint()
    target = oslo_messaging.Target(exchange="nova", topic="versioned_notifications")
    listener = oslo_messaging.get_notification_listener(transport, [target], [heard], executor="threading")
    listener.start()
    try:
        yield heard
    finally:
        listener.stop()
        listener.wait()
        transport.cleanup()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    with running_rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as running:
        yield running


@dataclass(frozen=True)
class Service:
    """A service that publishes to the broker, with a tenant's client."""

    covey: Covey

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = requests.request(
            method,
            f"{self.covey.url}/compute/v2.1{path}",
            json=body,
            headers={"X-Auth-Token": "alice:web", "OpenStack-API-Version": "compute 2.64"},
            timeout=TIMEOUT_S,
        )
        assert answer.ok, answer.text
        return answer.json() if answer.content else None

    def group(self, name: str, limit: int = 2) -> str:
        body = {"name": name, "policy": "anti-affinity", "rules": {"max_server_per_host": limit}}
        return str(self.ask("POST", "/os-server-groups", {"server_group": body})["server_group"]["id"])

    def boot(self, name: str, group: str | None = None, flavor: str = "tiny", count: int = 1) -> str:
        """Create servers and return the id of the first."""
        flavors = {each["name"]: each["id"] for each in self.ask("GET", "/flavors")["flavors"]}
        body: dict[str, Any] = {"server": {"name": name, "flavorRef": flavors[flavor], "networks": "none"}}
        body["server"] |= {"min_count": count, "imageRef": "", "block_device_mapping_v2": VOLUME}
        if group is not None:
            body["os:scheduler_hints"] = {"group": group}
        return str(self.ask("POST", "/servers", body)["server"]["id"])

    def status(self, server: str) -> str:
        return str(self.ask("GET", f"/servers/{server}")["server"]["status"])

    def waiting(self) -> list[str]:
        """Return the events in the outbox."""
        with closing(sqlite3.connect(self.covey.directory / "covey.sqlite")) as connection:
            return [event for (event,) in connection.execute("SELECT event FROM outbox ORDER BY id")]


OF_A_GROUP_WITH_A_SERVER = [
    "server_group.create",
    "instance.create.start",
    "server_group.add_member",
    "instance.create.end",
]
VOLUME = [{"boot_index": 0, "source_type": "blank"}]


@pytest.fixture(scope="module")
def service(broker: RabbitMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("service"), broker.url) as running:
        yield running


@contextmanager
def serving(directory: Path, transport_url: str, *, preloaded: bool = True) -> Iterator[Service]:
    (directory / "fleet.yaml").write_text(FLEET)
    variables = {
        "OS_API__AUTH_STRATEGY": "none",
        "OS_NOTIFICATIONS__DRIVER": "messagingv2",
        "OS_DEFAULT__TRANSPORT_URL": transport_url,
    }
    arguments = ("serve", "--fleet", "fleet.yaml", "--database", f"sqlite:///{directory / 'covey.sqlite'}")
    with running_covey(directory, *arguments, variables=variables, preloaded=preloaded) as running:
        yield Service(running)


def kill(process: Process) -> None:
    """Kill the process and its serving processes, like a power cut."""
    serving = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.wait()
    for each in serving:
        os.kill(int(each), signal.SIGKILL)


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_each_event_is_received_once_and_in_order(broker: RabbitMQ, service: Service) -> None:
    with listening(broker.url) as heard:
        group = service.group("web")
        service.boot("web", group, count=2)
        received = heard.first(7)
        servers = [message["data"]["uuid"] for message in received[1:3]]
        for server in servers:
            service.ask("DELETE", f"/servers/{server}")
        received += heard.first(2)
        service.ask("DELETE", f"/os-server-groups/{group}")
        received += heard.first(1)
    first, second = servers
    assert [message["event_type"] for message in received] == [
        "server_group.create",
        *["instance.create.start"] * 2,
        *["server_group.add_member"] * 2,
        *["instance.create.end"] * 2,
        *["instance.delete.end"] * 2,
        "server_group.delete",
    ]
    assert {message["priority"] for message in received} == {"INFO"}
    assert {message["publisher_id"].partition(":")[0] for message in received} == {"nova-api"}
    assert len({message["message_id"] for message in received}) == len(received)
    assert [message["timestamp"] for message in received] == sorted(message["timestamp"] for message in received)
    data = {
        "uuid": group,
        "name": "web",
        "user_id": "alice",
        "project_id": "web",
        "policies": ["anti-affinity"],
        "policy": {
            "nova_object.name": "ServerGroupPolicyPayload",
            "nova_object.namespace": "nova",
            "nova_object.version": "1.0",
            "nova_object.data": {"name": "anti-affinity", "rules": {"max_server_per_host": 2}},
        },
        "rules": {"max_server_per_host": 2},
        "members": [],
        "hosts": None,
    }
    groups = [message for message in received if message["event_type"].startswith("server_group")]
    assert [message["data"] for message in groups] == [
        data,
        data | {"members": [first]},
        data | {"members": [first, second]},
        data,
    ]
    assert {(message["name"], message["version"]) for message in groups} == {("ServerGroupPayload", "2.0")}
    end, gone = received[5]["data"], received[7]["data"]
    assert (end["state"], end["availability_zone"], end["flavor"]["nova_object.data"]["name"]) == (
        "active",
        "az-1",
        "tiny",
    )
    assert (gone["uuid"], gone["state"], gone["host"][:5]) == (first, "deleted", "host-")
    assert service.waiting() == []


def test_refused_server_is_received_as_an_error(broker: RabbitMQ, service: Service) -> None:
    with listening(broker.url) as heard:
        group = service.group("full", limit=1)
        service.boot("each", group, count=3)
        heard.first(1 + 3 * 3)
        server = service.boot("another", group)
        (message,) = heard.first(1)
    assert (message["event_type"], message["priority"]) == ("instance.create.error", "ERROR")
    assert (message["name"], message["version"]) == ("InstanceCreatePayload", "1.12")
    assert (message["data"]["uuid"], message["data"]["host"]) == (server, None)
    assert message["data"]["fault"]["nova_object.data"]["exception_message"].startswith("No valid host was found.")


def test_notifications_wait_and_work_continues_without_a_broker(broker: RabbitMQ, service: Service) -> None:
    service.group("before")
    with listening(broker.url) as heard:
        heard.first(1)
    broker.stop()
    group = service.group("during-outage")
    server = service.boot("one", group)
    until(lambda: service.status(server) == "ACTIVE")
    until(lambda: "notifications.waiting" in service.covey.log)
    assert service.waiting() == OF_A_GROUP_WITH_A_SERVER
    broker.start()
    with listening(broker.url) as heard:
        assert [message["event_type"] for message in heard.first(4)] == OF_A_GROUP_WITH_A_SERVER
    until(lambda: service.waiting() == [])


def test_hanging_broker_delays_no_requests_and_no_builds(broker: RabbitMQ, service: Service) -> None:
    service.group("before")
    with listening(broker.url) as heard:
        heard.first(1)
    with broker.frozen():
        group = service.group("during-outage")
        server = service.boot("one", group)
        until(lambda: service.status(server) == "ACTIVE")
        # The server is built, and even the notification from before its request still waits.
        assert service.waiting() == OF_A_GROUP_WITH_A_SERVER
        until(lambda: "did not answer in time" in service.covey.log)
        assert service.waiting() == OF_A_GROUP_WITH_A_SERVER
    with listening(broker.url) as heard:
        until(lambda: service.waiting() == [])
        until(lambda: {message["event_type"] for message in heard.messages} == set(OF_A_GROUP_WITH_A_SERVER))
        ids = {message["message_id"] for message in heard.messages}
    assert len(ids) == len(OF_A_GROUP_WITH_A_SERVER)  # a repeated notification has the same id


def test_restarted_service_publishes_the_rest(broker: RabbitMQ, tmp_path: Path) -> None:
    with serving(tmp_path, "rabbit://guest:guest@127.0.0.1:1/") as service:
        service.boot("one")
        until(lambda: len(service.waiting()) == 2)
        kill(service.covey.process)
    with listening(broker.url) as heard, serving(tmp_path, broker.url):
        received = [message["event_type"] for message in heard.first(2)]
    assert received == ["instance.create.start", "instance.create.end"]
