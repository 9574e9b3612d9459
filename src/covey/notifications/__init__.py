"""Notification drivers: one module each, chosen by [notifications] driver."""

from collections.abc import Callable

from oslo_config import cfg

from covey.model.extras import requires
from covey.notifications.log import Log
from covey.notifications.publisher import Publisher
from covey.ports import Notifier
from covey.storage.store import Store


def build_publisher(conf: cfg.ConfigOpts, store: Store) -> Callable[[], int]:
    """Return a function that publishes waiting notifications and returns their number. Raises Invalid."""
    match conf.notifications.driver:
        case "noop":
            return lambda: 0
        case "log":
            return Publisher(store, Log())
        case _:
            return Publisher(store, _messaging(conf))


def _messaging(conf: cfg.ConfigOpts) -> Notifier:
    with requires("notifications", "[notifications] driver=messagingv2"):
        from covey.notifications.messaging import Messaging  # noqa: PLC0415 -- optional, and slow to import

    return Messaging(conf)
