"""Resource providers, inventories, traits and allocations with openstacksdk as a library."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from openstack import exceptions

from tests.acceptance.conftest import Demo
from tests.acceptance.test_sdk import connect

# The library prints deprecation warnings about itself.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")

Connection = Any  # openstacksdk has no types to check against
NEWEST = "1.39"


@pytest.fixture(scope="module")
def admin(demo: Demo) -> Iterator[Connection]:
    with connect(demo.cloud("admin")) as connection:
        yield connection


@pytest.fixture(scope="module")
def member(demo: Demo) -> Iterator[Connection]:
    with connect(demo.cloud("demo")) as connection:
        yield connection


def said(refused: "pytest.ExceptionInfo[Any]") -> str:
    """Return the error detail of Placement, which the library does not read."""
    return str(refused.value.response.json()["errors"][0]["detail"])


@pytest.fixture
def provider(admin: Connection) -> Iterator[Any]:
    made = admin.placement.create_resource_provider(name=f"shelf-{uuid4()}")
    yield made
    for each in admin.placement.resource_provider_allocations(made):
        admin.placement.delete_allocation(each.id)
    admin.placement.delete_resource_provider(made, ignore_missing=False)


def test_provider_lifecycle(admin: Connection) -> None:
    chosen = str(uuid4())
    made = admin.placement.create_resource_provider(name="sdk", id=chosen)
    assert (made.id, made.name, made.generation, made.root_provider_id) == (chosen, "sdk", 0, chosen)
    child = admin.placement.create_resource_provider(name="sdk-child", parent_provider_id=chosen)
    assert (child.parent_provider_id, child.root_provider_id) == (chosen, chosen)
    assert {each.name for each in admin.placement.resource_providers(in_tree=child.id)} == {"sdk", "sdk-child"}

    assert admin.placement.find_resource_provider("sdk").id == chosen
    assert admin.placement.find_resource_provider(chosen).name == "sdk"
    assert admin.placement.find_resource_provider("none of that") is None
    assert admin.placement.get_resource_provider(chosen).name == "sdk"
    assert admin.placement.update_resource_provider(made, name="kit").name == "kit"
    assert admin.placement.update_resource_provider(chosen, name="set").name == "set"
    with pytest.raises(exceptions.ConflictException):
        admin.placement.create_resource_provider(name="set")
    with pytest.raises(exceptions.ConflictException) as refused:
        admin.placement.delete_resource_provider(chosen)
    assert "It has child resource providers" in said(refused)

    admin.placement.delete_resource_provider(child, ignore_missing=False)
    admin.placement.delete_resource_provider(made, ignore_missing=False)
    admin.placement.delete_resource_provider(chosen)  # idempotent
    with pytest.raises(exceptions.NotFoundException):
        admin.placement.delete_resource_provider(chosen, ignore_missing=False)
    with pytest.raises(exceptions.NotFoundException):
        admin.placement.get_resource_provider(chosen)


def test_hosts_are_providers_that_cannot_be_deleted(admin: Connection, member: Connection) -> None:
    found = admin.placement.find_resource_provider("node-07")
    assert found.id in {each.id for each in admin.placement.resource_providers(resources="VCPU:1,MEMORY_MB:512")}
    inventories = {each.resource_class: each for each in admin.placement.resource_provider_inventories(found)}
    assert inventories.keys() == {"VCPU", "MEMORY_MB", "DISK_GB"}
    with pytest.raises(exceptions.ConflictException):
        admin.placement.delete_resource_provider(found)
    with pytest.raises(exceptions.ForbiddenException):
        list(member.placement.resource_providers())


def test_provider_aggregates(admin: Connection, provider: Any) -> None:
    wanted = [str(uuid4()), str(uuid4())]
    assert admin.placement.fetch_resource_provider_aggregates(provider).aggregates == []
    changed = admin.placement.set_resource_provider_aggregates(provider, *wanted)
    assert sorted(changed.aggregates) == sorted(wanted)
    assert sorted(admin.placement.fetch_resource_provider_aggregates(provider.id).aggregates) == sorted(wanted)
    assert [each.id for each in admin.placement.resource_providers(member_of=wanted[0])] == [provider.id]
    with pytest.raises(exceptions.ConflictException) as refused:  # the library does not keep the new generation
        admin.placement.set_resource_provider_aggregates(changed)
    assert "generation" in said(refused)
    admin.placement.set_resource_provider_aggregates(admin.placement.get_resource_provider(provider.id))
    assert admin.placement.fetch_resource_provider_aggregates(provider.id).aggregates == []


def test_provider_inventories(admin: Connection, provider: Any) -> None:
    made = admin.placement.create_resource_provider_inventory(provider, "VGPU", total=8, max_unit=4)
    assert (made.resource_class, made.total, made.max_unit, made.reserved) == ("VGPU", 8, 4, 0)
    with pytest.raises(exceptions.ConflictException):
        admin.placement.create_resource_provider_inventory(provider, "VGPU", total=8)
    shown = admin.placement.get_resource_provider_inventory("VGPU", provider)
    assert (shown.total, shown.allocation_ratio) == (8, 1.0)
    changed = admin.placement.update_resource_provider_inventory(
        shown, resource_provider_generation=shown.resource_provider_generation, total=6, reserved=2
    )
    assert (changed.total, changed.reserved) == (6, 2)
    assert [each.total for each in admin.placement.resource_provider_inventories(provider)] == [6]
    with pytest.raises(exceptions.ConflictException):
        admin.placement.update_resource_provider_inventory(
            "VGPU", provider, resource_provider_generation=changed.resource_provider_generation - 1, total=1
        )

    before = admin.placement.get_resource_provider(provider.id)
    stock = {"VCPU": {"total": 4}, "DISK_GB": {"total": 50, "step_size": 10}}
    after = admin.placement.set_resource_provider_inventories(provider.id, stock, before.generation)
    assert after.generation == before.generation + 1
    found = {each.resource_class: each.total for each in admin.placement.resource_provider_inventories(provider)}
    assert found == {"VCPU": 4, "DISK_GB": 50}
    with pytest.raises(exceptions.ConflictException):
        admin.placement.set_resource_provider_inventories(provider.id, {}, before.generation)
    admin.placement.delete_resource_provider_inventory("VCPU", provider, ignore_missing=False)
    with pytest.raises(exceptions.NotFoundException):
        admin.placement.delete_resource_provider_inventory("VCPU", provider, ignore_missing=False)
    admin.placement.delete_resource_provider_inventories(provider)
    assert list(admin.placement.resource_provider_inventories(provider)) == []


def test_provider_traits(admin: Connection, provider: Any) -> None:
    made = admin.placement.create_trait("CUSTOM_SDK_BLUE")
    assert made.name == "CUSTOM_SDK_BLUE"
    admin.placement.create_trait("CUSTOM_SDK_BLUE")  # PUT of an existing trait succeeds
    assert admin.placement.get_trait("CUSTOM_SDK_BLUE").id == "CUSTOM_SDK_BLUE"
    assert admin.placement.get_trait("HW_CPU_X86_AVX2").id == "HW_CPU_X86_AVX2"
    assert [each.name for each in admin.placement.traits(name="startswith:CUSTOM_SDK")] == ["CUSTOM_SDK_BLUE"]
    with pytest.raises(exceptions.NotFoundException):
        admin.placement.get_trait("CUSTOM_SDK_RED")
    with pytest.raises(exceptions.BadRequestException):
        admin.placement.create_trait("BLUE")

    mine = admin.placement.get_resource_provider_trait(provider)
    assert mine.traits == []
    changed = admin.placement.set_resource_provider_trait(mine, traits=["CUSTOM_SDK_BLUE", "HW_CPU_X86_AVX2"])
    assert sorted(changed.traits) == ["CUSTOM_SDK_BLUE", "HW_CPU_X86_AVX2"]
    assert [each.id for each in admin.placement.resource_providers(required="CUSTOM_SDK_BLUE")] == [provider.id]
    assert "CUSTOM_SDK_BLUE" in {each.name for each in admin.placement.traits(associated=True)}
    with pytest.raises(exceptions.ConflictException):
        admin.placement.delete_trait("CUSTOM_SDK_BLUE")
    admin.placement.delete_resource_provider_trait(provider, ignore_missing=False)
    assert admin.placement.get_resource_provider_trait(provider).traits == []
    admin.placement.delete_trait(made, ignore_missing=False)
    with pytest.raises(exceptions.NotFoundException):
        admin.placement.delete_trait("CUSTOM_SDK_BLUE", ignore_missing=False)


def test_resource_classes(admin: Connection, provider: Any) -> None:
    admin.placement.create_resource_class(name="CUSTOM_SDK_SEAT")
    with pytest.raises(exceptions.ConflictException):
        admin.placement.create_resource_class(name="CUSTOM_SDK_SEAT")
    names = {each.name for each in admin.placement.resource_classes()}
    assert {"VCPU", "MEMORY_MB", "CUSTOM_SDK_SEAT"} <= names
    assert admin.placement.get_resource_class("CUSTOM_SDK_SEAT").name == "CUSTOM_SDK_SEAT"
    renamed = admin.placement.update_resource_class("CUSTOM_SDK_SEAT", name="CUSTOM_SDK_BENCH")
    assert renamed.name == "CUSTOM_SDK_BENCH"
    admin.placement.create_resource_provider_inventory(provider, "CUSTOM_SDK_BENCH", total=3)
    with pytest.raises(exceptions.ConflictException):
        admin.placement.delete_resource_class("CUSTOM_SDK_BENCH")
    admin.placement.delete_resource_provider_inventories(provider)
    admin.placement.delete_resource_class("CUSTOM_SDK_BENCH", ignore_missing=False)
    with pytest.raises(exceptions.NotFoundException):
        admin.placement.get_resource_class("CUSTOM_SDK_SEAT")
    with pytest.raises(exceptions.BadRequestException):
        admin.placement.delete_resource_class("VCPU")


def test_allocation_lifecycle(admin: Connection, provider: Any) -> None:
    placement, who = admin.placement, str(uuid4())
    placement.create_resource_provider_inventory(provider, "VGPU", total=4, max_unit=3)
    (candidate,) = placement.allocation_candidates(resources="VGPU:2", in_tree=provider.id)
    assert candidate.allocations == {provider.id: {"resources": {"VGPU": 2}}}
    assert candidate.mappings == {"": [provider.id]}
    assert candidate.provider_summaries[provider.id]["resources"] == {"VGPU": {"capacity": 4, "used": 0}}

    owner = {"project_id": "sdk-project", "user_id": "alice", "consumer_type": "CRATE"}
    held = placement.get_allocation(who)
    assert held.allocations == {}
    placement.update_allocation(who, allocations=candidate.allocations, consumer_generation=None, **owner)
    held = placement.get_allocation(who)
    assert (held.allocations[provider.id]["resources"], held.consumer_generation) == ({"VGPU": 2}, 1)
    assert (held.project_id, held.user_id, held.consumer_type) == ("sdk-project", "alice", "CRATE")
    assert placement.fetch_resource_provider_usages(provider).usages == {"VGPU": 2}
    assert [each.resources for each in placement.resource_provider_allocations(provider)] == [{"VGPU": 2}]
    (usage,) = placement.usages("sdk-project", user_id="alice")
    assert (usage.consumer_type, usage.consumer_count, usage.resources) == ("CRATE", 1, {"VGPU": 2})

    second = str(uuid4())
    too_much = {provider.id: {"resources": {"VGPU": 3}}}
    with pytest.raises(exceptions.ConflictException) as refused:
        placement.update_allocation(second, allocations=too_much, consumer_generation=None, **owner)
    assert "exceed the capacity" in said(refused)
    with pytest.raises(exceptions.ConflictException) as refused:
        placement.update_allocation(who, allocations=too_much, consumer_generation=7, **owner)
    assert "consumer generation conflict" in said(refused)
    placement.create_allocations(
        {
            who: {"allocations": {}, "consumer_generation": 1, **owner},
            second: {"allocations": too_much, "consumer_generation": None, **owner},
        }
    )
    assert placement.get_allocation(who).allocations == {}
    assert placement.get_allocation(second).consumer_generation == 1
    with pytest.raises(exceptions.ConflictException):
        placement.delete_resource_provider_inventories(provider)
    placement.delete_allocation(second, ignore_missing=False)
    with pytest.raises(exceptions.NotFoundException):
        placement.delete_allocation(second, ignore_missing=False)
    assert list(placement.resource_provider_allocations(provider)) == []


def test_requests_without_sdk_methods(admin: Connection, provider: Any) -> None:
    placement = admin.placement
    placement.create_trait("CUSTOM_SDK_GREEN")
    aggregate = str(uuid4())
    placement.set_resource_provider_aggregates(placement.get_resource_provider(provider.id), aggregate)
    mine = placement.get_resource_provider_trait(provider)
    placement.set_resource_provider_trait(mine, traits=["CUSTOM_SDK_GREEN"])
    placement.create_resource_provider_inventory(provider, "VGPU", total=2)

    def candidates(**query: str) -> list[str]:
        answer = placement.get("/allocation_candidates", params=query, microversion=NEWEST)
        assert answer.status_code == 200, answer.text
        return [uuid for each in answer.json()["allocation_requests"] for uuid in each["allocations"]]

    assert candidates(resources="VGPU:1", required="in:CUSTOM_SDK_GREEN,HW_CPU_X86_AVX2") == [provider.id]
    assert candidates(resources_A="VGPU:1", member_of_A=aggregate, root_required="CUSTOM_SDK_GREEN") == [provider.id]
    assert candidates(resources="VGPU:1", in_tree=provider.id, member_of=f"!in:{aggregate}") == []
    refused = placement.get("/allocation_candidates", params={"resources": "VGPU:no"}, microversion=NEWEST)
    assert (refused.status_code, refused.json()["errors"][0]["code"]) == (400, "placement.undefined_code")
    above = placement.get("/resource_providers", microversion="1.40")
    assert (above.status_code, above.json()["errors"][0]["max_version"]) == (406, NEWEST)
    reshaped: dict[str, dict[str, Any]] = {"inventories": {}, "allocations": {}}
    assert placement.post("/reshaper", json=reshaped, microversion=NEWEST).status_code == 403  # for services only
    placement.delete_resource_provider_trait(provider)
    placement.delete_trait("CUSTOM_SDK_GREEN")
