"""The log driver: notifications as log events."""

from dataclasses import dataclass, field

import structlog

from covey.model.work import Notification


@dataclass(frozen=True, slots=True)
class Log:
    """Writes each notification to the log at level info."""

    log: structlog.typing.FilteringBoundLogger = field(default_factory=structlog.get_logger)

    def send(self, notification: Notification) -> None:
        self.log.info("notification", event_type=notification.event, payload=notification.payload)
