"""The drivers log and messagingv2, without a broker."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from structlog.testing import CapturingLogger

from covey import config, notifications
from covey.model.errors import Invalid, Unavailable
from covey.model.work import Notification
from covey.notifications.log import Log
from covey.notifications.messaging import Messaging, TimedCalls, _Listener, _message_id
from tests.build import LATER, NOW

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from covey.storage.store import Store

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "notifications.md"
NOTIFICATION = Notification(7, "server_group.create", {"nova_object.name": "ServerGroupPayload"}, NOW)


def a_messaging(directory: Path, *lines: str) -> Messaging:
    file = directory / "covey.conf"
    file.write_text("\n".join(lines))
    return Messaging(config.load([str(file)]))


def test_log_driver_logs_the_notification() -> None:
    log = CapturingLogger()
    Log(cast("FilteringBoundLogger", log)).send(NOTIFICATION)
    assert log.calls == [
        ("info", ("notification",), {"event_type": NOTIFICATION.event, "payload": NOTIFICATION.payload})
    ]


def test_message_equals_the_example_in_the_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "controller-1")
    messaging, sent = a_messaging(tmp_path, "[DEFAULT]", "transport_url = fake://"), []
    monkeypatch.setattr(messaging._transport, "_send_notification", lambda *arguments, **_: sent.append(arguments))
    messaging.send(replace(NOTIFICATION, payload={}, created_at=NOW + timedelta(microseconds=1)))
    ((target, _, message),) = sent
    assert target.topic == "versioned_notifications.info"
    example = PAGE.read_text().partition("## Message format")[2].partition("```json")[2].partition("```")[0]
    assert message == json.loads(example)


def test_message_id_is_stable_and_unique() -> None:
    others = [
        replace(NOTIFICATION, id=8),
        replace(NOTIFICATION, created_at=LATER),
        replace(NOTIFICATION, event="server_group.delete"),
    ]
    assert len({_message_id(note) for note in [NOTIFICATION, replace(NOTIFICATION), *others]}) == 4


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        pytest.param([], "driver=messagingv2 needs a broker: set transport_url in [DEFAULT]", id="no broker"),
        pytest.param(["[DEFAULT]", "transport_url = pigeon://loft/"], "cannot be used: Failed to load", id="no driver"),
        pytest.param(["[DEFAULT]", "transport_url = nonsense"], "cannot be used: ", id="no URL"),
    ],
)
def test_unusable_transport_url_is_rejected_at_start(tmp_path: Path, lines: list[str], sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        a_messaging(tmp_path, *lines)
    assert sentence in refused.value.message


@pytest.mark.parametrize("section", ["DEFAULT", "oslo_messaging_notifications"])
def test_unreachable_broker_raises_unavailable_without_the_password(tmp_path: Path, section: str) -> None:
    messaging = a_messaging(tmp_path, f"[{section}]", "transport_url = rabbit://covey:sesame@127.0.0.1:1/")
    with pytest.raises(Unavailable, match=r"The message broker does not answer: .*Connection refused") as refused:
        messaging.send(NOTIFICATION)
    assert "sesame" not in refused.value.message


@dataclass
class Hanging:
    """A call that ends when the test releases it."""

    free: threading.Event = field(default_factory=threading.Event)
    begun: int = 0

    def __call__(self) -> None:
        self.begun += 1
        self.free.wait(10)


def test_hanging_call_times_out_and_blocks_further_calls() -> None:
    calls, hanging, other = TimedCalls(0.05), Hanging(), Hanging()
    for key, call in (("a", hanging), ("a", hanging), ("b", other)):
        with pytest.raises(TimeoutError):
            calls.run(key, call)
    assert (hanging.begun, other.begun) == (1, 0)
    hanging.free.set()
    other.free.set()
    soon(lambda: calls.run("b", other))
    assert (hanging.begun, other.begun) == (1, 1)


def test_late_result_is_returned_without_a_second_call() -> None:
    calls, late = TimedCalls(0.05), Hanging()
    with pytest.raises(TimeoutError):
        calls.run("a", late)
    late.free.set()
    soon(lambda: calls.run("a", late))
    assert late.begun == 1
    calls.run("a", late)
    assert late.begun == 2


@pytest.mark.parametrize("error", [LookupError, TimeoutError])
def test_failing_call_raises_in_its_caller(error: type[Exception]) -> None:
    def fail() -> None:
        raise error("gone")

    calls = TimedCalls(5)
    for _ in range(2):
        with pytest.raises(error, match="gone"):
            calls.run("a", fail)


def soon(call: Callable[[], None]) -> None:
    for _ in range(500):
        with suppress(TimeoutError):
            return call()
        time.sleep(0.01)
    raise AssertionError("the call never returned")


def test_noop_driver_publishes_nothing() -> None:
    conf = config.load(["/dev/null"])
    conf.set_override("driver", "noop", "notifications")
    assert notifications.build_publisher(conf, cast("Store", None))() == 0


@pytest.mark.parametrize(
    ("event", "wakes"),
    [
        ("instance.update", True),
        ("instance.create.end", True),
        ("server_group.add_member", True),
        ("instance.exists", False),
        ("compute.exception", False),
    ],
)
def test_reading_of_nova_is_caused_by_changes(event: str, *, wakes: bool) -> None:
    assert _Listener.filter_rule.match({}, "nova-compute:cn1", event, {}, {}) is wakes
