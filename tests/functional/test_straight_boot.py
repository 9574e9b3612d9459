"""The path of a boot through the source stays short enough to read."""

import subprocess
import sys

MOST_FILES = 25


def test_boot_visits_at_most_25_files() -> None:
    """In a process of its own: the profiler sees every thread, and a coverage tool would replace it."""
    script = "from tests.bench.trace import files_of; print(*files_of('POST /servers'), sep='\\n')"
    traced = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    files = traced.stdout.splitlines()
    assert "storage/claims.py" in files
    assert len(files) <= MOST_FILES, files
