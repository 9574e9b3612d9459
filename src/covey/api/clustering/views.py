"""What documents of this API have in common."""

from datetime import UTC, datetime

from covey.api import times
from covey.api.requests import Json
from covey.model.clustering.owners import Owner


def time_of(moment: datetime | None) -> str | None:
    """2026-01-31T12:00:00Z, everywhere in this API but for when actions began and ended."""
    return None if moment is None else times.seconds(moment)


def epoch(moment: datetime | None) -> float | None:
    """Seconds since 1970, as actions tell when they began and ended."""
    return None if moment is None else moment.replace(tzinfo=UTC).timestamp()


def owner(value: Owner) -> Json:
    """Whose something is. Covey knows of no domains."""
    return {"user": value.user_id, "project": value.project_id, "domain": None}
