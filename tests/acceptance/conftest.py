"""A demo that runs as long as these tests do, and the clients of its three users."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance import processes
from tests.acceptance.processes import Cloud, Covey, Session, running_covey
from tests.acceptance.warm import warm_commands


@dataclass(frozen=True)
class Demo:
    """A running `covey demo`, and the clouds.yaml that it wrote."""

    covey: Covey

    def cloud(self, user: str) -> Cloud:
        return Cloud(self.covey.directory / "data" / "clouds.yaml", user)


@pytest.fixture(scope="session", autouse=True)
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with `covey` and `openstack`, which tests that run commands use in place of the installed ones."""
    with warm_commands(tmp_path_factory.mktemp("warm")) as commands, pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "COMMANDS", commands)
        yield commands


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
