"""Servers and server groups with python-novaclient as a library, at the versions that changed server groups."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from keystoneauth1 import http_basic, session
from novaclient import client, exceptions

from tests.acceptance.conftest import Demo
from tests.acceptance.processes import Session

Nova = Any  # novaclient has no types to check against
TIMEOUT_S = 30

OLD, SOFT, RULES = "2.1", "2.15", "2.64"


@pytest.fixture
def nova(demo: Demo) -> Iterator[Callable[[str, str], Nova]]:
    """Yield a factory of clients for a user and a version; delete their resources afterwards."""

    def connect(user: str, version: str) -> Nova:
        found = demo.cloud(user).credentials()
        auth = http_basic.HTTPBasicAuth(
            endpoint=f"{demo.covey.url}/compute/v2.1", username=found["username"], password=found["password"]
        )
        return client.Client(version, session=session.Session(auth=auth))

    yield connect
    admin = connect("admin", RULES)
    for group in admin.server_groups.list(all_projects=True):
        group.delete()
    deadline = time.monotonic() + TIMEOUT_S
    while servers := admin.servers.list(search_opts={"all_tenants": True}):
        assert time.monotonic() < deadline, servers
        for server in servers:
            with suppress(exceptions.NotFound):  # deleted since the listing
                server.delete()


@pytest.fixture(scope="module")
def linux(member: Session) -> str:
    found: str = member.json("image show linux-server")["id"]
    return found


def boot(nova: Nova, linux: str, name: str, group: str, **more: Any) -> Any:
    flavor = next(flavor for flavor in nova.flavors.list() if flavor.name == "tiny")
    return nova.servers.create(name, linux, flavor.id, scheduler_hints={"group": group}, **more)


def wait_until_idle(nova: Nova, server: str) -> Any:
    deadline = time.monotonic() + TIMEOUT_S
    while (found := nova.servers.get(server)).status != "ACTIVE":
        assert time.monotonic() < deadline, found.status
    return found


def test_hard_policies_at_the_first_version(nova: Callable[[str, str], Nova], linux: str) -> None:
    member = nova("demo", OLD)
    created = member.server_groups.create(name="old", policies=["anti-affinity"])
    assert (created.policies, created.members, created.metadata) == (["anti-affinity"], [], {})
    assert not hasattr(created, "project_id")
    with pytest.raises(exceptions.BadRequest):
        member.server_groups.create(name="too-new", policies=["soft-affinity"])
    assert [group.id for group in member.server_groups.list()] == [created.id]

    servers = [wait_until_idle(member, boot(member, linux, f"old-{number}", created.id).id) for number in range(2)]
    assert len({server.hostId for server in servers}) == 2
    assert servers[0].flavor.keys() == {"id", "links"}
    assert set(member.server_groups.get(created.id).members) == {server.id for server in servers}
    assert {server.name for server in member.servers.list()} == {"old-0", "old-1"}

    other = nova("other", OLD)
    assert other.servers.list() == []
    with pytest.raises(exceptions.NotFound):
        other.servers.get(servers[0].id)
    with pytest.raises(exceptions.NotFound):
        other.server_groups.get(created.id)
    with pytest.raises(exceptions.BadRequest, match="could not be found"):
        boot(other, linux, "no", created.id)

    servers[0].delete()
    deadline = time.monotonic() + TIMEOUT_S
    while len(member.servers.list()) > 1:
        assert time.monotonic() < deadline
    assert member.server_groups.get(created.id).members == [servers[1].id]
    member.server_groups.delete(created.id)
    assert member.server_groups.list() == []


def test_soft_policies_and_owners(nova: Callable[[str, str], Nova], linux: str) -> None:
    member = nova("demo", SOFT)
    created = member.server_groups.create(name="soft", policies=["soft-affinity"])
    assert (created.policies, created.user_id) == (["soft-affinity"], "demo")
    servers = [wait_until_idle(member, boot(member, linux, f"soft-{number}", created.id).id) for number in range(2)]
    assert len({server.hostId for server in servers}) == 1
    all_groups = nova("admin", SOFT).server_groups.list(all_projects=True)
    assert [group.id for group in all_groups] == [created.id]
    with pytest.raises(exceptions.BadRequest):
        member.server_groups.create(name="unknown", policies=["far-apart"])


def test_one_policy_with_rules(nova: Callable[[str, str], Nova], linux: str) -> None:
    member = nova("demo", RULES)
    created = member.server_groups.create(name="rules", policy="anti-affinity", rules={"max_server_per_host": 2})
    assert (created.policy, created.rules) == ("anti-affinity", {"max_server_per_host": 2})
    first = boot(member, linux, "many", created.id, nics="none", min_count=3, max_count=3)
    wait_until_idle(member, first.id)
    many = [wait_until_idle(member, server.id) for server in member.servers.list(search_opts={"name": "many"})]
    assert len(many) == 3
    assert len({server.hostId for server in many}) >= 2
    assert many[0].flavor["original_name"] == "tiny"
    old = nova("demo", OLD).server_groups.get(created.id)
    assert (old.policies, old.metadata) == (["anti-affinity"], {})
    with pytest.raises(exceptions.BadRequest, match="Only anti-affinity policy supports rules"):
        member.server_groups.create(name="no", policy="affinity", rules={"max_server_per_host": 2})


@pytest.mark.parametrize("version", [OLD, SOFT, RULES])
def test_operator_migrates_servers(nova: Callable[[str, str], Nova], linux: str, version: str) -> None:
    admin, member = nova("admin", version), nova("demo", version)
    policy = {"policy": "anti-affinity"} if version == RULES else {"policies": ["anti-affinity"]}
    group = member.server_groups.create(name="moved", **policy)
    more = {"nics": "none"} if version == RULES else {}
    server = wait_until_idle(member, boot(member, linux, "moved", group.id, **more).id)
    with pytest.raises(exceptions.Forbidden, match="os-migrate-server:migrate"):
        member.servers.migrate(server)
    before = admin.servers.get(server.id)
    admin.servers.migrate(server)
    deadline = time.monotonic() + TIMEOUT_S
    while member.servers.get(server.id).status != "VERIFY_RESIZE":
        assert time.monotonic() < deadline
    member.servers.confirm_resize(server)
    after = wait_until_idle(admin, server.id)
    attribute = "OS-EXT-SRV-ATTR:host"
    assert getattr(after, attribute) != getattr(before, attribute)
