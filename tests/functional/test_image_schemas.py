"""The JSON Schemas of the Image API, which clients of Glance ask for first."""

import jsonschema
import pytest

from tests.functional.client import Client
from tests.functional.fleets import Cloud

pytestmark = pytest.mark.sqlite_only


@pytest.fixture
def images(module_cloud: Cloud) -> Client:
    return module_cloud.alice.below("/image/v2")


def test_images_validate_against_the_schema_that_they_name(images: Client) -> None:
    fields = {"name": "web", "disk_format": "qcow2", "container_format": "bare", "tags": ["a"], "os_distro": "debian"}
    made = images.post("/images", fields)
    assert made.status == 201, made.text
    listed = images.get("/images").json
    for document in (made.json, listed):
        schema = images.below("/image").get(document["schema"])
        assert schema.status == 200, schema.text
        jsonschema.Draft202012Validator.check_schema(schema.json)
        jsonschema.validate(document, schema.json)
    described = images.get("/schemas/image").json["properties"].keys()
    assert made.json.keys() - {"os_distro"} <= described
    assert listed.keys() <= images.get("/schemas/images").json["properties"].keys()


@pytest.mark.parametrize("name", ["image", "images", "member", "members"])
def test_schema_names_itself_and_needs_authentication(module_cloud: Cloud, images: Client, name: str) -> None:
    shown = images.get(f"/schemas/{name}").json
    assert shown["name"] == name
    anonymous = module_cloud.service.as_(None).below("/image/v2")
    assert anonymous.get(f"/schemas/{name}").status == 401


def test_schema_refuses_what_an_image_is_not(images: Client) -> None:
    schema = images.get("/schemas/image").json
    for wrong in ({"disk_format": "floppy"}, {"min_ram": -1}, {"os_distro": 1}, {"status": "lost"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_unknown_schema_is_404(images: Client) -> None:
    refused = images.get("/schemas/task")
    assert refused.status == 404
    assert "No schema is named task; there are image, images, member, members." in refused.text
