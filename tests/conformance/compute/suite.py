"""Run Tempest's compute API tests in the virtual environment that has Tempest.

Reads a JSON list of tests from standard input, such as `["flavors.test_flavors.FlavorsV2TestJSON.test_get_flavor"]`.
The output is one line of JSON: the tests that passed, and those that were skipped or failed with their reasons. With
the argument `list` it is the names of all tests.
"""

import json
import sys
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TextIO

from tempest.api import compute  # type: ignore[import-not-found]
from tempest.common import waiters  # type: ignore[import-not-found]
from tempest.lib.common import cred_client  # type: ignore[import-not-found]

_POLL_S = 0.2  # instead of one second
_PREFIX = f"{compute.__name__}."


class RecordingResult(unittest.TestResult):
    """Records the tests that started."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[str] = []

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().startTest(test)
        self.started.append(_name(test))


def _name(test: unittest.TestCase) -> str:
    """Return a test's name below the package, without its tags."""
    return test.id().partition("[")[0].removeprefix(_PREFIX)


def _all() -> Iterator[unittest.TestCase]:
    root = Path(compute.__path__[0])
    files = sorted(root.rglob("test_*.py"))
    modules = [".".join((compute.__name__, *file.relative_to(root).with_suffix("").parts)) for file in files]
    yield from _flat(unittest.defaultTestLoader.loadTestsFromNames(modules))


def _flat(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _flat(test)
        else:
            yield test


def _spare_keystone() -> None:
    """Read the roles once, and delete no users: Keystone, which takes most of the time, ends with the run."""
    client = cred_client.V3CredsClient
    read_roles = client._list_roles
    roles: list[object] = []

    def list_roles(self: object) -> list[object]:
        if not roles:
            roles.extend(read_roles(self))
        return roles

    client._list_roles = list_roles
    client.delete_user = client.delete_project = lambda *_: None


def _run(chosen: list[str]) -> dict[str, object]:
    waiters.time = SimpleNamespace(time=time.time, sleep=lambda _: time.sleep(_POLL_S))
    _spare_keystone()
    result = RecordingResult()
    unittest.TestSuite(test for test in _all() if _name(test) in set(chosen)).run(result)
    skipped = _reasons(result.skipped, chosen)
    failed = _reasons([*result.failures, *result.errors], chosen)
    passed = [test for test in result.started if test not in failed and test not in skipped]
    missing = set(chosen) - {*passed, *skipped, *failed}
    return {"passed": passed, "skipped": skipped, "failed": failed | dict.fromkeys(missing, "did not run")}


def _reasons(outcomes: list[tuple[unittest.TestCase, str]], chosen: list[str]) -> dict[str, str]:
    """Return the reason of each test. What stops a class, which unittest names in parentheses, stops its tests."""
    reasons: dict[str, str] = {}
    for test, reason in outcomes:
        name = test.id()
        if name.endswith(")"):
            of_class = name.partition("(")[2].removesuffix(")").removeprefix(_PREFIX) + "."
            reasons |= {other: reason for other in chosen if other.startswith(of_class)}
        else:
            reasons[_name(test)] = reason
    return reasons


def _write(answer: object, out: TextIO = sys.stdout) -> None:
    out.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    _write([_name(test) for test in _all()] if sys.argv[1:] == ["list"] else _run(json.load(sys.stdin)))
