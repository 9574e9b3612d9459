"""Several applications on one port, each below a path of its own."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class Mounts:
    """Hands a request to the application whose path it begins with, else to the root's."""

    def __init__(self, below: Mapping[str, "WSGIApplication"], root: "WSGIApplication") -> None:
        self._below = below
        self._root = root

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        path: str = environ["PATH_INFO"]
        first = path[1:].partition("/")[0]
        app = self._below.get(first)
        if app is None:
            return self._root(environ, start_response)
        environ["SCRIPT_NAME"] = f"{environ.get('SCRIPT_NAME', '')}/{first}"
        environ["PATH_INFO"] = path[len(first) + 1 :] or "/"
        return app(environ, start_response)
