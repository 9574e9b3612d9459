"""Run Senlin's API tests over HTTP against `covey serve` with a real Keystone. `--help` lists the options."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.conformance.clustering.cloud import cloud
from tests.environments import HERE as ENVIRONMENTS
from tests.environments import prepared

HERE = Path(__file__).parent
PROCESSES = 4  # they mostly wait for actions
_RUN_S = 1800


def main() -> int:
    """Return 1 when a test that known.txt does not list has failed, else 0."""
    options = _arguments()
    python = prepared(ENVIRONMENTS / "senlin-tempest", HERE / "requirements.txt") / "python"
    with (
        tempfile.TemporaryDirectory(prefix="covey-conformance-", ignore_cleanup_errors=True) as directory,
        cloud(options.database, Path(directory), PROCESSES) as config,
    ):
        modules = [m for m in _run_suite(python, config, []) if not options.modules or m in options.modules]
        shares = [share for number in range(PROCESSES) if (share := modules[number::PROCESSES])]
        with ThreadPoolExecutor(PROCESSES) as pool:
            answers = list(pool.map(lambda share: _run_suite(python, config, share), shares))
        if options.keep_log:
            options.keep_log.write_text((config.parent / "covey" / "stderr.log").read_text())
    passed = [test for answer in answers for test in answer["passed"]]
    failed = {test: reason for answer in answers for test, reason in answer["failed"].items()}
    return _report(passed, failed, verbose=options.verbose, whole=not options.modules)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.clustering", description=__doc__)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="postgresql")
    parser.add_argument("--verbose", action="store_true", help="print the reason of each failure")
    parser.add_argument("--keep-log", type=Path, metavar="FILE", help="copy Covey's log to this file")
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help="such as clusters.test_cluster_create; default: all"
    )
    return parser.parse_args()


def _run_suite(python: Path, config: Path, modules: Sequence[str]) -> Any:
    """Return the results of test modules; without modules, return their names."""
    variables = {"TEMPEST_CONFIG_DIR": str(config.parent), "TEMPEST_CONFIG": config.name}
    done = subprocess.run(
        [python, HERE / "suite.py", *modules],
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=_RUN_S,
    )
    return json.loads(done.stdout.splitlines()[-1])


def _known() -> dict[str, str]:
    """Return the known failures and their reasons: `TEST -- REASON` on each line."""
    lines = (line.strip() for line in (HERE / "known.txt").read_text().splitlines())
    pairs = (line.partition(" -- ") for line in lines if line and not line.startswith("#"))
    return {test: reason for test, _, reason in pairs}


def _report(passed: Sequence[str], failed: dict[str, str], *, verbose: bool, whole: bool) -> int:
    """Print failures and differences from known.txt; return the exit status."""
    known = _known()
    for test, reason in sorted(failed.items()):
        _print(f"  {'known  ' if test in known else 'FAILED '} {test}")
        if verbose:
            _print("          " + reason.replace("\n", "\n          ")[-4000:])
    fixed = sorted(set(known) & set(passed))
    for test in fixed:
        _print(f"  passed  {test}, which known.txt lists as a failure")
    missing = sorted(set(known) - set(passed) - set(failed)) if whole else []
    for test in missing:
        _print(f"  missing {test}, which known.txt lists")
    unexpected = sorted(set(failed) - set(known))
    total = len(passed) + len(failed)
    _print(f"\n  {len(passed)} of {total} passed; {len(unexpected)} failed unexpectedly.")
    return 1 if unexpected or fixed or missing or not passed else 0


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
