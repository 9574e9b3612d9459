"""Callers whose token is for a domain or for the system, and so for no project."""

import pytest

from covey.storage import tables
from tests.functional.client import Client
from tests.functional.clusters import as_clustering_client
from tests.functional.fleets import IMAGE, Cloud


@pytest.fixture
def dora(cloud: Cloud) -> Client:
    """A member without a project."""
    return cloud.service.as_("dora:").at("2.1000")


@pytest.fixture
def operator(cloud: Cloud) -> Client:
    """An administrator without a project."""
    return cloud.service.as_("admin:").at("2.1000")


def test_member_without_a_project_owns_nothing(cloud: Cloud, dora: Client) -> None:
    server = {"name": "s", "flavorRef": "small", "imageRef": IMAGE, "networks": "none"}
    group = {"name": "g", "policies": ["anti-affinity"]}
    for path, body in (("/servers", {"server": server}), ("/os-server-groups", {"server_group": group})):
        assert dora.post(path, body).status == 403
        assert dora.get(path).status == 403
    assert dora.get("/servers/detail").status == 403
    assert dora.get("/limits").status == 403
    assert dora.get("/os-policy-scopes").status == 403
    assert cloud.rows(tables.servers) == cloud.rows(tables.instance_groups) == []


def test_member_without_a_project_has_no_clusters(dora: Client) -> None:
    clustering = as_clustering_client(dora)
    spec = {"type": "os.nova.server", "version": "1.0", "properties": {"flavor": "small"}}
    assert clustering.post("/profiles", {"profile": {"name": "p", "spec": spec}}).status == 403
    for path in ("/clusters", "/nodes", "/profiles", "/policies", "/receivers", "/actions", "/events"):
        assert clustering.get(path).status == 403, path
        assert clustering.get(path, global_project="true").status == 403, path


def test_operators_images_belong_to_no_caller_without_a_project(dora: Client, operator: Client) -> None:
    images, admins = dora.below("/image/v2"), operator.below("/image/v2")
    shown = admins.post("/images", {"name": "shown", "visibility": "public"}).json
    hidden = admins.post("/images", {"name": "hidden", "visibility": "private"}).json
    assert (shown["owner"], hidden["owner"]) == (None, None)
    listed = {image["name"] for image in images.get("/images").json["images"]}
    assert ("shown" in listed, "hidden" in listed) == (True, False)
    assert images.get(f"/images/{hidden['id']}").status == 404
    assert images.delete(f"/images/{shown['id']}").status == 403
    assert images.post("/images", {"name": "mine"}).status == 403
    assert images.post("/images", {"name": "mine", "owner": ""}).status == 403
    assert admins.delete(f"/images/{shown['id']}").status == 204


def test_caller_without_a_project_sees_public_flavors_only(cloud: Cloud, dora: Client) -> None:
    private = {"name": "p", "id": "p", "ram": 1, "vcpus": 1, "disk": 0, "os-flavor-access:is_public": False}
    assert cloud.admin.post("/flavors", {"flavor": private}).status == 200
    listed = [flavor["id"] for flavor in dora.get("/flavors", is_public="None").json["flavors"]]
    assert "p" not in listed
    assert listed
    assert dora.get("/flavors/p").status == 404


def test_administrator_without_a_project_operates_but_owns_no_servers(cloud: Cloud, operator: Client) -> None:
    server = cloud.boot(name="web")
    assert [each["id"] for each in operator.get("/servers", all_tenants="1").json["servers"]] == [server]
    refused = operator.get("/servers")
    assert (refused.status, refused.message) == (403, "The token is not for a project. Send a project-scoped one.")
    assert operator.get(f"/servers/{server}").status == 200
    assert operator.post(f"/servers/{server}/action", {"os-stop": None}).status == 202
    assert operator.delete(f"/servers/{server}").status == 204


def test_path_cannot_name_a_project_that_the_token_lacks(dora: Client) -> None:
    assert dora.get("/None/servers").status == 400


def test_marker_of_a_migration_is_of_the_listed_project(cloud: Cloud) -> None:
    server = cloud.boot(name="moved")
    cloud.run_action(cloud.admin, server, "migrate")
    (migration,) = cloud.admin.get("/os-migrations").json["migrations"]
    for project, status in (("web", 200), ("db", 400)):
        assert cloud.admin.get("/os-migrations", marker=migration["uuid"], project_id=project).status == status
