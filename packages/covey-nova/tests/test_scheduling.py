"""CoveyFilter and CoveyWeigher on Nova's own objects, with a server that answers as Covey does."""

import contextlib
import json
import re
import socket
import threading
import time
import unittest
import uuid
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import call, patch

from covey_nova import CoveyFilter, CoveyWeigher, scheduling
from covey_nova.client import Client
from covey_nova.options import CONF
from nova import objects
from nova.scheduler.weights import HostWeightHandler

GROUP, INSTANCE, OTHER = (str(uuid.UUID(int=number)) for number in (1, 2, 3))
HOSTS = [SimpleNamespace(uuid=f"compute-{letter}", host=letter, nodename=letter) for letter in "abc"]


class FakeCovey(BaseHTTPRequestHandler):
    """Records requests and connections, and gives one answer."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[list[dict[str, Any]]] = []
    connections: ClassVar[set[tuple[str, int]]] = set()
    status: ClassVar[int] = 200
    delay_s: ClassVar[float] = 0
    pause_s: ClassVar[float] = 0  # after each byte of the answer
    drops: ClassVar[int] = 0  # so many requests are not answered: their connections end
    answer: ClassVar[Any] = {}

    def do_POST(self) -> None:
        self.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.connections.add(self.client_address)
        if FakeCovey.drops:
            FakeCovey.drops -= 1
            self.close_connection = True
            return
        time.sleep(self.delay_s)
        raw = json.dumps(self.answer).encode()
        self.send_response(self.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        with contextlib.suppress(OSError):  # the filter did not wait
            for byte in raw:
                self.wfile.write(bytes([byte]))
                time.sleep(self.pause_s)

    def log_message(self, *_: object) -> None:
        """Write no log."""


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


class SchedulingTest(unittest.TestCase):
    """The server runs for all tests; each gets a client of its own."""

    @classmethod
    def setUpClass(cls) -> None:
        objects.register_all()
        cls.server = ThreadingHTTPServer(("127.0.0.1", 0), FakeCovey)
        cls.server.daemon_threads = True
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        CONF([], project="nova", default_config_files=[])
        for group in ("covey", "placement"):
            CONF.set_override("auth_type", "none", group)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.shutdown()
        cls.server.server_close()

    def setUp(self) -> None:
        FakeCovey.asked.clear()
        FakeCovey.connections.clear()
        FakeCovey.status, FakeCovey.delay_s, FakeCovey.pause_s, FakeCovey.drops = 200, 0, 0, 0
        FakeCovey.answer = {
            "hosts": [{"host": "compute-c", "weight": 1.0}, {"host": "compute-a", "weight": 0.5}],
            "refused": ["1 already holds 1 of the group"],
        }
        CONF.set_override("timeout", 1, "covey")
        for name in ("on_unavailable", "connect_retries", "connect_retry_delay", "status_code_retries"):
            CONF.clear_override(name, "covey")
        self.point_to(self.server.server_address[1])
        scheduling.CLIENT = Client()

    def spec(self, *, grouped: bool = True, **fields: Any) -> "objects.RequestSpec":
        group = objects.InstanceGroup(
            uuid=GROUP, name="web", policy="anti-affinity", _rules={"max_server_per_host": "2"},
            members=[OTHER], project_id="project", user_id="user",
        )  # fmt: skip
        return objects.RequestSpec(instance_uuid=INSTANCE, instance_group=group if grouped else None, **fields)

    def point_to(self, port: int) -> None:
        CONF.set_override("endpoint_override", f"http://127.0.0.1:{port}", "covey")

    def test_filter_keeps_what_covey_admits(self) -> None:
        kept = CoveyFilter().filter_all(iter(HOSTS), self.spec(scheduler_hints={}))
        assert [host.uuid for host in kept] == ["compute-a", "compute-c"]

    def test_filter_tells_of_the_group_and_all_hosts(self) -> None:
        CoveyFilter().filter_all(HOSTS, self.spec(scheduler_hints={}))
        told = {
            "uuid": GROUP, "name": "web", "policy": "anti-affinity", "rules": {"max_server_per_host": 2},
            "members": [INSTANCE, OTHER], "project_id": "project", "user_id": "user",
        }  # fmt: skip
        hosts = ["compute-a", "compute-b", "compute-c"]
        assert [{"instance_uuid": INSTANCE, "group": told, "hosts": hosts}] == FakeCovey.asked

    def test_instance_without_a_group_costs_no_request(self) -> None:
        assert CoveyFilter().filter_all(iter(HOSTS), self.spec(grouped=False, scheduler_hints={})) == HOSTS
        assert FakeCovey.asked == []

    def test_rebuild_in_place_is_not_filtered(self) -> None:
        spec = self.spec(scheduler_hints={"_nova_check_type": ["rebuild"]})
        assert CoveyFilter().filter_all(HOSTS, spec) == HOSTS
        assert FakeCovey.asked == []

    def test_requests_share_a_connection(self) -> None:
        for _ in range(3):
            CoveyFilter().filter_all(HOSTS, self.spec(scheduler_hints={}))
        assert (len(FakeCovey.asked), len(FakeCovey.connections)) == (3, 1)

    def test_weigher_ranks_by_the_answer_that_the_filter_got(self) -> None:
        spec = self.spec(scheduler_hints={})
        kept = CoveyFilter().filter_all(HOSTS, spec)
        weighed = HostWeightHandler().get_weighed_objects([CoveyWeigher()], kept, spec)
        assert [each.obj.uuid for each in weighed] == ["compute-c", "compute-a"]
        assert weighed[0].weight == 1000000.0

    def test_weigher_is_neutral_for_an_instance_without_a_group(self) -> None:
        weighed = HostWeightHandler().get_weighed_objects([CoveyWeigher()], HOSTS, self.spec(grouped=False))
        assert {0.0} == {each.weight for each in weighed}

    def test_no_host_is_left_when_covey_answers_with_an_error(self) -> None:
        FakeCovey.status = 503
        with self.assertLogs(scheduling.__name__, "ERROR"):
            assert CoveyFilter().filter_all(HOSTS, self.spec(scheduler_hints={})) == []

    def test_no_host_is_left_when_covey_is_too_slow(self) -> None:
        FakeCovey.delay_s = 3
        with self.assertLogs(scheduling.__name__, "ERROR"):
            assert CoveyFilter().filter_all(HOSTS, self.spec(scheduler_hints={})) == []

    def test_no_host_is_left_when_an_answer_trickles_beyond_the_time_limit(self) -> None:
        FakeCovey.pause_s = 0.1  # each byte is in time
        began = time.monotonic()
        with self.assertLogs(scheduling.__name__, "ERROR"):
            assert CoveyFilter().filter_all(HOSTS, self.spec(scheduler_hints={})) == []
        assert time.monotonic() - began < 3

    def test_answer_of_another_service_counts_as_none(self) -> None:
        for answer in (
            {"status": "ok"},
            {"hosts": ["compute-a"], "refused": []},
            [],
            None,
            {"hosts": [], "refused": 1},
        ):
            with self.subTest(answer=answer), self.assertLogs(scheduling.__name__, "ERROR"):
                FakeCovey.answer = answer
                assert CoveyFilter().filter_all(HOSTS, self.spec(scheduler_hints={})) == []

    def test_kept_connection_that_ends_is_replaced_once(self) -> None:
        assert CoveyFilter().filter_all(HOSTS, self.spec(scheduler_hints={}))
        FakeCovey.drops = 1
        assert CoveyFilter().filter_all(HOSTS, self.spec(scheduler_hints={}))
        FakeCovey.drops = 2
        with self.assertLogs(scheduling.__name__, "ERROR"):
            assert CoveyFilter().filter_all(HOSTS, self.spec(scheduler_hints={})) == []

    def test_refused_connection_is_not_retried_by_default(self) -> None:
        self.point_to(unused_port())
        with self.assertLogs(scheduling.__name__, "ERROR"), patch("keystoneauth1.session.time.sleep") as sleep:
            assert CoveyFilter().filter_all(HOSTS, self.spec(scheduler_hints={})) == []
        sleep.assert_not_called()

    def test_filter_waits_for_covey_if_so_configured(self) -> None:
        CONF.set_override("connect_retries", 40, "covey")
        CONF.set_override("connect_retry_delay", 0.1, "covey")
        port = unused_port()
        self.point_to(port)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(CoveyFilter().filter_all, HOSTS, self.spec(scheduler_hints={}))
            time.sleep(0.5)
            assert not waiting.done()
            with ThreadingHTTPServer(("127.0.0.1", port), FakeCovey) as late:
                threading.Thread(target=late.serve_forever, daemon=True).start()
                assert [host.uuid for host in waiting.result(5)] == ["compute-a", "compute-c"]
                late.shutdown()

    def test_filter_gives_up_after_its_retries(self) -> None:
        CONF.set_override("connect_retries", 3, "covey")
        CONF.set_override("connect_retry_delay", 0.2, "covey")
        self.point_to(unused_port())
        with self.assertLogs(scheduling.__name__, "ERROR"), patch("keystoneauth1.session.time.sleep") as sleep:
            assert CoveyFilter().filter_all(HOSTS, self.spec(scheduler_hints={})) == []
        assert sleep.call_args_list == [call(0.2)] * 3

    def test_load_balancer_without_covey_is_asked_again_if_so_configured(self) -> None:
        CONF.set_override("status_code_retries", 40, "covey")
        CONF.set_override("status_code_retry_delay", 0.1, "covey")
        FakeCovey.status = 503
        threading.Timer(0.5, lambda: setattr(FakeCovey, "status", 200)).start()
        assert CoveyFilter().filter_all(HOSTS, self.spec(scheduler_hints={}))

    def test_retries_of_placement_apply_unless_covey_has_its_own(self) -> None:
        CONF.set_override("connect_retries", 7, "placement")
        self.addCleanup(CONF.clear_override, "connect_retries", "placement")
        with patch("covey_nova.client.credentials_group", return_value="placement"):
            assert Client()._connected().connect_retries == 7
            CONF.set_override("connect_retries", 2, "covey")
            assert Client()._connected().connect_retries == 2

    def test_all_hosts_are_left_without_an_answer_if_so_configured(self) -> None:
        FakeCovey.status = 503
        CONF.set_override("on_unavailable", "ignore", "covey")
        with self.assertLogs(scheduling.__name__, "ERROR") as logs:
            assert CoveyFilter().filter_all(HOSTS, self.spec(scheduler_hints={})) == HOSTS
        assert re.search(r"Requests without an answer: \d+", logs.output[0])


if __name__ == "__main__":
    unittest.main()
