"""Structured logging: one line for each event, with fields."""

import logging
import sys

import msgspec
import structlog

_LEVELS = logging.getLevelNamesMapping()


def configure(level: str, output_format: str) -> None:
    """Send Covey's events, and the log records of libraries, to standard error."""
    renderer: structlog.typing.Processor = structlog.dev.ConsoleRenderer()
    if output_format == "json":
        renderer = structlog.processors.JSONRenderer(serializer=lambda event, **_: msgspec.json.encode(event).decode())
    shared: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if output_format == "json":
        shared.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer], foreign_pre_chain=shared
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=max(_LEVELS[level.upper()], logging.WARNING), handlers=[handler], force=True)
