"""Uploads and downloads of image data."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from covey.model.access import Actor, with_implied_roles
from covey.model.errors import Conflict, TooLarge
from covey.model.ids import ImageId, ProjectId, UserId
from covey.model.images import ImageStatus
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


def uploading(cloud: Cloud, image: str, *beside: Callable[[], object], data: bytes = b"x" * 900) -> None:
    """Upload data as Alice; each of these calls happens when a part of it has arrived."""
    service, actor = cloud.assembled.services.images, Actor(UserId("alice"), ProjectId("web"), MEMBER, "alice")

    def chunks() -> Iterator[bytes]:
        yield data
        for call in beside:
            call()
            yield b""

    service.upload(actor, image, chunks())


def test_overlapping_uploads_keep_the_quota(build_cloud: BuildCloud, directory: Path) -> None:
    """Each of them fits, as long as the others have not arrived."""
    options = ("image", "data_dir", str(directory)), ("image", "max_bytes_per_project", 1000)
    cloud = build_cloud(1, *options)
    first, second, third = (an_image(cloud.alice) for _ in range(3))
    refusals: list[TooLarge] = []

    def refused(image: str, *beside: Callable[[], object]) -> None:
        with pytest.raises(TooLarge, match="may store 100 more bytes") as refusal:
            uploading(cloud, image, *beside)
        refusals.append(refusal.value)

    refused(first, lambda: refused(second, lambda: uploading(cloud, third)))
    assert len(refusals) == 2
    assert [show(cloud.alice, image)["status"] for image in (first, second, third)] == ["queued", "queued", "active"]
    assert stored(directory) == [900]
    other = an_image(cloud.bob)
    assert upload(cloud.bob, other, b"x" * 200).status == 204
    patch = json.dumps([{"op": "replace", "path": "/owner", "value": "web"}]).encode()
    kind = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
    given = images(cloud.admin).ask("PATCH", f"/v2/images/{other}", body=patch, headers=kind)
    assert given.status == 413, "an image that is given to a project counts there"


def test_image_has_one_upload_at_a_time(cloud: Cloud) -> None:
    image = an_image(cloud.alice)
    seen = []

    def again() -> None:
        seen.append(show(cloud.alice, image)["status"])
        seen.append(upload(cloud.alice, image).status)

    uploading(cloud, image, again, data=b"first")
    assert seen == ["saving", 409]
    assert (show(cloud.alice, image)["status"], show(cloud.alice, image)["size"]) == ("active", 5)


def test_upload_whose_process_died_gives_the_image_back(cloud: Cloud) -> None:
    images_ = [an_image(cloud.alice) for _ in range(2)]
    with cloud.store.write() as tx:
        for image in images_:
            assert tx.images.begin_upload(ImageId(image), "an upload that died", 120)
    assert upload(cloud.alice, images_[0]).status == 409
    cloud.time.advance(121)
    assert upload(cloud.alice, images_[0]).status == 204, "without waiting for maintenance"
    assert show(cloud.alice, images_[1])["status"] == "saving"
    cloud.assembled.maintenance.run_if_due()
    assert show(cloud.alice, images_[1])["status"] == "queued"


def test_upload_that_was_silent_for_too_long_does_not_replace_another(cloud: Cloud) -> None:
    image = an_image(cloud.alice)

    def other() -> None:
        cloud.time.advance(121)
        assert upload(cloud.alice, image, b"second").status == 204

    with pytest.raises(Conflict, match="Another upload"):
        uploading(cloud, image, other)
    assert show(cloud.alice, image)["size"] == 6


def test_upload_that_ends_early_leaves_nothing(cloud: Cloud, directory: Path) -> None:
    image = an_image(cloud.alice)
    assert upload(cloud.alice, image, b"half", **{"Content-Length": "8"}).status == 400
    assert show(cloud.alice, image)["status"] == "queued"
    assert stored(directory) == []


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
