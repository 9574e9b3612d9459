"""Dispatch of paths to mounted applications."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

from covey.api.middleware import Mounts

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


def named(name: str) -> "WSGIApplication":
    """An application that responds with its name and its path."""

    def app(environ: "WSGIEnvironment", _: "StartResponse") -> Iterable[bytes]:
        return [f"{name} {environ.get('SCRIPT_NAME')!r} {environ['PATH_INFO']!r}".encode()]

    return app


MOUNTS = Mounts({"compute": named("compute"), "image": named("image")}, named("root"))
PATHS = {
    "the top of an application": ("", "/compute", "compute '/compute' '/'"),
    "the top with a slash": ("", "/compute/", "compute '/compute' '/'"),
    "a path inside": ("", "/image/v2/images", "image '/image' '/v2/images'"),
    "a path below a proxy's own": ("/cloud", "/compute/v2.1", "compute '/cloud/compute' '/v2.1'"),
    "slashes that are doubled inside": ("", "/compute//v2.1", "compute '/compute' '//v2.1'"),
    "the root": ("", "/", "root '' '/'"),
    "no path at all": ("", "", "root '' ''"),
    "a path without a mount": ("", "/metrics", "root '' '/metrics'"),
    "a name that only begins alike": ("", "/computer/v2.1", "root '' '/computer/v2.1'"),
    "another case": ("", "/Compute", "root '' '/Compute'"),
    "a slash too many before": ("", "//compute", "root '' '//compute'"),
}


@pytest.mark.parametrize(("script", "path", "answer"), PATHS.values(), ids=PATHS)
def test_first_path_segment_selects_the_application(script: str, path: str, answer: str) -> None:
    assert answered({"SCRIPT_NAME": script, "PATH_INFO": path}) == answer


def test_missing_script_name_is_empty() -> None:
    assert answered({"PATH_INFO": "/compute/x"}) == "compute '/compute' '/x'"


def answered(environ: "WSGIEnvironment") -> str:
    def start(*_: object) -> object:
        raise AssertionError

    return b"".join(MOUNTS(environ, start)).decode()  # type: ignore[arg-type]
