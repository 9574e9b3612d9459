"""The log: one line for each event, without control characters."""

import json
import subprocess
import sys

import pytest

HOSTILE = "/servers/\x1b[2J\x9b2J\x7f\nlevel=error"
_LOG = f"""
import sys
import structlog
from covey import logs
logs.configure("info", sys.argv[1])
log = structlog.get_logger()
log.info("http.request", path={HOSTILE!r})
try:
    raise ValueError({HOSTILE!r})
except ValueError:
    log.exception("http.crashed")
"""


@pytest.mark.parametrize("output_format", ["json", "console"])
def test_log_has_no_control_characters(output_format: str) -> None:
    """The logger writes to the standard error of its process, so it gets one of its own."""
    done = subprocess.run([sys.executable, "-c", _LOG, output_format], capture_output=True, check=True, timeout=60)
    written = done.stderr.decode()
    # A console line has the colours of the renderer itself.
    assert not any(hostile in written for hostile in ("\x1b[2J", "\x9b", "\x7f"))
    assert "Traceback" in written
    if output_format == "json":
        first, second = map(json.loads, written.splitlines())
        assert first["path"] == HOSTILE
        assert HOSTILE in second["exception"]
    else:
        assert "http.crashed" in written.splitlines()[1]
