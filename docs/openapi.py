"""Writes the OpenAPI document of the Compute API into a file: `python -m docs.openapi FILE`."""

import json
import sys
from pathlib import Path

import falcon.testing

from covey.bootstrap import Settings, wsgi

_OVERRIDES = (
    ("api", "auth_strategy", "none"),
    ("database", "connection", "sqlite:///never-opened"),
    ("log", "level", "warning"),
)


def document() -> dict[str, object]:
    """Return the document that a service serves, with the URL of a local service."""
    service = falcon.testing.TestClient(wsgi(Settings(overrides=_OVERRIDES)))
    served: dict[str, object] = service.simulate_get("/compute/v2.1/openapi.json").json
    return served | {"servers": [{"url": "http://127.0.0.1:8774/compute/v2.1"}]}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(document(), indent=1) + "\n")
