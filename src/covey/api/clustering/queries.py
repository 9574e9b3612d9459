"""What a list can be asked: one page, an order, filters. All lists of the API read their query here.

    CLUSTERS = ListQuery({"name": texts, "status": one_of(ClusterStatus)}, ("name", "status", "init_at"), "init_at")
    listing = CLUSTERS.read(req)

The listing wants the caller's project, or with `global_project` every project; services know who may have that.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from covey.api.clustering.errors import Malformed
from covey.api.clustering.fields import FALSE, TRUE, whole_number
from covey.api.requests import Request, query_lists
from covey.model.clustering.paging import PageQuery

Filter = Callable[[str, list[str]], tuple[object, ...]]
"""Makes what a field may be of the values that a query gives for it. It gets the parameter's name, and raises."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_DIRECTIONS = {"": False, "asc": False, "desc": True}
_MOST = 2**31 - 1  # things that a page can hold


def texts(_: str, values: list[str]) -> tuple[object, ...]:
    """A filter that may be anything."""
    return tuple(values)


def one_of(allowed: Iterable[str]) -> Filter:
    """A filter that may be one of a few words."""
    known = frozenset(str(word) for word in allowed)

    def read(_: str, values: list[str]) -> tuple[object, ...]:
        for value in values:
            if value not in known:
                raise Malformed(f"Field value {value} is invalid")
        return tuple(values)

    return read


def flag(name: str, values: list[str]) -> tuple[object, ...]:
    """A filter that is true or false; of several the last counts."""
    word = values[-1].lower()
    if word not in TRUE | FALSE:
        raise Malformed(f"Invalid value '{values[-1]}' specified for '{name}'")
    return (word in TRUE,)


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What one kind of list can be asked."""

    filters: Mapping[str, Filter]
    sort_keys: tuple[str, ...]
    order: str = "created_at"  # the field that sorts it when nothing is said
    others: frozenset[str] = field(default=frozenset({"limit", "marker", "global_project", "sort"}))
    quotes: bool = False  # how an unknown parameter is told: clusters have it in quotes

    def read(self, req: Request, but: Iterable[str] = ()) -> PageQuery:
        """The page that is asked for; `but` names filters that the request's version does not have.

        Raises Malformed for what is unknown, or is not what it has to be.
        """
        given = query_lists(req)
        for name in given:
            if name not in self.others and (name not in self.filters or name in but):
                raise Malformed(f"Invalid parameter '{name}'" if self.quotes else f"Invalid parameter {name}")
        wants_all = "global_project" in given and flag("global_project", given["global_project"]) == (True,)
        return PageQuery(
            project_id=None if wants_all else req.actor.project_id,
            filters={name: read(name, given[name]) for name, read in self.filters.items() if name in given},
            sort=self._sort(given["sort"][-1]) if "sort" in given else ((self.order, False),),
            marker=_marker(given["marker"][-1]) if "marker" in given else None,
            limit=min(_limit(given["limit"][-1]), _MOST) if "limit" in given else None,
        )

    def _sort(self, text: str) -> tuple[tuple[str, bool], ...]:
        order = []
        for part in text.split(","):
            name, _, direction = part.strip().partition(":")
            if name not in self.sort_keys:
                raise Malformed(f"Unsupported sort key '{name}' for 'sort'.")
            if direction not in _DIRECTIONS:
                raise Malformed(f"Unsupported sort dir '{direction}' for 'sort': it is asc or desc.")
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
