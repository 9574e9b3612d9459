"""The page of a list that a request asks for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from covey.model.ids import ProjectId


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Filters, sort order and limits of one page. A filter maps a field to its accepted values."""

    project_id: ProjectId | None = None  # None: all projects
    filters: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    sort: tuple[tuple[str, bool], ...] = ()  # field, descending
    marker: str | None = None
    limit: int | None = None
