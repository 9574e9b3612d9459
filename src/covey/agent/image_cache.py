"""The images of a host's guests: downloaded once, checked, and evicted when no disk builds on them."""

import hashlib
import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from covey.agent.guests import GuestImage
from covey.agent.hypervisor import HypervisorFault

log = structlog.get_logger()

_ALGORITHMS = {"sha512", "sha384", "sha256"}
_PARTIAL = ".partial"

Download = Callable[[str], AbstractContextManager[Iterator[bytes]]]
"""Opens the data of an image."""


@dataclass(slots=True)
class ImageCache:
    """Files named by the checksum of their data, so that a file is complete, correct and never changes."""

    directory: Path
    download: Download
    in_use: Callable[[], frozenset[str]]  # names of files that disks build on
    max_bytes: int
    _downloads: "weakref.WeakValueDictionary[str, threading.Lock]" = field(default_factory=weakref.WeakValueDictionary)
    _reserved: dict[str, int] = field(default_factory=dict)  # uses of a file by calls under way
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        for left in self.directory.glob(f"*{_PARTIAL}"):  # of an agent that was killed
            left.unlink(missing_ok=True)

    @contextmanager
    def fetched(self, image: GuestImage | None) -> Iterator[Path | None]:
        """Return the file of an image, and keep it while the block runs; None for an image without data.

        Raises HypervisorFault if the data does not match the checksum, and what the download raises.
        """
        if image is None or image.checksum is None:
            yield None
            return
        name = _file_name(image)
        with self._keeping(name):
            yield self._fetch(image, self.directory / name)

    def _fetch(self, image: GuestImage, path: Path) -> Path:
        with self._lock:
            download = self._downloads.setdefault(path.name, threading.Lock())
        with download:  # one at a time for each image
            if path.exists():
                os.utime(path)  # the time of the last use, for the eviction
            else:
                self._make_room(image.size or 0)
                self._download(image, path)
        return path

    def _download(self, image: GuestImage, path: Path) -> None:
        digest, size = hashlib.new(image.checksum_algo or ""), 0
        with tempfile.NamedTemporaryFile(dir=self.directory, suffix=_PARTIAL) as partial:
            with self.download(image.id) as chunks:
                for chunk in chunks:
                    digest.update(chunk)
                    size += len(chunk)
                    partial.write(chunk)
            if digest.hexdigest() != image.checksum:
                raise HypervisorFault(
                    f"The data of image {image.id} does not match its checksum: {size} bytes arrived with "
                    f"{image.checksum_algo} {digest.hexdigest()[:16]}…; {str(image.checksum)[:16]}… was expected."
                )
            partial.flush()
            os.fsync(partial.fileno())
            Path(partial.name).chmod(0o444)
            os.link(partial.name, path)  # whole or not at all
        log.info("image.cached", image=image.id, bytes=size)

    def _make_room(self, size: int) -> None:
        """Evict images that no disk builds on, those first whose last use is longest ago, until `size` bytes fit."""
        with self._lock:
            files = sorted(self._files(), key=lambda each: each[0])
            total = sum(file_size for _, file_size, _ in files)
            if total + size <= self.max_bytes:
                return
            kept = self.in_use() | self._reserved.keys()
            for _, file_size, path in files:
                if path.name in kept:
                    continue
                path.unlink(missing_ok=True)
                log.info("image.evicted", file=path.name, bytes=file_size)
                total -= file_size
                if total + size <= self.max_bytes:
                    return
        log.warning("image.cache_full", bytes=total + size, limit=self.max_bytes)

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        for path in self.directory.iterdir():
            if path.suffix != _PARTIAL:
                status = path.stat()
                yield status.st_mtime, status.st_size, path

    @contextmanager
    def _keeping(self, name: str) -> Iterator[None]:
        """Keep a file from eviction until a disk builds on it."""
        with self._lock:
            self._reserved[name] = self._reserved.get(name, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                self._reserved[name] -= 1
                if not self._reserved[name]:
                    del self._reserved[name]


def _file_name(image: GuestImage) -> str:
    """Return a safe name. Raises HypervisorFault for a checksum that the agent cannot check."""
    checksum = image.checksum or ""
    if image.checksum_algo not in _ALGORITHMS:
        raise HypervisorFault(f"Image {image.id} has a {image.checksum_algo} checksum; the agent checks sha512.")
    if not checksum or set(checksum) - set("0123456789abcdef"):
        raise HypervisorFault(f"Image {image.id} has no valid checksum: {checksum!r}.")
    return f"{image.checksum_algo}-{checksum}"
