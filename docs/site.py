"""What the site does to a page before it is built: links that leave the documentation become plain words."""

import re
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+[A-Z]+\.md\)|\[([^\]]+)\]\([\w/]+/\)")


def on_page_markdown(markdown: str, **_: Any) -> str:  # noqa: ANN401 -- mkdocs' own signature
    """Files at the root of the project, and directories, have no page here."""
    return _OUTSIDE.sub(lambda found: found[1] or found[2], markdown)
