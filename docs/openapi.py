"""Writes reference/openapi.json, as the service itself tells it; `make docs` runs it."""

import json
from pathlib import Path

import falcon.testing

from covey.bootstrap import Settings, wsgi

PLACE = Path(__file__).parent / "reference" / "openapi.json"
_QUIET = (
    ("api", "auth_strategy", "none"),
    ("database", "connection", "sqlite:///never-opened"),
    ("log", "level", "warning"),
)


def document() -> dict[str, object]:
    """The document, with a URL that is right for a service of one's own."""
    service = falcon.testing.TestClient(wsgi(Settings(overrides=_QUIET)))
    told: dict[str, object] = service.simulate_get("/compute/v2.1/openapi.json").json
    return told | {"servers": [{"url": "http://127.0.0.1:8774/compute/v2.1"}]}


if __name__ == "__main__":
    PLACE.write_text(json.dumps(document(), indent=1) + "\n")
