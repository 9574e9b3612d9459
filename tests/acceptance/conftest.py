"""A demo that runs as long as these tests do, and the clients of its three users."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.processes import Cloud, Covey, Session, running_covey


@dataclass(frozen=True)
class Demo:
    """A running `covey demo`, and the clouds.yaml that it wrote."""

    covey: Covey

    def cloud(self, user: str) -> Cloud:
        return Cloud(self.covey.directory / "data" / "clouds.yaml", user)


@pytest.fixture(scope="session", autouse=True)
def _warm(warm: Path) -> None:
    """Every test here may run commands."""


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running_covey(tmp_path_factory.mktemp("demo"), "demo", "--data-dir", "data") as covey:
        yield Demo(covey)


@pytest.fixture(scope="session")
def admin(demo: Demo) -> Iterator[Session]:
    with Session(demo.cloud("admin")) as session:
        yield session


@pytest.fixture(scope="session")
def member(demo: Demo) -> Iterator[Session]:
    """The user demo, an ordinary member of the project demo."""
    with Session(demo.cloud("demo")) as session:
        yield session


@pytest.fixture(scope="session")
def other(demo: Demo) -> Iterator[Session]:
    """The user other, an ordinary member of the project other."""
    with Session(demo.cloud("other")) as session:
        yield session
