"""Conditions of filters that both databases evaluate in bounded time."""

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa


def having_all(owner: sa.Column[str], value: sa.ColumnElement[Any], wanted: Collection[object]) -> sa.Select[Any]:
    """Select the owners that have all of the distinct values, by one scan.

    A subquery for each value would be a join for each, and PostgreSQL's planner takes minutes for some dozens.
    """
    return sa.select(owner).where(value.in_(wanted)).group_by(owner).having(sa.func.count() == len(wanted))
