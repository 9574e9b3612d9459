"""Placement's own test suites, run over HTTP against `covey serve --api placement`. `--help` lists the choices."""

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

import sqlalchemy as sa
import yaml

from covey.model.access_rules.placement import PLACEMENT
from covey.storage import engine, tables
from covey.storage.changes import FleetChanges
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
}  # every other fixture wants the old defaults


@dataclass(frozen=True)
class Outcome:
    """What became of a suite's tests."""

    suite: str
    passed: Sequence[str]
    failed: dict[str, str]


def main() -> int:
    """How many more tests fail than are known to; 0 is well."""
    chosen = _arguments()
    prepared(VENV, HERE / "requirements.txt")  # of Placement's package only the suites are used
    known = _known()
    unexpected = 0
    with tempfile.TemporaryDirectory(prefix="covey-conformance-", ignore_cleanup_errors=True) as directory:
        for name in chosen.database or ("sqlite", "postgresql"):
            outcomes = list(_run(name, Path(directory) / name, _chosen_suites(chosen.suites)))
            unexpected += _report(name, outcomes, known, verbose=chosen.verbose)
    return 1 if unexpected else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--database", action="append", choices=("sqlite", "postgresql"), help="both, unless chosen")
    parser.add_argument("--verbose", action="store_true", help="say why each test failed")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="such as traits; all, unless chosen")
    return parser.parse_args()


def _chosen_suites(names: Sequence[str]) -> list[Path]:
    found = sorted(next(iter(VENV.glob(_SUITES))).glob("*.yaml"))
    return [file for file in found if not names or file.stem in names]


def _run(database: str, directory: Path, files: Sequence[Path]) -> Iterator[Outcome]:
    """Suites that want the same configuration share a service; each finds its database empty."""
    by_configuration: dict[str, list[Path]] = {}
    for file in files:
        fixtures = yaml.safe_load(file.read_text())["fixtures"]
        by_configuration.setdefault(_CONFIGURED.get(fixtures[0], _OLD_DEFAULTS), []).append(file)
    directory.mkdir()
    with _databases(database, directory) as fresh, _gabbi() as ask:
        for number, (configuration, some) in enumerate(by_configuration.items()):
            with _service(configuration, directory / f"service-{number}", fresh) as (url, connected):
                for file in some:
                    _empty(connected)
                    answer = ask([str(file.resolve()), url])
                    yield Outcome(file.stem, answer["passed"], answer["failed"])


@contextmanager
def _databases(name: str, directory: Path) -> Iterator[Callable[[Path], Any]]:
    """Makes fresh databases of one kind: a context with a URL for each directory."""
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
    """A process that runs suites: given a file and a URL, it tells what became of the tests."""
    command = [VENV / "bin" / "python", HERE / "suites.py"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def ask(question: list[str]) -> Any:
        stdin.write(json.dumps(question) + "\n")
        stdin.flush()
        return json.loads(stdout.readline())

    try:
        yield ask
    finally:
        stdin.close()
        process.wait(timeout=30)


def _empty(connected: sa.Engine) -> None:
    """No rows any more, and every picture of them is old. The log itself stays, since readers know where they are."""
    with engine.writer(connected).begin() as connection:
        for table in reversed(tables.metadata.sorted_tables):
            if table is not tables.fleet_changes:
                connection.execute(sa.delete(table))
        FleetChanges(connection).add_structure()


def _known() -> dict[str, str]:
    """What does not pass, and why: `SUITE: TEST -- REASON` on each line."""
    lines = (line.strip() for line in KNOWN.read_text().splitlines())
    pairs = (line.partition(" -- ") for line in lines if line and not line.startswith("#"))
    return {test: reason for test, _, reason in pairs}


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _report(database: str, outcomes: Sequence[Outcome], known: dict[str, str], *, verbose: bool) -> int:
    """Says a line for each suite and a total; the number of failures that nobody knew of."""
    _say(f"\n{database}\n")
    unexpected = 0
    for outcome in sorted(outcomes, key=lambda outcome: outcome.suite):
        total = len(outcome.passed) + len(outcome.failed)
        _say(f"  {outcome.suite:45} {len(outcome.passed):4} of {total:4}")
        for test, why in outcome.failed.items():
            name = f"{outcome.suite}: {test}"
            unexpected += name not in known
            _say(f"      {'known  ' if name in known else 'FAILED '} {test}")
            if verbose:
                _say("          " + why.replace("\n", "\n          ")[:4000])
        for test in outcome.passed:
            if f"{outcome.suite}: {test}" in known:
                _say(f"      passes  {test}, although known.txt lists it")
    passed, total = sum(len(o.passed) for o in outcomes), sum(len(o.passed) + len(o.failed) for o in outcomes)
    _say(f"\n  {database}: {passed} of {total} passed; {unexpected} failed that are not known to.")
    return unexpected


if __name__ == "__main__":
    sys.exit(main())
