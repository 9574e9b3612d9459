"""Senlin's own API tests, run over HTTP against `covey serve` beside a real Keystone. `--help` lists the choices."""

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
PROCESSES = 4  # they mostly wait
_RUN_S = 1800


def main() -> int:
    """Whether something failed that is not known to; 0 is well."""
    chosen = _arguments()
    python = prepared(ENVIRONMENTS / "senlin-tempest", HERE / "requirements.txt") / "python"
    with (
        tempfile.TemporaryDirectory(prefix="covey-conformance-", ignore_cleanup_errors=True) as directory,
        cloud(chosen.database, Path(directory), PROCESSES) as config,
    ):
        modules = [m for m in _asked(python, config, []) if not chosen.modules or m in chosen.modules]
        shares = [share for number in range(PROCESSES) if (share := modules[number::PROCESSES])]
        with ThreadPoolExecutor(PROCESSES) as pool:
            answers = list(pool.map(lambda share: _asked(python, config, share), shares))
        if chosen.keep_log:
            chosen.keep_log.write_text((config.parent / "covey" / "stderr.log").read_text())
    passed = [test for answer in answers for test in answer["passed"]]
    failed = {test: why for answer in answers for test, why in answer["failed"].items()}
    return _report(passed, failed, verbose=chosen.verbose, whole=not chosen.modules)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.clustering", description=__doc__)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="postgresql")
    parser.add_argument("--verbose", action="store_true", help="say why each test failed")
    parser.add_argument("--keep-log", type=Path, metavar="FILE", help="where to leave Covey's log")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="such as clusters.test_cluster_create; else all")
    return parser.parse_args()


def _asked(python: Path, config: Path, modules: Sequence[str]) -> Any:
    """What the suite tells of some modules, or which there are."""
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
    """What does not pass, and why: `TEST -- REASON` on each line."""
    lines = (line.strip() for line in (HERE / "known.txt").read_text().splitlines())
    pairs = (line.partition(" -- ") for line in lines if line and not line.startswith("#"))
    return {test: reason for test, _, reason in pairs}


def _report(passed: Sequence[str], failed: dict[str, str], *, verbose: bool, whole: bool) -> int:
    """Says what failed, and what is known to fail and does not; and whether that is as it should be."""
    known = _known()
    for test, why in sorted(failed.items()):
        _say(f"  {'known  ' if test in known else 'FAILED '} {test}")
        if verbose:
            _say("          " + why.replace("\n", "\n          ")[-4000:])
    better = sorted(set(known) & set(passed))
    for test in better:
        _say(f"  passes  {test}, although known.txt lists it")
    lost = sorted(set(known) - set(passed) - set(failed)) if whole else []
    for test in lost:
        _say(f"  is not  {test}, although known.txt lists it")
    unexpected = sorted(set(failed) - set(known))
    total = len(passed) + len(failed)
    _say(f"\n  {len(passed)} of {total} passed; {len(unexpected)} failed that are not known to.")
    return 1 if unexpected or better or lost or not passed else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
