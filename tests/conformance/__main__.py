"""Run Placement's own test suites over HTTP against `covey serve --api placement`. `--help` lists the options."""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
import yaml

from covey.model.access_rules.placement import PLACEMENT
from covey.storage import engine, tables
from tests.acceptance.processes import running_covey
from tests.databases import PostgreSQL, SQLite
from tests.environments import prepared

HERE = Path(__file__).parent
VENV = Path(".conformance")
KNOWN = HERE / "known.txt"
_SUITES = "lib/python3*/site-packages/placement/tests/functional/gabbits"

_OLD_DEFAULTS, _NEW_DEFAULTS = "[oslo_policy]\nenforce_new_defaults = false\n", ""
_CORS = "[cors]\nallowed_origin = http://valid.example.com\nallow_headers = openstack-api-version\n"
_CONFIGURED = {
    "OpenPolicyFixture": _OLD_DEFAULTS + "policy_file = open.yaml\n",
    "SecureRBACPolicyFixture": _NEW_DEFAULTS,
    "CORSFixture": _OLD_DEFAULTS + _CORS,
}  # every other fixture needs the old defaults


@dataclass(frozen=True)
class Outcome:
    """The results of a suite."""

    suite: str
    passed: Sequence[str]
    failed: dict[str, str]


def main() -> int:
    """Return 1 when a test that known.txt does not list has failed, else 0."""
    chosen = _arguments()
    prepared(VENV, HERE / "requirements.txt")  # only the suites of Placement's package are used
    known = _known()
    unexpected = 0
    with tempfile.TemporaryDirectory(prefix="covey-conformance-", ignore_cleanup_errors=True) as directory:
        for name in chosen.database or ("sqlite", "postgresql"):
            outcomes = list(_run(name, Path(directory) / name, _chosen_suites(chosen.suites)))
            unexpected += _report(name, outcomes, known, verbose=chosen.verbose)
    return 1 if unexpected else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--database", action="append", choices=("sqlite", "postgresql"), help="both by default")
    parser.add_argument("--verbose", action="store_true", help="show why each test failed")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="such as traits; all by default")
    return parser.parse_args()


def _chosen_suites(names: Sequence[str]) -> list[Path]:
    found = sorted(next(iter(VENV.glob(_SUITES))).glob("*.yaml"))
    return [file for file in found if not names or file.stem in names]


def _run(database: str, directory: Path, files: Sequence[Path]) -> Iterator[Outcome]:
    """Run the suites. Suites with the same configuration share a service; each starts with an empty database."""
    by_configuration: dict[str, list[Path]] = {}
    for file in files:
        fixtures = yaml.safe_load(file.read_text())["fixtures"]
        by_configuration.setdefault(_CONFIGURED.get(fixtures[0], _OLD_DEFAULTS), []).append(file)
    directory.mkdir()
    with _databases(database, directory) as fresh, _gabbi() as run_suite:
        for number, (configuration, suites) in enumerate(by_configuration.items()):
            with _service(configuration, directory / f"service-{number}", fresh) as (url, connected):
                for file in suites:
                    _empty(connected)
                    answer = run_suite([str(file.resolve()), url])
                    yield Outcome(file.stem, answer["passed"], answer["failed"])


@contextmanager
def _databases(name: str, directory: Path) -> Iterator[Callable[[Path], Any]]:
    """Yield a factory of fresh databases: a context manager of a URL for each directory."""
    if name == "sqlite":
        template = directory / "template"
        template.mkdir()
        yield SQLite(template).fresh
        return
    server = PostgreSQL(directory / "server")
    try:
        yield lambda _: server.fresh()
    finally:
        server.stop()


@contextmanager
def _service(configuration: str, directory: Path, fresh: Callable[[Path], Any]) -> Iterator[tuple[str, sa.Engine]]:
    directory.mkdir()
    (directory / "covey.conf").write_text(f"[api]\nauth_strategy = none\nmax_body_bytes = 1000000\n{configuration}")
    rules = {rule.name: "@" for rule in PLACEMENT if rule.requests}
    (directory / "open.yaml").write_text(yaml.safe_dump(rules))
    with ExitStack() as stack:
        url = stack.enter_context(fresh(directory))
        arguments = ("serve", "--api", "placement", "--config-file", "covey.conf", "--database", url)
        running = stack.enter_context(running_covey(directory, *arguments))
        connected = engine.connect(url)
        stack.callback(connected.dispose)
        yield running.url, connected


@contextmanager
def _gabbi() -> Iterator[Callable[[list[str]], Any]]:
    """Yield a function that runs a suite in a gabbi process: it takes a file and a URL and returns the results."""
    command = [VENV / "bin" / "python", HERE / "suites.py"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def run_suite(arguments: list[str]) -> Any:
        stdin.write(json.dumps(arguments) + "\n")
        stdin.flush()
        return json.loads(stdout.readline())

    try:
        yield run_suite
    finally:
        stdin.close()
        process.wait(timeout=30)


def _empty(connected: sa.Engine) -> None:
    """Delete all rows and invalidate cached fleets. The change log stays, since readers keep their position in it."""
    with engine.writer(connected).begin() as connection:
        for table in reversed(tables.metadata.sorted_tables):
            if table not in (tables.fleet_changes, tables.topology):
                connection.execute(sa.delete(table))
        connection.execute(sa.update(tables.topology).values(token=str(uuid4())))


def _known() -> dict[str, str]:
    """Return the known failures and their reasons: `SUITE: TEST -- REASON` on each line."""
    lines = (line.strip() for line in KNOWN.read_text().splitlines())
    pairs = (line.partition(" -- ") for line in lines if line and not line.startswith("#"))
    return {test: reason for test, _, reason in pairs}


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _report(database: str, outcomes: Sequence[Outcome], known: dict[str, str], *, verbose: bool) -> int:
    """Print a line for each suite and a total; return the number of unexpected failures."""
    _print(f"\n{database}\n")
    unexpected = 0
    for outcome in sorted(outcomes, key=lambda outcome: outcome.suite):
        total = len(outcome.passed) + len(outcome.failed)
        _print(f"  {outcome.suite:45} {len(outcome.passed):4} of {total:4}")
        for test, reason in outcome.failed.items():
            name = f"{outcome.suite}: {test}"
            unexpected += name not in known
            _print(f"      {'known  ' if name in known else 'FAILED '} {test}")
            if verbose:
                _print("          " + reason.replace("\n", "\n          ")[:4000])
        for test in outcome.passed:
            if f"{outcome.suite}: {test}" in known:
                _print(f"      passes  {test}, although known.txt lists it")
    passed, total = sum(len(o.passed) for o in outcomes), sum(len(o.passed) + len(o.failed) for o in outcomes)
    _print(f"\n  {database}: {passed} of {total} passed; {unexpected} failed unexpectedly.")
    return unexpected


if __name__ == "__main__":
    sys.exit(main())
