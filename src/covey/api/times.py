"""Times as the wire writes them. They are in UTC throughout."""

from datetime import datetime


def microseconds(moment: datetime | None) -> str | None:
    """2026-01-31T12:00:00.000001, without a zone, as Nova's older resources have it."""
    return None if moment is None else moment.isoformat(timespec="microseconds")


def seconds(moment: datetime) -> str:
    """2026-01-31T12:00:00Z."""
    return moment.isoformat(timespec="seconds") + "Z"
