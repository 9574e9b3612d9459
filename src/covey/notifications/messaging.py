"""Notes through oslo.messaging to a broker, on the exchange and topics where Nova's listeners wait."""

import queue
import socket
import threading
import uuid
import warnings
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

from oslo_config import cfg

from covey.model.errors import Invalid, Unavailable
from covey.model.work import Notification

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # oslo.service, which it imports, still offers Eventlet; nothing here uses that
    import oslo_messaging

_EXCHANGE = "nova"
_TOPIC = "versioned_notifications"
_ENVELOPE = 2.0  # the version of the message format; the 2 of messagingv2
_NAMESPACE = uuid.UUID("5c1c7f0e-4f0b-4be2-9a8a-0c6d1f6f3f52")
_PATIENCE_S = 2.0


class Messaging:
    """Tells a broker, and waits until it has the note, but not for long."""

    def __init__(self, conf: cfg.ConfigOpts, patience_s: float = _PATIENCE_S) -> None:
        """Raises Invalid for a broker that can't be spoken to. It need not answer yet."""
        self._transport = _transport(conf)
        self._publisher_id = f"nova-api:{socket.gethostname()}"
        self._aside = Aside(patience_s)

    def send(self, note: Notification) -> None:
        """Raises Unavailable when the broker does not take it."""
        priority = "ERROR" if note.event.endswith(".error") else "INFO"
        target = oslo_messaging.Target(topic=f"{_TOPIC}.{priority.lower()}")
        message = {
            "message_id": _message_id(note),
            "publisher_id": self._publisher_id,
            "event_type": note.event,
            "priority": priority,
            "payload": note.payload,
            "timestamp": str(note.created_at),
        }

        def publish() -> None:
            # This is what oslo.messaging's own notifier calls. The notifier would log a failure, and go on.
            self._transport._send_notification(target, {}, message, version=_ENVELOPE, retry=0)  # noqa: SLF001

        try:
            self._aside.run(message["message_id"], publish)
        except TimeoutError as error:
            raise Unavailable("The message broker takes too long.") from error
        except Exception as error:  # each broker's client has its own
            raise Unavailable(f"The message broker does not answer: {error}") from error


class Aside:
    """Runs calls in a thread of its own, so that whoever asks is not held up by one that hangs."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._calls: queue.SimpleQueue[tuple[Future[None], Callable[[], None]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._under_way: tuple[object, Future[None]] | None = None

    def run(self, what: object, call: Callable[[], None]) -> None:
        """Raises what the call raises, or TimeoutError: at once, while an earlier call still hangs.

        Who then asks for the same thing again gets to know how it ended; it is not done twice.
        """
        under_way, patience_s = self._under_way, 0.0
        if under_way is None or (under_way[0] != what and under_way[1].done()):
            under_way, patience_s = (what, self._begin(call)), self._patience_s
            self._under_way = under_way
        asked, future = under_way
        wait([future], patience_s)
        if asked != what or not future.done():
            raise TimeoutError
        self._under_way = None
        future.result()

    def _begin(self, call: Callable[[], None]) -> Future[None]:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="covey-aside", daemon=True)
            self._thread.start()
        future: Future[None] = Future()
        self._calls.put((future, call))
        return future

    def _work(self) -> None:
        while True:
            future, call = self._calls.get()
            try:
                call()
            except BaseException as error:  # noqa: BLE001 -- it is raised where it was asked for
                future.set_exception(error)
            else:
                future.set_result(None)


def _transport(conf: cfg.ConfigOpts) -> Any:  # noqa: ANN401 -- the library has no types
    oslo_messaging.set_transport_defaults(_EXCHANGE)
    try:
        transport = oslo_messaging.get_notification_transport(conf)
        url = oslo_messaging.TransportURL.parse(conf, conf.oslo_messaging_notifications.transport_url)
    except oslo_messaging.MessagingException as error:
        raise Invalid(f"The transport_url of the message broker can't be used: {error}") from error
    if url.transport == "rabbit" and not url.hosts:
        raise Invalid(
            "[notifications] driver=messagingv2 needs a broker: set transport_url in [DEFAULT], or in "
            "[oslo_messaging_notifications], such as rabbit://USER:PASSWORD@HOST:5672/."
        )
    return transport


def _message_id(note: Notification) -> str:
    """The same each time that a note is sent, so that a listener can tell a repetition from news."""
    return str(uuid.uuid5(_NAMESPACE, f"{note.id} {note.created_at.isoformat()} {note.event}"))
