"""Ways out for notes: one module each, chosen by [notifications] driver."""

from collections.abc import Callable

from oslo_config import cfg

from covey.model.extras import requires
from covey.notifications.log import Log
from covey.notifications.sender import Sender
from covey.ports import Notifier
from covey.storage.store import Store


def sender(conf: cfg.ConfigOpts, store: Store) -> Callable[[], int]:
    """Tells the notes of this store, by the operator's options, and how many that were. Raises Invalid."""
    match conf.notifications.driver:
        case "noop":
            return lambda: 0
        case "log":
            return Sender(store, Log())
        case _:
            return Sender(store, _messaging(conf))


def _messaging(conf: cfg.ConfigOpts) -> Notifier:
    with requires("notifications", "[notifications] driver=messagingv2"):
        from covey.notifications.messaging import Messaging  # noqa: PLC0415 -- optional, and slow to import

    return Messaging(conf)
