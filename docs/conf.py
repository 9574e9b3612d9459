"""Sphinx: builds the Markdown pages of this directory into site/ (`make docs`)."""

import re
import tomllib
from pathlib import Path
from typing import Any

project = "Covey"
author = "The Covey project"
release = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]["version"]

extensions = ["myst_parser"]
root_doc = "index"
exclude_patterns = ["README.md"]  # index.md includes it
myst_heading_anchors = 3
suppress_warnings = ["misc.highlighting_failure"]  # JSON examples have an ellipsis where values differ

html_theme = "furo"
html_title = "Covey"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {"light_css_variables": {"color-brand-primary": "#00695c", "color-brand-content": "#00695c"}}

# Files above this directory, and directories, have no page on the site: their links become plain words.
_NO_PAGE = re.compile(r"\[([^\]]+)\]\((?:(?:\.\./)+[A-Z]+\.md|[\w/.-]+/)\)")


def _unlink(_: object, __: str, source: list[str]) -> None:
    source[0] = _NO_PAGE.sub(r"\1", source[0])


def _unlink_included(_: object, __: object, ___: str, source: list[str]) -> None:
    source[0] = _NO_PAGE.sub(r"\1", source[0])


def setup(app: Any) -> None:  # noqa: ANN401 -- Sphinx is not installed where types are checked
    """Register the hooks; Sphinx calls this."""
    app.connect("source-read", _unlink)
    app.connect("include-read", _unlink_included)
