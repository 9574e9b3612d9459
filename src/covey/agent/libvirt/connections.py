"""Connections to libvirt: this host's, which is reopened when it is lost, and those to other hosts."""

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TookTooLong
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import libvirt

from covey.agent.hypervisor import HypervisorFault

_PORTS = {"qemu+tcp": 16509, "qemu+tls": 16514, "qemu+ssh": 22}
_KEEPALIVE_S, _KEEPALIVE_COUNT = 1, 3  # a silent peer is given up after 4 seconds
_OPEN_TIMEOUT_S = 10.0
_started = threading.Lock()


def start_event_loop() -> None:
    """Run libvirt's event loop, which keepalive and lifecycle events need, in a thread of this process, once."""
    if _started.acquire(blocking=False):
        libvirt.registerErrorHandler(lambda *_: None, None)  # errors are raised; they need not be printed too
        libvirt.virEventRegisterDefaultImpl()
        threading.Thread(target=_run_events, name="libvirt-events", daemon=True).start()


def _run_events() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


class Connection:
    """The connection to this host's libvirt, reopened when it is lost."""

    def __init__(self, uri: str, timeout_s: float = _OPEN_TIMEOUT_S) -> None:
        start_event_loop()
        self._uri = uri
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._open: Future[libvirt.virConnect] | None = None
        self._callbacks: list[Callable[[libvirt.virConnect], None]] = []

    def on_open(self, callback: Callable[[libvirt.virConnect], None]) -> None:
        """Call back with each new connection, before its first use."""
        with self._lock:
            self._callbacks.append(callback)
            self._open = None  # the next use opens one, with the callback

    def get(self) -> libvirt.virConnect:
        """Return a live connection. Raises libvirtError, and HypervisorFault if libvirt does not answer in time."""
        with self._lock:
            if self._open is None or _is_over(self._open):
                self._open = _opening(self._uri, tuple(self._callbacks))
            opening = self._open
        return _opened(opening, self._uri, self._timeout_s)


@contextmanager
def peer(uri: str, timeout_s: float) -> Iterator[libvirt.virConnect]:
    """Return a connection to another host's libvirt, closed at the end of the block. Raises HypervisorFault."""
    try:
        _probe(uri, timeout_s)
        opening = _opening(uri)
        connection = _opened(opening, uri, _OPEN_TIMEOUT_S)
    except (OSError, libvirt.libvirtError) as error:
        raise HypervisorFault(f"Cannot connect to {uri}: {error}") from error
    try:
        yield connection
    finally:
        with suppress(libvirt.libvirtError):
            connection.close()


def _opening(uri: str, callbacks: Sequence[Callable[[libvirt.virConnect], None]] = ()) -> Future[libvirt.virConnect]:
    """Open a connection in a thread of its own: libvirt waits without limit for a daemon that hangs."""
    future: Future[libvirt.virConnect] = Future()

    def run() -> None:
        try:
            connection = libvirt.open(uri)
            with suppress(libvirt.libvirtError):  # a local connection may have none
                connection.setKeepAlive(_KEEPALIVE_S, _KEEPALIVE_COUNT)
            for callback in callbacks:
                callback(connection)
        except BaseException as error:  # noqa: BLE001 -- the caller raises it
            future.set_exception(error)
        else:
            future.set_result(connection)

    threading.Thread(target=run, name="libvirt-open", daemon=True).start()
    return future


def _opened(opening: Future[libvirt.virConnect], uri: str, timeout_s: float) -> libvirt.virConnect:
    try:
        return opening.result(timeout_s)
    except TookTooLong as error:
        raise HypervisorFault(f"Cannot connect to {uri}: it does not answer within {timeout_s:.0f} s.") from error


def _is_over(opening: Future[libvirt.virConnect]) -> bool:
    """Return whether a connection could not be opened, or is lost. One that is being opened may still succeed."""
    return opening.done() and (opening.exception() is not None or not opening.result().isAlive())


def _probe(uri: str, timeout_s: float) -> None:
    """Raise OSError if the host does not accept connections in time: libvirt itself would wait for minutes."""
    parts = urlsplit(uri)
    port = parts.port or _PORTS.get(parts.scheme)
    if parts.hostname and port:
        socket.create_connection((parts.hostname, port), timeout_s).close()
