"""Servers: create, show, update, tag and delete, with the access that each needs."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from covey.model.flavors import Flavor
from covey.model.ids import FlavorId, ImageId
from covey.model.images import Visibility
from covey.storage import tables
from tests.build import NOW, an_image
from tests.functional.client import Answer, Client
from tests.functional.fleets import IMAGE, UNKNOWN_ID, BuildCloud, Cloud, FailingDriver

HOST = "http://localhost/compute"
BAD_NAME = (
    "An invalid 'name' value was provided. "
    "The name must be: printable characters. Can not start or end with whitespace."
)
Bring = Callable[[str], object]
NOT_VALID = "is not valid under any of the given schemas"
UNEXPECTED = "Additional properties are not allowed ('{}' was unexpected)"

FIRST = {
    *("accessIPv4", "accessIPv6", "addresses", "config_drive", "created", "flavor", "hostId", "id", "image"),
    *("key_name", "links", "metadata", "name", "progress", "security_groups", "status", "tenant_id", "updated"),
    *("user_id", "OS-DCF:diskConfig", "OS-EXT-AZ:availability_zone", "OS-EXT-STS:power_state"),
    *("OS-EXT-STS:task_state", "OS-EXT-STS:vm_state", "OS-SRV-USG:launched_at", "OS-SRV-USG:terminated_at"),
    "os-extended-volumes:volumes_attached",
}
OPERATORS_FIRST = {f"OS-EXT-SRV-ATTR:{name}" for name in ("host", "hypervisor_hostname", "instance_name")}
OPERATORS_LATER = {
    f"OS-EXT-SRV-ATTR:{name}"
    for name in (
        "hostname",
        "reservation_id",
        "launch_index",
        "kernel_id",
        "ramdisk_id",
        "root_device_name",
        "user_data",
    )
}
OPERATORS = OPERATORS_FIRST | OPERATORS_LATER | {"host_status"}
EXTENDED = {  # fields that an update shows from 2.75 on
    *("config_drive", "key_name", "security_groups", "os-extended-volumes:volumes_attached"),
    *(field for field in FIRST if field.startswith(("OS-EXT-", "OS-SRV-USG:"))),
}
FULL_UPDATES = {"2.75", "2.90", "2.96", "2.100", "2.1000"}
STEPS: tuple[tuple[str, set[str], set[str]], ...] = (  # microversion, fields for all, fields for operators
    ("2.1", FIRST, OPERATORS_FIRST),
    ("2.3", set(), OPERATORS_LATER),
    ("2.9", {"locked"}, set()),
    ("2.16", set(), {"host_status"}),
    ("2.19", {"description"}, set()),
    ("2.26", {"tags"}, set()),
    ("2.63", {"trusted_image_certificates"}, set()),
    ("2.71", {"server_groups"}, set()),
    ("2.73", {"locked_reason"}, set()),
    ("2.75", set(), set()),
    ("2.90", {"OS-EXT-SRV-ATTR:hostname"}, set()),
    ("2.96", {"pinned_availability_zone"}, set()),
    ("2.100", {"scheduler_hints"}, set()),
    ("2.1000", set(), set()),
)


def post(client: Client, server: dict[str, Any], **more: Any) -> Answer:
    """POST the server with defaults for required fields."""
    return client.post("/servers", {"server": {"name": "s", "flavorRef": "small", "imageRef": IMAGE} | server, **more})


def refusal(answer: Answer) -> str:
    assert answer.status == 400, answer.text
    return answer.message


# Creating


@pytest.mark.parametrize("version", ["2.1", "2.37", "2.52", "2.74", "2.90", "2.1000"])
def test_server_is_created_built_and_deleted(cloud: Cloud, version: str) -> None:
    alice = cloud.alice.at(version)
    asked = cloud.request_server(alice)
    assert asked.status == 202, asked.text
    server = asked.json["server"]
    assert server.keys() == {"id", "links", "OS-DCF:diskConfig", "security_groups", "adminPass"}
    own = f"{HOST}/v2.1/servers/{server['id']}"
    assert asked.headers["location"] == own
    assert server["links"] == [
        {"rel": "self", "href": own},
        {"rel": "bookmark", "href": f"{HOST}/servers/{server['id']}"},
    ]
    assert server["OS-DCF:diskConfig"] == "MANUAL"
    assert len(server["adminPass"]) >= 12

    building = cloud.show(server["id"], alice)
    assert (building["status"], building["OS-EXT-STS:vm_state"]) == ("BUILD", "building")
    assert (building["OS-EXT-STS:task_state"], building["OS-EXT-STS:power_state"]) == ("spawning", 0)
    assert building["OS-SRV-USG:launched_at"] is None
    assert building["OS-DCF:diskConfig"] == "MANUAL"
    assert cloud.step() == 1
    running = cloud.show(server["id"], alice)
    assert (running["status"], running["OS-EXT-STS:vm_state"]) == ("ACTIVE", "active")
    assert (running["OS-EXT-STS:task_state"], running["OS-EXT-STS:power_state"]) == (None, 1)
    assert running["OS-SRV-USG:launched_at"] is not None

    deleted = alice.delete(f"/servers/{server['id']}")
    assert (deleted.status, deleted.text) == (204, "")
    cloud.check()
    assert cloud.show(server["id"], alice)["OS-EXT-STS:task_state"] == "deleting"
    assert alice.delete(f"/servers/{server['id']}").status == 204, "as often as a client likes"
    assert cloud.step() == 1
    for gone in (alice.get(f"/servers/{server['id']}"), alice.delete(f"/servers/{server['id']}")):
        assert (gone.status, gone.json) == (
            404,
            {"itemNotFound": {"code": 404, "message": f"Instance {server['id']} could not be found."}},
        )
    assert cloud.is_empty()


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("version", "server", "message"),
    [
        ("2.1", {"name": ""}, "Invalid input for field/attribute name. Value: . '' should be non-empty"),
        ("2.1", {"name": "x" * 256}, "is too long"),
        ("2.1", {"name": " s"}, BAD_NAME),
        ("2.1", {"name": None}, "None is not of type 'string'"),
        ("2.1", {"flavorRef": ""}, "'' should be non-empty"),
        ("2.1", {"flavorRef": "none"}, "=Flavor none could not be found."),
        ("2.1", {"flavorRef": 5}, "=Flavor 5 could not be found."),
        ("2.1", {"imageRef": UNKNOWN_ID}, "=Can not find requested image"),
        ("2.1", {"imageRef": ""}, "=Missing imageRef attribute"),
        (
            "2.1",
            {"imageRef": "linux"},
            f"=Invalid input for field/attribute imageRef. Value: linux. 'linux' {NOT_VALID}",
        ),
        ("2.1", {"min_count": 0}, "Invalid input for field/attribute min_count. Value: 0. 0 is less than the minimum"),
        ("2.1", {"min_count": "x"}, "'x' does not match '^[0-9]*$'"),
        ("2.1", {"max_count": 1.5}, "1.5 is not of type"),
        ("2.1", {"min_count": 3, "max_count": 2}, "=min_count must be <= max_count"),
        ("2.1", {"metadata": {"k": 1}}, "1 is not of type 'string'"),
        ("2.1", {"metadata": {"k!": "v"}}, "('k!' does not match|k! does not match|'k!'"),
        ("2.1", {"availability_zone": "nowhere"}, "=The requested availability zone is not available"),
        (
            "2.1",
            {"availability_zone": "a:b:c:d"},
            "=Invalid input received: Unable to parse availability_zone",
        ),
        ("2.1", {"availability_zone": ""}, "'' should be non-empty"),
        ("2.1", {"description": "d"}, UNEXPECTED.format("description")),
        ("2.1", {"OS-DCF:diskConfig": "SOMEHOW"}, "'SOMEHOW' is not one of ['AUTO', 'MANUAL']"),
        ("2.1", {"config_drive": "maybe"}, "'maybe' is not one of"),
        ("2.36", {"networks": "none"}, "'none' is not of type 'array'"),
        ("2.37", {}, "'networks' is a required property"),
        ("2.37", {"networks": "some"}, f"'some' {NOT_VALID}"),
        ("2.51", {"networks": "none", "tags": ["t"]}, UNEXPECTED.format("tags")),
        ("2.52", {"networks": "none", "tags": ["a,b"]}, "'a,b' does not match '^[^,/]*$'"),
        ("2.52", {"networks": "none", "tags": ["t", "t"]}, "has non-unique elements"),
        ("2.52", {"networks": "none", "tags": [f"t{i}" for i in range(51)]}, "is too long"),
        ("2.57", {"networks": "none", "personality": []}, UNEXPECTED.format("personality")),
        ("2.73", {"networks": "none", "host": "node-1"}, UNEXPECTED.format("host")),
        ("2.74", {"networks": "none", "host": "no!"}, "'no!' does not match"),
        ("2.89", {"networks": "none", "hostname": "h"}, UNEXPECTED.format("hostname")),
        ("2.1000", {"networks": "none", "more": 1}, UNEXPECTED.format("more")),
    ],
)
def test_invalid_request_is_rejected_in_novas_words(
    module_cloud: Cloud, version: str, server: dict[str, Any], message: str
) -> None:
    said = refusal(post(module_cloud.alice.at(version), server))
    if message.startswith("="):
        assert said == message[1:]
    elif "|" in message:
        assert "k!" in said
    else:
        assert message in said
    assert module_cloud.is_empty()


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "None is not of type 'object'"),
        (b"{", "Malformed request body"),
        (b"{}", "'server' is a required property"),
        (b'{"server": {}}', "'name' is a required property"),
        (b'{"server": {"name": "s"}}', "'flavorRef' is a required property"),
        (b'{"server": {"name": "s", "flavorRef": "small"}}', "Missing imageRef attribute"),
        (b'{"server": {"name": "s", "flavorRef": "small"}, "more": 1}', UNEXPECTED.format("more")),
        (b'{"server": {"name": "s", "flavorRef": "small"}, "os:scheduler_hints": []}', "[] is not of type 'object'"),
    ],
)
def test_body_that_is_not_a_server_is_rejected(module_cloud: Cloud, body: bytes, message: str) -> None:
    said = refusal(module_cloud.alice.at("2.1").ask("POST", "/servers", body=body))
    assert message in said


def from_volume(**device: object) -> dict[str, Any]:
    """Return the body of a server that boots from a volume."""
    devices = [{"boot_index": "0", "destination_type": "volume", "volume_size": 10, **device}]
    return {"server": {"name": "s", "flavorRef": "small", "imageRef": "", "block_device_mapping_v2": devices}}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("device", [{"source_type": "image", "uuid": IMAGE}, {"source_type": "blank"}])
def test_volume_backed_server_shows_no_image(cloud: Cloud, device: dict[str, Any]) -> None:
    answer = cloud.alice.at("2.1").post("/servers", from_volume(**device))
    assert answer.status == 202, answer.text
    assert cloud.show(answer.json["server"]["id"])["image"] == ""


@pytest.mark.sqlite_only
@pytest.mark.parametrize("source", ["volume", "snapshot"])
def test_boot_volume_of_an_unknown_image_is_rejected(cloud: Cloud, source: str) -> None:
    answer = cloud.alice.at("2.1").post("/servers", from_volume(source_type=source, uuid=UNKNOWN_ID))
    assert refusal(answer) == (
        f"The server can't boot from the {source} {UNKNOWN_ID}: its image is unknown, because Covey has no volume "
        "service. Boot from a device with source_type image, which names the image."
    )


@pytest.mark.sqlite_only
def test_unknown_image_of_a_boot_volume_is_rejected(cloud: Cloud) -> None:
    answer = cloud.alice.at("2.1").post("/servers", from_volume(source_type="image", uuid=UNKNOWN_ID))
    assert refusal(answer) == "Can not find requested image"


@pytest.mark.sqlite_only
def test_image_and_another_boot_volume_are_rejected(cloud: Cloud) -> None:
    body = from_volume(source_type="volume", uuid=UNKNOWN_ID)
    body["server"]["imageRef"] = IMAGE
    assert "Boot sequence" in refusal(cloud.alice.at("2.1").post("/servers", body))


@pytest.mark.sqlite_only
def test_data_volumes_are_ignored(cloud: Cloud) -> None:
    body = from_volume(source_type="volume", uuid=UNKNOWN_ID, boot_index=-1)
    body["server"]["imageRef"] = IMAGE
    assert cloud.alice.at("2.1").post("/servers", body).status == 202


def test_image_of_another_project_is_not_found(cloud: Cloud) -> None:
    private = an_image(owner="db")
    with cloud.store.write() as tx:
        tx.images.add([private])
    assert refusal(cloud.request_server(cloud.alice, imageRef=private.id)) == "Can not find requested image"
    cloud.boot(cloud.bob, imageRef=private.id)


def test_private_flavor_is_for_projects_on_its_access_list(cloud: Cloud) -> None:
    flavor = {"name": "own", "id": "own", "ram": 512, "vcpus": 1, "disk": 1, "os-flavor-access:is_public": False}
    cloud.admin.post("/flavors", {"flavor": flavor})
    assert refusal(cloud.request_server(cloud.alice, flavorRef="own")) == "Flavor own could not be found."
    cloud.admin.post("/flavors/own/action", {"addTenantAccess": {"tenant": "web"}})
    cloud.boot(flavorRef="own")
    assert refusal(cloud.request_server(cloud.bob, flavorRef="own")) == "Flavor own could not be found."


# Hints


@pytest.mark.sqlite_only
def test_hints_are_read_under_either_key(cloud: Cloud) -> None:
    group = cloud.group("affinity")
    for key in ("os:scheduler_hints", "OS-SCH-HNT:scheduler_hints"):
        answer = post(cloud.alice, {"networks": "none"}, **{key: {"group": group, "unknown": "hint"}})
        assert answer.status == 202, answer.text
        shown = cloud.show(answer.json["server"]["id"])
        assert shown["server_groups"] == [group]
        assert shown["scheduler_hints"] == {"group": [group], "unknown": ["hint"]}
    assert len(cloud.members(group)) == 2


@pytest.mark.sqlite_only
def test_group_hint_may_be_a_list_of_one(cloud: Cloud) -> None:
    group = cloud.group("affinity")
    server = cloud.boot(hints={"group": [group]})
    assert cloud.show(server)["server_groups"] == [group]
    assert cloud.show(server)["scheduler_hints"] == {"group": [group]}
    alone = cloud.boot(hints={"group": []})
    assert cloud.show(alone)["server_groups"] == []


@pytest.mark.sqlite_only
@pytest.mark.parametrize("value", ["my-group", "", None, 5, ["my-group"], {"id": UNKNOWN_ID}], ids=repr)
def test_group_hint_is_a_uuid(module_cloud: Cloud, value: object) -> None:
    said = refusal(post(module_cloud.alice, {"networks": "none"}, **{"os:scheduler_hints": {"group": value}}))
    assert said == f"Invalid input for field/attribute group. Value: {value}. {value!r} {NOT_VALID}"


def test_unknown_group_returns_400(cloud: Cloud) -> None:
    others = cloud.group("affinity", client=cloud.bob)
    gone = cloud.group("affinity")
    cloud.alice.delete(f"/os-server-groups/{gone}")
    for group in (UNKNOWN_ID, others, gone):
        answer = cloud.request_server(cloud.alice, group=group)
        assert (answer.status, answer.json) == (
            400,
            {"badRequest": {"code": 400, "message": f"Instance group {group} could not be found."}},
        )
    assert cloud.is_empty()


def test_same_host_and_different_host(cloud: Cloud) -> None:
    first = cloud.boot()
    near = [cloud.boot(hints={"same_host": first}), cloud.boot(hints={"same_host": [first]})]
    assert cloud.hosts(near) == [cloud.host(first)] * 2
    far = cloud.boot(hints={"different_host": [first]})
    third = cloud.boot(hints={"different_host": [first, far]})
    assert len({*cloud.hosts([first, far, third])}) == 3
    nowhere = cloud.boot(hints={"different_host": [first, far, third]})
    assert cloud.show(nowhere)["fault"]["message"] == (
        "No valid host was found. Of 3 hosts: 3 are excluded by the request."
    )
    lonely = cloud.boot(hints={"same_host": UNKNOWN_ID})
    assert cloud.status(lonely) == "ERROR"


# Multi-create


def test_servers_of_a_batch_are_numbered_and_a_single_one_is_not(cloud: Cloud) -> None:
    answer = cloud.request_server(cloud.alice, "web", min_count=2, max_count="3")
    assert answer.status == 202
    assert sorted(server["name"] for server in cloud.servers()) == ["web-1", "web-2", "web-3"]
    assert answer.json["server"]["id"] in {server["id"] for server in cloud.servers()}
    cloud.boot(name="alone", min_count=1)
    assert cloud.servers()[-1]["name"] == "alone"
    cloud.request_server(cloud.alice, "least", min_count=2)
    assert len(cloud.servers()) == 6, "without a maximum the minimum is it"


def test_reservation_id_finds_all_servers_of_a_request(cloud: Cloud) -> None:
    answer = cloud.request_server(cloud.alice, min_count=3, return_reservation_id=True)
    assert (answer.status, answer.json.keys()) == (202, {"reservation_id"})
    reservation = answer.json["reservation_id"]
    assert len(reservation) == 10
    assert reservation.startswith("r-")
    shown = cloud.servers()
    assert {server["OS-EXT-SRV-ATTR:reservation_id"] for server in shown} == {reservation}
    assert sorted(server["OS-EXT-SRV-ATTR:launch_index"] for server in shown) == [0, 1, 2]
    plain = cloud.request_server(cloud.alice, return_reservation_id="false")
    assert plain.json.keys() == {"server"}


def test_batch_builds_what_fits_and_nothing_below_the_minimum(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(2)
    group = cloud.group("anti-affinity")
    cloud.request_server(cloud.alice, "most", group, min_count=1, max_count=4)
    assert sorted((server["name"], server["status"]) for server in cloud.servers()) == [
        ("most-1", "BUILD"),
        ("most-2", "BUILD"),
    ]
    assert cloud.request_server(cloud.alice, "none", group, min_count=3, max_count=4).status == 202
    assert sorted(server["name"] for server in cloud.servers(status="ERROR")) == ["none-1", "none-2", "none-3"]
    assert len(cloud.members(group)) == 2
    fault = cloud.servers(status="ERROR")[0]["fault"]
    assert fault["message"] == "No valid host was found. Of 2 hosts: 2 already hold 1 of the group."


@pytest.mark.sqlite_only
def test_partly_fitting_batch_explains_how_many_fit(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(2)
    group = cloud.group("anti-affinity")
    lost = cloud.boot(group=group, min_count=3)
    assert cloud.show(lost)["fault"]["message"] == (
        "No valid host was found. 2 of 3 fit, then of 2 hosts: 2 already hold 1 of the group."
    )
    assert not cloud.used()


# Choosing a zone or a host


@pytest.fixture
def zoned(cloud: Cloud) -> Cloud:
    """Return a cloud with node-3 in the zone far."""
    made = cloud.admin.post("/os-aggregates", {"aggregate": {"name": "far", "availability_zone": "far"}})
    cloud.admin.post(f"/os-aggregates/{made.json['aggregate']['id']}/action", {"add_host": {"host": "node-3"}})
    return cloud


def test_requested_zone_is_used_and_shown(zoned: Cloud) -> None:
    far = zoned.boot(availability_zone="far")
    shown = zoned.show(far)
    assert (shown["OS-EXT-AZ:availability_zone"], shown["pinned_availability_zone"]) == ("far", "far")
    assert zoned.host(far) == "node-3"
    near = [zoned.boot(availability_zone="nova") for _ in range(3)]
    assert set(zoned.hosts(near)) == {"node-1", "node-2"}
    free = zoned.boot()
    assert zoned.show(free)["pinned_availability_zone"] is None
    assert zoned.show(free)["OS-EXT-AZ:availability_zone"] in {"nova", "far"}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("zone", ["nova:node-2", "nova:node-2:node-2", "nova::node-2", "far:node-2", ":node-2"])
def test_operator_forces_a_host(zoned: Cloud, zone: str) -> None:
    asked = zoned.request_server(zoned.alice, availability_zone=zone)
    assert (asked.status, asked.message) == (
        403,
        "Policy doesn't allow os_compute_api:servers:create:forced_host to be performed.",
    )
    server = zoned.boot(zoned.admin, availability_zone=zone)
    assert zoned.host(server) == "node-2"
    assert zoned.show(server)["OS-EXT-AZ:availability_zone"] == "nova"


def test_operator_requests_a_host_by_name(cloud: Cloud) -> None:
    for field in ("host", "hypervisor_hostname"):
        asked = cloud.request_server(cloud.alice.at("2.74"), **{field: "node-2"})
        assert (asked.status, asked.message) == (
            403,
            "Policy doesn't allow compute:servers:create:requested_destination to be performed.",
        )
        server = cloud.boot(cloud.admin.at("2.74"), **{field: "node-2"})
        assert cloud.host(server) == "node-2"
        unknown = cloud.request_server(cloud.admin.at("2.74"), **{field: "node-9"})
        assert refusal(unknown) == "Compute host node-9 could not be found."


@pytest.mark.sqlite_only
def test_forced_and_requested_host_are_mutually_exclusive(cloud: Cloud) -> None:
    for field in ("host", "hypervisor_hostname"):
        both = cloud.request_server(cloud.admin, availability_zone="nova:node-1", **{field: "node-1"})
        assert refusal(both) == (
            "One mechanism with host and/or hypervisor_hostname and another mechanism with zone:host:node "
            "are mutually exclusive."
        )


@pytest.mark.sqlite_only
def test_unknown_forced_host_puts_the_server_into_error(cloud: Cloud) -> None:
    server = cloud.boot(cloud.admin, availability_zone="nova:node-9")
    assert cloud.status(server) == "ERROR"
    assert cloud.show(server)["fault"]["message"] == (
        "No valid host was found. No such host - host: node-9 node: None "
    )
    assert cloud.use("operators") == (1, 1, 1024)


@pytest.mark.sqlite_only
def test_requested_host_is_filtered_and_forced_host_is_not(cloud: Cloud) -> None:
    cloud.set_host("node-2", status="disabled")
    assert cloud.status(cloud.boot(cloud.admin, host="node-2")) == "ERROR"
    assert cloud.status(cloud.boot(cloud.admin, availability_zone="nova:node-2")) == "ACTIVE"
    full = cloud.boot(cloud.admin, availability_zone="nova:node-2", flavorRef="whole")
    assert cloud.show(full)["fault"]["message"].startswith("No valid host was found."), "room is needed always"


# Response fields


@pytest.mark.sqlite_only
@pytest.mark.parametrize("version", [version for version, _, _ in STEPS])
@pytest.mark.parametrize("operator", [False, True], ids=["tenant", "operator"])
def test_each_microversion_shows_its_fields(module_cloud: Cloud, version: str, operator: bool) -> None:
    cloud = module_cloud
    server = cloud.boot(hints={"other": ["a", "b"]})
    try:
        applicable = [
            step for step in STEPS if tuple(map(int, step[0].split("."))) <= tuple(map(int, version.split(".")))
        ]
        fields = set[str]().union(*(common for _, common, _ in applicable))
        if operator:
            fields = fields.union(*(more for _, _, more in applicable))
        client = (cloud.admin if operator else cloud.alice).at(version)
        shown = cloud.show(server, client)
        assert shown.keys() == fields
        listed = client.get("/servers/detail", **({"all_tenants": "1"} if operator else {})).json["servers"]
        assert [one.keys() for one in listed] == [fields - {"server_groups"}]
        changed = client.put(f"/servers/{server}", {"server": {"name": "renamed"}}).json["server"]
        assert changed.keys() == (fields if version in FULL_UPDATES else fields - EXTENDED - OPERATORS)
        short = client.get("/servers", **({"all_tenants": "1"} if operator else {})).json["servers"]
        assert [one.keys() for one in short] == [{"id", "name", "links"}]
    finally:
        cloud.delete(server)


def test_server_shows_its_current_state(cloud: Cloud) -> None:
    group = cloud.group("affinity")
    fields: dict[str, Any] = {"metadata": {"role": "web"}, "description": "first", "hostname": "front"}
    cloud.add_key_pair("key")
    server = cloud.boot(group=group, key_name="key", config_drive=True, accessIPv4="10.0.0.1", **fields)
    shown = cloud.show(server, cloud.alice)
    assert (
        shown.items()
        >= {
            "id": server,
            "name": "s",
            "status": "ACTIVE",
            "tenant_id": "web",
            "user_id": "alice",
            "metadata": {"role": "web"},
            "description": "first",
            "tags": [],
            "key_name": "key",
            "config_drive": "True",
            "accessIPv4": "10.0.0.1",
            "accessIPv6": "",
            "locked": False,
            "locked_reason": None,
            "server_groups": [group],
            "scheduler_hints": {"group": [group]},
            "OS-EXT-SRV-ATTR:hostname": "front",
            "flavor": {
                "original_name": "small",
                "vcpus": 1,
                "ram": 1024,
                "disk": 10,
                "ephemeral": 0,
                "swap": 0,
                "extra_specs": {},
            },
        }.items()
    )
    assert shown["image"]["id"] == IMAGE
    older = cloud.show(server, cloud.alice.at("2.46"))
    assert older["flavor"] == {
        "id": "small",
        "links": [{"rel": "bookmark", "href": f"{HOST}/flavors/small"}],
    }


@pytest.mark.sqlite_only
def test_image_properties_are_shown_from_2_98(cloud: Cloud) -> None:
    server = cloud.boot()
    assert "properties" not in cloud.show(server, cloud.alice.at("2.97"))["image"]
    assert cloud.show(server, cloud.alice.at("2.98"))["image"]["properties"] == {}


def test_image_properties_are_those_at_creation(cloud: Cloud) -> None:
    image, properties = ImageId(UNKNOWN_ID), {"hw_machine_type": "q35", "os_distro": "debian"}
    with cloud.store.write() as tx:
        tx.images.add([an_image(id=image, visibility=Visibility.PUBLIC, properties=properties)])
    cloud.boot(imageRef=image, min_count=2)
    with cloud.store.write() as tx:
        tx.images.delete(image)
    client = cloud.alice.at("2.98")
    for server in client.get("/servers/detail").json["servers"]:
        assert server["image"]["properties"] == properties
        assert (
            client.put(f"/servers/{server['id']}", {"server": {"name": "t"}}).json["server"]["image"]
            == (cloud.show(server["id"], client)["image"])
        )
    assert "properties" not in cloud.alice.at("2.97").get("/servers/detail").json["servers"][0]["image"]


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("need", "message"),
    [
        ({"min_ram_mb": 1025}, "Flavor's memory is too small for requested image."),
        ({"min_disk_gb": 11}, "Flavor's disk is too small for requested image."),
    ],
)
def test_flavor_below_the_images_minimum_is_rejected(cloud: Cloud, need: dict[str, Any], message: str) -> None:
    image = ImageId(UNKNOWN_ID)
    with cloud.store.write() as tx:
        tx.images.add([an_image(id=image, visibility=Visibility.PUBLIC, **need)])
        tx.flavors.add([Flavor(FlavorId("diskless"), "diskless", 1, 2048, 0)], NOW)
    answer = cloud.request_server(cloud.alice, imageRef=image)
    assert (answer.status, answer.message) == (400, message)
    assert cloud.is_empty()
    assert cloud.status(cloud.boot(imageRef=image, flavorRef="big")) == "ACTIVE"
    assert cloud.status(cloud.boot(imageRef=image, flavorRef="diskless")) == "ACTIVE", "it has as much as the image"


@pytest.mark.sqlite_only
def test_operator_sees_the_host_status(cloud: Cloud) -> None:
    server = cloud.boot()
    assert cloud.show(server)["host_status"] == "UP"
    cloud.set_down(str(cloud.host(server)))
    assert cloud.show(server)["host_status"] == "DOWN"


@pytest.mark.sqlite_only
def test_host_id_reveals_only_which_servers_share_a_host(cloud: Cloud) -> None:
    operator = cloud.service.as_("bob:db", "2.1000").sending(X_Roles="admin")
    alices, other = [cloud.boot_on("node-1") for _ in range(2)], cloud.boot_on("node-2")
    bobs = cloud.boot(operator, availability_zone="nova:node-1")
    first, second, elsewhere, others = (cloud.show(server)["hostId"] for server in (*alices, other, bobs))
    assert first == second
    assert len({first, elsewhere, others}) == 3
    assert len(first) == 56  # as Nova's
    for project in ("web", "db"):
        guesses = {hashlib.sha224(f"{project}{separator}node-1".encode()).hexdigest() for separator in ("", "\n")}
        assert guesses.isdisjoint({first, others})
    refused = cloud.boot(flavorRef="giant")
    assert cloud.show(refused)["hostId"] == ""


@pytest.mark.sqlite_only
def test_tenant_never_sees_a_host_name(cloud: Cloud) -> None:
    group = cloud.group("anti-affinity")
    servers = [cloud.boot(group=group) for _ in range(4)]
    cloud.act(cloud.admin, servers[0], "migrate")
    cloud.boot_on("node-1")
    cloud.run_action(cloud.alice, servers[0], "os-stop")
    paths = ["/servers", "/servers/detail", f"/os-server-groups/{group}", "/os-server-groups"]
    for server in servers:
        actions = cloud.alice.get(f"/servers/{server}/os-instance-actions").json["instanceActions"]
        paths += [f"/servers/{server}", f"/servers/{server}/placement", f"/servers/{server}/os-instance-actions"]
        paths += [f"/servers/{server}/os-instance-actions/{action['request_id']}" for action in actions]
    for version in ("2.1", "2.84", "2.104", "2.1000"):
        for path in paths:
            answer = cloud.alice.at(version).get(path)
            assert "node-" not in answer.text, path


@pytest.mark.sqlite_only
def test_fault_is_shown_and_its_details_to_operators(cloud: Cloud) -> None:
    server = cloud.boot(flavorRef="giant")
    fault = cloud.show(server, cloud.alice)["fault"]
    assert fault.keys() == {"code", "created", "message"}
    assert (fault["code"], fault["message"]) == (500, "No valid host was found. Of 3 hosts: 3 lack VCPUs.")
    assert cloud.show(server)["fault"]["details"] == "of 3 hosts: 3 lack VCPUs"
    assert cloud.alice.at("2.1").get("/servers/detail").json["servers"][0]["fault"] == fault
    assert "fault" not in cloud.show(cloud.boot())


# Access


def test_server_of_another_project_returns_404(cloud: Cloud) -> None:
    server = cloud.boot(metadata={"k": "v"})
    cloud.alice.put(f"/servers/{server}/tags/t")
    for client, key in ((cloud.bob, server), (cloud.alice, UNKNOWN_ID), (cloud.alice, "no-uuid")):
        path = f"/servers/{key}"
        for answer in (
            client.get(path),
            client.put(path, {"server": {"name": "mine"}}),
            client.delete(path),
            client.post(f"{path}/action", {"os-stop": None}),
            client.post(f"{path}/action", {"shelve": None}),
            client.post(f"{path}/action", {"unshelve": None}),
            client.post(f"{path}/action", {"resize": {"flavorRef": "big"}}),
            client.post(f"{path}/action", {"confirmResize": None}),
            client.post(f"{path}/action", {"revertResize": None}),
            client.post(f"{path}/action", {"migrate": None}),
            client.post(f"{path}/action", {"os-migrateLive": {"host": None, "block_migration": "auto"}}),
            client.post(f"{path}/action", {"evacuate": {}}),
            client.post(f"{path}/action", {"lock": None}),
            client.post(f"{path}/action", {"os-resetState": {"state": "error"}}),
            client.get(f"{path}/metadata"),
            client.put(f"{path}/metadata/k", {"meta": {"k": "w"}}),
            client.get(f"{path}/tags"),
            client.put(f"{path}/tags/u"),
            client.delete(f"{path}/tags"),
            client.get(f"{path}/os-instance-actions"),
            client.get(f"{path}/placement"),
        ):
            assert (answer.status, answer.json) == (
                404,
                {"itemNotFound": {"code": 404, "message": f"Instance {key} could not be found."}},
            )
    shown = cloud.show(server)
    assert (shown["name"], shown["tags"], shown["metadata"]) == ("s", ["t"], {"k": "v"})


@pytest.mark.sqlite_only
def test_reader_may_only_read(cloud: Cloud) -> None:
    server = cloud.boot()
    reader = cloud.alice.sending(X_Roles="reader")
    for path in (f"/servers/{server}", "/servers", "/servers/detail", f"/servers/{server}/placement"):
        assert reader.get(path).status == 200
    for answer, rule in (
        (cloud.request_server(reader), "servers:create"),
        (reader.delete(f"/servers/{server}"), "servers:delete"),
        (reader.put(f"/servers/{server}", {"server": {"name": "x"}}), "servers:update"),
        (cloud.act(reader, server, "os-stop"), "servers:stop"),
        (cloud.act(reader, server, "resize", {"flavorRef": "big"}), "servers:resize"),
        (cloud.act(reader, server, "shelve"), "os-shelve:shelve"),
        (reader.put(f"/servers/{server}/tags/t"), "os-server-tags:update"),
    ):
        assert (answer.status, answer.message) == (
            403,
            f"Policy doesn't allow os_compute_api:{rule} to be performed.",
        )


# Names, metadata and tags


def test_server_is_renamed_and_described(cloud: Cloud) -> None:
    server = cloud.boot()
    answer = cloud.alice.put(
        f"/servers/{server}",
        {"server": {"name": "n", "description": "d", "hostname": "h", "accessIPv4": "1.2.3.4", "accessIPv6": "::1"}},
    )
    assert answer.status == 200
    assert answer.json["server"] == cloud.show(server, cloud.alice)
    fields = ("name", "description", "OS-EXT-SRV-ATTR:hostname", "accessIPv4", "accessIPv6", "server_groups")
    assert [answer.json["server"][field] for field in fields] == ["n", "d", "h", "1.2.3.4", "::1", []]
    cloud.alice.put(f"/servers/{server}", {"server": {"description": None}})
    assert cloud.show(server)["description"] is None
    assert cloud.show(server)["name"] == "n"
    for version, change, message in (
        ("2.18", {"description": "d"}, UNEXPECTED.format("description")),
        ("2.89", {"hostname": "h"}, UNEXPECTED.format("hostname")),
        ("2.1000", {"name": ""}, "'' should be non-empty"),
        ("2.1000", {"name": "x "}, BAD_NAME),
        ("2.1000", {"status": "ACTIVE"}, UNEXPECTED.format("status")),
    ):
        assert message in refusal(cloud.alice.at(version).put(f"/servers/{server}", {"server": change}))


def test_metadata_can_be_read_and_written(cloud: Cloud) -> None:
    server = cloud.boot(metadata={"a": "1"})
    path = f"/servers/{server}/metadata"
    alice = cloud.alice.at("2.1")
    assert alice.get(path).json == {"metadata": {"a": "1"}}
    assert alice.post(path, {"metadata": {"b": "2"}}).json == {"metadata": {"a": "1", "b": "2"}}
    assert alice.put(f"{path}/a", {"meta": {"a": "3"}}).json == {"meta": {"a": "3"}}
    assert alice.get(f"{path}/a").json == {"meta": {"a": "3"}}
    mismatch = alice.put(f"{path}/a", {"meta": {"b": "3"}})
    assert (mismatch.status, mismatch.message) == (400, "Request body and URI mismatch")
    assert alice.delete(f"{path}/b").status == 204
    assert alice.get(path).json == {"metadata": {"a": "3"}}
    for answer in (alice.get(f"{path}/b"), alice.delete(f"{path}/b")):
        assert (answer.status, answer.message) == (404, "Metadata item was not found")
    assert alice.put(path, {"metadata": {"c": "4"}}).json == {"metadata": {"c": "4"}}
    assert cloud.show(server)["metadata"] == {"c": "4"}
    for body in ({"metadata": {"c": 4}}, {"metadata": {"!": "4"}}, {"metadata": {"c": "x" * 256}}, {}):
        assert alice.post(path, body).status == 400
    assert alice.put(f"{path}/a", {"meta": {"a": "1", "b": "2"}}).status == 400


def test_tags_can_be_read_and_written(cloud: Cloud) -> None:
    server = cloud.boot()
    path = f"/servers/{server}/tags"
    alice = cloud.alice.at("2.26")
    assert alice.put(path, {"tags": ["t"]}).json == {"tags": ["t"]}
    assert alice.get(path).json == {"tags": ["t"]}
    assert (alice.put(f"{path}/u").status, alice.put(f"{path}/u").status) == (201, 204)
    assert alice.get(path).json == {"tags": ["t", "u"]}
    assert (alice.get(f"{path}/u").status, alice.get(f"{path}/v").status) == (204, 404)
    assert alice.delete(f"{path}/u").status == 204
    assert alice.delete(f"{path}/u").status == 404
    assert alice.put(path, {"tags": ["x", "y"]}).json == {"tags": ["x", "y"]}
    assert cloud.show(server)["tags"] == ["x", "y"]
    assert alice.delete(path).status == 204
    assert alice.get(path).json == {"tags": []}
    assert "does not match" in refusal(alice.put(f"{path}/a,b"))
    assert "is too long" in refusal(alice.put(f"{path}/{'x' * 61}"))
    alice.put(path, {"tags": [f"t{i}" for i in range(50)]})
    assert "is too long" in refusal(alice.put(f"{path}/one-more"))
    before = cloud.alice.at("2.25").get(path)
    assert (before.status, before.json) == (
        404,
        {"itemNotFound": {"code": 404, "message": "The resource could not be found."}},
    )


def test_server_has_the_tags_of_its_request(cloud: Cloud) -> None:
    server = cloud.boot(cloud.alice.at("2.52"), tags=["b", "a"])
    assert cloud.show(server)["tags"] == ["a", "b"]


# Deleting


def test_server_in_error_can_be_deleted(cloud: Cloud) -> None:
    server = cloud.boot(flavorRef="giant")
    assert cloud.use() == (1, 9, 1024), "it counts until it is deleted"
    cloud.delete(server)
    assert cloud.is_empty()


def test_server_can_be_deleted_in_any_state(build_cloud: BuildCloud) -> None:
    driver = FailingDriver()
    cloud = build_cloud(driver=driver)
    cloud.set_quota(instances=-1, cores=-1, ram=-1)
    states: dict[str, Bring] = {
        "building": lambda _: None,
        "moving": lambda server: cloud.act(cloud.admin, server, "migrate"),
        "flying": lambda server: cloud.act(
            cloud.admin, server, "os-migrateLive", {"host": None, "block_migration": "auto"}
        ),
        "stopping": lambda server: cloud.act(cloud.alice, server, "os-stop"),
        "shelving": lambda server: cloud.act(cloud.alice, server, "shelve"),
        "moved": lambda server: cloud.run_action(cloud.alice, server, "resize", {"flavorRef": "big"}),
        "shelved": lambda server: cloud.run_action(cloud.alice, server, "shelve"),
    }
    for name, bring in states.items():
        server = str(cloud.request_server(cloud.alice).json["server"]["id"])
        if name != "building":
            cloud.settle()
        bring(server)
        assert cloud.alice.delete(f"/servers/{server}").status == 204
        cloud.settle()
        assert cloud.alice.get(f"/servers/{server}").status == 404, name
        assert cloud.is_empty(), name
    destroyed = [host for verb, _, host in driver.done if verb == "destroy"]
    assert len(destroyed) == 7 + 3, "a server that has two places leaves both, and a shelved one its data"
    assert [verb for verb, _, _ in driver.done].count("detach") == 1, "only one was shelved before it was deleted"
    assert {row.status for row in cloud.rows(tables.migrations)} == {"deleted"}


def test_reverting_and_unshelving_servers_can_be_deleted(cloud: Cloud) -> None:
    server = cloud.boot()
    cloud.run_action(cloud.admin, server, "migrate")
    cloud.act(cloud.admin, server, "revertResize")
    cloud.delete(server)
    assert cloud.is_empty()
    server = cloud.boot()
    cloud.run_action(cloud.alice, server, "shelve")
    cloud.act(cloud.alice, server, "unshelve")
    cloud.delete(server)
    assert cloud.is_empty()
