"""Connections to PostgreSQL that wait for nothing without a limit."""

import math
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.errors import _WaitTimeout
from psycopg.waiting import READY_NONE
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from covey.request_slots import slot_released, time_left
from covey.storage.engine import PROMPT_S

R = TypeVar("R")

_INTERVAL_S = 0.1  # between checks for signals


class TimedConnection(psycopg.Connection[Any]):
    """A connection that closes if the server does not answer in time.

    The server limits its statements by itself. This limit is for a server that does not answer at all: a frozen one,
    or one behind a lost route. An unanswered COMMIT may have succeeded.
    """

    answer_timeout_s: float = math.inf

    def wait(self, gen: PQGen[R], interval: float = _INTERVAL_S, timeout: float | None = None) -> R:
        """Return the response of the server. Closes, and raises OperationalError, after the remaining time."""
        try:
            return super().wait(gen, interval, PROMPT_S if timeout is None else timeout)
        except _WaitTimeout:
            if timeout is not None:
                raise
        with slot_released():
            try:
                return super().wait(_resumed(gen), interval, max(0, min(self.answer_timeout_s, time_left(), 1e9)))
            except _WaitTimeout:
                self.pgconn.finish()
                raise psycopg.OperationalError("the server did not answer in time") from None


def _resumed(gen: PQGen[R]) -> PQGen[R]:
    """Continue a generator of the driver after a wait that timed out: it expects to hear what is ready."""
    try:
        wanted = gen.send(READY_NONE)
        while True:
            wanted = gen.send((yield wanted))
    except StopIteration as ended:
        result: R = ended.value
        return result


class SlotReleasingPool(QueuePool):
    """A connection pool in which a request waits for a connection without its slot."""

    def _do_get(self) -> ConnectionPoolEntry:
        if self.checkedin() or self.overflow() < self._max_overflow:
            return super()._do_get()
        with slot_released():
            return super()._do_get()


def connect(*args: Any, **parameters: Any) -> TimedConnection:  # noqa: ANN401 -- the driver's own
    """Connect without a request slot, in the remaining time. Raises OperationalError.

    Until its first use sets another limit, each answer has the time of the connection attempt: a server may accept the
    login and then be silent.
    """
    left_s = time_left()
    if left_s <= 0:
        raise psycopg.OperationalError("no time is left to connect")
    if left_s < float(parameters.get("connect_timeout", math.inf)):
        parameters["connect_timeout"] = math.ceil(left_s)  # the driver takes no less than two seconds
    with slot_released():
        connected = TimedConnection.connect(*args, **parameters)
    connected.answer_timeout_s = float(parameters.get("connect_timeout", 0)) or math.inf  # 0 is without a limit
    return connected
