"""Images are downloaded once, checked, and evicted when no disk builds on them."""

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from covey.agent.guests import GuestImage
from covey.agent.hypervisor import HypervisorFault
from covey.agent.image_cache import ImageCache


class Store:
    """Serves images from memory, and counts downloads."""

    def __init__(self, *contents: bytes) -> None:
        self.images = {f"i{number}": data for number, data in enumerate(contents)}
        self.downloads: list[str] = []
        self.in_use: frozenset[str] = frozenset()

    @contextmanager
    def download(self, image: str) -> Iterator[Iterator[bytes]]:
        self.downloads.append(image)
        data = self.images[image]
        yield iter([data[:3], data[3:]])

    def image(self, number: int) -> GuestImage:
        data = self.images[f"i{number}"]
        return GuestImage(f"i{number}", len(data), "sha512", hashlib.sha512(data).hexdigest(), "raw")

    def cache(self, directory: Path, max_bytes: int = 1000) -> ImageCache:
        return ImageCache(directory, self.download, lambda: self.in_use, max_bytes)


def fetch(cache: ImageCache, image: GuestImage) -> Path:
    with cache.fetched(image) as path:
        assert path is not None
        return path


def test_image_is_downloaded_once(tmp_path: Path) -> None:
    store = Store(b"a disk")
    cache = store.cache(tmp_path)
    assert fetch(cache, store.image(0)).read_bytes() == b"a disk"
    fetch(cache, store.image(0))
    fetch(store.cache(tmp_path), store.image(0))  # the next agent
    assert store.downloads == ["i0"]


def test_image_without_data_has_no_file(tmp_path: Path) -> None:
    cache = Store().cache(tmp_path)
    for image in (None, GuestImage("i0")):
        with cache.fetched(image) as path:
            assert path is None


def test_concurrent_calls_wait_for_one_download(tmp_path: Path) -> None:
    store = Store(b"a disk")
    cache, gate = store.cache(tmp_path), threading.Event()

    @contextmanager
    def slow(image: str) -> Iterator[Iterator[bytes]]:
        gate.wait(10)
        with store.download(image) as chunks:
            yield chunks

    cache.download = slow
    threads = [threading.Thread(target=fetch, args=(cache, store.image(0))) for _ in range(4)]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join(10)
    assert store.downloads == ["i0"]


def test_data_that_does_not_match_its_checksum_is_not_kept(tmp_path: Path) -> None:
    store = Store(b"a disk")
    image = store.image(0)
    store.images["i0"] = b"another"
    with pytest.raises(HypervisorFault, match="does not match its checksum"):
        fetch(store.cache(tmp_path), image)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "image", [GuestImage("i0", 1, "md5", "00"), GuestImage("i0", 1, "sha512", "../x"), GuestImage("i0", 1, None, "00")]
)
def test_checksum_that_cannot_be_checked_is_refused(tmp_path: Path, image: GuestImage) -> None:
    with pytest.raises(HypervisorFault):
        fetch(Store(b"a disk").cache(tmp_path), image)


def test_what_a_killed_agent_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "tmpx.partial").write_bytes(b"half")
    Store().cache(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_image_whose_last_use_is_longest_ago_is_evicted(tmp_path: Path) -> None:
    store = Store(b"a" * 40, b"b" * 40, b"c" * 40)
    cache = store.cache(tmp_path, max_bytes=100)
    paths = [fetch(cache, store.image(number)) for number in (0, 1)]
    os.utime(paths[0], (1000, 1000))
    os.utime(paths[1], (2000, 2000))
    fetch(cache, store.image(0))  # used again
    third = fetch(cache, store.image(2))
    assert {path.name for path in tmp_path.iterdir()} == {paths[0].name, third.name}


def test_image_that_a_disk_builds_on_is_kept(tmp_path: Path) -> None:
    store = Store(b"a" * 40, b"b" * 40, b"c" * 40)
    cache = store.cache(tmp_path, max_bytes=50)
    first = fetch(cache, store.image(0))
    store.in_use = frozenset({first.name})
    with cache.fetched(store.image(1)) as second:
        assert second is not None
        fetch(cache, store.image(2))
        assert second.exists()  # a call is about to build a disk on it
    assert first.exists()
    fetch(cache, GuestImage("i2", 40, "sha256", hashlib.sha256(b"c" * 40).hexdigest()))
    assert first.exists()
    assert not second.exists()
