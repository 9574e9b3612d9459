"""Fixtures and hooks of every kind of test. A test that needs a database runs on both."""

import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import hypothesis
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from covey.storage import engine
from covey.storage.store import Store
from tests.acceptance import processes
from tests.acceptance.warm import warm_commands
from tests.databases import PostgreSQL, SQLite, quick_engines
from tests.postgresql_cluster import Cluster
from tests.programs import PROGRAMS, install_command

# Tests start many Python programs, and each compiles all of its modules again where this variable is set.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# No test is timed: a busy machine fails none.
hypothesis.settings.register_profile(
    "covey", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], print_blob=True
)
hypothesis.settings.load_profile("covey")

_NOT_INSTALLED = "{} is not installed"
_CANNOT_RUN = "{} cannot run here: {}"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs_program(name): skip the test unless this program is installed")
    config.addinivalue_line("markers", "soak: a long run under load; `make soak` runs it, `make test` does not")
    config.addinivalue_line("markers", "sqlite_only: do not repeat the test on PostgreSQL, since no SQL decides it")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if not (_is_on_postgresql(item) and item.get_closest_marker("sqlite_only"))]
    for item in items:
        for marker in item.iter_markers("needs_program"):
            reason = _why_not(marker.args[0])
            if reason is not None:
                item.add_marker(pytest.mark.skip(reason))


def pytest_collection_finish() -> None:
    """Leave a million objects that the collection has made, and that stay, out of all garbage collections."""
    gc.freeze()


@cache
def _why_not(name: str) -> str | None:
    """Return why tests that need this program are skipped."""
    program = PROGRAMS[name]
    if not program.is_installed():
        return _NOT_INSTALLED.format(name)
    obstacle = program.obstacle()
    return None if obstacle is None else _CANNOT_RUN.format(name, obstacle)


class AcceptanceByFile(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Distributes single tests, but acceptance tests by file: tests of a file share processes and data.

    All tests of the laboratory share its hosts.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if "/lab/" in file:
            return "lab"
        return file if "/acceptance/" in file else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> AcceptanceByFile:
    return AcceptanceByFile(config, log)


def _is_on_postgresql(item: pytest.Item) -> bool:
    return (
        isinstance(item, pytest.Function)
        and hasattr(item, "callspec")
        and "postgresql" in item.callspec.params.values()
    )


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the tests skipped for missing programs, and the command that installs the programs."""
    reports = terminalreporter.stats.get("skipped", [])
    _list_other_skips_of_the_laboratory(terminalreporter, reports)
    reasons = {name: _why_not(name) for name in PROGRAMS}
    skipped = {
        name: [report.nodeid for report in reports if report.longrepr[2].endswith(reason)]
        for name, reason in reasons.items()
        if reason is not None
    }
    found = {name: tests for name, tests in skipped.items() if tests}
    if not found:
        return
    terminalreporter.section("tests that need a program of the system")
    for name, tests in found.items():
        terminalreporter.line(f"{reasons[name]}, so these did not run:")
        for nodeid in tests:
            terminalreporter.line(f"  {nodeid}")
    absent = [PROGRAMS[name] for name in found if not PROGRAMS[name].is_installed()]
    if absent:
        terminalreporter.line("On Debian and Ubuntu, this installs what is missing; then run them again:")
        terminalreporter.line(f"  sudo {' '.join(install_command(absent))}")


def _list_other_skips_of_the_laboratory(
    terminalreporter: pytest.TerminalReporter, reports: list[pytest.TestReport]
) -> None:
    """List the tests of the laboratory that were skipped though its programs are there."""
    programs = tuple(filter(None, map(_why_not, PROGRAMS)))
    reasons = {
        report.nodeid: report.longrepr[2].removeprefix("Skipped: ")
        for report in reports
        if report.nodeid.startswith("tests/lab/") and isinstance(report.longrepr, tuple)
    }
    others = {nodeid: reason for nodeid, reason in reasons.items() if not reason.endswith(programs)}
    if others:
        terminalreporter.section("tests of the laboratory that did not run")
        for nodeid, reason in others.items():
            terminalreporter.line(f"{nodeid}: {reason}")


@pytest.fixture(scope="session", autouse=True)
def _quick_engines() -> Iterator[None]:
    with quick_engines():
        yield


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with `covey` and `openstack`, which tests that run commands use in place of the installed ones."""
    with warm_commands(tmp_path_factory.mktemp("warm")) as commands, pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "COMMANDS", commands)
        yield commands


@pytest.fixture(scope="session")
def sqlite_server(tmp_path_factory: pytest.TempPathFactory) -> SQLite:
    return SQLite(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgreSQL]:
    # Outside pytest's directory, which a second run makes unreadable for the server's user.
    with tempfile.TemporaryDirectory(prefix="covey-postgresql-", ignore_cleanup_errors=True) as directory:
        server = PostgreSQL(Path(directory))
        yield server
        server.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL server that a test may restart, crash or replace."""
    with tempfile.TemporaryDirectory(prefix="covey-cluster-", ignore_cleanup_errors=True) as directory:
        server = Cluster(Path(directory))
        yield server
        server.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the URL of a fresh database with the schema, once for each kind."""
    if request.param == "sqlite":
        with request.getfixturevalue("sqlite_server").fresh(tmp_path) as url:
            yield url
    else:
        with request.getfixturevalue("postgresql_server").fresh() as url:
            yield url


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    connected = engine.connect(database)
    yield Store(connected)
    connected.dispose()
