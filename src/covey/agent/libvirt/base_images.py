"""Base images on shared storage, beside the overlay disks that use them; every host adds and removes them."""

import os
import shutil
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from covey.agent.libvirt.new_files import new_file

log = structlog.get_logger()

_UNUSED_S = 3600.0  # without a new disk; another host may build one at this moment
_REMOVED = ".removed"


@dataclass(frozen=True, slots=True)
class BaseImages:
    """Files named by the checksum of their data. One that no disk builds on is removed after an hour."""

    directory: Path
    in_use: Callable[[], frozenset[str]]  # names of files that disks build on, of all hosts

    def add(self, image: Path) -> Path:
        """Return the copy of an image, made unless it is there."""
        base = self.directory / image.name
        try:
            os.utime(base)  # the time of its last use
        except FileNotFoundError:
            self.sweep()
            with new_file(base) as part:
                shutil.copyfile(image, part)
        return base

    def sweep(self) -> None:
        """Remove files that no disk builds on. An agent that was killed here is succeeded by the next one."""
        for left in self.directory.glob(f"*{_REMOVED}"):
            self._finish(left)
        used, before = self.in_use(), time.time() - _UNUSED_S
        for base in self.directory.glob("*"):
            with suppress(FileNotFoundError):  # another host was faster
                if base.name not in used and base.stat().st_mtime < before:
                    removed = base.with_name(f"{base.name}.{uuid.uuid4().hex}{_REMOVED}")
                    base.rename(removed)
                    self._finish(removed)

    def _finish(self, removed: Path) -> None:
        """Delete a file, unless a disk has been built on it: a disk that is built from now on finds it missing."""
        base = removed.with_name(removed.name.partition(".")[0])
        with suppress(FileNotFoundError):
            if base.name in self.in_use():
                with suppress(FileExistsError):
                    os.link(removed, base)
            removed.unlink()
            log.info("base_image.removed", file=base.name)
