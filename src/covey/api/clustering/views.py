"""JSON fields that several resources share."""

from datetime import UTC, datetime

from covey.api import times
from covey.api.requests import Json
from covey.model.clustering.owners import Owner


def time_of(moment: datetime | None) -> str | None:
    """Return a time as 2026-01-31T12:00:00Z."""
    return None if moment is None else times.seconds(moment)


def epoch(moment: datetime | None) -> float | None:
    """Return the start or end time of an action in seconds since 1970."""
    return None if moment is None else moment.replace(tzinfo=UTC).timestamp()


def owner(value: Owner) -> Json:
    """Return the fields of an owner. Covey has no identity domains."""
    return {"user": value.user_id, "project": value.project_id, "domain": None}
