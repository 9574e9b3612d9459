"""A pinned process stays on one CPU, except in unpinned blocks."""

import os
import subprocess
import sys

import pytest

from covey import cpu_affinity

_SCRIPT = """
import os, threading
from covey import cpu_affinity
before = os.sched_getaffinity(0)
cpu_affinity.pin()
seen = []
threading.Thread(target=lambda: seen.append(os.sched_getaffinity(0))).start()
with cpu_affinity.unpinned():
    away = os.sched_getaffinity(0)
print(len(os.sched_getaffinity(0)), seen[0] == os.sched_getaffinity(0), away == before, before >= seen[0])
"""


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="CPU affinity is specific to Linux")


def test_pinned_process_stays_on_its_cpu_with_all_threads_except_unpinned_blocks() -> None:
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["1", "True", "True", "True"]


def test_unpinned_does_nothing_in_a_process_that_was_not_pinned() -> None:
    before = os.sched_getaffinity(0)
    with cpu_affinity.unpinned():
        assert os.sched_getaffinity(0) == before
