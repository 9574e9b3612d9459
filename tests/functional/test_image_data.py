"""Uploads and downloads of image data."""

import hashlib
import json
import os
import resource
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from covey import config, idle_connections
from covey.api.image.images import CHUNK_BYTES
from covey.model.access import Actor, with_implied_roles
from covey.model.errors import Conflict, NotFound, TooLarge
from covey.model.ids import ImageId, ProjectId, UserId
from covey.model.images import ImageStatus
from covey.request_slots import deadline_paused, time_left, wait_limit
from covey.services.images import _UPLOAD_LEASE_S
from tests import build
from tests.functional.agents import agent_of, with_agents
from tests.functional.client import Answer, Client
from tests.functional.fleets import UNKNOWN_ID, BuildCloud, Cloud
from tests.functional.streams import Listener

DATA = bytes(range(256)) * 9000  # more than one piece
MEMBER = with_implied_roles(frozenset({"member"}))
TYPE = {"Content-Type": "application/octet-stream"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "images"


@pytest.fixture
def cloud(build_cloud: BuildCloud, directory: Path) -> Cloud:
    """A service that stores image data, of which a project may have 3,000,000 bytes."""
    return build_cloud(1, ("image", "data_dir", str(directory)), ("image", "max_bytes_per_project", 3_000_000))


def images(client: Client) -> Client:
    return client.below("/image").at("")


def an_image(client: Client) -> str:
    body = {"name": "i", "disk_format": "raw", "container_format": "bare"}
    return str(images(client).post("/v2/images", body).json["id"])


def upload(client: Client, image: str, data: bytes = DATA, **headers: str) -> Answer:
    return images(client).ask("PUT", f"/v2/images/{image}/file", body=data, headers={**TYPE, **headers})


def stored(directory: Path) -> list[int]:
    return sorted(path.stat().st_size for path in directory.iterdir()) if directory.exists() else []


def show(client: Client, image: str) -> dict[str, Any]:
    shown: dict[str, Any] = images(client).get(f"/v2/images/{image}").json
    return shown


def downloads(cloud: Cloud, path: str, token: str) -> list[Listener]:
    """Begin downloads and read none, until one is refused."""
    begun = []
    while (download := Listener(cloud, token, path=path)).status.startswith("200"):
        begun.append(download)
    assert (download.status[:3], download.headers["retry-after"]) == ("503", "5")
    return begun


def test_downloads_that_are_not_read_leave_some_for_other_projects(cloud: Cloud) -> None:
    image = an_image(cloud.admin)
    assert upload(cloud.admin, image).status == 204
    patch = [{"op": "replace", "path": "/visibility", "value": "public"}]
    media = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
    images(cloud.admin).ask("PATCH", f"/v2/images/{image}", body=json.dumps(patch).encode(), headers=media)
    path = f"/image/v2/images/{image}/file"
    greedy = {project: downloads(cloud, path, f"mallory:{project}") for project in ("m1", "m2", "m3")}
    assert [len(begun) for begun in greedy.values()] == [6, 3, 2]
    begun = [Listener(cloud, f"bob:p{number}", path=path) for number in range(5)]
    assert [download.status[:3] for download in begun] == ["200"] * 5
    begun += [download for project in greedy.values() for download in project]
    begun.pop().close()
    begun.append(Listener(cloud, "bob:late", path=path))
    for download in begun:
        assert b"".join(download.pieces) == DATA
        download.close()
        download.close()


def test_downloads_of_projects_leave_those_of_agents(build_cloud: BuildCloud, directory: Path) -> None:
    cloud = with_agents(build_cloud, 1, ("image", "data_dir", str(directory)))
    image = an_image(cloud.alice)
    upload(cloud.alice, image)
    path = f"/image/v2/images/{image}/file"
    begun = [each for number in range(9) for each in downloads(cloud, path, f"admin:m{number}")]
    assert len(begun) == 16
    assert cloud.request_server(cloud.alice, imageRef=image).status == 202
    assert agent_of(cloud, "node-1").client.get(f"/images/{image}/file").status == 200
    for download in begun:
        download.close()


def test_data_is_stored_hashed_and_returned(cloud: Cloud, directory: Path) -> None:
    image = an_image(cloud.alice)
    assert images(cloud.alice).get(f"/v2/images/{image}/file").status == 204
    assert upload(cloud.alice, image).status == 204
    shown = show(cloud.alice, image)
    assert {name: shown[name] for name in ("status", "size", "checksum", "os_hash_algo", "os_hash_value")} == {
        "status": "active",
        "size": len(DATA),
        "checksum": hashlib.md5(DATA, usedforsecurity=False).hexdigest(),
        "os_hash_algo": "sha512",
        "os_hash_value": hashlib.sha512(DATA).hexdigest(),
    }
    downloaded = images(cloud.alice).get(f"/v2/images/{image}/file")
    assert (downloaded.status, downloaded.content) == (200, DATA)
    assert downloaded.headers["content-md5"] == shown["checksum"]
    assert stored(directory) == [len(DATA)]
    assert oct(directory.stat().st_mode)[-3:] == "700"


def test_data_is_written_once(cloud: Cloud, directory: Path) -> None:
    image = an_image(cloud.alice)
    assert upload(cloud.alice, image, b"first").status == 204
    again = upload(cloud.alice, image, b"second")
    assert again.status == 409
    assert "Image status transition from active to saving is not allowed" in again.text
    assert stored(directory) == [5]


def test_data_is_deleted_with_its_image(cloud: Cloud, directory: Path) -> None:
    image = an_image(cloud.alice)
    upload(cloud.alice, image)
    assert images(cloud.alice).delete(f"/v2/images/{image}").status == 204
    assert stored(directory) == []


def test_upload_beyond_the_quota_leaves_nothing(cloud: Cloud, directory: Path) -> None:
    first, second = an_image(cloud.alice), an_image(cloud.alice)
    assert upload(cloud.alice, first).status == 204
    refused = upload(cloud.alice, second)
    assert refused.status == 413
    assert f"may store {3_000_000 - len(DATA)} more bytes" in refused.text
    assert show(cloud.alice, second)["status"] == "queued"
    assert stored(directory) == [len(DATA)]
    assert upload(cloud.bob, an_image(cloud.bob)).status == 204, "another project has its own quota"


ALICE = Actor(UserId("alice"), ProjectId("web"), MEMBER, "alice")


def uploading(cloud: Cloud, image: str, *beside: Callable[[], object], data: bytes = bytes(90_000)) -> None:
    """Upload data as Alice; each of these calls happens when a part of it has arrived."""

    def chunks() -> Iterator[bytes]:
        yield data
        for call in beside:
            call()
            yield b""

    cloud.assembled.services.images.upload(ALICE, image, chunks(), None)


def used_bytes(cloud: Cloud) -> int:
    """Return what counts in the quota of Alice's project."""
    with cloud.store.read() as tx:
        return tx.images.data_bytes(ProjectId("web"))


@pytest.fixture
def small_quota(build_cloud: BuildCloud, directory: Path) -> Cloud:
    return build_cloud(1, ("image", "data_dir", str(directory)), ("image", "max_bytes_per_project", 100_000))


def test_overlapping_uploads_keep_the_quota(small_quota: Cloud, directory: Path) -> None:
    """Each of them would fit, as long as the others have not arrived."""
    cloud = small_quota
    first, second = (an_image(cloud.alice) for _ in range(2))

    def refused() -> None:
        with pytest.raises(TooLarge, match="may store 0 more bytes"):
            uploading(cloud, second)
        declared = upload(cloud.alice, second, bytes(90_000))
        assert (declared.status, stored(directory)) == (413, [90_000])

    uploading(cloud, first, refused)
    assert [show(cloud.alice, image)["status"] for image in (first, second)] == ["active", "queued"]
    assert (stored(directory), used_bytes(cloud)) == ([90_000], 90_000)
    other = an_image(cloud.bob)
    assert upload(cloud.bob, other, bytes(20_000)).status == 204
    patch = json.dumps([{"op": "replace", "path": "/owner", "value": "web"}]).encode()
    kind = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
    given = images(cloud.admin).ask("PATCH", f"/v2/images/{other}", body=patch, headers=kind)
    assert given.status == 413, "an image that is given to a project counts there"


@pytest.mark.parametrize("declared", [True, False])
def test_parallel_uploads_never_exceed_the_quota_on_disk(small_quota: Cloud, directory: Path, declared: bool) -> None:
    cloud, parallel, quota = small_quota, 6, 100_000
    sizes = [0]
    arrived = threading.Barrier(parallel)

    def chunks() -> Iterator[bytes]:
        for _ in range(4):
            yield bytes(10_000)
            sizes.append(sum(stored(directory)))
        with suppress(threading.BrokenBarrierError):
            arrived.wait(0.5)  # for those that are refused in vain
        sizes.append(sum(stored(directory)))

    def attempt(image: str) -> str:
        try:
            cloud.assembled.services.images.upload(ALICE, image, chunks(), 40_000 if declared else None)
        except TooLarge:
            return "too large"
        return "stored"

    with ThreadPoolExecutor(parallel) as pool:
        outcomes = Counter(pool.map(attempt, [an_image(cloud.alice) for _ in range(parallel)]))
    assert outcomes == {"stored": 2, "too large": 4} if declared else outcomes["too large"] >= 4
    assert max(sizes) <= quota
    assert sum(stored(directory)) == used_bytes(cloud) == 40_000 * outcomes["stored"]


def test_upload_of_unknown_size_reserves_in_steps(
    cloud: Cloud, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covey.services.images._STEP_BYTES", 1_000_000)
    image, used = an_image(cloud.alice), []

    def chunks() -> Iterator[bytes]:
        for _ in range(7):
            yield b"x" * 400_000
            used.append(used_bytes(cloud))

    cloud.assembled.services.images.upload(ALICE, image, chunks(), None)
    assert used == [1_000_000] * 2 + [2_200_000] * 3 + [3_000_000] * 2, "the last step is what the quota leaves"
    assert used_bytes(cloud) == 2_800_000
    with pytest.raises(TooLarge, match="may store 200000 more bytes"):
        cloud.assembled.services.images.upload(ALICE, an_image(cloud.alice), chunks(), None)
    assert (used_bytes(cloud), stored(directory)) == (2_800_000, [2_800_000])


def test_image_has_one_upload_at_a_time(cloud: Cloud) -> None:
    image = an_image(cloud.alice)
    seen = []

    def again() -> None:
        seen.append(show(cloud.alice, image)["status"])
        seen.append(upload(cloud.alice, image).status)

    uploading(cloud, image, again, data=b"first")
    assert seen == ["saving", 409]
    assert (show(cloud.alice, image)["status"], show(cloud.alice, image)["size"]) == ("active", 5)


def lost_upload(cloud: Cloud, image: str, name: str) -> object:
    """Let a process begin an upload, and be killed. Keep the result: the file is deleted with it."""
    with cloud.store.write() as tx:
        assert tx.images.begin_upload(ImageId(image), name, 120)
        assert tx.images.renew_upload(ImageId(image), name, 120, 1000)
    receiving = cloud.assembled.services.images.files.receive(name, [b"x" * 900])
    receiving.__enter__()
    return receiving


def test_upload_whose_process_died_gives_the_image_back(cloud: Cloud, directory: Path) -> None:
    first, second = (an_image(cloud.alice) for _ in range(2))
    lost = [lost_upload(cloud, first, "one"), lost_upload(cloud, second, "two")]
    assert upload(cloud.alice, first).status == 409
    cloud.assembled.maintenance.run_if_due()
    assert (stored(directory), used_bytes(cloud)) == ([900, 900], 2000), "their leases last"
    cloud.time.advance(121)
    assert upload(cloud.alice, first, b"again").status == 204, "without waiting for maintenance"
    assert (stored(directory), used_bytes(cloud)) == ([5, 900], 1005)
    assert show(cloud.alice, second)["status"] == "saving"
    cloud.assembled.maintenance.run_if_due()
    assert show(cloud.alice, second)["status"] == "queued"
    assert (stored(directory), used_bytes(cloud)) == ([5], 5)
    assert upload(cloud.alice, second, b"again").status == 204
    del lost


def test_only_silent_files_without_an_upload_are_swept(cloud: Cloud, directory: Path) -> None:
    """An older version of the service may have written them."""
    live = lost_upload(cloud, an_image(cloud.alice), "live")
    for name, size in ((".upload-stray", 1), (".upload-young", 2), ("other", 3)):
        (directory / name).write_bytes(b"x" * size)
    hours_ago = time.time() - 7200
    for name in (".upload-live", ".upload-stray", "other"):
        os.utime(directory / name, (hours_ago, hours_ago))
    cloud.assembled.maintenance.run_if_due()
    assert stored(directory) == [2, 3, 900]
    del live


def test_lost_upload_that_goes_on_takes_no_more_space(cloud: Cloud, directory: Path) -> None:
    """A process was frozen, and its lease has ended."""
    image, seen = an_image(cloud.alice), []

    def lose() -> None:
        (file,) = directory.iterdir()
        with file.open("rb") as opened:
            cloud.time.advance(121)
            cloud.assembled.maintenance.run_if_due()
            seen.append((stored(directory), os.fstat(opened.fileno()).st_size))

    with pytest.raises(Conflict, match="has ended: it was silent"):
        uploading(cloud, image, lose, data=bytes(100_000))
    assert seen == [([], 0)]
    assert (show(cloud.alice, image)["status"], stored(directory), used_bytes(cloud)) == ("queued", [], 0)


def test_image_that_is_deleted_ends_its_upload(cloud: Cloud, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.services.images._STEP_BYTES", 1_000_000)
    image, pieces = an_image(cloud.alice), []

    def chunks() -> Iterator[bytes]:
        yield bytes(100_000)
        assert images(cloud.alice).delete(f"/v2/images/{image}").status == 204
        assert (stored(directory), used_bytes(cloud)) == ([], 0)
        for number in range(20):
            pieces.append(number)
            yield bytes(100_000)

    with pytest.raises(NotFound):
        cloud.assembled.services.images.upload(ALICE, image, chunks(), 2_100_000)
    assert len(pieces) == 10, "it ends with the step"
    assert stored(directory) == []


@pytest.mark.parametrize("length", [10**15, 10**30])
def test_announced_size_is_checked_before_the_data_arrives(cloud: Cloud, length: int) -> None:
    image = an_image(cloud.alice)
    assert upload(cloud.alice, image, b"x", **{"Content-Length": str(length)}).status == 413
    assert (show(cloud.alice, image)["status"], used_bytes(cloud)) == ("queued", 0)


@pytest.mark.parametrize(("length", "status"), [(10**15, 400), (10**30, 413)])
def test_impossible_size_is_refused_without_a_quota(build_cloud: BuildCloud, length: int, status: int) -> None:
    cloud = build_cloud(1, ("image", "max_bytes_per_project", -1))
    assert upload(cloud.alice, an_image(cloud.alice), b"x", **{"Content-Length": str(length)}).status == status


def test_full_disk_refuses_the_data_and_leaves_the_image_queued(cloud: Cloud, directory: Path) -> None:
    image, limits = an_image(cloud.alice), resource.getrlimit(resource.RLIMIT_FSIZE)
    upload(cloud.alice, an_image(cloud.alice), b"before")
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(DATA) // 2, limits[1]))  # larger than the database
    try:
        refused = upload(cloud.alice, image)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (refused.status, "The storage of image data is full." in refused.text) == (413, True)
    assert (show(cloud.alice, image)["status"], stored(directory), used_bytes(cloud)) == ("queued", [6], 6)
    assert upload(cloud.alice, image).status == 204


def test_storage_that_fails_is_unavailable(cloud: Cloud, directory: Path) -> None:
    image, other = an_image(cloud.alice), an_image(cloud.alice)
    assert upload(cloud.alice, image, b"kept").status == 204
    directory.rename(directory.with_name("moved"))
    directory.write_text("not a directory")
    file = f"/v2/images/{image}/file"
    assert upload(cloud.alice, other, b"x").status == 503
    assert images(cloud.alice).get(file).status == 503
    cloud.assembled.maintenance.run_if_due()
    directory.unlink()
    directory.with_name("moved").rename(directory)
    assert images(cloud.alice).get(file).content == b"kept"
    cloud.time.advance(121)
    assert upload(cloud.alice, other, b"x").status == 204, "its lease has ended, since its file could not be deleted"


def test_upload_that_was_silent_for_too_long_does_not_replace_another(cloud: Cloud) -> None:
    image = an_image(cloud.alice)

    def other() -> None:
        cloud.time.advance(121)
        assert upload(cloud.alice, image, b"second").status == 204

    with pytest.raises(Conflict, match="has ended"):
        uploading(cloud, image, other)
    assert show(cloud.alice, image)["size"] == 6


@pytest.mark.parametrize("size", [2_000_000, 4_000_000])
def test_upload_may_take_longer_than_a_request(
    cloud: Cloud, directory: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr("covey.services.images._STEP_BYTES", 100_000)
    image = an_image(cloud.alice)

    def chunks() -> Iterator[bytes]:
        with deadline_paused():
            for _ in range(4):
                yield bytes(size // 4)
                time.sleep(0.1)

    with wait_limit(0.2), suppress(TooLarge):
        cloud.assembled.services.images.upload(ALICE, image, chunks(), None)
        assert 0 < time_left() <= 0.2, "the time of the data does not count"
    stored_bytes = [size] if size < 3_000_000 else []
    assert (stored(directory), used_bytes(cloud)) == (stored_bytes, sum(stored_bytes))
    assert show(cloud.alice, image)["status"] == ("active" if stored_bytes else "queued")


def test_upload_that_ends_early_leaves_nothing(cloud: Cloud, directory: Path) -> None:
    image = an_image(cloud.alice)
    assert upload(cloud.alice, image, b"half", **{"Content-Length": "8"}).status == 400
    assert show(cloud.alice, image)["status"] == "queued"
    assert stored(directory) == []


def test_data_has_the_announced_size(cloud: Cloud, directory: Path) -> None:
    """The end of a chunked body may be missing, of which the server tells nothing."""
    image = an_image(cloud.alice)
    for size, length in (("8", ""), ("3", ""), ("8", "4"), ("-4", "4"), ("x", "4"), ("9" * 5000, "4")):
        refused = upload(cloud.alice, image, b"half", **{"X-OpenStack-Image-Size": size, "Content-Length": length})
        assert (refused.status, show(cloud.alice, image)["status"], stored(directory)) == (400, "queued", [])
    assert upload(cloud.alice, image, b"half", **{"X-OpenStack-Image-Size": "4", "Content-Length": ""}).status == 204


def test_slowest_line_brings_a_piece_before_the_lease_ends() -> None:
    """A line that is slower is closed. The lease is renewed with a piece."""
    timeout_s = next(option.default for option in config.OPTIONS[config.API] if option.name == "connection_timeout_s")
    slowest_bytes_s = idle_connections._FEW_BYTES / (timeout_s / idle_connections._SAMPLES)
    assert CHUNK_BYTES / slowest_bytes_s < _UPLOAD_LEASE_S * 3 / 4


def test_only_the_owner_uploads_and_only_those_who_see_it_download(cloud: Cloud) -> None:
    image = an_image(cloud.alice)
    assert upload(cloud.bob, image).status == 404
    assert upload(cloud.alice, image).status == 204
    assert images(cloud.bob).get(f"/v2/images/{image}/file").status == 404
    assert images(cloud.admin).get(f"/v2/images/{image}/file").status == 200


def test_other_content_types_are_unsupported(cloud: Cloud) -> None:
    assert upload(cloud.alice, an_image(cloud.alice), DATA, **{"Content-Type": "application/json"}).status == 415


def test_without_a_directory_data_is_hashed_and_not_stored(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(1)
    image = an_image(cloud.alice)
    assert upload(cloud.alice, image).status == 204
    assert (show(cloud.alice, image)["size"], show(cloud.alice, image)["status"]) == (len(DATA), "active")
    assert images(cloud.alice).get(f"/v2/images/{image}/file").status == 204


def test_hosts_boot_no_image_without_data(build_cloud: BuildCloud, directory: Path) -> None:
    """Of simulated servers the catalogue's record is enough."""
    cloud = with_agents(build_cloud, 1, ("image", "data_dir", str(directory)))
    image = an_image(cloud.alice)
    for _ in range(2):  # the second time, the record is cached
        refused = cloud.request_server(cloud.alice, imageRef=image)
        assert (refused.status, refused.message) == (400, f"Image {image} is not active.")
    with cloud.store.write() as tx:  # as one of the fleet file, which is active, but has no data either
        tx.images.add([build.an_image(id=ImageId(UNKNOWN_ID), status=ImageStatus.ACTIVE)])
    assert cloud.request_server(cloud.alice, imageRef=UNKNOWN_ID).status == 400
    upload(cloud.alice, image)
    assert cloud.request_server(cloud.alice, imageRef=image).status == 202
    cloud.step()
    assert agent_of(cloud, "node-1").call()["guest"]["image"]["size"] == len(DATA)


def test_simulated_servers_boot_images_without_data(cloud: Cloud) -> None:
    assert cloud.request_server(cloud.alice, imageRef=an_image(cloud.alice)).status == 202
