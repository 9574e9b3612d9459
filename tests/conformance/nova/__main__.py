"""Run a real Nova on Covey's Placement API and check group policies through it. `--help` lists the options."""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from tests.conformance.nova import (
    stories,
    stories_moves,
    stories_operations,
    stories_outage,
    stories_policies,
    stories_repair,
    stories_sync,
)
from tests.conformance.nova.adoption import adopt_and_switch
from tests.conformance.nova.cloud import SYNC_S, Lab, say
from tests.conformance.nova.deployment import PACKAGE, running_lab
from tests.conformance.nova.rounds import parallel_boots
from tests.conformance.nova.stories import Story
from tests.conformance.nova.stories_groups import groups_of_tenants
from tests.conformance.nova.tenant import Tenant

_UNIT_S = 300
_PARTS: dict[str, tuple[Story, ...]] = {
    "operations": stories_operations.STORIES,
    "policies": (*stories.STORIES, *stories_policies.STORIES),
    "moves": stories_moves.STORIES,
    "outage": stories_outage.STORIES,
    "groups": (groups_of_tenants,),
    "sync": stories_sync.STORIES,
    "repair": stories_repair.STORIES,
}


def main() -> int:
    """Return 1 when anything fails, else 0."""
    options = _arguments()
    computes = [f"cn{number:02}" for number in range(1, options.hosts + 1)]
    with tempfile.TemporaryDirectory(prefix="covey-nova-", ignore_cleanup_errors=True) as directory:
        began = time.monotonic()
        try:
            with running_lab(Path(directory), computes, original=_is_chosen("original", options)) as lab:
                say(f"  Nova with {len(computes)} computes is up after {time.monotonic() - began:.0f} s.")
                failures = _run(lab, options)
        finally:
            if options.keep_log:
                _copy_logs(Path(directory), options.keep_log)
    say(f"  {failures} failures in {time.monotonic() - began:.0f} s.")
    return 1 if failures else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.nova", description=__doc__)
    parser.add_argument("--hosts", type=int, default=12, help="computes, a multiple of 3 from 6 on (default: 12)")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of parallel boots (default: 20)")
    parser.add_argument("--keep-log", type=Path, metavar="DIRECTORY", help="copy all logs to it")
    parts = ", ".join(("original", "rounds", *_PARTS))
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"names of stories, or of parts: {parts}")
    return parser.parse_args()


def _is_chosen(name: str, options: argparse.Namespace) -> bool:
    return options.only is None or name in options.only


def _run(lab: Lab, options: argparse.Namespace) -> int:
    """Return the number of failures."""
    failures = 0 if _unit_tests_pass(lab) else 1
    tenant = Tenant(lab)
    if _is_chosen("original", options):
        parallel_boots(tenant, options.rounds, "Nova with the original Placement")
        if not _passes(adopt_and_switch, tenant):
            return failures + 1  # Nova still uses the original
    numbers = range(len(lab.computes))
    tenant.add_scope("rack", {lab.computes[i]: f"rack-{i // 3 + 1}" for i in numbers})
    tenant.add_scope("switch", {lab.computes[i]: f"switch-{2 * i // len(numbers) + 1}" for i in numbers})
    say(f"  {lab.covey('sync', 'nova', '--once', '--cloud', 'admin').strip()}")
    lab.start_sync("--interval", str(SYNC_S))
    if _is_chosen("rounds", options):
        complete, violated = parallel_boots(tenant, options.rounds, "Nova with Covey")
        failures += options.rounds - complete + violated
    for story in _chosen(options):
        failures += not _passes(story, tenant)
    return failures


def _chosen(options: argparse.Namespace) -> Iterator[Story]:
    for part, told in _PARTS.items():
        for story in told:
            if _is_chosen(part, options) or _is_chosen(story.__name__, options):
                yield story


def _passes(story: Story, tenant: Tenant) -> bool:
    """Tell a story, and what came of it. Servers that a failed one leaves are deleted."""
    say(f"  {story.__name__} … ", end="")
    began = time.monotonic()
    try:
        outcome = story(tenant)
    except Exception as error:  # noqa: BLE001 -- the other stories run as well
        where = traceback.extract_tb(error.__traceback__)[-1]
        told = f"{type(error).__name__}: {str(error)[:2000]}"
        say(f"FAILED: {told} at {where.name}: {where.line} ({time.monotonic() - began:.0f} s)")
        tenant.delete([*tenant.all()])
        return False
    say(f"passed: {outcome} ({time.monotonic() - began:.0f} s)")
    return True


def _unit_tests_pass(lab: Lab) -> bool:
    """Run the tests of covey-nova in the environment that has Nova."""
    done = subprocess.run(
        [lab.commands / "python", "-m", "unittest", "discover", "-s", PACKAGE / "tests"],
        capture_output=True,
        text=True,
        check=False,
        timeout=_UNIT_S,
    )
    lines = done.stderr.strip().splitlines()
    say(f"  covey-nova: {' '.join(line for line in lines[-3:] if line)}")
    if done.returncode:
        say(done.stderr)
    return done.returncode == 0


def _copy_logs(directory: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for log in (*directory.glob("*.log"), *directory.glob("*.out"), *directory.glob("covey/*.log")):
        shutil.copy(log, target / log.name)


if __name__ == "__main__":
    sys.exit(main())
