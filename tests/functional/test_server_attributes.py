"""Attributes of servers that Nova validates and canonicalises: addresses, networks, metadata, the pinned zone."""

from typing import Any

import pytest

from tests.functional.client import Answer
from tests.functional.fleets import Cloud


def update(cloud: Cloud, server: str, version: str = "2.1000", **changes: Any) -> Answer:
    return cloud.alice.at(version).put(f"/servers/{server}", {"server": changes})


@pytest.fixture
def zoned(cloud: Cloud) -> Cloud:
    """The hosts node-1 and node-2 are in az-1, and node-3 in az-2."""
    for zone, hosts in (("az-1", ("node-1", "node-2")), ("az-2", ("node-3",))):
        body = {"aggregate": {"name": zone, "availability_zone": zone}}
        aggregate = cloud.admin.post("/os-aggregates", body).json["aggregate"]["id"]
        for host in hosts:
            added = cloud.admin.post(f"/os-aggregates/{aggregate}/action", {"add_host": {"host": host}})
            assert added.status == 200, added.text
    return cloud


@pytest.mark.sqlite_only
def test_access_addresses_are_shown_in_canonical_form(cloud: Cloud) -> None:
    server = cloud.boot(accessIPv4="10.0.0.1", accessIPv6="0000:0000:0000:0000:0000:babe:220.12.22.2")
    shown = cloud.show(server, cloud.alice)
    assert (shown["accessIPv4"], shown["accessIPv6"]) == ("10.0.0.1", "::babe:dc0c:1602")
    changed = update(cloud, server, accessIPv4="", accessIPv6="2001:DB8:0:0::3").json["server"]
    assert (changed["accessIPv4"], changed["accessIPv6"]) == ("", "2001:db8::3")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("accessIPv4", "1.1.1.1.1.1"),
        ("accessIPv4", "::1"),
        ("accessIPv4", "10.0.0.01"),
        ("accessIPv6", "notvalid"),
        ("accessIPv6", "10.0.0.1"),
        ("accessIPv6", "fe80::1%eth0"),
    ],
)
@pytest.mark.sqlite_only
def test_invalid_access_address_returns_400(module_cloud: Cloud, field: str, value: str) -> None:
    cloud = module_cloud
    message = f"Invalid input for field/attribute {field}. Value: {value}."
    for version in ("2.1", "2.1000"):
        refused = cloud.request_server(cloud.alice.at(version), **{field: value})
        assert (refused.status, refused.message.startswith(message)) == (400, True)
    refused = update(cloud, "any", **{field: value})
    assert (refused.status, refused.message.startswith(message)) == (400, True)


@pytest.mark.parametrize(
    ("version", "networks", "status"),
    [
        ("2.1", [{"uuid": "a-b-c-d-e-f-g-h-i-j", "fixed_ip": "10.0.1.1"}], 400),
        ("2.1", [{"uuid": "6a6e6a4c-5fb3-4d9b-9b5a-3e6b0a1c2d3e", "fixed_ip": "10.0.1.1"}], 202),
        ("2.1", [{"port": None}], 202),
        ("2.1", [{"fixed_ip": "10.0.1"}], 400),
        ("2.31", [{"port": None, "tag": "nic"}], 400),
        ("2.32", [{"port": None, "tag": "nic"}], 202),
        ("2.37", [{"uuid": "private"}], 400),
        ("2.1000", [{"network": "private"}], 400),
        ("2.1000", [{"uuid": "6a6e6a4c-5fb3-4d9b-9b5a-3e6b0a1c2d3e", "tag": "nic"}], 202),
    ],
)
@pytest.mark.sqlite_only
def test_networks_have_the_format_of_the_microversion(
    module_cloud: Cloud, version: str, networks: list[dict[str, str]], status: int
) -> None:
    cloud = module_cloud
    answer = cloud.request_server(cloud.alice.at(version), networks=networks)
    assert answer.status == status, answer.text
    if status == 202:
        cloud.delete(answer.json["server"]["id"])


def test_metadata_beyond_the_quota_is_403(cloud: Cloud) -> None:
    too_much = {f"k{number}": "v" for number in range(129)}
    message = "Maximum number of metadata items exceeds 128"
    refused = cloud.request_server(cloud.alice, metadata=too_much)
    assert (refused.status, refused.message) == (403, message)
    server = cloud.boot(metadata={"first": "v"})
    path = f"/servers/{server}/metadata"
    for refused in (
        cloud.alice.put(path, {"metadata": too_much}),
        cloud.alice.post(path, {"metadata": dict.fromkeys(list(too_much)[:128], "v")}),
    ):
        assert (refused.status, refused.message) == (403, message)
    assert cloud.alice.get(path).json == {"metadata": {"first": "v"}}
    assert cloud.alice.post(path, {"metadata": dict.fromkeys(list(too_much)[:127], "v")}).status == 200
    refused = cloud.alice.put(f"{path}/one-more", {"meta": {"one-more": "v"}})
    assert (refused.status, refused.message) == (403, message)
    assert cloud.alice.put(f"{path}/first", {"meta": {"first": "w"}}).status == 200, "the number stays the same"


def test_metadata_quota_is_the_project_s_own(cloud: Cloud) -> None:
    cloud.set_quota(metadata_items=1)
    refused = cloud.request_server(cloud.alice, metadata={"a": "1", "b": "2"})
    assert (refused.status, refused.message) == (403, "Maximum number of metadata items exceeds 1")
    server = cloud.boot(metadata={"a": "1"})
    assert cloud.alice.post(f"/servers/{server}/metadata", {"metadata": {"b": "2"}}).status == 403
    cloud.set_quota(metadata_items=-1)
    assert cloud.alice.post(f"/servers/{server}/metadata", {"metadata": {"b": "2"}}).status == 200


def test_limit_0_lists_no_servers_and_no_next_page(cloud: Cloud) -> None:
    cloud.boot()
    for path in ("/servers", "/servers/detail"):
        assert cloud.alice.get(path, limit="0").json == {"servers": []}


def test_server_is_unpinned_and_pinned_to_its_own_zone(zoned: Cloud) -> None:
    cloud = zoned
    server = cloud.boot(availability_zone="az-1")
    assert cloud.show(server)["pinned_availability_zone"] == "az-1"
    refused = update(cloud, server, pinned_availability_zone="az-2")
    assert (refused.status, refused.message) == (
        409,
        "Cannot change pinned availability zone directly. Unpin first by setting pinned_availability_zone to null.",
    )
    for zone in (None, None, "az-1", "az-1"):
        changed = update(cloud, server, "2.104", pinned_availability_zone=zone)
        assert (changed.status, changed.json["server"]["pinned_availability_zone"]) == (200, zone)
        assert cloud.show(server)["pinned_availability_zone"] == zone
    update(cloud, server, pinned_availability_zone=None)
    refused = update(cloud, server, pinned_availability_zone="az-2")
    assert (refused.status, refused.message) == (
        409,
        "Server can only be pinned to its current availability zone 'az-1', but 'az-2' was requested.",
    )
    refused = update(cloud, server, "2.103", pinned_availability_zone=None)
    assert "Additional properties are not allowed ('pinned_availability_zone' was unexpected)" in refused.message


def test_unpinned_server_moves_to_another_zone(zoned: Cloud) -> None:
    cloud = zoned
    server = cloud.boot(availability_zone="az-1")
    refused = cloud.act(cloud.admin, server, "migrate", {"host": "node-3"})
    assert refused.status == 400, refused.text
    update(cloud, server, pinned_availability_zone=None)
    cloud.run_action(cloud.admin, server, "migrate", {"host": "node-3"})
    assert cloud.show(server)["OS-EXT-AZ:availability_zone"] == "az-2"


def test_disk_config_is_kept_and_changed(cloud: Cloud) -> None:
    fields: dict[str, Any] = {"OS-DCF:diskConfig": "AUTO"}
    server = cloud.boot(**fields)
    assert cloud.show(server)["OS-DCF:diskConfig"] == "AUTO"
    assert cloud.show(cloud.boot())["OS-DCF:diskConfig"] == "MANUAL"
    changed = update(cloud, server, "2.1", **{"OS-DCF:diskConfig": "MANUAL"}).json["server"]
    assert changed["OS-DCF:diskConfig"] == "MANUAL"
    cloud.run_action(cloud.alice, server, "resize", {"flavorRef": "big", "OS-DCF:diskConfig": "AUTO"})
    assert cloud.show(server)["OS-DCF:diskConfig"] == "AUTO"
    cloud.run_action(cloud.admin, cloud.boot(), "resize", {"flavorRef": "big"})


@pytest.mark.sqlite_only
def test_new_tag_has_a_location(cloud: Cloud) -> None:
    server = cloud.boot()
    added = cloud.alice.at("2.26").put(f"/servers/{server}/tags/two words")
    assert (added.status, added.headers["location"]) == (
        201,
        f"http://localhost/compute/v2.1/servers/{server}/tags/two%20words",
    )


@pytest.mark.sqlite_only
def test_progress_is_shown_of_servers_that_run_or_move(cloud: Cloud) -> None:
    server = cloud.boot()
    assert cloud.show(server)["progress"] == 100
    cloud.run_action(cloud.alice, server, "os-stop")
    assert "progress" not in cloud.show(server)
    assert "progress" not in update(cloud, server, "2.1", name="stopped").json["server"]
