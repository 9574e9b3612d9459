"""Image data is streamed: neither an upload nor a download is in the memory of a serving process."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.acceptance.processes import running_covey
from tests.databases import SQLite

pytestmark = pytest.mark.soak  # several seconds of data

MIB = 1 << 20
SIZE_MIB = 300
LIMIT_MIB = 50
TIMEOUT_S = 120
HEADERS = {"X-Auth-Token": "alice:web"}
PIECE = bytes(range(256)) * (MIB // 256)


def test_memory_of_the_service_does_not_grow_with_the_image(tmp_path: Path, sqlite_server: SQLite) -> None:
    variables = {"OS_API__AUTH_STRATEGY": "none", "OS_IMAGE__DATA_DIR": str(tmp_path / "images")}
    with (
        sqlite_server.fresh(tmp_path) as database,
        running_covey(
            tmp_path / "serve", "serve", "--database", database, variables=variables, preloaded=False
        ) as covey,
    ):
        images = f"{covey.url}/image/v2/images"

        def transfer(size_mib: int) -> None:
            fields = {"name": "large", "disk_format": "raw", "container_format": "bare"}
            made = requests.post(images, json=fields, headers=HEADERS, timeout=TIMEOUT_S).json()
            file = f"{images}/{made['id']}/file"
            kind = {**HEADERS, "Content-Type": "application/octet-stream"}
            assert requests.put(file, data=pieces(size_mib), headers=kind, timeout=TIMEOUT_S).status_code == 204
            digest, size = hashlib.sha512(), 0
            with requests.get(file, headers=HEADERS, timeout=TIMEOUT_S, stream=True) as response:
                for chunk in response.iter_content(MIB):
                    digest.update(chunk)
                    size += len(chunk)
            shown = requests.get(f"{images}/{made['id']}", headers=HEADERS, timeout=TIMEOUT_S).json()
            assert (size, digest.hexdigest()) == (size_mib * MIB, shown["os_hash_value"])

        transfer(1)  # what the first requests load stays in memory
        processes = descendants(covey.process.pid)
        before = sum(peak_mib(process) for process in processes)
        assert before > LIMIT_MIB, "these are the processes of the service"
        transfer(SIZE_MIB)
        grown = sum(peak_mib(process) for process in processes) - before
        assert grown < LIMIT_MIB, f"{SIZE_MIB} MiB of data took {grown:.0f} MiB of memory"


def pieces(number: int) -> Iterator[bytes]:
    for _ in range(number):
        yield PIECE


def descendants(process: int) -> list[int]:
    """Return a process and those below it."""
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    return [process, *(each for child in children for each in descendants(child))]


def peak_mib(process: int) -> float:
    """Return the most memory that a process has had."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(peak) / 1024
