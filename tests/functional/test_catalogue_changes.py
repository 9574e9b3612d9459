"""A change of a flavor or an image counts from the next request, in every process."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from tests.functional.fleets import IMAGE, BuildCloud, Cloud
from tests.functional.test_forbidden_aggregates import ON, WINDOWS, WINDOWS_IMAGE, flavor, licensed_cloud

PATCH = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
TRAIT = f"trait:{WINDOWS}"


def patch_image(cloud: Cloud, image: str, operation: str, path: str = TRAIT, value: object = "required") -> None:
    """Add, replace or remove a field of an image; by default, the required trait."""
    change = {"op": operation, "path": f"/{path}"} | ({} if operation == "remove" else {"value": value})
    images = cloud.admin.below("/image/v2")
    answer = images.ask("PATCH", f"/images/{image}", body=json.dumps([change]), headers=PATCH)
    assert answer.status == 200, answer.text


def kind(cloud: Cloud, **fields: Any) -> str:
    """Return whether a new server lands on a plain or a licensed host."""
    return str(cloud.host(cloud.boot(**fields))).rpartition("-")[0]


@pytest.fixture(params=["this process", "another process"])
def change_through(request: pytest.FixtureRequest, build_cloud: BuildCloud) -> Callable[[Cloud], Cloud]:
    """Return the process through which an operator makes a change."""
    return lambda cloud: cloud if request.param == "this process" else build_cloud(None, ON)


def test_image_change_counts_from_the_next_request(
    build_cloud: BuildCloud, change_through: Callable[[Cloud], Cloud]
) -> None:
    cloud = licensed_cloud(build_cloud, WINDOWS)
    operator = change_through(cloud)
    assert kind(cloud, imageRef=IMAGE) == "plain"
    patch_image(operator, IMAGE, "add")
    assert kind(cloud, imageRef=IMAGE) == "licensed"
    patch_image(operator, IMAGE, "remove")
    assert kind(cloud, imageRef=IMAGE) == "plain"
    assert kind(cloud, imageRef=WINDOWS_IMAGE) == "licensed"


def test_flavor_change_counts_from_the_next_request(
    build_cloud: BuildCloud, change_through: Callable[[Cloud], Cloud]
) -> None:
    cloud = licensed_cloud(build_cloud, WINDOWS)
    operator = change_through(cloud)
    flavor(operator, "windows")
    assert kind(cloud, flavorRef="windows") == "plain"
    specs = {"extra_specs": {TRAIT: "required"}}
    assert operator.admin.post("/flavors/windows/os-extra_specs", specs).status == 200
    assert kind(cloud, flavorRef="windows") == "licensed"
    assert operator.admin.delete(f"/flavors/windows/os-extra_specs/{TRAIT}").status == 200
    assert kind(cloud, flavorRef="windows") == "plain"


def test_deleted_image_and_flavor_are_refused_from_the_next_request(
    build_cloud: BuildCloud, change_through: Callable[[Cloud], Cloud]
) -> None:
    cloud = licensed_cloud(build_cloud, WINDOWS)
    operator = change_through(cloud)
    flavor(operator, "brief")
    cloud.boot(flavorRef="brief")
    assert operator.admin.delete("/flavors/brief").status == 202
    assert cloud.request_server(cloud.alice, flavorRef="brief").status == 400
    cloud.boot(imageRef=WINDOWS_IMAGE)
    assert operator.admin.below("/image/v2").delete(f"/images/{WINDOWS_IMAGE}").status == 204
    assert cloud.request_server(cloud.alice, imageRef=WINDOWS_IMAGE).status == 400


def test_lost_access_to_a_private_flavor_counts_from_the_next_request(build_cloud: BuildCloud) -> None:
    cloud, operator = build_cloud(2), build_cloud(None)
    body = {"id": "own", "name": "own", "vcpus": 1, "ram": 1024, "disk": 1, "os-flavor-access:is_public": False}
    assert operator.admin.post("/flavors", {"flavor": body}).status == 200
    for action, status in (("addTenantAccess", 202), ("removeTenantAccess", 400)):
        assert operator.admin.post("/flavors/own/action", {action: {"tenant": "web"}}).status == 200
        assert cloud.request_server(cloud.alice, flavorRef="own").status == status


def test_new_access_to_a_private_flavor_counts_from_the_next_request(
    build_cloud: BuildCloud, change_through: Callable[[Cloud], Cloud]
) -> None:
    cloud = licensed_cloud(build_cloud, WINDOWS)
    operator = change_through(cloud)
    body = {"id": "own", "name": "own", "vcpus": 1, "ram": 1024, "disk": 1, "os-flavor-access:is_public": False}
    assert operator.admin.post("/flavors", {"flavor": body}).status == 200
    cloud.boot()  # loads the fleet, after which nothing reads the log but the next plan
    assert cloud.request_server(cloud.alice, flavorRef="own").status == 400
    assert operator.admin.post("/flavors/own/action", {"addTenantAccess": {"tenant": "web"}}).status == 200
    assert cloud.request_server(cloud.alice, flavorRef="own").status == 202


def test_image_that_is_shared_can_be_booted_from_the_next_request(
    build_cloud: BuildCloud, change_through: Callable[[Cloud], Cloud]
) -> None:
    cloud = licensed_cloud(build_cloud, WINDOWS)
    operator = change_through(cloud)
    body = {"name": "secret", "disk_format": "raw", "container_format": "bare", "visibility": "private"}
    image = cloud.bob.below("/image/v2").post("/images", body).json["id"]
    cloud.boot()
    assert cloud.request_server(cloud.alice, imageRef=image).status == 400
    patch_image(operator, image, "replace", "visibility", "public")
    assert cloud.request_server(cloud.alice, imageRef=image).status == 202


def test_lower_minimum_of_an_image_counts_from_the_next_request(
    build_cloud: BuildCloud, change_through: Callable[[Cloud], Cloud]
) -> None:
    cloud = licensed_cloud(build_cloud, WINDOWS)
    operator = change_through(cloud)
    patch_image(operator, IMAGE, "replace", "min_ram", 4096)
    cloud.boot(imageRef=WINDOWS_IMAGE)
    assert cloud.request_server(cloud.alice, imageRef=IMAGE).status == 400
    patch_image(operator, IMAGE, "replace", "min_ram", 0)
    assert cloud.request_server(cloud.alice, imageRef=IMAGE).status == 202


def test_private_image_that_an_administrator_used_stays_private(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(2)
    body = {"name": "secret", "disk_format": "raw", "container_format": "bare", "visibility": "private"}
    image = cloud.bob.below("/image/v2").post("/images", body).json["id"]
    admin = cloud.service.as_("alice:web", "2.1000").sending(X_Roles="admin")
    assert cloud.request_server(admin, imageRef=image).status == 202
    assert cloud.request_server(cloud.alice, imageRef=image).status == 400


def test_boots_read_flavor_and_image_once(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(3)
    cloud.check()  # loads the fleet, as a process does when it starts
    cloud.boot()
    read: list[str] = []
    sa.event.listen(cloud.connection, "before_cursor_execute", lambda *call: read.append(call[2]))
    for _ in range(3):
        assert cloud.alice.post("/servers", server()).status == 202
    assert not [statement for statement in read if "image_properties" in statement or "extra_specs" in statement]


def test_boots_continue_while_their_image_changes(build_cloud: BuildCloud) -> None:
    cloud, operator = build_cloud(3), build_cloud(None)
    cloud.set_quota(instances=-1, cores=-1, ram=-1)
    with ThreadPoolExecutor(2) as pool:
        boots = [pool.submit(cloud.alice.post, "/servers", server()) for _ in range(12)]
        for n in range(10):
            patch_image(operator, IMAGE, "remove" if n % 2 else "add")
    assert {boot.result().status for boot in boots} == {202}


def server() -> dict[str, object]:
    return {"server": {"name": "s", "flavorRef": "small", "imageRef": IMAGE, "networks": "none"}}
