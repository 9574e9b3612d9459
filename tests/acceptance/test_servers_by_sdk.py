"""Servers and server groups with openstacksdk as a library."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from openstack import exceptions

from tests.acceptance.conftest import Demo
from tests.acceptance.test_sdk import connect

# The library prints deprecation warnings about itself.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")

Connection = Any  # openstacksdk has no types to check against
TIMEOUT_S = 30
EVERY_S = 0.05


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


@pytest.fixture(autouse=True)
def _delete_servers_and_groups(admin: Connection) -> Iterator[None]:
    yield
    for group in admin.compute.server_groups(all_projects=True):
        admin.compute.delete_server_group(group)
    deadline = time.monotonic() + TIMEOUT_S
    while servers := list(admin.compute.servers(details=False, all_projects=True)):
        assert time.monotonic() < deadline, servers
        for server in servers:
            admin.compute.delete_server(server)


def boot(connection: Connection, name: str, flavor: str = "tiny", **more: Any) -> Any:
    """Create a server and return it when it is ACTIVE."""
    created = connection.compute.create_server(
        name=name,
        flavor_id=connection.compute.find_flavor(flavor).id,
        image_id=connection.image.find_image("linux-server").id,
        networks="none",
        **more,
    )
    connection.compute.wait_for_server(created, interval=EVERY_S, wait=TIMEOUT_S)
    return connection.compute.get_server(created.id)


def wait_until_idle(connection: Connection, server: Any, status: str = "ACTIVE") -> Any:
    """Wait until a server has the status and no task, and return it.

    wait_for_server() takes a server that it is given at its word: one that once was active is taken to be so still.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        found = connection.compute.get_server(server.id)
        if found.status == status and found.task_state is None:
            return found
        assert time.monotonic() < deadline, found


def host(admin: Connection, server: Any) -> str | None:
    """Return the host of a server, which only operators see."""
    where: str | None = admin.compute.get_server(server.id).compute_host
    return where


def test_group_and_its_members(admin: Connection, member: Connection, other: Connection) -> None:
    created = member.compute.create_server_group(name="sdk", policy="anti-affinity", rules={"max_server_per_host": 2})
    assert (created.policy, created.rules, created.member_ids) == ("anti-affinity", {"max_server_per_host": 2}, [])
    assert member.compute.find_server_group("sdk").id == created.id
    assert member.compute.get_server_group(created.id).name == "sdk"
    assert [group.id for group in member.compute.server_groups()] == [created.id]
    assert [group.id for group in admin.compute.server_groups(all_projects=True)] == [created.id]
    assert list(admin.compute.server_groups()) == []
    assert other.compute.find_server_group("sdk") is None
    with pytest.raises(exceptions.NotFoundException):
        other.compute.get_server_group(created.id)

    servers = [boot(member, f"sdk-{number}", scheduler_hints={"group": created.id}) for number in range(3)]
    assert set(member.compute.get_server_group(created.id).member_ids) == {server.id for server in servers}
    assert len({server.host_id for server in servers}) >= 2
    assert servers[0].server_groups == [created.id]
    member.compute.delete_server(servers[0])
    member.compute.wait_for_delete(servers[0], interval=EVERY_S, wait=TIMEOUT_S)
    assert len(member.compute.get_server_group(created.id).member_ids) == 2
    member.compute.delete_server_group(created, ignore_missing=False)
    assert member.compute.find_server_group("sdk") is None


def test_servers_are_found_and_listed(admin: Connection, member: Connection, other: Connection) -> None:
    servers = {name: boot(member, name, metadata={"tier": "1"}, tags=["t"], description="d") for name in "abc"}
    found = member.compute.find_server("b")
    assert (found.id, found.metadata, found.tags) == (servers["b"].id, {"tier": "1"}, ["t"])
    assert member.compute.find_server(servers["b"].id).description == "d"
    assert found.flavor["original_name"] == "tiny"
    assert found.compute_host is None
    assert [server.name for server in member.compute.servers()] == ["c", "b", "a"]
    assert [server.name for server in member.compute.servers(details=False, limit=1)] == ["c", "b", "a"]
    assert {server.name for server in member.compute.servers(name="^[ab]$")} == {"a", "b"}
    assert list(member.compute.servers(status="ERROR")) == []
    assert len(list(admin.compute.servers(all_projects=True))) == 3
    assert len(list(admin.compute.servers(all_projects=True, project_id=servers["a"].project_id))) == 3
    assert list(admin.compute.servers(all_projects=True, project_id="unknown")) == []
    here = host(admin, servers["a"])
    assert servers["a"].id in {server.id for server in admin.compute.servers(all_projects=True, compute_host=here)}
    assert list(other.compute.servers()) == []
    assert other.compute.find_server("a") is None
    with pytest.raises(exceptions.NotFoundException):
        other.compute.get_server(servers["a"].id)
    with pytest.raises(exceptions.ForbiddenException, match="get_all_tenants"):
        list(member.compute.servers(all_projects=True))

    member.compute.update_server(servers["a"], name="z")
    member.compute.set_server_metadata(servers["a"], tier="2", lamp="on")
    member.compute.delete_server_metadata(servers["a"], ["lamp"])
    assert member.compute.get_server_metadata(servers["a"]).metadata == {"tier": "2"}
    member.compute.add_tag_to_server(servers["a"], "u")
    assert member.compute.get_server(servers["a"].id).tags == ["t", "u"]
    limits = member.compute.get_limits().absolute
    assert (limits.instances_used, limits.total_cores_used, limits.total_ram_used) == (3, 3, 1536)


def test_server_without_a_valid_host(member: Connection) -> None:
    created = member.compute.create_server(
        name="none",
        flavor_id=member.compute.find_flavor("tiny").id,
        image_id=member.image.find_image("windows-server").id,
        networks="none",
        availability_zone="az-1",
    )
    with pytest.raises(exceptions.ResourceFailure):
        member.compute.wait_for_server(created, interval=EVERY_S, wait=TIMEOUT_S)
    fault = member.compute.get_server(created.id).fault
    assert fault["message"].startswith("No valid host was found. Of 24 hosts: 16 are not in zone az-1, 8 ")
    assert "details" not in fault


def test_migrations(admin: Connection, member: Connection) -> None:
    server = boot(member, "mover")
    first = host(admin, server)
    with pytest.raises(exceptions.ForbiddenException, match="os-migrate-server:migrate"):
        member.compute.migrate_server(server)
    admin.compute.migrate_server(server.id)
    wait_until_idle(member, server, "VERIFY_RESIZE")
    second = host(admin, server)
    member.compute.confirm_server_resize(server)
    assert wait_until_idle(member, server).host_id != server.host_id

    third = next(name for name in ("node-20", "node-21", "node-22") if name not in {first, second})
    admin.compute.live_migrate_server(server.id, host=third, block_migration="auto")
    wait_until_idle(member, server)
    assert [first, second, third] == [*dict.fromkeys([first, second, host(admin, server)])]

    member.compute.resize_server(server, member.compute.find_flavor("small").id)
    assert wait_until_idle(member, server, "VERIFY_RESIZE").flavor["original_name"] == "small"
    member.compute.revert_server_resize(server)
    assert wait_until_idle(member, server).flavor["original_name"] == "tiny"
    assert host(admin, server) == third

    moves = list(admin.compute.migrations(instance_uuid=server.id))
    assert [(move.migration_type, move.status) for move in moves] == [
        ("resize", "reverted"),
        ("live-migration", "completed"),
        ("migration", "confirmed"),
    ]
    actions = [action.action for action in member.compute.server_actions(server)]
    assert actions == ["revertResize", "resize", "live-migration", "confirmResize", "migrate", "create"]


def test_power_lock_and_shelve(admin: Connection, member: Connection) -> None:
    server = boot(member, "lever")
    member.compute.stop_server(server)
    wait_until_idle(member, server, "SHUTOFF")
    member.compute.start_server(server)
    wait_until_idle(member, server)
    member.compute.reboot_server(server, "HARD")
    wait_until_idle(member, server)
    member.compute.lock_server(server, locked_reason="careful")
    with pytest.raises(exceptions.ConflictException, match="is locked"):
        member.compute.delete_server(server)
    member.compute.unlock_server(server)

    member.compute.shelve_server(server)
    wait_until_idle(member, server, "SHELVED_OFFLOADED")
    assert host(admin, server) is None
    member.compute.unshelve_server(server)
    wait_until_idle(member, server)
    member.compute.delete_server(server)
    member.compute.wait_for_delete(server, interval=EVERY_S, wait=TIMEOUT_S)
    assert member.compute.find_server("lever") is None


def test_evacuation(admin: Connection) -> None:
    server = boot(admin, "stranded", host="node-24")
    (service,) = admin.compute.services(host="node-24")
    with pytest.raises(exceptions.BadRequestException, match="still in use"):
        admin.compute.evacuate_server(server)
    with pytest.raises(exceptions.ConflictException):
        admin.compute.delete_service(service)
    admin.compute.update_service_forced_down(service, forced=True)
    try:
        admin.compute.evacuate_server(server)
        assert wait_until_idle(admin, server, "SHUTOFF").compute_host != "node-24"
    finally:
        admin.compute.update_service_forced_down(service, forced=False)
