"""Structured logging: one line for each event, with fields."""

import logging
import sys

import msgspec
import structlog

from covey.model.control_characters import CONTROL, escape, escape_json

_LEVELS = logging.getLevelNamesMapping()


def configure(level: str, output_format: str) -> None:
    """Send Covey's events, and the log records of libraries, to standard error."""
    shared: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    is_json = output_format == "json"
    console = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    if not is_json:
        shared.append(_escape_values)
    structlog.configure(
        processors=[*shared, _json_bytes if is_json else console],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level.upper()]),
        logger_factory=structlog.BytesLoggerFactory(sys.stderr.buffer)
        if is_json
        else structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _json_text if is_json else console],
        foreign_pre_chain=shared,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=max(_LEVELS[level.upper()], logging.WARNING), handlers=[handler], force=True)


def _json_text(_: object, __: str, event: structlog.typing.EventDict) -> str:
    return escape_json(msgspec.json.encode(event).decode())


def _json_bytes(_: object, __: str, event: structlog.typing.EventDict) -> bytes:
    line = msgspec.json.encode(event)
    if line.isascii() and b"\x7f" not in line:  # msgspec escapes all other control characters of ASCII
        return line
    return escape_json(line.decode()).encode()


def _escape_values(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Escape control characters, which a terminal would carry out. Only a stack trace has several lines."""
    return {
        name: escape(value) if name == "exception" else escape(value, CONTROL) if isinstance(value, str) else value
        for name, value in event.items()
    }
