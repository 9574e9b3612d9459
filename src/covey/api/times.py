"""Times as the wire writes them. They are in UTC throughout."""

from collections.abc import Mapping
from datetime import UTC, datetime

from covey.model.errors import Invalid


def microseconds(moment: datetime | None) -> str | None:
    """2026-01-31T12:00:00.000001, without a zone, as Nova's older resources have it."""
    return None if moment is None else moment.isoformat(timespec="microseconds")


def moment(query: Mapping[str, str], name: str) -> datetime | None:
    """The time that a query gives, if any. Raises Invalid."""
    if name not in query:
        return None
    text = query[name]
    try:
        given = datetime.fromisoformat(text)
        return given.astimezone(UTC).replace(tzinfo=None) if given.tzinfo else given
    except (ValueError, OverflowError) as error:
        raise Invalid(
            f"Invalid input for query parameters {name}. Value: {text}. {text!r} is not a 'date-time'"
        ) from error


def seconds(moment: datetime) -> str:
    """2026-01-31T12:00:00Z."""
    return moment.isoformat(timespec="seconds") + "Z"
