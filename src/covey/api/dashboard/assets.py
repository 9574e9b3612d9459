"""The static files of the dashboard."""

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from urllib.parse import urlsplit

import falcon

from covey.api.dashboard.responses import Body, send
from covey.api.requests import Request
from covey.model.errors import NotFound

_KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_BASE = b'<base href="./">'  # in index.html; replaced with the dashboard's path


class Assets:
    """Static files by path, read once."""

    def __init__(self) -> None:
        self._files = {name: Body(text, _kind(name)) for name, text in _walk(files(__package__) / "assets")}
        self._pages: dict[str, Body] = {}  # index.html, by the dashboard's path

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Serve the page with absolute links, which work with and without a trailing slash."""
        base = f"{urlsplit(req.context.base_url).path.rstrip('/')}/"
        if base not in self._pages:
            index, here = self._files["index.html"], falcon.uri.encode(base).encode()
            page = index.plain.replace(_BASE, b'<base href="' + here.replace(b'"', b"%22") + b'">')
            self._pages = {base: Body(page, index.content_type)}
        send(req, resp, self._pages[base])

    def on_get_one(self, req: Request, resp: falcon.Response, name: str) -> None:
        body = self._files.get(name)
        if body is None:
            raise NotFound(f"No file {name!r}.")
        send(req, resp, body)

    def on_get_inner(self, req: Request, resp: falcon.Response, name: str, inner: str) -> None:
        """Serve a file of a folder; folders are not nested."""
        self.on_get_one(req, resp, f"{name}/{inner}")


def _walk(folder: Traversable, below: str = "") -> Iterator[tuple[str, bytes]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _walk(item, f"{below}{item.name}/")
        elif _suffix(item.name) in _KINDS:
            yield below + item.name, item.read_bytes()


def _kind(name: str) -> str:
    return _KINDS[_suffix(name)]


def _suffix(name: str) -> str:
    return f".{name.rpartition('.')[2]}"
