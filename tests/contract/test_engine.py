"""Connections: who may read the SQLite files, and what of a URL is shown."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from covey.storage.engine import connect, without_secrets


@pytest.fixture(autouse=True)
def permissive_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> str:
    return f"{path.stat().st_mode & 0o777:o}"


def test_new_sqlite_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "covey.sqlite"
    engine = connect(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE t (id INTEGER)"))
        modes = {file.name: mode(file) for file in path.parent.iterdir()}
    engine.dispose()
    assert modes == {"covey.sqlite": "600", "covey.sqlite-wal": "600", "covey.sqlite-shm": "600"}
    assert mode(path.parent) == "700"


def test_modes_that_an_operator_chose_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "covey.sqlite"
    tmp_path.chmod(0o750)
    path.touch()
    path.chmod(0o640)
    connect(f"sqlite:///{path}").dispose()
    assert (mode(path), mode(tmp_path)) == ("640", "750")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:sesame@db/covey?sslmode=require",
        "postgresql://u@db/covey?password=sesame&sslmode=require",
        "postgresql://u@db/covey?sslpassword=sesame&PASSWORD=sesame&sslmode=require",
    ],
)
def test_url_is_shown_without_its_password(url: str) -> None:
    shown = without_secrets(make_url(url))
    assert "sesame" not in shown
    assert shown.startswith("postgresql://u")
    assert shown.endswith("@db/covey?sslmode=require")
