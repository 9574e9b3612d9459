"""openstacksdk as a library works with the same clouds.yaml."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import openstack
import pytest
from openstack import exceptions

from tests.acceptance.conftest import Demo
from tests.acceptance.processes import Cloud

# The library prints deprecation warnings about itself.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")

Connection = Any  # openstacksdk has no types to check against


def connect(cloud: Cloud) -> Connection:
    config = openstack.config.OpenStackConfig(config_files=[str(cloud.file)], load_envvars=False)
    return openstack.connection.Connection(config=config.get_one(cloud.name))


@pytest.fixture(scope="module")
def admin(demo: Demo) -> Iterator[Connection]:
    with connect(demo.cloud("admin")) as connection:
        yield connection


@pytest.fixture(scope="module")
def member(demo: Demo) -> Iterator[Connection]:
    with connect(demo.cloud("demo")) as connection:
        yield connection


@pytest.fixture(scope="module")
def other(demo: Demo) -> Iterator[Connection]:
    with connect(demo.cloud("other")) as connection:
        yield connection


def test_flavors_with_extra_specs_and_access(admin: Connection, member: Connection, other: Connection) -> None:
    created = admin.compute.create_flavor(name="sdk", ram=512, vcpus=1, disk=4, is_public=False, description="d")
    assert admin.compute.find_flavor("sdk").id == created.id
    assert admin.compute.find_flavor(created.id).name == "sdk"
    assert admin.compute.find_flavor("none of that") is None

    admin.compute.create_flavor_extra_specs(created, {"hw:cpu_policy": "shared", "tier": "1"})
    assert admin.compute.update_flavor_extra_specs_property(created, "tier", "2") == "2"
    assert admin.compute.get_flavor_extra_specs_property(created, "tier") == "2"
    admin.compute.delete_flavor_extra_specs_property(created, "hw:cpu_policy")
    assert admin.compute.fetch_flavor_extra_specs(created).extra_specs == {"tier": "2"}
    assert admin.compute.update_flavor(created.id, description="e").description == "e"

    project = other.identity.find_project("other").id
    admin.compute.flavor_add_tenant_access(created, project)
    assert [access["tenant_id"] for access in admin.compute.get_flavor_access(created)] == [project]
    assert other.compute.get_flavor(created.id).name == "sdk"
    with pytest.raises(exceptions.NotFoundException):
        member.compute.get_flavor(created.id)
    admin.compute.flavor_remove_tenant_access(created, project)
    assert other.compute.find_flavor("sdk") is None
    admin.compute.delete_flavor(created)
    assert admin.compute.find_flavor("sdk") is None


def test_flavors_are_paginated(member: Connection) -> None:
    names = [flavor.name for flavor in member.compute.flavors(limit=2)]
    assert sorted(names) == ["large", "medium", "small", "tiny", "windows"]
    with pytest.raises(exceptions.ForbiddenException, match="os-flavor-manage:create"):
        member.compute.create_flavor(name="no", ram=1, vcpus=1, disk=1)


def test_aggregates(admin: Connection) -> None:
    created = admin.compute.create_aggregate(name="sdk", availability_zone="az-9")
    assert admin.compute.find_aggregate("sdk").id == created.id
    assert admin.compute.find_aggregate(created.id).name == "sdk"
    assert admin.compute.get_aggregate(created.id).uuid
    admin.compute.add_host_to_aggregate(created, "node-22")
    admin.compute.set_aggregate_metadata(created, {"shelf": "3"})
    assert admin.compute.update_aggregate(created, name="kit").name == "kit"
    shown = admin.compute.get_aggregate(created.id)
    assert (shown.hosts, shown.metadata) == (["node-22"], {"availability_zone": "az-9", "shelf": "3"})
    with pytest.raises(exceptions.ConflictException):
        admin.compute.create_aggregate(name="kit")
    admin.compute.set_aggregate_metadata(created, {"shelf": None})
    assert admin.compute.get_aggregate(created.id).metadata == {"availability_zone": "az-9"}
    admin.compute.remove_host_from_aggregate(created, "node-22")
    admin.compute.delete_aggregate(created.id, ignore_missing=False)
    assert admin.compute.find_aggregate("kit") is None
    assert len(list(admin.compute.aggregates())) == 18


def test_hypervisors(admin: Connection, member: Connection) -> None:
    names = [host.name for host in admin.compute.hypervisors(details=True, limit=7)]
    assert names == [f"node-{number:02}" for number in range(1, 25)]
    found = admin.compute.find_hypervisor("node-07")
    assert admin.compute.get_hypervisor(found.id).name == "node-07"
    assert admin.compute.find_hypervisor(found.id).name == "node-07"
    assert admin.compute.find_hypervisor("node-99") is None
    matching = admin.compute.hypervisors(hypervisor_hostname_pattern="node-2")
    assert [host.name for host in matching] == ["node-20", "node-21", "node-22", "node-23", "node-24"]
    with pytest.raises(exceptions.ForbiddenException):
        list(member.compute.hypervisors())


def test_services_and_zones(admin: Connection, member: Connection) -> None:
    (service,) = admin.compute.services(host="node-06")
    assert (service.binary, service.availability_zone, service.is_forced_down) == ("nova-compute", "az-1", False)
    disabled = admin.compute.disable_service(service, disabled_reason="cleaning")
    assert (disabled.status, disabled.disabled_reason) == ("disabled", "cleaning")
    assert admin.compute.enable_service(service).status == "enabled"
    assert admin.compute.update_service_forced_down(service, forced=True).state == "down"
    assert admin.compute.update_service_forced_down(service, forced=False).state == "up"
    assert admin.compute.find_service(service.id).host == "node-06"

    zones = {zone.name: zone.hosts for zone in admin.compute.availability_zones(details=True)}
    assert {name: len(hosts) for name, hosts in zones.items()} == {"az-1": 8, "az-2": 8, "nova": 8}
    seen = {zone.name: (zone.state, zone.hosts) for zone in member.compute.availability_zones()}
    assert seen == dict.fromkeys(zones, ({"available": True}, None))


def test_quotas_and_limits(admin: Connection, member: Connection) -> None:
    project = admin.identity.find_project("demo").id
    assert member.identity.find_project("demo").id == project
    before = admin.compute.get_quota_set(project)
    changed = admin.compute.update_quota_set(project, server_groups=3, cores=7)
    assert (changed.server_groups, changed.cores, changed.instances) == (3, 7, before.instances)
    limits = member.compute.get_limits().absolute
    assert (limits.server_groups, limits.total_cores, limits.total_cores_used) == (3, 7, 0)
    with_use = admin.compute.get_quota_set(project, usage=True)
    assert (with_use.server_groups, with_use.usage["server_groups"]) == (3, 0)
    assert admin.compute.get_quota_set_defaults(project).server_groups == before.server_groups
    admin.compute.revert_quota_set(project)
    assert admin.compute.get_quota_set(project).server_groups == before.server_groups
    with pytest.raises(exceptions.ForbiddenException, match="os-quota-sets:update"):
        member.compute.update_quota_set(project, cores=1000)


def test_image_record_with_properties_and_tags(member: Connection, other: Connection) -> None:
    created = member.image.create_image("sdk", data=b"a few bytes", tags=["one"], meta={"trait:CUSTOM_SSD": "required"})
    uploaded = member.image.get_image(created.id)
    assert (uploaded.status, uploaded.size) == ("active", 11)
    assert member.image.find_image("sdk").id == created.id
    assert member.image.find_image(created.id).name == "sdk"
    assert other.image.find_image("sdk") is None
    assert other.image.find_image(created.id) is None

    member.image.update_image(created.id, name="kit", min_ram=64, colour="blue")
    member.image.add_tag(created, "two")
    member.image.remove_tag(created, "one")
    shown = member.image.get_image(created.id)
    assert (shown.name, shown.min_ram, shown.tags) == ("kit", 64, ["two"])
    assert shown.properties["colour"] == "blue"
    assert shown.properties["trait:CUSTOM_SSD"] == "required"
    assert [image.name for image in member.image.images(tag="two")] == ["kit"]
    with pytest.raises(exceptions.NotFoundException):
        member.image.remove_tag(created, "one")
    member.image.delete_image(created, ignore_missing=False)
    with pytest.raises(exceptions.NotFoundException):
        member.image.get_image(created.id)


def test_images_are_paginated(admin: Connection, member: Connection) -> None:
    made = [member.image.create_image(f"page-{number}", allow_duplicates=True) for number in range(7)]
    for limit in (1, 2, 3, 7, 100):
        names = Counter(image.name for image in member.image.images(limit=limit, visibility="shared"))
        assert names == {f"page-{number}": 1 for number in range(7)}
    asked_for = member.image.images(limit=3, sort="name:desc", visibility="shared")
    assert [image.name for image in asked_for] == [f"page-{number}" for number in range(6, -1, -1)]
    for image in made:
        admin.image.delete_image(image, ignore_missing=False)
    assert len(list(member.image.images())) == 4
