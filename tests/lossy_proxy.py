"""A proxy in front of PostgreSQL that loses the answer to a COMMIT: the server commits, the client is not told."""

import select
import socket
import threading
from pathlib import Path
from typing import Self

_CHUNK = 1 << 16
_COMMIT = b"COMMIT\0"
_WRITTEN = (b"INSERT 0 ", b"UPDATE ", b"DELETE ")  # results of statements


class LossyProxy:
    """Forwards connections from a loopback port to a server's socket, until the context ends."""

    def __init__(self, server: Path) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._to_lose = 0
        self.lost = 0

    def url(self, database: str) -> str:
        """Return the URL of a database through the proxy."""
        return f"postgresql://postgres@127.0.0.1:{self._listener.getsockname()[1]}/{database}"

    def lose_answers(self, number: int) -> None:
        """Lose the answers to the COMMITs of that many next writing transactions. Their connections close."""
        with self._lock:
            self._to_lose = number

    def cut(self) -> None:
        """Close all connections."""
        with self._lock:
            for each in self._open:
                each.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            try:
                server.connect(str(self._server))
                with self._lock:
                    self._open |= {client, server}
                self._forward(client, server)
            except OSError:  # one side closed its connection, so the other one closes as well
                pass
            finally:
                with self._lock:
                    self._open -= {client, server}

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        has_written = False
        while True:
            for ready in select.select([client, server], [], [])[0]:
                message = ready.recv(_CHUNK)
                if not message:
                    return
                if ready is server:
                    has_written = has_written or any(tag in message for tag in _WRITTEN)
                    client.sendall(message)
                    continue
                server.sendall(message)
                if has_written and _COMMIT in message and self._loses():
                    server.recv(_CHUNK)  # it is committed
                    return
                has_written = has_written and _COMMIT not in message

    def _loses(self) -> bool:
        with self._lock:
            loses = self._to_lose > 0
            self._to_lose -= loses
            self.lost += loses
        return loses
