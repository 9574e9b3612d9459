"""Notes as events of the log."""

from dataclasses import dataclass, field

import structlog

from covey.model.work import Notification


@dataclass(frozen=True, slots=True)
class Log:
    """Tells whoever reads the log, at the level info."""

    log: structlog.typing.FilteringBoundLogger = field(default_factory=structlog.get_logger)

    def send(self, note: Notification) -> None:
        self.log.info("notification", event_type=note.event, payload=note.payload)
