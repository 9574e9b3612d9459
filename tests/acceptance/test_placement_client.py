"""The unmodified client's placement commands, with the clouds.yaml that `covey demo` wrote."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.acceptance.conftest import Demo
from tests.acceptance.processes import Cloud, Session

V = "--os-placement-api-version 1.39"
CONSUMER = "0d5b0a4e-7c1e-4c6a-9a52-5f4d3f0f7a11"


class Newest(Cloud):
    """A cloud whose client uses the newest Placement microversion by default."""

    def environment(self, **more: str) -> dict[str, str]:
        return super().environment(OS_PLACEMENT_API_VERSION="1.39", **more)


@pytest.fixture(scope="module")
def placement(demo: Demo) -> Iterator[Session]:
    cloud = demo.cloud("admin")
    with Session(Newest(cloud.file, cloud.name)) as session:
        yield session


@pytest.fixture
def shelves(placement: Session) -> Iterator[list[str]]:
    """Yield two providers with four VGPUs and fifty PGPUs each."""
    made = [placement.json(f"resource provider create {uuid4()}")["uuid"] for _ in range(2)]
    for each in made:
        placement.json(f"resource provider inventory set {each} --resource VGPU=4 --resource PGPU=50")
    yield made
    for each in made:
        placement.run(f"resource provider delete {each}")


def test_hosts_are_providers(demo: Demo) -> None:
    rows = demo.cloud("admin").json(f"{V} resource provider list")
    assert len(rows) >= 24
    assert all(row["root_provider_uuid"] == row["uuid"] for row in rows)


def test_provider_lifecycle(demo: Demo) -> None:
    admin = demo.cloud("admin")
    made = admin.json(f"{V} resource provider create shelf")["uuid"]
    admin.run(f"{V} resource provider inventory set {made} --resource VGPU=4 --resource VGPU:max_unit=3")
    admin.run(f"{V} trait create CUSTOM_BLUE")
    admin.run(f"{V} resource provider trait set {made} --trait CUSTOM_BLUE")
    admin.run(
        f"{V} resource provider allocation set {CONSUMER} --allocation rp={made},VGPU=2 "
        "--project-id web --user-id alice --consumer-type INSTANCE"
    )
    assert admin.json(f"{V} resource provider usage show {made}") == [{"resource_class": "VGPU", "usage": 2}]
    found = admin.json(f"{V} allocation candidate list --resource VGPU=2 --required CUSTOM_BLUE")
    assert [row["resource provider"] for row in found] == [made]
    assert "Unable to delete resource provider" in admin.refusal(f"{V} resource provider delete {made}")
    admin.run(f"{V} resource provider allocation delete {CONSUMER}")
    admin.run(f"{V} resource provider delete {made}")
    admin.run(f"{V} trait delete CUSTOM_BLUE")


def test_tenant_cannot_read_providers(member: Session) -> None:
    assert "403" in member.refusal("resource provider list")


def test_candidates_by_aggregates_and_forbidden_traits(placement: Session, shelves: list[str]) -> None:
    common, own = str(uuid4()), str(uuid4())
    placement.run("trait create CUSTOM_OSC_RED")
    placement.json(f"resource provider trait set {shelves[1]} --trait CUSTOM_OSC_RED")
    for each, aggregates in ((shelves[0], [common]), (shelves[1], [common, own])):
        generation = placement.json(f"resource provider show {each}")["generation"]
        words = " ".join(f"--aggregate {aggregate}" for aggregate in aggregates)
        set_ = f"resource provider aggregate set {each} {words} --generation"
        assert "409" in placement.refusal(f"{set_} {generation - 1}")
        assert {row["uuid"] for row in placement.json(f"{set_} {generation}")} == set(aggregates)
        assert {row["uuid"] for row in placement.json(f"resource provider aggregate list {each}")} == set(aggregates)

    def candidates(words: str) -> set[str]:
        rows = placement.json(f"allocation candidate list --resource VGPU=1 {words}")
        return {row["resource provider"] for row in rows}

    assert candidates(f"--member-of {common}") == set(shelves)
    assert candidates(f"--member-of {own},{uuid4()}") == {shelves[1]}
    assert candidates(f"--member-of {common} --member-of {own}") == {shelves[1]}
    assert candidates(f"--member-of {common} --forbidden CUSTOM_OSC_RED") == {shelves[0]}
    assert candidates(f"--member-of {own} --forbidden CUSTOM_OSC_RED") == set()
    assert len(candidates(f"--member-of {common} --limit 1")) == 1
    rows = placement.json(
        f"allocation candidate list --group 1 --resource VGPU=1 --member-of {common} "
        f"--group 2 --resource PGPU=2 --member-of {own} --group-policy none"
    )
    assert {row["resource provider"] for row in rows} == {shelves[1]}
    found = placement.json(f"resource provider list --member-of {common} --forbidden CUSTOM_OSC_RED")
    assert [row["uuid"] for row in found] == [shelves[0]]
    assert "No such trait" in placement.refusal(
        "allocation candidate list --resource VGPU=1 --forbidden CUSTOM_OSC_NONE"
    )
    placement.run(f"resource provider trait delete {shelves[1]}")
    placement.run("trait delete CUSTOM_OSC_RED")


def test_custom_resource_classes(placement: Session) -> None:
    placement.run("resource class create CUSTOM_OSC_SEAT")
    assert "409" in placement.refusal("resource class create CUSTOM_OSC_SEAT")
    placement.run("resource class set CUSTOM_OSC_SEAT")
    placement.run("resource class set CUSTOM_OSC_BENCH")
    assert placement.json("resource class show CUSTOM_OSC_BENCH") == {"name": "CUSTOM_OSC_BENCH"}
    names = {row["name"] for row in placement.json("resource class list")}
    assert {"VCPU", "CUSTOM_OSC_SEAT", "CUSTOM_OSC_BENCH"} <= names
    for name in ("CUSTOM_OSC_SEAT", "CUSTOM_OSC_BENCH"):
        placement.run(f"resource class delete {name}")
    assert "404" in placement.refusal("resource class show CUSTOM_OSC_SEAT")
    assert "400" in placement.refusal("resource class delete VCPU")
    assert "400" in placement.refusal("resource class set SEAT")


def test_custom_traits(placement: Session, shelves: list[str]) -> None:
    placement.run("trait create CUSTOM_OSC_BLUE")
    assert placement.json("trait show CUSTOM_OSC_BLUE") == {"name": "CUSTOM_OSC_BLUE"}
    ours = "trait list --name startswith:CUSTOM_OSC_"
    assert placement.json(ours) == [{"name": "CUSTOM_OSC_BLUE"}]
    assert placement.json(f"{ours} --associated") == []
    placement.json(f"resource provider trait set {shelves[0]} --trait CUSTOM_OSC_BLUE")
    assert placement.json(f"{ours} --associated") == [{"name": "CUSTOM_OSC_BLUE"}]
    assert placement.json(f"resource provider trait list {shelves[0]}") == [{"name": "CUSTOM_OSC_BLUE"}]
    assert "409" in placement.refusal("trait delete CUSTOM_OSC_BLUE")
    placement.run(f"resource provider trait delete {shelves[0]}")
    placement.run("trait delete CUSTOM_OSC_BLUE")
    assert "404" in placement.refusal("trait show CUSTOM_OSC_BLUE")
    assert "400" in placement.refusal("trait create BLUE")


def test_inventory_of_one_class(placement: Session, shelves: list[str]) -> None:
    changed = placement.json(f"resource provider inventory class set {shelves[0]} VGPU --total 6 --reserved 1")
    assert (changed["total"], changed["reserved"], changed["max_unit"]) == (6, 1, 2147483647)
    assert placement.json(f"resource provider inventory show {shelves[0]} VGPU")["total"] == 6
    totals = {
        row["resource_class"]: row["total"] for row in placement.json(f"resource provider inventory list {shelves[0]}")
    }
    assert totals == {"VGPU": 6, "PGPU": 50}
    assert "400" in placement.refusal(f"resource provider inventory class set {shelves[0]} VCPU --total 6")
    placement.run(f"resource provider inventory delete {shelves[0]} --resource-class PGPU")
    assert "404" in placement.refusal(f"resource provider inventory show {shelves[0]} PGPU")


def test_allocations_are_removed_one_by_one(placement: Session, shelves: list[str]) -> None:
    who, (first, second) = str(uuid4()), shelves
    placement.json(
        f"resource provider allocation set {who} --allocation rp={first},VGPU=2,PGPU=3 --allocation rp={second},VGPU=1 "
        "--project-id osc --user-id alice --consumer-type CRATE"
    )

    def used() -> list[dict[str, int]]:
        listed = [placement.json(f"resource provider usage show {each}") for each in shelves]
        return [{row["resource_class"]: row["usage"] for row in rows} for rows in listed]

    assert used() == [{"VGPU": 2, "PGPU": 3}, {"VGPU": 1, "PGPU": 0}]
    (row,) = placement.json(f"resource provider allocation unset {who} --provider {second}")
    assert (row["resource_provider"], row["resources"]) == (first, {"VGPU": 2, "PGPU": 3})
    placement.json(f"resource provider allocation unset {who} --resource-class PGPU")
    assert used() == [{"VGPU": 2, "PGPU": 0}, {"VGPU": 0, "PGPU": 0}]
    (row,) = placement.json(f"resource provider allocation show {who}")
    assert (row["project_id"], row["user_id"], row["resources"]) == ("osc", "alice", {"VGPU": 2})
    assert placement.json(f"resource provider allocation unset {who}") == []
    assert used() == [{"VGPU": 0, "PGPU": 0}] * 2


def test_project_usage(demo: Demo, placement: Session, shelves: list[str]) -> None:
    who = str(uuid4())
    placement.json(
        f"resource provider allocation set {who} --allocation rp={shelves[0]},VGPU=2 "
        "--project-id osc --user-id alice --consumer-type CRATE"
    )
    admin = demo.cloud("admin")  # the command does not support responses of 1.38 and later
    for words, usage in (("osc", 2), ("osc --user-id alice", 2)):
        found = admin.json(f"--os-placement-api-version 1.37 resource usage show {words}")
        assert found == [{"resource_class": "VGPU", "usage": usage}]
    assert admin.json("--os-placement-api-version 1.37 resource usage show osc --user-id bob") == []
    placement.run(f"resource provider allocation delete {who}")
