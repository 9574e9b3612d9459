"""Limits the total time of HTTP requests: the timeout of `requests` applies to each wait for the socket."""

from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread

from keystoneauth1.session import Session
from requests import ConnectionError as ConnectionFailed
from requests import PreparedRequest, ReadTimeout, Response
from requests.adapters import BaseAdapter
from requests.exceptions import ChunkedEncodingError
from urllib3.exceptions import ProtocolError


class TimeLimitAdapter(BaseAdapter):
    """Sends requests by another adapter, each within its time limit.

    A request whose connection ends before the answer is sent once more: a server may close a kept connection at the
    moment of its use. What covey-nova sends is safe to repeat.
    """

    def __init__(self, inner: BaseAdapter) -> None:
        super().__init__()
        self._inner = inner

    def send(  # type: ignore[override]
        self, request: PreparedRequest, *, timeout: float | None = None, **options: object
    ) -> Response:
        """Return the complete answer. Raises ReadTimeout, and what the other adapter raises."""

        def attempt() -> Response:
            response = self._inner.send(request, timeout=timeout, **options)  # type: ignore[arg-type]
            _ = response.content  # reads and keeps it
            return response

        return _within(timeout, lambda: _again_if_dropped(attempt))

    def close(self) -> None:
        """Close the connections."""
        self._inner.close()


def limit_requests(session: Session) -> None:
    """Limit the time of all requests of a session, also of those for tokens."""
    for prefix, inner in list(session.session.adapters.items()):
        session.session.mount(prefix, TimeLimitAdapter(inner))


def _again_if_dropped(attempt: Callable[[], Response]) -> Response:
    try:
        return attempt()
    except (ChunkedEncodingError, ConnectionFailed) as error:
        if not isinstance(next(iter(error.args), None), ProtocolError):  # such as a refused connection
            raise
        return attempt()


def _within(limit_s: float | None, call: Callable[[], Response]) -> Response:
    """Return the result of the call, or raise ReadTimeout; the call then ends when its socket does."""
    result: Future[Response] = Future()

    def run() -> None:
        try:
            result.set_result(call())
        except Exception as error:  # noqa: BLE001 -- raised by the caller's thread
            result.set_exception(error)

    Thread(target=run, daemon=True).start()
    if result not in wait([result], limit_s).done:
        raise ReadTimeout(f"No complete answer within {limit_s} s")
    return result.result()
