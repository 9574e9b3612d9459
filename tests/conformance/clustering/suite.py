"""Run Senlin's API tests in the virtual environment that has tempest.

The arguments are test modules, such as `clusters.test_cluster_create`. The output is one line of JSON: the tests that
passed, and those that failed with their reasons. Without arguments it is the list of all modules.
"""

import json
import sys
import unittest
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

from senlin_tempest_plugin.common import clustering_client, constants  # type: ignore[import-not-found]
from senlin_tempest_plugin.tests import api  # type: ignore[import-not-found]

_POLL_S = 0.25  # instead of five seconds
_SPEC = deepcopy(constants.spec_nova_server)


class RecordingResult(unittest.TestResult):
    """Records the tests that started, and restores the constants that one of them changes."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[str] = []

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().startTest(test)
        self.started.append(_name(test))
        constants.spec_nova_server.clear()
        constants.spec_nova_server.update(deepcopy(_SPEC))


def _name(test: object) -> str:
    """Return a test's name below the package; a class whose set-up failed has unittest's name."""
    name = test.id() if isinstance(test, unittest.TestCase) else str(test)
    return name.partition("[")[0].removeprefix(f"{api.__name__}.")


def _modules() -> list[str]:
    root = Path(api.__path__[0])
    return sorted(".".join(file.relative_to(root).with_suffix("").parts) for file in root.glob("*/test_*.py"))


def _run(modules: list[str]) -> dict[str, object]:
    import time

    clustering_client.time = SimpleNamespace(sleep=lambda _: time.sleep(_POLL_S))
    result = RecordingResult()
    names = [f"{api.__name__}.{module}" for module in modules]
    unittest.defaultTestLoader.loadTestsFromNames(names).run(result)
    skipped = [(test, f"skipped: {reason}") for test, reason in result.skipped]
    failed = {_name(test): reason for test, reason in [*result.failures, *result.errors, *skipped]}
    return {"passed": [test for test in result.started if test not in failed], "failed": failed}


if __name__ == "__main__":
    modules = sys.argv[1:]
    sys.stdout.write(json.dumps(_run(modules) if modules else _modules()) + "\n")
