"""The unmodified `openstack` command works with the clouds.yaml that `covey demo` wrote."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Demo
from tests.acceptance.processes import Cloud, Failed, Session

FORBIDDEN = "403"


def by_name(rows: list[dict[str, Any]], column: str = "Name") -> dict[str, dict[str, Any]]:
    return {row[column]: row for row in rows}


def limits(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {row["Resource"]: row["Limit"] for row in rows}


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    file = tmp_path / "disk.raw"
    file.write_bytes(b"\0" * 4096)
    return file


def test_each_command_works_in_its_own_process(demo: Demo) -> None:
    """Other tests of this file use one process for all commands."""
    admin, member = demo.cloud("admin"), demo.cloud("demo")
    created = admin.json("flavor create --ram 1024 --vcpus 2 --disk 10 --description 'for a test' typed")
    assert (created["name"], created["description"]) == ("typed", "for a test")
    assert "typed" in member.run("flavor list")
    assert "No Flavor found for nothing" in member.refusal("flavor show nothing")
    assert FORBIDDEN in member.refusal("flavor delete typed")
    admin.run("flavor delete typed")


def test_flavor_lifecycle(admin: Session, member: Session) -> None:
    size = "--ram 2048 --vcpus 2 --disk 20 --ephemeral 5 --swap 64"
    created = admin.json(f"flavor create {size} --id 42 --property hw:cpu_policy=dedicated --property tier=gold story")
    assert created["id"] == "42"
    assert created["properties"] == {"hw:cpu_policy": "dedicated", "tier": "gold"}
    assert admin.refusal(f"flavor create {size} story").endswith("Flavor with name story already exists.\n")

    admin.run("flavor set --property trait:CUSTOM_SSD=required --property tier=silver --description quick story")
    admin.run("flavor unset --property hw:cpu_policy story")
    shown = admin.json("flavor show story")
    assert shown["properties"] == {"tier": "silver", "trait:CUSTOM_SSD": "required"}
    assert shown["description"] == "quick"
    assert (shown["ram"], shown["vcpus"], shown["disk"], shown["swap"]) == (2048, 2, 20, 64)
    assert shown["OS-FLV-EXT-DATA:ephemeral"] == 5
    assert admin.json("flavor show 42") == shown

    listed = by_name(member.json("flavor list --long"))["story"]
    assert (listed["RAM"], listed["Properties"]) == (2048, shown["properties"])
    assert [row["Name"] for row in member.json("flavor list --min-ram 16384")] == ["large"]

    admin.run("flavor delete story")
    assert "No Flavor found for story" in admin.refusal("flavor show story")


def test_private_flavor_is_visible_to_its_projects(admin: Session, member: Session, other: Session) -> None:
    created = admin.json("flavor create --ram 512 --vcpus 1 --disk 1 --private --project other secret")
    assert created["os-flavor-access:is_public"] is False
    assert "secret" in by_name(other.json("flavor list"))
    assert "secret" not in by_name(member.json("flavor list --all"))
    assert "No Flavor found for secret" in member.refusal("flavor show secret")
    assert f"No Flavor found for {created['id']}" in member.refusal(f"flavor show {created['id']}")

    admin.run("flavor set --project demo secret")
    assert len(admin.json("flavor show secret")["access_project_ids"]) == 2
    assert "secret" in by_name(member.json("flavor list"))
    admin.run("flavor unset --project demo secret")
    assert "No Flavor found for secret" in member.refusal("flavor show secret")
    admin.run("flavor delete secret")


def test_image_lifecycle(admin: Session, member: Session, disk: Path) -> None:
    created = member.json(f"image create --file {disk} --property trait:CUSTOM_SSD=required --property os=linux story")
    assert (created["status"], created["size"]) == ("active", 4096)
    assert created["properties"]["trait:CUSTOM_SSD"] == "required"
    assert by_name(member.json("image list --name story")).keys() == {"story"}
    assert member.json("image list --name nothing") == []

    member.run("image set --property os=bsd --property more=yes --tag fresh --min-ram 512 story")
    member.run("image unset --property more story")
    shown = member.json("image show story")
    assert (shown["properties"]["os"], shown["tags"], shown["min_ram"]) == ("bsd", ["fresh"], 512)
    assert "more" not in shown["properties"]
    assert [row["Name"] for row in member.json("image list --tag fresh")] == ["story"]
    assert [row["Name"] for row in member.json("image list --property os=bsd")] == ["story"]

    member.run("image set --name renamed --protected story")
    assert "is protected and cannot be deleted" in admin.refusal("image delete renamed")
    member.run("image set --unprotected renamed")
    member.run("image delete renamed")
    assert "No Image found for renamed" in member.refusal("image show renamed")


def test_image_data_is_read_from_standard_input(demo: Demo) -> None:
    """The client sends standard input without an option if it is no terminal."""
    cloud = demo.cloud("demo")
    created = cloud.json("image create --disk-format qcow2 --property 'note=two words' piped", stdin=b"some data")
    assert (created["status"], created["size"], created["disk_format"]) == ("active", 9, "qcow2")
    assert created["properties"]["note"] == "two words"
    cloud.run("image delete piped")


def test_images_are_paginated(member: Session) -> None:
    names = [row["Name"] for row in member.json("image list --public")]
    assert sorted(names) == ["database", "linux-minimal", "linux-server", "windows-server"]
    first = member.json("image list --public --limit 2")
    assert len(first) == 2
    # The client sorts its output by name, which hides the order of the response.
    pages = [[row["Name"] for row in member.json(f"image list --marker {row['ID']}")] for row in first]
    assert {frozenset(page) for page in pages} >= {frozenset(names) - {row["Name"] for row in first}}
    licensed = member.json("image list --long --property trait:CUSTOM_WINDOWS_LICENSED=required")
    assert [(row["Name"], row["Visibility"]) for row in licensed] == [("windows-server", "public")]


def test_private_image_is_visible_to_its_project_only(
    admin: Session, member: Session, other: Session, disk: Path
) -> None:
    created = other.json(f"image create --file {disk} --private hidden")
    assert "hidden" not in by_name(member.json("image list"))
    assert "No Image found for hidden" in member.refusal("image show hidden")
    assert f"No Image found for {created['id']}" in member.refusal(f"image show {created['id']}")
    member.refusal("image delete hidden")  # the client reports a 404 as "Multi Backend support not enabled."
    assert "hidden" in by_name(admin.json("image list"))

    assert "image:publicize_image" in other.refusal("image set --public hidden")
    admin.run("image set --public hidden")
    assert member.json("image show hidden")["visibility"] == "public"
    assert "You are not permitted to modify this image." in member.refusal("image set --property a=b hidden")
    assert "You are not permitted to delete this image." in member.refusal("image delete hidden")
    other.run("image delete hidden")


def test_aggregate_lifecycle(admin: Session) -> None:
    created = admin.json("aggregate create --zone az-9 --property shelf=3 story")
    assert (created["availability_zone"], created["properties"]["shelf"]) == ("az-9", "3")
    assert admin.json("aggregate add host story node-20")["hosts"] == ["node-20"]
    assert admin.json(f"aggregate add host {created['id']} node-21")["hosts"] == ["node-20", "node-21"]
    assert "Compute host nowhere could not be found." in admin.refusal("aggregate add host story nowhere")
    assert "already in availability zone" in admin.refusal("aggregate add host story node-01")
    assert "story" in admin.json("hypervisor show node-20")["aggregates"]

    admin.run("aggregate set --name renamed --zone az-10 --property shelf=4 --property lamp=green story")
    shown = admin.json("aggregate show renamed")
    assert (shown["availability_zone"], shown["properties"]) == ("az-10", {"shelf": "4", "lamp": "green"})
    hosts = admin.json("compute service list --host node-20")
    assert [host["Zone"] for host in hosts] == ["az-10"]
    admin.run("aggregate unset --property shelf renamed")
    admin.run("aggregate set --no-property --property last=one renamed")
    row = by_name(admin.json("aggregate list --long"))["renamed"]
    assert (row["Availability Zone"], row["Properties"]) == ("az-10", {"last": "one"})

    assert "Cannot remove host from aggregate" in admin.refusal("aggregate delete renamed")
    assert admin.json("aggregate remove host renamed node-20")["hosts"] == ["node-21"]
    assert admin.json("aggregate remove host renamed node-21")["hosts"] == []
    admin.run("aggregate delete renamed")
    assert "No Aggregate found for renamed" in admin.refusal("aggregate show renamed")


def test_hosts_are_hypervisors(admin: Session, demo: Demo) -> None:
    listed = admin.json("hypervisor list --long")
    assert [row["Hypervisor Hostname"] for row in listed] == [f"node-{number:02}" for number in range(1, 25)]
    assert {row["State"] for row in listed} == {"up"}
    assert len(admin.json("hypervisor list --matching node-1")) == 10
    assert "No hypervisor matching 'ship' could be found." in admin.refusal("hypervisor list --matching ship")
    assert admin.json("hypervisor list --long --limit 5") == listed  # the client requests all pages

    shown = admin.json("hypervisor show node-09")
    assert set(shown["aggregates"]) == {"az-2", "rack-3", "switch-2", "mz-3"}
    assert (shown["service_host"], shown["status"]) == ("node-09", "enabled")
    by_id = admin.json(f"hypervisor show {shown['id']}")
    assert by_id == shown

    # Up to 2.87 a hypervisor shows its usage, and the client requests its uptime by itself.
    older = demo.cloud("admin").json("--os-compute-api-version 2.53 hypervisor show node-09")
    assert (older["vcpus"], older["memory_mb"], older["local_gb"]) == (32, 131072, 2000)


def test_host_is_disabled_and_enabled(admin: Session) -> None:
    def service() -> tuple[str, str, str | None]:
        (row,) = admin.json("compute service list --long --host node-05 --service nova-compute")
        return row["Status"], row["State"], row["Disabled Reason"]

    assert len(admin.json("compute service list")) == 24
    assert service() == ("enabled", "up", None)
    admin.run("compute service set --disable --disable-reason fan-3-is-loud node-05 nova-compute")
    assert service() == ("disabled", "up", "fan-3-is-loud")
    assert admin.json("hypervisor show node-05")["status"] == "disabled"
    admin.run("compute service set --enable node-05 nova-compute")
    assert service() == ("enabled", "up", None)
    admin.run("compute service set --down node-05 nova-compute")
    assert service() == ("enabled", "down", None)
    assert admin.json("hypervisor show node-05")["state"] == "down"
    admin.run("compute service set --up node-05 nova-compute")
    assert service() == ("enabled", "up", None)


def test_only_operators_see_the_hosts_of_zones(admin: Session, member: Session) -> None:
    rows = admin.json("availability zone list --compute --long")
    assert Counter(row["Zone Name"] for row in rows) == {"az-1": 8, "az-2": 8, "nova": 8}
    assert {row["Service Name"] for row in rows} == {"nova-compute"}
    seen = member.json("availability zone list --compute --long")
    assert [(row["Zone Name"], row["Zone Status"], row["Host Name"]) for row in seen] == [
        ("az-1", "available", ""),
        ("az-2", "available", ""),
        ("nova", "available", ""),
    ]


def test_project_quota_is_set_and_reset(admin: Session, member: Session) -> None:
    before = limits(admin.json("quota show --compute demo"))
    admin.run("quota set --server-groups 5 --server-group-members 7 --cores -1 demo")
    assert limits(member.json("quota show --compute demo")) == {
        **before,
        "server-groups": 5,
        "server-group-members": 7,
        "cores": -1,
    }
    used = by_name(admin.json("quota show --compute --usage demo"), "Resource")["server-groups"]
    assert (used["Limit"], used["In Use"]) == (5, 0)
    admin.run("quota delete --compute demo")
    assert limits(admin.json("quota show --compute demo")) == before


def test_default_quota_applies_to_all_projects(admin: Session, member: Session) -> None:
    before = limits(admin.json("quota show --compute --default demo"))
    admin.run("quota set --default --server-groups 12")
    try:
        assert limits(member.json("quota show --compute demo"))["server-groups"] == 12
    finally:
        admin.run(f"quota set --default --server-groups {before['server-groups']}")
    assert limits(member.json("quota show --compute demo")) == before


def test_legacy_resources_exist(member: Session) -> None:
    assert member.json("keypair list") == []
    aliases = {row["Alias"] for row in member.json("extension list --compute")}
    assert {"os-aggregates", "os-hypervisors", "os-quota-sets"} <= aliases


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("aggregate list", "os-aggregates:index"),
        ("aggregate create no", "os-aggregates:create"),
        ("hypervisor list", "os-hypervisors:list-detail"),
        ("compute service list", "os-services:list"),
        ("flavor create --ram 1 --vcpus 1 --disk 1 no", "os-flavor-manage:create"),
        ("flavor delete small", "os-flavor-manage:delete"),
        ("flavor set --property a=b small", "os-flavor-extra-specs:create"),
        ("flavor set --description no small", "os-flavor-manage:update"),
        ("quota set --server-groups 5 demo", "os-quota-sets:update"),
        ("quota set --default --server-groups 5", "os-quota-class-sets:update"),
        ("quota delete --compute demo", "os-quota-sets:delete"),
        ("image create --public --file {disk} no", "image:publicize_image"),
    ],
)
def test_forbidden_command_names_the_rule(member: Session, disk: Path, command: str, rule: str) -> None:
    said = member.refusal(command.format(disk=disk))
    assert FORBIDDEN in said
    assert f"{rule} to be performed." in said


def test_quota_of_another_project_is_forbidden(member: Session) -> None:
    assert "No Project found for other" in member.refusal("quota show --compute other")


def test_wrong_password_is_reported(demo: Demo, tmp_path: Path) -> None:
    copied = tmp_path / "clouds.yaml"
    right = demo.cloud("demo")
    copied.write_text(right.file.read_text().replace(right.credentials()["password"], "not-it"))
    with pytest.raises(Failed, match="The user name or the password is wrong"):
        Cloud(copied, "demo").run("flavor list")
