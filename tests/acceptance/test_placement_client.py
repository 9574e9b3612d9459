"""The unmodified client's placement commands, with the clouds.yaml that `covey demo` wrote."""

from tests.acceptance.conftest import Demo
from tests.acceptance.processes import Session

V = "--os-placement-api-version 1.39"
CONSUMER = "0d5b0a4e-7c1e-4c6a-9a52-5f4d3f0f7a11"


def test_the_hosts_of_the_fleet_are_providers(demo: Demo) -> None:
    rows = demo.cloud("admin").json(f"{V} resource provider list")
    assert len(rows) >= 24
    assert all(row["root_provider_uuid"] == row["uuid"] for row in rows)


def test_a_provider_from_its_creation_to_its_end(demo: Demo) -> None:
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


def test_a_tenant_is_told_nothing_of_providers(member: Session) -> None:
    assert "403" in member.refusal("resource provider list")
