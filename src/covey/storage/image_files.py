"""The data of images: a file for each in a directory that all serving processes share."""

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from covey.model.errors import TooLarge
from covey.model.ids import ImageId
from covey.model.images import DataDigest


@dataclass(frozen=True, slots=True)
class Upload:
    """Data that has arrived, and is not yet an image's."""

    digest: DataDigest
    path: Path | None


@dataclass(frozen=True, slots=True)
class ImageFiles:
    """Writes data under another name first, so that an image's file is whole. Without a directory, stores nothing."""

    directory: Path | None = None

    @contextmanager
    def receive(self, chunks: Iterable[bytes], max_bytes: int | None) -> Iterator[Upload]:
        """Yield the data of an upload; what the block does not keep is deleted. Raises TooLarge beyond max_bytes."""
        if self.directory is None:
            yield Upload(_digest(chunks, max_bytes), None)
            return
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".upload-", dir=self.directory)
        try:
            with os.fdopen(descriptor, "wb") as file:
                digest = _digest(chunks, max_bytes, file)
                file.flush()
                os.fsync(descriptor)
            yield Upload(digest, Path(name))
        finally:
            Path(name).unlink(missing_ok=True)

    def keep(self, upload: Upload, image: ImageId) -> None:
        """Make an upload the data of an image."""
        if upload.path is not None:
            upload.path.replace(self._path(image))

    def open(self, image: ImageId) -> BinaryIO | None:
        """Return the open file of an image; None without data."""
        if self.directory is None:
            return None
        with suppress(FileNotFoundError):
            return self._path(image).open("rb")
        return None

    def delete(self, image: ImageId) -> None:
        """Delete the data of an image, if it has any. Downloads that run continue."""
        if self.directory is not None:
            self._path(image).unlink(missing_ok=True)

    def _path(self, image: ImageId) -> Path:
        assert self.directory is not None
        return self.directory / hashlib.sha256(image.encode()).hexdigest()  # a client chooses the id


def _digest(chunks: Iterable[bytes], max_bytes: int | None, file: BinaryIO | None = None) -> DataDigest:
    size, md5, sha512 = 0, hashlib.md5(usedforsecurity=False), hashlib.sha512()
    for chunk in chunks:
        size += len(chunk)
        if max_bytes is not None and size > max_bytes:
            raise TooLarge(f"Quota exceeded: the project may store {max_bytes} more bytes of image data.")
        md5.update(chunk)
        sha512.update(chunk)
        if file is not None:
            file.write(chunk)
    return DataDigest(size, md5.hexdigest(), sha512.hexdigest())
