"""How many images a project may have, and how much each."""

import json

import pytest

from tests.functional.client import Client
from tests.functional.conftest import Build


@pytest.fixture
def images(build: Build) -> Client:
    limits = (("image", "max_images_per_project", 2), ("image", "max_properties", 2), ("image", "max_tags", 2))
    return build(*limits).as_("alice:web").below("/image/v2")


def patch(images: Client, image: str, *steps: dict[str, str]) -> int:
    headers = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
    return images.ask("PATCH", f"/images/{image}", body=json.dumps(steps), headers=headers).status


def test_project_has_a_limited_number_of_images(images: Client) -> None:
    first, second = (images.post("/images", {"name": name}) for name in "ab")
    refused = images.post("/images", {"name": "c"})
    assert (first.status, second.status, refused.status) == (201, 201, 403)
    assert refused.message == "Quota exceeded, too many images: the limit of a project is 2."
    assert images.delete(f"/images/{first.json['id']}").status == 204
    assert images.post("/images", {"name": "c"}).status == 201


def test_operators_have_no_limit_of_images(build: Build) -> None:
    admin = build(("image", "max_images_per_project", 0)).as_("admin:").below("/image/v2")
    assert admin.post("/images", {"name": "a", "visibility": "public"}).status == 201


def test_image_that_changes_its_owner_counts_for_the_new_one(images: Client) -> None:
    admin = Client(images.http, "admin:operators", prefix="/image/v2")
    for name in "ab":
        assert images.post("/images", {"name": name}).status == 201
    given = admin.post("/images", {"name": "c"}).json["id"]
    assert patch(admin, given, {"op": "replace", "path": "/owner", "value": "web"}) == 403
    assert patch(admin, given, {"op": "replace", "path": "/owner", "value": "db"}) == 200


def test_image_has_a_limited_number_of_properties(images: Client) -> None:
    refused = images.post("/images", {"name": "a", "x": "1", "y": "2", "z": "3"})
    assert (refused.status, refused.message) == (403, "The image has 3 properties; the limit is 2.")
    image = images.post("/images", {"name": "a", "x": "1", "y": "2"}).json["id"]
    assert patch(images, image, {"op": "add", "path": "/z", "value": "3"}) == 403
    swap = {"op": "remove", "path": "/x"}, {"op": "add", "path": "/z", "value": "3"}
    assert patch(images, image, *swap) == 200


def test_properties_of_an_image_have_a_limited_size(images: Client) -> None:
    image = images.post("/images", {"name": "a", "x": "1" * 60_000}).json["id"]
    assert patch(images, image, {"op": "add", "path": "/y", "value": "2" * 6_000}) == 403


def test_image_has_a_limited_number_of_tags(images: Client) -> None:
    assert images.post("/images", {"name": "a", "tags": ["x", "y", "z"]}).status == 403
    image = images.post("/images", {"name": "a", "tags": ["x"]}).json["id"]
    assert [images.put(f"/images/{image}/tags/{tag}").status for tag in "yyz"] == [204, 204, 403]
