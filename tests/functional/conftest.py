"""The real application in process, spoken to over its API."""

from pathlib import Path

import pytest

from covey import bootstrap
from covey.bootstrap import Chosen
from tests.functional.client import Client, Service


@pytest.fixture
def service(database: str, tmp_path: Path) -> Service:
    """All APIs, on a fresh database, believing whoever calls (auth_strategy=none)."""
    return Service(_build(database, tmp_path))


@pytest.fixture
def admin(service: Service) -> Client:
    return service.as_("admin:operators")


@pytest.fixture
def alice(service: Service) -> Client:
    """An ordinary member of the project web."""
    return service.as_("alice:web")


def _build(database: str, directory: Path, *overrides: tuple[str, str, object]) -> bootstrap.Application:
    policy = directory / "policy.yaml"
    policy.touch()
    chosen = Chosen(
        overrides=(
            ("database", "connection", database),
            ("api", "auth_strategy", "none"),
            ("oslo_policy", "policy_file", str(policy)),
            ("log", "level", "error"),
            *overrides,
        )
    )
    return bootstrap.wsgi(chosen)
