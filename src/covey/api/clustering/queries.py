"""Read the query of a list: filters, sort order, limit and marker.

    CLUSTERS = ListQuery({"name": texts, "status": one_of(ClusterStatus)}, ("name", "status", "init_at"), "init_at")
    query = CLUSTERS.read(req)

The page is of the caller's project, or with `global_project` of all projects; services check who may list those.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from covey.api.clustering.errors import Malformed
from covey.api.clustering.fields import FALSE, TRUE, whole_number
from covey.api.requests import Request, query_lists
from covey.model.clustering.paging import PageQuery

Filter = Callable[[str, list[str]], tuple[object, ...]]
"""Converts the values of a query parameter, given its name, to a field's accepted values. Raises Malformed."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_DIRECTIONS = {"": False, "asc": False, "desc": True}


def texts(_: str, values: list[str]) -> tuple[object, ...]:
    """Accept any text."""
    return tuple(values)


def one_of(allowed: Iterable[str]) -> Filter:
    """Return a filter that accepts these words."""
    known = frozenset(str(word) for word in allowed)

    def read(_: str, values: list[str]) -> tuple[object, ...]:
        for value in values:
            if value not in known:
                raise Malformed(f"Field value {value} is invalid")
        return tuple(values)

    return read


def flag(name: str, values: list[str]) -> tuple[object, ...]:
    """Accept a boolean; the last value counts."""
    word = values[-1].lower()
    if word not in TRUE | FALSE:
        raise Malformed(f"Invalid value '{values[-1]}' specified for '{name}'")
    return (word in TRUE,)


@dataclass(frozen=True, slots=True)
class ListQuery:
    """The query parameters of one list."""

    filters: Mapping[str, Filter]
    sort_keys: tuple[str, ...]
    order: str = "created_at"  # the default sort key
    others: frozenset[str] = field(default=frozenset({"limit", "marker", "global_project", "sort"}))
    quotes: bool = False  # whether errors quote an unknown parameter

    def read(self, req: Request, without: Iterable[str] = ()) -> PageQuery:
        """Return the requested page; `without` names filters that the request's version lacks. Raises Malformed."""
        given = query_lists(req)
        for name in given:
            if name not in self.others and (name not in self.filters or name in without):
                raise Malformed(f"Invalid parameter '{name}'" if self.quotes else f"Invalid parameter {name}")
        all_projects = "global_project" in given and flag("global_project", given["global_project"]) == (True,)
        return PageQuery(
            project_id=None if all_projects else req.actor.project_id,
            filters={name: read(name, given[name]) for name, read in self.filters.items() if name in given},
            sort=self._sort(given["sort"][-1]) if "sort" in given else ((self.order, False),),
            marker=_marker(given["marker"][-1]) if "marker" in given else None,
            limit=self._limit(given, req.context.max_limit),
        )

    def _limit(self, given: Mapping[str, list[str]], most: int) -> int | None:
        """Return the size of a page; None for a list without pages, which is short."""
        if "limit" not in self.others:
            return None
        return min(_limit(given["limit"][-1]), most) if "limit" in given else most

    def _sort(self, text: str) -> tuple[tuple[str, bool], ...]:
        order = []
        for part in text.split(","):
            name, _, direction = part.strip().partition(":")
            if name not in self.sort_keys:
                raise Malformed(f"Unsupported sort key '{name}' for 'sort'.")
            if direction not in _DIRECTIONS:
                raise Malformed(f"Unsupported sort dir '{direction}' for 'sort': it must be asc or desc.")
            order.append((name, _DIRECTIONS[direction]))
        return tuple(order)


def _limit(text: str) -> int:
    limit = whole_number("limit", text)
    if limit < 0:
        raise Malformed("Value must be >= 0 for field 'limit'.")
    return limit


def _marker(text: str) -> str:
    if not _UUID.fullmatch(text):
        raise Malformed(f"The value for marker is not a valid UUID: '{text}'.")
    return text.lower()
