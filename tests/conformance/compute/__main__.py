"""Run Tempest's compute API tests over HTTP against `covey serve` with a real Keystone. `--help` lists the options."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from tests.conformance.compute.cloud import cloud
from tests.environments import HERE as ENVIRONMENTS
from tests.environments import prepared

HERE = Path(__file__).parent
PROCESSES = 2
_RUN_S = 3600


@dataclass(frozen=True)
class Outcome:
    """The results of the tests on a database."""

    passed: Sequence[str]
    skipped: dict[str, str]
    failed: dict[str, str]


def main() -> int:
    """Return 1 when a test that is not excluded has failed, else 0."""
    options = _arguments()
    python = prepared(ENVIRONMENTS / "tempest", HERE / "requirements.txt") / "python"
    tests: list[str] = _run(python, ["list"], os.environ, "")
    excluded = _excluded(tests)
    chosen = [test for test in tests if test not in excluded and _matches(test, options.tests or ["*"])]
    failures = 0
    for database in options.database or ("sqlite", "postgresql"):
        outcome = _run_on(database, python, chosen, options.keep_log)
        _report(database, outcome, verbose=options.verbose)
        failures += len(outcome.failed) + (not outcome.passed)
    _report_exclusions(len(tests), excluded)
    return 1 if failures else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.compute", description=__doc__)
    parser.add_argument("--database", action="append", choices=("sqlite", "postgresql"), help="both by default")
    parser.add_argument("--verbose", action="store_true", help="print the reason of each failure, and all of each skip")
    parser.add_argument("--keep-log", type=Path, metavar="DIRECTORY", help="copy the logs of Covey and Tempest to it")
    parser.add_argument("tests", nargs="*", metavar="TEST", help="such as 'flavors.*'; all by default")
    return parser.parse_args()


def _excluded(tests: Iterable[str]) -> dict[str, str]:
    """Return the topic for each test that exclusions.yaml lists. Raises ValueError for a pattern without a test."""
    topics = yaml.safe_load((HERE / "exclusions.yaml").read_text())
    excluded: dict[str, str] = {}
    for topic, entry in topics.items():
        for pattern in entry["tests"]:
            found = [test for test in tests if fnmatchcase(test, pattern)]
            if not found:
                raise ValueError(f"exclusions.yaml: {pattern} matches no test")
            excluded = dict.fromkeys(found, topic) | excluded
    return excluded


def _matches(test: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(test, pattern) for pattern in patterns)


def _run_on(database: str, python: Path, chosen: Sequence[str], keep_log: Path | None) -> Outcome:
    with (
        tempfile.TemporaryDirectory(prefix="covey-conformance-", ignore_cleanup_errors=True) as directory,
        cloud(database, Path(directory)) as config,
    ):
        variables = os.environ | {"TEMPEST_CONFIG_DIR": directory, "TEMPEST_CONFIG": config.name}
        with ThreadPoolExecutor(PROCESSES) as pool:
            answers = list(pool.map(lambda share: _run(python, [], variables, json.dumps(share)), _shares(chosen)))
        if keep_log:
            keep_log.mkdir(exist_ok=True)
            (keep_log / f"{database}-covey.log").write_text((Path(directory) / "covey" / "stderr.log").read_text())
            (keep_log / f"{database}-tempest.log").write_text((Path(directory) / "tempest.log").read_text())
    return Outcome(
        [test for answer in answers for test in answer["passed"]],
        {test: reason for answer in answers for test, reason in answer["skipped"].items()},
        {test: reason for answer in answers for test, reason in answer["failed"].items()},
    )


def _shares(chosen: Sequence[str]) -> list[list[str]]:
    """Divide the tests among the processes. The tests of a class, which share servers, stay together."""
    classes = sorted({test.rpartition(".")[0] for test in chosen})
    shares = (set(classes[number::PROCESSES]) for number in range(PROCESSES))
    return [[test for test in chosen if test.rpartition(".")[0] in share] for share in shares if share]


def _run(python: Path, arguments: Sequence[str], variables: "os._Environ[str] | dict[str, str]", tests: str) -> Any:
    """Return the last line of the suite's output, which is JSON."""
    done = subprocess.run(
        [python, HERE / "suite.py", *arguments],
        env=variables,
        input=tests,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=_RUN_S,
    )
    return json.loads(done.stdout.splitlines()[-1])


def _report(database: str, outcome: Outcome, *, verbose: bool) -> None:
    for word, tests in (("skipped", outcome.skipped), ("FAILED ", outcome.failed)):
        for test, reason in sorted(tests.items()):
            _print(f"  {word} {test}")
            if verbose:
                _print("          " + reason.strip().replace("\n", "\n          ")[-4000:])
            elif tests is outcome.skipped:
                _print("          " + reason.strip().partition("\n")[0])
    counts = f"{len(outcome.passed)} passed, {len(outcome.skipped)} skipped, {len(outcome.failed)} failed"
    _print(f"\n  {database}: {counts}.")


def _report_exclusions(total: int, excluded: dict[str, str]) -> None:
    _print(f"\n  {len(excluded)} of {total} tests are excluded (exclusions.yaml):")
    for topic, entry in yaml.safe_load((HERE / "exclusions.yaml").read_text()).items():
        _print(f"  {sum(name == topic for name in excluded.values()):5}  {topic:10} {entry['reason']}")


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
