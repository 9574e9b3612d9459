"""A session of keystoneauth1 whose calls end at the deadline of a request, even while a server still sends."""

import math
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from keystoneauth1.session import Session, TCPKeepAliveAdapter
from requests import Response
from urllib3 import HTTPConnectionPool, HTTPResponse, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

from covey.request_slots import time_left

_LEAST_S = 0.1


class TimedSession(Session):
    """A session for requests. Its timeout limits each part of an answer, and the deadline the whole of it."""

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 -- its own
        super().__init__(*args, **options)
        for scheme in ("http://", "https://"):
            self.session.mount(scheme, _Adapter())

    def request(self, url: str, method: str, **options: Any) -> Response:  # type: ignore[override]  # noqa: ANN401
        most_s = math.inf if self.timeout is None else self.timeout
        limit_s = max(min(most_s, time_left()), _LEAST_S)
        if not math.isinf(limit_s):
            options.setdefault("timeout", limit_s)
        with _ending_after(max(time_left(), _LEAST_S)):
            return super().request(url, method, **options)


class _Call:
    """A call, and the socket that it reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_late = False

    def reads(self, connection: socket.socket | None) -> None:
        """Note the socket, None at the end of the call: another one may then use it."""
        with self._lock:
            self._socket = connection
            self._close_if_late()

    def end(self) -> None:
        """Close the socket, whose reader gets the end of the answer."""
        with self._lock:
            self._is_late = True
            self._close_if_late()

    def _close_if_late(self) -> None:
        if self._is_late and self._socket is not None:
            with suppress(OSError):  # the server has closed it
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class _Thread(threading.local):
    call: _Call | None = None


_thread = _Thread()


@contextmanager
def _ending_after(seconds: float) -> Iterator[None]:
    """End the call in the block after this time, by another thread."""
    if math.isinf(seconds):
        yield
        return
    before, call = _thread.call, _Call()
    timer = threading.Timer(seconds, call.end)
    timer.daemon = True
    timer.start()
    _thread.call = call
    try:
        yield
    finally:
        timer.cancel()
        call.reads(None)
        _thread.call = before


class _ReportingConnection(HTTPConnection):
    """A connection that tells the thread's call which socket it reads."""

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as urllib3 has it
        if _thread.call is not None:
            _thread.call.reads(self.sock)
        return super().getresponse()


class _ReportingTlsConnection(_ReportingConnection, HTTPSConnection):
    """The same over TLS."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = _ReportingConnection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _ReportingTlsConnection


class _Adapter(TCPKeepAliveAdapter):
    def init_poolmanager(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 -- its own
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
