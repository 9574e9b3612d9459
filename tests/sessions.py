"""Sessions of a PostgreSQL database: which wait for a lock, and which are left."""

import time
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

_TIMEOUT_S = 30.0
_WAITING = sa.text("""
    SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' ORDER BY query_start
""")
_OTHERS = sa.text("""
    SELECT backend_type, application_name, state, wait_event, state_change, query FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
""")
_TERMINATE = sa.text("SELECT pg_terminate_backend(:pid)")


def waiting_sessions(connected: sa.Engine) -> list[int]:
    """Return the process ids of the sessions that wait for a lock."""
    with connected.connect() as connection:
        return list(connection.execute(_WAITING).scalars())


def wait_for_waiting_sessions(connected: sa.Engine, number: int = 1) -> list[int]:
    """Return the sessions once so many of them wait for a lock."""
    _poll(lambda: len(waiting_sessions(connected)) >= number, lambda: f"{number} sessions wait for a lock")
    return waiting_sessions(connected)


def wait_for_last_session(connected: sa.Engine) -> None:
    """Wait until the database has no session but the one that asks."""
    others: list[sa.Row[Any]] = []

    def is_last() -> bool:
        with connected.connect() as connection:
            others[:] = connection.execute(_OTHERS).all()
        return not others

    _poll(is_last, lambda: f"the other sessions end: {others}")


def terminate(connected: sa.Engine, session: int) -> None:
    with connected.connect() as connection:
        connection.execute(_TERMINATE, {"pid": session})


def _poll(is_true: Callable[[], bool], what: Callable[[], str]) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while not is_true():
        assert time.monotonic() < deadline, f"not within {_TIMEOUT_S:.0f} s: {what()}"
        time.sleep(0.02)
