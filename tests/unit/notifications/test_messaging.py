"""How a broker is spoken to, as far as that needs no broker."""

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
from covey.notifications.messaging import Aside, Messaging, _message_id
from tests.build import LATER, NOW

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from covey.storage.store import Store

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "notifications.md"
NOTE = Notification(7, "server_group.create", {"nova_object.name": "ServerGroupPayload"}, NOW)


def a_messaging(directory: Path, *lines: str) -> Messaging:
    file = directory / "covey.conf"
    file.write_text("\n".join(lines))
    return Messaging(config.load([str(file)]))


def test_the_log_has_a_note_as_an_event() -> None:
    log = CapturingLogger()
    Log(cast("FilteringBoundLogger", log)).send(NOTE)
    assert log.calls == [("info", ("notification",), {"event_type": NOTE.event, "payload": NOTE.payload})]


def test_a_message_is_the_example_of_the_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "controller-1")
    messaging, sent = a_messaging(tmp_path, "[DEFAULT]", "transport_url = fake://"), []
    monkeypatch.setattr(messaging._transport, "_send_notification", lambda *said, **_: sent.append(said))
    messaging.send(replace(NOTE, payload={}, created_at=NOW + timedelta(microseconds=1)))
    ((target, _, message),) = sent
    assert target.topic == "versioned_notifications.info"
    example = PAGE.read_text().partition("## A message")[2].partition("```json")[2].partition("```")[0]
    assert message == json.loads(example)


def test_a_note_keeps_its_message_id_and_no_other_has_it() -> None:
    others = [replace(NOTE, id=8), replace(NOTE, created_at=LATER), replace(NOTE, event="server_group.delete")]
    assert len({_message_id(note) for note in [NOTE, replace(NOTE), *others]}) == 4


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        pytest.param([], "driver=messagingv2 needs a broker: set transport_url in [DEFAULT]", id="no broker"),
        pytest.param(["[DEFAULT]", "transport_url = pigeon://loft/"], "can't be used: Failed to load", id="no driver"),
        pytest.param(["[DEFAULT]", "transport_url = nonsense"], "can't be used: ", id="no URL"),
    ],
)
def test_a_broker_that_cannot_be_is_refused_at_once(tmp_path: Path, lines: list[str], sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        a_messaging(tmp_path, *lines)
    assert sentence in refused.value.message


@pytest.mark.parametrize("section", ["DEFAULT", "oslo_messaging_notifications"])
def test_a_broker_that_is_away_is_a_sentence(tmp_path: Path, section: str) -> None:
    messaging = a_messaging(tmp_path, f"[{section}]", "transport_url = rabbit://covey:sesame@127.0.0.1:1/")
    with pytest.raises(Unavailable, match=r"The message broker does not answer: .*Connection refused") as refused:
        messaging.send(NOTE)
    assert "sesame" not in refused.value.message


@dataclass
class Hanging:
    """A call that ends when a test says so."""

    free: threading.Event = field(default_factory=threading.Event)
    begun: int = 0

    def __call__(self) -> None:
        self.begun += 1
        self.free.wait(10)


def test_nobody_waits_for_a_call_that_hangs_and_nothing_else_is_begun_meanwhile() -> None:
    aside, hanging, other = Aside(0.05), Hanging(), Hanging()
    for what, call in (("a", hanging), ("a", hanging), ("b", other)):
        with pytest.raises(TimeoutError):
            aside.run(what, call)
    assert (hanging.begun, other.begun) == (1, 0)
    hanging.free.set()
    other.free.set()
    soon(lambda: aside.run("b", other))
    assert (hanging.begun, other.begun) == (1, 1)


def test_what_ends_late_is_not_done_again() -> None:
    aside, late = Aside(0.05), Hanging()
    with pytest.raises(TimeoutError):
        aside.run("a", late)
    late.free.set()
    soon(lambda: aside.run("a", late))
    assert late.begun == 1
    aside.run("a", late)
    assert late.begun == 2


@pytest.mark.parametrize("error", [LookupError, TimeoutError])
def test_a_call_that_fails_fails_where_it_was_asked_for(error: type[Exception]) -> None:
    def fail() -> None:
        raise error("gone")

    aside = Aside(5)
    for _ in range(2):
        with pytest.raises(error, match="gone"):
            aside.run("a", fail)


def soon(call: Callable[[], None]) -> None:
    for _ in range(500):
        with suppress(TimeoutError):
            return call()
        time.sleep(0.01)
    raise AssertionError("it never came")


def test_where_nobody_listens_there_is_nothing_to_send() -> None:
    conf = config.load(["/dev/null"])
    conf.set_override("driver", "noop", "notifications")
    assert notifications.sender(conf, cast("Store", None))() == 0
