"""The machine and the software of a benchmark."""

import os
import platform
import sqlite3
from importlib import metadata
from pathlib import Path

_PACKAGES = ("covey", "numpy", "SQLAlchemy", "psycopg", "falcon", "granian")


def about() -> list[str]:
    """Return lines for the head of the results."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in _PACKAGES)
    return [
        f"machine: {os.cpu_count()} cores, {_processor()}, {platform.system()} {platform.release()}",
        f"software: Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {versions}",
        f"{load()}; niceness: {os.nice(0)}",
    ]


def load() -> str:
    """Return the load averages of the machine."""
    averages = " ".join(f"{average:.2f}" for average in os.getloadavg())
    return f"load of the last 1, 5 and 15 minutes: {averages}"


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def filesystem(path: Path) -> str:
    """Return the file system type of a directory; a tmpfs is not durable."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    here = [(len(point), kind) for point, kind in mounts if path.resolve().is_relative_to(point)]
    return max(here, default=(0, "an unknown file system"))[1]
