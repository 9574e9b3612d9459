"""Times on the wire, in UTC."""

from collections.abc import Mapping
from datetime import UTC, datetime

from covey.model.errors import Invalid

_TO_SECONDS = len("2026-01-31T12:00:00")


def microseconds(moment: datetime | None) -> str | None:
    """Return a time as 2026-01-31T12:00:00.000001, without a zone, as Nova's older resources do."""
    return None if moment is None else moment.isoformat(timespec="microseconds")


def moment(query: Mapping[str, str], name: str) -> datetime | None:
    """Return a query parameter as a time, or None without it. Raises Invalid."""
    if name not in query:
        return None
    text = query[name]
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time
    except (ValueError, OverflowError) as error:
        raise Invalid(
            f"Invalid input for query parameters {name}. Value: {text}. {text!r} is not a 'date-time'"
        ) from error


def seconds(moment: datetime) -> str:
    """Return a time as 2026-01-31T12:00:00Z."""
    return moment.isoformat()[:_TO_SECONDS] + "Z"
