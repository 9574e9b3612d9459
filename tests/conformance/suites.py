"""Run suites with gabbi against a service, in the virtual environment that has gabbi.

Reads lines of JSON from standard input, each with the file of a suite and a URL. Writes a line of JSON for each: the
tests that passed, and those that failed with their reasons.
"""

import io
import json
import os
import sys
import unittest
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fixtures  # type: ignore[import-not-found]
from gabbi import handlers, suitemaker, utils  # type: ignore[import-not-found]


class RecordingResult(unittest.TestResult):
    """Records the outcome of every test, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: list[str] = []
        self.failed: dict[str, str] = {}

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().addSuccess(test)
        self.passed.append(_name(test))

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addFailure(test, err)
        self.failed[_name(test)] = str(err[1])

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addError(test, err)
        self.failed[_name(test)] = repr(err[1])

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        super().addSkip(test, reason)
        self.failed[_name(test)] = f"skipped: {reason}"


def _name(test: unittest.TestCase) -> str:
    """Return the name of a test in its file; a failed fixture has unittest's name."""
    data = getattr(test, "test_data", None)
    return str(data["name"]) if data else str(test)


def run(file: Path, url: str) -> dict[str, Any]:
    """Run one suite with its fixtures."""
    os.environ[fixtures.URL] = url
    address = urlsplit(url)
    result, output = RecordingResult(), io.StringIO()
    stdout, sys.stdout = sys.stdout, output  # a suite may be verbose
    try:
        suite = suitemaker.test_suite_from_dict(
            unittest.defaultTestLoader,
            file.stem,
            utils.load_yaml(yaml_file=str(file)),
            str(file.parent),
            address.hostname,
            address.port,
            fixtures,
            None,
            handlers=[handler() for handler in handlers.RESPONSE_HANDLERS],
            test_loader_name="conformance",
        )
        suite.run(result)
    finally:
        sys.stdout = stdout
    return {"passed": result.passed, "failed": result.failed}


def main() -> None:
    for line in sys.stdin:
        file, url = json.loads(line)
        sys.stdout.write(json.dumps(run(Path(file), url)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
