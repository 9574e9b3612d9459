"""The data of images: a file for each in a directory that all serving processes share."""

import errno
import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from covey.model.errors import TooLarge, Unavailable
from covey.model.ids import ImageId
from covey.model.images import DataDigest

_UPLOAD = ".upload-"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass(frozen=True, slots=True)
class Upload:
    """Data that has arrived, and is not yet an image's."""

    digest: DataDigest
    path: Path | None


@dataclass(frozen=True, slots=True)
class ImageFiles:
    """Writes data under the name of its upload first, so that an image's file is whole.

    Without a directory, stores nothing. Every method may raise Unavailable.
    """

    directory: Path | None = None

    @contextmanager
    def receive(self, upload: str, chunks: Iterable[bytes]) -> Iterator[Upload]:
        """Yield the data of an upload; what the block does not keep is deleted. Raises TooLarge if the disk is full."""
        if self.directory is None:
            yield Upload(_digest(chunks), None)
            return
        path = self._path_of(upload)
        try:
            with _faults():
                self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    digest = _digest(chunks, file)
                    file.flush()
                    os.fsync(descriptor)
            yield Upload(digest, path)
        finally:
            with _faults():
                path.unlink(missing_ok=True)

    def keep(self, upload: Upload, image: ImageId) -> None:
        """Make an upload the data of an image."""
        if upload.path is not None:
            with _faults():
                upload.path.replace(self._path(image))

    def open(self, image: ImageId) -> BinaryIO | None:
        """Return the open file of an image; None without data."""
        if self.directory is None:
            return None
        with suppress(FileNotFoundError), _faults(FileNotFoundError):
            return self._path(image).open("rb")
        return None

    def delete(self, image: ImageId) -> None:
        """Delete the data of an image, if it has any. Downloads that run continue."""
        if self.directory is not None:
            with _faults():
                self._path(image).unlink(missing_ok=True)

    def discard(self, upload: str) -> None:
        """Delete what an upload has written. Its space is free at once, even if another process has the file open."""
        if self.directory is not None:
            with suppress(FileNotFoundError), _faults(FileNotFoundError):
                os.truncate(self._path_of(upload), 0)
                self._path_of(upload).unlink()

    def silent_uploads(self, silent_s: float) -> set[str]:
        """Return the uploads to whose files nothing was written for this time."""
        if self.directory is None:
            return set()
        found = set()
        with _faults():
            for path in self.directory.glob(f"{_UPLOAD}*"):
                with suppress(FileNotFoundError):
                    if time.time() - path.stat().st_mtime > silent_s:
                        found.add(path.name.removeprefix(_UPLOAD))
        return found

    def _path(self, image: ImageId) -> Path:
        assert self.directory is not None
        return self.directory / hashlib.sha256(image.encode()).hexdigest()  # a client chooses the id

    def _path_of(self, upload: str) -> Path:
        assert self.directory is not None
        return self.directory / f"{_UPLOAD}{upload}"


@contextmanager
def _faults(*expected: type[OSError]) -> Iterator[None]:
    """Raise Unavailable for an error of the file system but the expected ones, and TooLarge if it is full."""
    try:
        yield
    except expected:
        raise
    except OSError as error:
        if error.errno in _FULL:
            raise TooLarge("The storage of image data is full.") from error
        raise Unavailable(f"The storage of image data fails: {error.strerror}.") from error


def _digest(chunks: Iterable[bytes], file: BinaryIO | None = None) -> DataDigest:
    size, md5, sha512 = 0, hashlib.md5(usedforsecurity=False), hashlib.sha512()
    for chunk in chunks:
        size += len(chunk)
        md5.update(chunk)
        sha512.update(chunk)
        if file is not None:
            file.write(chunk)
    return DataDigest(size, md5.hexdigest(), sha512.hexdigest())
