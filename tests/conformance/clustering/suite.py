"""Runs Senlin's API tests. Run by the Python that has tempest, not by ours.

Is told modules of the tests, such as `clusters.test_cluster_create`; or nothing, and then names all that there are.
Answers with one line of JSON: the modules; or what passed, and what failed and why.
"""

import json
import sys
import unittest
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

from senlin_tempest_plugin.common import clustering_client, constants  # type: ignore[import-not-found]
from senlin_tempest_plugin.tests import api  # type: ignore[import-not-found]

_POLL_S = 0.25  # where the tests would wait for five seconds
_SPEC = deepcopy(constants.spec_nova_server)


class Noted(unittest.TestResult):
    """Remembers the tests that began. Each finds the constants as they were: one of them changes them for all."""

    def __init__(self) -> None:
        super().__init__()
        self.began: list[str] = []

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().startTest(test)
        self.began.append(_name(test))
        constants.spec_nova_server.clear()
        constants.spec_nova_server.update(deepcopy(_SPEC))


def _name(test: object) -> str:
    """A test below the package of all tests; a class that could not be set up is called as unittest does."""
    whole = test.id() if isinstance(test, unittest.TestCase) else str(test)
    return whole.partition("[")[0].removeprefix(f"{api.__name__}.")


def _modules() -> list[str]:
    root = Path(api.__path__[0])
    return sorted(".".join(file.relative_to(root).with_suffix("").parts) for file in root.glob("*/test_*.py"))


def _run(modules: list[str]) -> dict[str, object]:
    import time

    clustering_client.time = SimpleNamespace(sleep=lambda _: time.sleep(_POLL_S))
    result = Noted()
    names = [f"{api.__name__}.{module}" for module in modules]
    unittest.defaultTestLoader.loadTestsFromNames(names).run(result)
    skipped = [(test, f"skipped: {reason}") for test, reason in result.skipped]
    failed = {_name(test): why for test, why in [*result.failures, *result.errors, *skipped]}
    return {"passed": [test for test in result.began if test not in failed], "failed": failed}


if __name__ == "__main__":
    chosen = sys.argv[1:]
    sys.stdout.write(json.dumps(_run(chosen) if chosen else _modules()) + "\n")
