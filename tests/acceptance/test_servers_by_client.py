"""Lifecycles of servers and server groups with the unmodified `openstack` command."""

import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.conftest import Demo
from tests.acceptance.processes import Failed, Session

BOOT = "server create --image linux-server --flavor tiny --no-network"
DONE = "Complete"
MOVED = "Complete, check success/failure by openstack server migration/event list/show"
TIMEOUT_S = 30.0

Document = dict[str, Any]


def column(rows: list[Document], name: str) -> list[Any]:
    return [row[name] for row in rows]


def output_without_progress(session: Session, command: str) -> str:
    """Return a command's output without progress; the added echo ends the unterminated progress line."""
    return re.sub(r"\s*Progress: \d*", "", session._output(f"{command}\n!echo")).strip()


def wait_until_idle(session: Session, server: str, status: str = "ACTIVE") -> Document:
    """Wait until a server has the status and no task, and return it. Raises Failed."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        shown: Document = session.json(f"server show {server}")
        if shown["status"] == status and shown["OS-EXT-STS:task_state"] is None:
            return shown
    raise Failed(f"{server} is {shown['status']}, {shown['OS-EXT-STS:task_state']}, not {status}")


def wait_until_all_idle(session: Session, names: str, status: str = "ACTIVE") -> list[Document]:
    """Wait until all servers with matching names are idle, and return them."""
    found = session.json(f"server list --name {names}")
    return [wait_until_idle(session, row["ID"], status) for row in found]


def boot(session: Session, name: str, options: str = "") -> Document:
    """Create a server and return it when it is ACTIVE."""
    created = session.json(f"{BOOT} {options} {name}")
    return wait_until_idle(session, created["id"])


def host(admin: Session, server: Document) -> str | None:
    """Return the host of a server, which only operators see."""
    where: str | None = admin.json(f"server show {server['id']}")["OS-EXT-SRV-ATTR:host"]
    return where


def uses(session: Session, project: str) -> Document:
    rows = session.json(f"quota show --compute --usage {project}")
    return {row["Resource"]: row["In Use"] for row in rows}


@pytest.fixture(autouse=True)
def _delete_servers_and_groups(admin: Session) -> Iterator[None]:
    yield
    groups = column(admin.json("server group list --all-projects"), "ID")
    if groups:
        admin.run(f"server group delete {' '.join(groups)}")
    deadline = time.monotonic() + TIMEOUT_S
    while servers := column(admin.json("server list --all-projects -n"), "ID"):
        assert time.monotonic() < deadline, servers
        # Errors about servers that are already deleted are ignored; the loop ends with an empty list.
        output_without_progress(admin, f"server delete {' '.join(servers)}")


def test_each_command_works_in_its_own_process(demo: Demo) -> None:
    """Other tests of this file use one process for all commands."""
    member = demo.cloud("demo")
    group = member.json("server group create --policy anti-affinity --rule max_server_per_host=3 'a typed group'")
    assert (group["policy"], group["rules"]) == ("anti-affinity", {"max_server_per_host": 3})
    created = member.json(f"{BOOT} --hint group={group['id']} --description 'two words' --wait typed")
    assert (created["status"], created["description"]) == ("ACTIVE", "two words")
    assert created["server_groups"] == [group["id"]]

    refused = member.refusal(
        "server create --image windows-server --flavor tiny --no-network --availability-zone az-1 --wait nowhere"
    )
    assert refused.strip() == "Error creating server: nowhere"
    shown = member.json("server show nowhere")
    assert (shown["status"], shown["hostId"]) == ("ERROR", "")
    assert shown["fault"]["message"] == (
        "No valid host was found. Of 24 hosts: 16 are not in zone az-1, 8 lack a required trait."
    )
    member.run("server delete --wait typed nowhere")


def test_group_lifecycle(admin: Session, member: Session, other: Session) -> None:
    created = member.json("server group create --policy anti-affinity --rule max_server_per_host=3 story")
    project = created["project_id"]
    assert created == {
        "id": created["id"],
        "name": "story",
        "members": [],
        "policy": "anti-affinity",
        "rules": {"max_server_per_host": 3},
        "project_id": project,
        "user_id": "demo",
    }
    soft = member.json("server group create --policy soft-affinity near")
    assert (soft["policy"], soft["rules"]) == ("soft-affinity", {})
    assert member.json("server group create nothing-said")["policy"] == "affinity"

    assert member.json("server group show story") == created
    assert member.json(f"server group show {created['id']}") == created
    rows = {row["Name"]: row for row in member.json("server group list --long")}
    assert rows.keys() == {"story", "near", "nothing-said"}
    assert (rows["story"]["Policy"], rows["story"]["Project Id"]) == ("anti-affinity", project)
    policies = column(member.json("server group list"), "Policy")
    assert set(policies) == {"anti-affinity", "soft-affinity", "affinity"}

    assert admin.json("server group list") == []
    assert len(admin.json("server group list --all-projects")) == 3
    assert other.json("server group list --all-projects") == []
    assert uses(member, "demo")["server-groups"] == 3

    member.run("server group delete story near nothing-said")
    assert member.json("server group list") == []
    assert "No ServerGroup found for story" in member.refusal("server group show story")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("--policy anti-affinity --rule max_server_per_host=0", "0 is less than the minimum of 1"),
        ("--policy anti-affinity --rule max_server_per_rack=1", "'max_server_per_rack' was unexpected"),
        ("--policy soft-affinity --rule max_server_per_host=3", "Only anti-affinity policy supports rules."),
    ],
)
def test_invalid_group_is_rejected(member: Session, options: str, why: str) -> None:
    output = member.refusal(f"server group create {options} senseless")
    assert "400" in output
    assert why in output


def test_duplicate_group_name_is_ambiguous(member: Session) -> None:
    first, second = (member.json("server group create --policy affinity twin") for _ in range(2))
    assert "More than one ServerGroup exists with the name 'twin'." in member.refusal("server group show twin")
    member.run(f"server group delete {first['id']}")
    assert member.json("server group show twin") == second


def test_servers_follow_the_policies_of_their_group(admin: Session, member: Session) -> None:
    group = member.json("server group create --policy anti-affinity spread")
    first = member.json(f"{BOOT} --server-group spread --availability-zone az-1 --max 6 --wait many")
    assert (first["status"], first["name"]) == ("ACTIVE", "many-1")
    many = wait_until_all_idle(member, "many")
    assert sorted(column(many, "name")) == [f"many-{number}" for number in range(1, 7)]
    assert len(set(column(many, "hostId"))) == 6
    assert set(member.json("server group show spread")["members"]) == set(column(many, "id"))

    # Two of the zone's eight hosts are free: they take two servers, and a ninth has no valid host.
    rest = [boot(member, f"rest-{number}", f"--hint group={group['id']} --availability-zone az-1") for number in (1, 2)]
    assert len(set(column(many + rest, "hostId"))) == 8
    assert {host(admin, server) for server in many + rest} == {f"node-{number:02}" for number in range(1, 9)}
    output = output_without_progress(member, f"{BOOT} --server-group spread --availability-zone az-1 --wait ninth")
    assert output == "Error creating server: ninth"

    shown = member.json("server show ninth")
    assert (shown["status"], shown["OS-EXT-STS:vm_state"], shown["hostId"]) == ("ERROR", "error", "")
    message = shown["fault"]["message"]
    assert message.startswith("No valid host was found. Of 24 hosts: 16 are not in zone az-1, 8 ")
    assert "node-" not in str(shown)
    assert "details" not in shown["fault"]
    (event,) = member.json("server event list ninth --long")
    assert (event["Action"], event["Message"]) == ("create", "Error")
    assert "node-" not in str(member.json(f"server event show ninth {event['Request ID']}"))
    assert len(member.json("server group show spread")["members"]) == 8
    assert column(member.json("server list --status ERROR"), "Name") == ["ninth"]
    assert uses(member, "demo")["instances"] == 9


def test_affinity_group_shares_a_host(admin: Session, member: Session) -> None:
    member.json("server group create --policy affinity together")
    member.json(f"{BOOT} --server-group together --max 3 mate")
    mates = wait_until_all_idle(member, "mate")
    assert len(mates) == 3
    assert len(set(column(mates, "hostId"))) == 1

    # The affinity policy forbids a move of one member: it stays, and the instance action shows why.
    mate = mates[0]
    assert "No valid host was found. Of 24 hosts: " in admin.refusal(f"server migrate {mate['id']}")
    after = wait_until_idle(member, mate["id"])
    assert after["hostId"] == mate["hostId"]
    assert column(member.json(f"server event list {mate['id']}"), "Action") == ["migrate", "create"]


def test_min_count_and_max_count(admin: Session) -> None:
    admin.json("server group create --policy anti-affinity --rule max_server_per_host=2 couple")
    admin.json(f"{BOOT} --server-group couple --host node-03 --min 2 --max 3 couple")
    couple = wait_until_all_idle(admin, "couple")
    assert Counter(column(couple, "OS-EXT-SRV-ATTR:host")) == {"node-03": 2}
    admin.json(f"{BOOT} --server-group couple --host node-03 --min 2 --max 3 no-room")
    refused = wait_until_all_idle(admin, "no-room", "ERROR")
    assert len(refused) == 2
    assert "node-03" not in {server["OS-EXT-SRV-ATTR:host"] for server in refused}
    assert "min instances should be <= max instances" in admin.refusal(f"{BOOT} --min 3 --max 2 none")


def test_server_attributes_are_set_and_changed(member: Session) -> None:
    dressed = "--property tier=gold --property shelf=3 --tag red --tag blue --description old"
    server = boot(member, "dressed", dressed)
    assert server["properties"] == {"tier": "gold", "shelf": "3"}
    assert (server["tags"], server["description"]) == (["blue", "red"], "old")
    assert server["image"].startswith("linux-server (")
    assert server["flavor"]["name"] == "tiny"

    member.run(
        "server set --name renamed --property tier=silver --property lamp=on --description new --tag green dressed"
    )
    member.run("server unset --property shelf --tag red renamed")
    shown = member.json("server show renamed")
    assert (shown["id"], shown["description"]) == (server["id"], "new")
    assert shown["properties"] == {"tier": "silver", "lamp": "on"}
    assert shown["tags"] == ["blue", "green"]
    member.run("server unset --description renamed")
    assert member.json("server show renamed")["description"] in {None, ""}
    assert "No Server found for dressed" in member.refusal("server show dressed")


def test_server_list_filters(admin: Session, member: Session, other: Session) -> None:
    for name, options in (("web-1", "--tag front"), ("web-2", ""), ("db", "--tag front --tag back")):
        boot(member, name, options)
    boot(other, "theirs")
    listed = {row["Name"]: row for row in member.json("server list")}
    assert listed.keys() == {"web-1", "web-2", "db"}
    assert {(row["Status"], row["Image"], row["Flavor"]) for row in listed.values()} == {
        ("ACTIVE", "linux-server", "tiny")
    }

    def names(session: Session, options: str) -> set[str]:
        return set(column(session.json(f"server list {options}"), "Name"))

    assert names(member, "--name ^web") == {"web-1", "web-2"}
    assert names(member, "--status ACTIVE") == {"web-1", "web-2", "db"}
    assert names(member, "--status SHUTOFF") == set()
    assert names(member, "--vm-state active") == {"web-1", "web-2", "db"}
    assert names(member, "--vm-state error") == set()
    assert names(member, "--flavor tiny --image linux-server") == {"web-1", "web-2", "db"}
    assert names(member, "--flavor large") == names(member, "--image database") == set()
    assert names(member, "--tags front") == {"web-1", "db"}
    assert names(member, "--tags front --tags back") == {"db"}
    newest = column(member.json("server list --limit 2"), "Name")
    assert newest == ["db", "web-2"]
    assert names(member, f"--limit 2 --marker {listed['web-2']['ID']}") == {"web-1"}

    all_servers = admin.json("server list --all-projects --long")
    assert {row["Name"] for row in all_servers} == {"web-1", "web-2", "db", "theirs"}
    assert {row["Host Status"] for row in all_servers} == {"UP"}
    assert names(admin, "") == set()
    assert names(admin, "--project other") == {"theirs"}
    where = Counter(column(all_servers, "Host"))
    for node, count in where.items():
        assert re.fullmatch(r"node-\d\d", node)
        assert len(admin.json(f"server list --all-projects --host {node}")) == count
    assert "os_compute_api:servers:detail:get_all_tenants" in member.refusal("server list --all-projects")
    assert {row["Host"] for row in member.json("server list --long")} == {None}
    # The error for a tenant reveals nothing about the host.
    assert names(member, "--host node-01") == {"web-1", "web-2", "db"}


def test_power_and_locks(member: Session) -> None:
    server = boot(member, "power")
    member.run("server stop power")
    stopped = wait_until_idle(member, "power", "SHUTOFF")
    assert (stopped["OS-EXT-STS:power_state"], stopped["hostId"]) == (4, server["hostId"])
    assert "409" in member.refusal("server stop power")
    member.run("server start power")
    wait_until_idle(member, "power")
    assert output_without_progress(member, "server reboot --wait power") == DONE
    assert output_without_progress(member, "server reboot --hard --wait power") == DONE

    member.run("server lock --reason careful power")
    locked = member.json("server show power")
    assert (locked["locked"], locked["locked_reason"]) == (True, "careful")
    for command in ("stop", "reboot", "delete", "shelve", "resize --flavor small"):
        output = member.refusal(f"server {command} power")
        assert "409" in output
        assert f"Instance {server['id']} is locked" in output
    member.run("server unlock power")
    assert member.json("server show power")["locked"] is False

    actions = member.json("server event list power")
    assert column(actions, "Action") == ["reboot", "reboot", "start", "stop", "create"]
    shown = member.json(f"server event show power {actions[-1]['Request ID']}")
    assert (shown["action"], shown["message"]) == ("create", None)


def test_operators_can_force_a_host(admin: Session, member: Session) -> None:
    assert boot(admin, "here", "--host node-03")["OS-EXT-SRV-ATTR:host"] == "node-03"
    assert boot(admin, "there", "--hypervisor-hostname node-04")["OS-EXT-SRV-ATTR:host"] == "node-04"
    forced = boot(admin, "forced", "--availability-zone az-1:node-05")
    assert forced["OS-EXT-SRV-ATTR:hypervisor_hostname"] == "node-05"
    anywhere = boot(admin, "zoned", "--availability-zone az-2")
    assert (anywhere["OS-EXT-AZ:availability_zone"], anywhere["pinned_availability_zone"]) == ("az-2", "az-2")
    assert column(admin.json("server list --host node-03"), "Name") == ["here"]
    assert "Compute host node-99 could not be found." in admin.refusal(f"{BOOT} --host node-99 lost")
    assert "zone is not available" in admin.refusal(f"{BOOT} --availability-zone az-99 lost")
    assert "zone is not available" in member.refusal(f"{BOOT} --availability-zone az-99 lost")

    # A host with servers cannot be deleted.
    (service,) = admin.json("compute service list --host node-03")
    assert "409" in admin.refusal(f"compute service delete {service['ID']}")
    assert admin.json("hypervisor show node-03")["state"] == "up"
    assert output_without_progress(admin, "server delete --wait here there forced zoned") == ""
    assert admin.json("server list") == []


def test_cold_migration_is_confirmed_or_reverted(admin: Session, member: Session) -> None:
    server = boot(member, "moving")
    first = host(admin, server)
    assert output_without_progress(admin, f"server migrate --wait {server['id']}") == MOVED
    waiting = wait_until_idle(member, "moving", "VERIFY_RESIZE")
    assert waiting["hostId"] != server["hostId"]
    second = host(admin, server)
    member.run("server migration confirm moving")
    assert wait_until_idle(member, "moving")["hostId"] == waiting["hostId"]

    third = next(name for name in ("node-20", "node-21", "node-22") if name not in {first, second})
    assert output_without_progress(admin, f"server migrate --host {third} --wait {server['id']}") == MOVED
    assert host(admin, server) == third
    member.run("server migration revert moving")
    assert wait_until_idle(member, "moving")["hostId"] == waiting["hostId"]
    assert host(admin, server) == second

    moves = admin.json(f"server migration list --server {server['id']}")
    assert [(row["Source Compute"], row["Dest Compute"], row["Status"], row["Type"]) for row in moves] == [
        (second, third, "reverted", "migration"),
        (first, second, "confirmed", "migration"),
    ]
    assert "409" in member.refusal("server migration confirm moving")
    assert "could not be found" in admin.refusal(f"server migrate --host node-99 {server['id']}")
    assert uses(member, "demo")["instances"] == 1


def test_live_migration(admin: Session, member: Session) -> None:
    server = boot(member, "live")
    first = host(admin, server)
    assert output_without_progress(admin, f"server migrate --live-migration --wait {server['id']}") == MOVED
    second = host(admin, server)
    third = next(name for name in ("node-20", "node-21", "node-22") if name not in {first, second})
    assert (
        output_without_progress(admin, f"server migrate --live-migration --host {third} --wait {server['id']}") == MOVED
    )
    assert wait_until_idle(member, "live")["OS-EXT-STS:vm_state"] == "active"
    assert len({first, second, third}) == 3
    assert host(admin, server) == third
    moves = admin.json(f"server migration list --server {server['id']} --type live-migration")
    assert column(moves, "Dest Compute") == [third, second]
    assert set(column(moves, "Status")) == {"completed"}


def test_resize_is_confirmed_or_reverted(member: Session) -> None:
    boot(member, "growing")
    assert "400" in member.refusal("server resize --flavor tiny growing")
    assert output_without_progress(member, "server resize --flavor medium --wait growing") == DONE
    member.run("server resize confirm growing")
    assert wait_until_idle(member, "growing")["flavor"]["name"] == "medium"
    used = uses(member, "demo")
    assert (used["instances"], used["cores"], used["ram"]) == (1, 2, 4096)

    assert output_without_progress(member, "server resize --flavor large --wait growing") == DONE
    assert wait_until_idle(member, "growing", "VERIFY_RESIZE")["flavor"]["name"] == "large"
    member.run("server resize revert growing")
    assert wait_until_idle(member, "growing")["flavor"]["name"] == "medium"
    used = uses(member, "demo")
    assert (used["instances"], used["cores"], used["ram"]) == (1, 2, 4096)
    actions = column(member.json("server event list growing"), "Action")
    assert actions == ["revertResize", "resize", "confirmResize", "resize", "create"]


def test_shelved_server_is_offloaded_and_unshelved(admin: Session, member: Session) -> None:
    group = member.json("server group create --policy anti-affinity shelf")
    server = boot(member, "book", "--server-group shelf --availability-zone az-1")
    assert output_without_progress(member, "server shelve --wait book") == ""
    shelved = wait_until_idle(member, "book", "SHELVED_OFFLOADED")
    assert (shelved["hostId"], host(admin, server)) == ("", None)
    assert member.json(f"server show {server['id']}")["server_groups"] == [group["id"]]
    assert output_without_progress(member, "server unshelve --wait book") == ""
    assert wait_until_idle(member, "book")["OS-EXT-AZ:availability_zone"] == "az-1"
    assert member.json("server group show shelf")["members"] == [server["id"]]


def test_servers_of_a_down_host_are_evacuated(admin: Session) -> None:
    server = boot(admin, "stranded", "--host node-24")
    assert "is still in use" in admin.refusal("server evacuate stranded")
    admin.run("compute service set --down node-24 nova-compute")
    try:
        begun = admin.json("server evacuate stranded")
        assert begun["id"] == server["id"]
        # From 2.95 an evacuated server stays stopped.
        assert wait_until_idle(admin, "stranded", "SHUTOFF")["OS-EXT-SRV-ATTR:host"] != "node-24"
    finally:
        admin.run("compute service set --up node-24 nova-compute")
    (move,) = admin.json(f"server migration list --server {server['id']}")
    assert (move["Type"], move["Status"], move["Source Compute"]) == ("evacuation", "completed", "node-24")


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        (f"{BOOT} --host node-03 no", "compute:servers:create:requested_destination"),
        (f"{BOOT} --availability-zone az-1:node-03 no", "os_compute_api:servers:create:forced_host"),
        ("server migrate {id}", "os_compute_api:os-migrate-server:migrate"),
        ("server migrate --host node-03 {id}", "os_compute_api:os-migrate-server:migrate"),
        ("server migrate --live-migration {id}", "os_compute_api:os-migrate-server:migrate_live"),
        ("server migrate --live-migration --host node-03 {id}", "os_compute_api:os-migrate-server:migrate_live"),
        ("server evacuate {id}", "os_compute_api:os-evacuate"),
        ("server set --state error --auto-approve {id}", "os_compute_api:os-admin-actions:reset_state"),
        ("server migration list", "os_compute_api:os-migrations:index"),
    ],
)
def test_forbidden_command_names_the_rule(member: Session, command: str, rule: str) -> None:
    server = member.json(f"{BOOT} mine") if "{id}" in command else {"id": ""}
    output = member.refusal(command.format(id=server["id"]))
    assert "403" in output
    assert f"{rule} to be performed." in output


def test_servers_and_groups_are_project_resources(member: Session, other: Session) -> None:
    group = member.json("server group create --policy affinity private")
    server = boot(member, "private", "--server-group private")
    assert other.json("server list") == []
    assert other.json("server group list") == []
    for what in ("private", server["id"]):
        for command in ("show", "stop", "delete", "lock", "shelve", "set --name ours"):
            assert f"No Server found for {what}" in other.refusal(f"server {command} {what}")
    assert "could not be found." in other.refusal(f"server event list {server['id']}")
    for what in ("private", group["id"]):
        assert f"No ServerGroup found for {what}" in other.refusal(f"server group show {what}")
        other.refusal(f"server group delete {what}")
    assert "No ServerGroup found for private" in other.refusal(f"{BOOT} --server-group private no")
    output = other.refusal(f"{BOOT} --hint group={group['id']} no")
    assert "400" in output
    assert f"Instance group {group['id']} could not be found." in output
    assert member.json("server group show private")["members"] == [server["id"]]
    assert wait_until_idle(member, "private")["name"] == "private"


def test_quota_limits_a_project(admin: Session, member: Session) -> None:
    admin.run("quota set --instances 3 --server-group-members 1 demo")
    try:
        member.json("server group create --policy soft-anti-affinity small")
        boot(member, "one", "--server-group small")
        output = member.refusal(f"{BOOT} --server-group small no")
        assert "403" in output
        assert "too many servers in group" in output
        # max_count is reduced to the quota: the third server is not created.
        member.json(f"{BOOT} --min 2 --max 3 more")
        assert len(wait_until_all_idle(member, "more")) == 2
        output = member.refusal(f"{BOOT} no")
        assert "403" in output
        assert "Quota exceeded for instances: Requested 1, but already used 3 of 3 instances" in output
        assert uses(member, "demo")["instances"] == 3
    finally:
        admin.run("quota delete --compute demo")
