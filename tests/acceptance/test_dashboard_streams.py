"""Event streams of a real service: limited, without delay of requests, and closed at shutdown."""

import http.client
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.acceptance import storm
from tests.databases import SQLite

VARIABLES = storm.settings(storm.UNLIMITED, API__REQUEST_SLOTS="1", DASHBOARD__MAX_STREAMS="2")


@contextmanager
def listening(port: int, user: str = "alice:web") -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=storm.ANSWER_TIMEOUT_S)
    try:
        connection.request("GET", "/dashboard/events", headers={"X-Auth-Token": user})
        yield connection.getresponse()
    finally:
        connection.close()


def next_event(stream: http.client.HTTPResponse) -> tuple[str, dict[str, list[str]]]:
    """Wait for the next event; skip keep-alive comments."""
    while not (line := stream.readline().decode()).startswith("event: "):
        assert line, "the stream ended"
    return line[7:].strip(), json.loads(stream.readline()[6:])


def test_streams_delay_neither_requests_nor_shutdown(tmp_path: Path, sqlite_server: SQLite) -> None:
    with sqlite_server.fresh(tmp_path) as database, ExitStack() as pages:
        storm.apply_fleet(tmp_path, database, storm.fleet_of(3, 8))
        with storm.serving(tmp_path, database, 1, VARIABLES) as (service,):
            alice = pages.enter_context(listening(service.port))
            assert next_event(alice)[0] == "hello"
            with listening(service.port, "bob:db") as bob:
                assert next_event(bob)[0] == "hello"
                with listening(service.port, "carol:ops") as third:
                    assert (third.status, third.headers["Retry-After"]) == (503, "5")
                booted = storm.Client([service.port]).ask("POST", "/compute/v2.1/servers", storm.boot_body("s"))
                assert booted.status == 202  # with one request slot and two waiting streams
                assert next_event(alice) == ("servers", {"ids": [booted.json["server"]["id"]]})
            storm.wait_until(lambda: _is_free(service.port), "a closed stream frees its slot")
        # Leaving the context stopped the service in time, with an open stream.


def _is_free(port: int) -> bool:
    with listening(port, "bob:db") as stream:  # the last place is for a project that has none
        return stream.status == 200
