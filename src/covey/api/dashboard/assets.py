"""The page itself and its files, as they lie in the package."""

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from urllib.parse import urlsplit

import falcon

from covey.api.dashboard.answers import Body, send
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
_BASE = b'<base href="./">'  # in the page: the server writes there where the dashboard is


class Assets:
    """Files by their paths, read once."""

    def __init__(self) -> None:
        self._files = {name: Body(text, _kind(name)) for name, text in _walk(files(__package__) / "assets")}
        self._pages: dict[str, Body] = {}  # index.html, by where the dashboard is

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """The page, whose links are right with and without a slash at the end of the address."""
        base = f"{urlsplit(req.context.base_url).path.rstrip('/')}/"
        if base not in self._pages:
            index, here = self._files["index.html"], falcon.uri.encode(base).encode()
            page = index.plain.replace(_BASE, b'<base href="' + here.replace(b'"', b"%22") + b'">')
            self._pages = {base: Body(page, index.content_type)}
        send(req, resp, self._pages[base])

    def on_get_one(self, req: Request, resp: falcon.Response, name: str) -> None:
        found = self._files.get(name)
        if found is None:
            raise NotFound(f"There is no file {name!r}.")
        send(req, resp, found)

    def on_get_inner(self, req: Request, resp: falcon.Response, name: str, inner: str) -> None:
        """Folders have no folders in them."""
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
