"""A proxy in front of PostgreSQL that can freeze it: connections stay open, and nothing is answered."""

import socket
import threading
from pathlib import Path
from typing import Self

import sqlalchemy as sa

_CHUNK = 1 << 16


class FrozenServer:
    """Forwards connections from a loopback port to a server's socket, until the context ends."""

    def __init__(self, server: Path) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._goes_on = threading.Event()
        self._goes_on.set()

    def url(self, database: str) -> str:
        """Return the URL through the proxy of a database of the server."""
        name = sa.make_url(database).database
        return f"postgresql://postgres@127.0.0.1:{self._listener.getsockname()[1]}/{name}"

    def freeze(self) -> None:
        self._goes_on.clear()

    def go_on(self) -> None:
        self._goes_on.set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for each in self._open:
            each.close()
        self.go_on()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._server))
            except OSError:  # closed
                return
            self._open += [client, server]
            for source, destination in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(source, destination), daemon=True).start()

    def _forward(self, source: socket.socket, destination: socket.socket) -> None:
        try:
            while message := source.recv(_CHUNK):
                self._goes_on.wait()
                destination.sendall(message)
            destination.shutdown(socket.SHUT_WR)
        except OSError:  # one side is closed
            return
