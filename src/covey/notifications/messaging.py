"""The messagingv2 driver: notifications through oslo.messaging, on the exchange and topics of Nova's listeners."""

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
    warnings.simplefilter("ignore")  # of oslo.service about Eventlet, which Covey does not use
    import oslo_messaging

_EXCHANGE = "nova"
_TOPIC = "versioned_notifications"
_ENVELOPE = 2.0  # the version of the message format; the 2 of messagingv2
_NAMESPACE = uuid.UUID("5c1c7f0e-4f0b-4be2-9a8a-0c6d1f6f3f52")
_TIMEOUT_S = 2.0
_POOL = "covey"  # a queue of its own: other listeners of the topic get every notification as well
_MIRRORED = r"^(aggregate|flavor|instance|server_group|service)\.(?!exists$)"  # instance.exists is an audit


class Messaging:
    """Sends to a broker, and waits up to a timeout until the broker has the notification."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Raises Invalid for a transport_url that cannot be used. The broker need not answer yet."""
        self._transport = _transport(conf)
        self._publisher_id = f"nova-api:{socket.gethostname()}"
        self._calls = TimedCalls(_TIMEOUT_S)

    def send(self, notification: Notification) -> None:
        """Send to the broker. Raises Unavailable when the broker refuses it or does not answer in time."""
        priority = "ERROR" if notification.event.endswith(".error") else "INFO"
        target = oslo_messaging.Target(topic=f"{_TOPIC}.{priority.lower()}")
        message = {
            "message_id": _message_id(notification),
            "publisher_id": self._publisher_id,
            "event_type": notification.event,
            "priority": priority,
            "payload": notification.payload,
            "timestamp": str(notification.created_at),
        }

        def publish() -> None:
            # oslo.messaging's own Notifier calls this too, but logs a failure and continues.
            self._transport._send_notification(target, {}, message, version=_ENVELOPE, retry=0)  # noqa: SLF001

        try:
            self._calls.run(message["message_id"], publish)
        except TimeoutError as error:
            raise Unavailable("The message broker did not answer in time.") from error
        except Exception as error:  # each broker's client has its own errors
            raise Unavailable(f"The message broker does not answer: {error}") from error


class _Listener:
    """Calls a function for each notification of something that is mirrored. Its payload is not read: Nova is."""

    filter_rule = oslo_messaging.NotificationFilter(event_type=_MIRRORED)

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def info(self, *_: object) -> None:
        """Called by oslo.messaging."""
        self._changed()

    error = info


def listen(conf: cfg.ConfigOpts, changed: Callable[[], None]) -> None:
    """Call a function, in another thread, for each change that Nova notifies of. Raises Invalid, as Messaging does.

    The broker need not answer yet: oslo.messaging connects again by itself.
    """
    target = oslo_messaging.Target(exchange=_EXCHANGE, topic=_TOPIC)
    oslo_messaging.get_notification_listener(
        _transport(conf), [target], [_Listener(changed)], executor="threading", pool=_POOL
    ).start()


class TimedCalls:
    """Runs calls in one thread, so that a caller waits no longer than a timeout for a call that hangs."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._queue: queue.SimpleQueue[tuple[Future[None], Callable[[], None]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pending: tuple[object, Future[None]] | None = None

    def run(self, key: object, call: Callable[[], None]) -> None:
        """Run a call. Raises what it raises, or TimeoutError; the latter at once while an earlier call hangs.

        A repeated run of the key that timed out waits for that call's result: it does not call again.
        """
        pending, timeout_s = self._pending, 0.0
        if pending is None or (pending[0] != key and pending[1].done()):
            pending, timeout_s = (key, self._begin(call)), self._timeout_s
            self._pending = pending
        pending_key, future = pending
        wait([future], timeout_s)
        if pending_key != key or not future.done():
            raise TimeoutError
        self._pending = None
        future.result()

    def _begin(self, call: Callable[[], None]) -> Future[None]:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="covey-notifier", daemon=True)
            self._thread.start()
        future: Future[None] = Future()
        self._queue.put((future, call))
        return future

    def _work(self) -> None:
        while True:
            future, call = self._queue.get()
            try:
                call()
            except BaseException as error:  # noqa: BLE001 -- the waiting caller raises it
                future.set_exception(error)
            else:
                future.set_result(None)


def _transport(conf: cfg.ConfigOpts) -> Any:  # noqa: ANN401 -- the library has no types
    oslo_messaging.set_transport_defaults(_EXCHANGE)
    try:
        transport = oslo_messaging.get_notification_transport(conf)
        url = oslo_messaging.TransportURL.parse(conf, conf.oslo_messaging_notifications.transport_url)
    except oslo_messaging.MessagingException as error:
        raise Invalid(f"The transport_url of the message broker cannot be used: {error}") from error
    if url.transport == "rabbit" and not url.hosts:
        raise Invalid(
            "[notifications] driver=messagingv2 needs a broker: set transport_url in [DEFAULT], or in "
            "[oslo_messaging_notifications], such as rabbit://USER:PASSWORD@HOST:5672/."
        )
    return transport


def _message_id(notification: Notification) -> str:
    """Return an id that a repetition shares, so that a listener recognises it."""
    return str(uuid.uuid5(_NAMESPACE, f"{notification.id} {notification.created_at.isoformat()} {notification.event}"))
