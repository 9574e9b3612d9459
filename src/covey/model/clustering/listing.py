"""Which of many, in what order, and how many of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from covey.model.ids import ProjectId


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of a list. Filters name a field and the values that it may have."""

    project_id: ProjectId | None = None  # None: everybody's
    filters: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    sort: tuple[tuple[str, bool], ...] = ()  # field, descending
    marker: str | None = None
    limit: int | None = None
