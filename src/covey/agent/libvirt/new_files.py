"""Files that are complete or absent: a step that was killed is repeated."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from covey.agent.hypervisor import HypervisorFault


@contextmanager
def new_file(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Write a file under another name, in this block; then it appears, complete. An existing one is kept by default."""
    with file_fault("write", str(path)):
        path.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
        try:
            yield part
            with part.open("rb") as written:
                os.fsync(written.fileno())
            if replace:
                part.replace(path)
            else:
                with suppress(FileExistsError):
                    os.link(part, path)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def file_fault(action: str, what: str) -> Iterator[None]:
    """Raise HypervisorFault for an error of the file system, except for a missing file."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise HypervisorFault(f"Cannot {action} {what}: {error}") from error
