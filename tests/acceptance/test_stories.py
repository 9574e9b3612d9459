"""The use cases of scoped and editable server groups, with the `openstack` client."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.processes import Cloud, Failed, Session, covey, running_covey
from tests.acceptance.test_servers_by_client import (
    _delete_servers_and_groups,  # noqa: F401 - applies here as well
    column,
    wait_until_idle,
)

PATIENCE_S = 60.0
DATABASE = "sqlite:///covey.sqlite"
USERS = {"admin": ("ops", "admin"), "acme": ("acme", "member"), "globex": ("globex", "member")}  # (project, role)
# Twelve hosts, each with capacity for one tiny server per VCPU. The third maintenance zone is small.
HOSTS: tuple[tuple[str, int, dict[str, str], dict[str, str]], ...] = (
    ("node-[01-03]", 8, {"maintenance_zone": "mz-1"}, {"switch": "switch-1"}),
    ("node-04", 8, {"maintenance_zone": "mz-1"}, {}),
    ("node-[05-07]", 8, {"maintenance_zone": "mz-2"}, {"switch": "switch-2"}),
    ("node-08", 8, {"maintenance_zone": "mz-2"}, {}),
    ("node-[09-12]", 2, {"maintenance_zone": "mz-3"}, {}),
)
FLAVORS = {"tiny": 1, "large": 4}


def apply_fleet(directory: Path, *, switches: bool = False) -> None:
    """Apply the fleet file; its later version also has switches."""
    room = {"memory_mb": 65536, "disk_gb": 1000, "ratios": {"VCPU": 1.0}}
    fleet = {
        "hosts": [
            {"name": name, "vcpus": vcpus, "domains": zones | (below if switches else {}), **room}
            for name, vcpus, zones, below in HOSTS
        ],
        "scopes": [{"name": "maintenance_zone", "allow_identifiers": False, "obfuscate_identifiers": True}]
        + [{"name": "switch"}] * switches,
        "flavors": [{"name": n, "vcpus": vcpus, "memory_mb": 512, "disk_gb": 1} for n, vcpus in FLAVORS.items()],
        "images": [{"name": "linux-server"}],
    }
    (directory / "fleet.yaml").write_text(yaml.safe_dump(fleet))
    done = covey(directory, "fleet", "apply", "fleet.yaml", "--database", DATABASE)
    assert done.status == 0, done.stderr


@pytest.fixture(scope="module")
def clouds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run a service, and write a clouds.yaml with an operator and two tenants."""
    directory = tmp_path_factory.mktemp("stories")
    for name, (project, role) in USERS.items():
        done = covey(directory, "user", "add", name, "--project", project, "--role", role, "--password", "secret")
        assert done.status == 0, done.stderr
    apply_fleet(directory)
    variables = {"OS_QUOTA__INSTANCES": "100", "OS_QUOTA__CORES": "100", "OS_QUOTA__SERVER_GROUP_MEMBERS": "100"}
    with running_covey(directory, "serve", "--database", DATABASE, variables=variables) as service:
        file = directory / "clouds.yaml"
        file.write_text(yaml.safe_dump({"clouds": {name: cloud(service.url, name) for name in USERS}}))
        yield file


def cloud(url: str, user: str) -> dict[str, Any]:
    return {
        "auth_type": "http_basic",
        "auth": {"username": user, "password": "secret", "endpoint": f"{url}/identity/v3"},
        "compute_endpoint_override": f"{url}/compute/v2.1",
        "image_endpoint_override": f"{url}/image",
        "identity_endpoint_override": f"{url}/identity/v3",
    }


@pytest.fixture(scope="module")
def sessions(clouds: Path) -> Iterator[dict[str, Session]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(Session(Cloud(clouds, name))) for name in USERS}


@pytest.fixture(scope="module")
def admin(sessions: dict[str, Session]) -> Session:
    """The operator."""
    return sessions["admin"]


@pytest.fixture(scope="module")
def acme(sessions: dict[str, Session]) -> Session:
    """A tenant."""
    return sessions["acme"]


@pytest.fixture(scope="module")
def globex(sessions: dict[str, Session]) -> Session:
    """Another tenant."""
    return sessions["globex"]


def boot(tenant: Session, name: str, count: int, group: str | None = None, flavor: str = "tiny") -> dict[str, str]:
    """Create servers, wait until all are ACTIVE or all are in ERROR, and return their ids by name."""
    hint = "" if group is None else f"--server-group {group}"
    many = "" if count == 1 else f"--min {count} --max {count}"
    tenant.json(f"server create --image linux-server --flavor {flavor} --no-network {hint} {many} {name}")
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        rows = [row for row in tenant.json("server list") if row["Name"].rstrip("-0123456789") == name]
        states = set(column(rows, "Status"))
        if len(rows) == count and states in ({"ACTIVE"}, {"ERROR"}):
            return {row["Name"]: row["ID"] for row in rows}
    raise Failed(f"{name}: {states} after {PATIENCE_S:.0f} s")


def fault(tenant: Session, server: str) -> str:
    """Return the fault message of a server."""
    shown = tenant.json(f"server show {server}")
    assert (shown["status"], shown["hostId"]) == ("ERROR", "")
    message: str = shown["fault"]["message"]
    return message


def places(admin: Session, group: str, scope: str) -> dict[str, str]:
    """Return the real domain of each member, from the operator's audit."""
    return {row["Server ID"]: row["Placements"][scope] for row in admin.json(f"server group audit {group}")}


def spread(admin: Session, group: str, scope: str) -> list[int]:
    """Return the number of members in each domain, in descending order."""
    return sorted(Counter(places(admin, group, scope).values()).values(), reverse=True)


def host(admin: Session, server: str) -> str:
    where: str = admin.json(f"server show {server}")["OS-EXT-SRV-ATTR:host"]
    return where


def group_of(tenant: Session, name: str, options: str) -> str:
    """Create a group and return its id."""
    made: str = tenant.json(f"server group create {options} {name}")["id"]
    return made


def add_place(admin: Session, scope: str, name: str, hosts: list[str]) -> str:
    """Add a domain with these hosts to a scope, and return its real identifier."""
    aggregate: int = admin.json(f"aggregate create {name}")["id"]
    for each in hosts:
        admin.json(f"aggregate add host {name} {each}")
    admin.json(f"policy scope add aggregate {scope} {name}")
    return str(aggregate)


def test_redundant_servers_run_in_different_maintenance_zones(admin: Session, acme: Session) -> None:
    """A tenant requests separate maintenance zones, and the service selects zones by capacity."""
    (zones,) = [row for row in acme.json("policy scope list") if row["Name"] == "maintenance_zone"]
    assert zones["Allow Identifiers"] is False
    real = admin.json("policy scope show maintenance_zone")["aggregates"][0]["group_id"]
    assert acme.json("policy scope show maintenance_zone")["aggregates"] == []
    said = acme.refusal(f"server group create --policy affinity:maintenance_zone:{real} picky")
    assert "allows none" in said

    web = group_of(acme, "web", "--policy anti-affinity:maintenance_zone")
    boot(acme, "web", 3, "web")
    assert spread(admin, web, "maintenance_zone") == [1, 1, 1]
    (fourth,) = boot(acme, "fourth", 1, "web").values()
    why = fault(acme, fourth)
    assert "12 already hold 1 of the group in their maintenance_zone" in why
    assert "node-" not in why
    assert len(places(admin, web, "maintenance_zone")) == 3

    # The small zone has no host for large servers, so only two zones qualify.
    big = group_of(acme, "big", "--policy anti-affinity:maintenance_zone")
    assert acme.json("server group headroom big --flavor large")["count"] == 2
    boot(acme, "big", 2, "big", flavor="large")
    assert {host(admin, server) for server in places(admin, big, "maintenance_zone")} <= {
        f"node-{number:02}" for number in range(1, 9)
    }
    assert spread(admin, big, "maintenance_zone") == [1, 1]


def test_servers_with_a_shared_address_stay_in_one_network_segment(admin: Session, acme: Session) -> None:
    """An address can only move within a segment, so the servers that share it stay in one segment."""
    admin.json("policy scope create ip_zone")
    segments = {
        add_place(admin, "ip_zone", "segment-1", ["node-01", "node-05"]),
        add_place(admin, "ip_zone", "segment-2", ["node-02", "node-06"]),
    }
    shared = group_of(acme, "shared", "--policy affinity:ip_zone --policy soft-anti-affinity")
    boot(acme, "first", 3, "shared")
    (segment,) = set(places(admin, shared, "ip_zone").values())
    assert segment in segments
    assert spread(admin, shared, "host") == [2, 1]

    boot(acme, "later", 13, "shared")  # fills the segment
    assert set(places(admin, shared, "ip_zone").values()) == {segment}
    (seventeenth,) = boot(acme, "seventeenth", 1, "shared").values()
    assert fault(acme, seventeenth).startswith("No valid host was found. Of 12 hosts: ")


def test_database_cluster_uses_separate_hosts_and_prefers_one_switch(
    admin: Session, acme: Session, clouds: Path
) -> None:
    """Different hosts are required, and a common switch is preferred: only a lack of hosts is a failure."""
    apply_fleet(clouds.parent, switches=True)
    db = group_of(acme, "db", "--policy anti-affinity --policy soft-affinity:switch")
    boot(acme, "db", 3, "db")
    before = places(admin, db, "switch")
    assert spread(admin, db, "host") == [1, 1, 1]
    assert len(set(before.values())) == 1
    assert None not in before.values()

    boot(acme, "more", 2, "db")
    after = places(admin, db, "switch")
    assert spread(admin, db, "host") == [1] * 5
    assert len(set(after.values())) == 2
    assert None not in after.values()  # the other switch is used when the first is full
    assert {server: after[server] for server in before} == before

    refused = boot(acme, "toomany", 8, "db")  # seven hosts are left
    assert "7 of 8 fit, then of 12 hosts: 12 already hold 1 of the group." in fault(acme, refused["toomany-1"])
    assert spread(admin, db, "host") == [1] * 5
    boot(acme, "enough", 7, "db")
    assert spread(admin, db, "host") == [1] * 12


def test_single_front_end_is_extended_to_other_zones(admin: Session, acme: Session) -> None:
    """An existing server becomes the first member of a group; it stays, and new members avoid it."""
    (lone,) = boot(acme, "lone", 1).values()
    home = host(admin, lone)
    web = group_of(acme, "web", "--policy anti-affinity:maintenance_zone")
    assert acme.json("server group add server web lone")["members"] == [lone]
    assert host(admin, lone) == home

    others = set(boot(acme, "web", 2, "web").values())
    assert places(admin, web, "maintenance_zone").keys() == {lone, *others}
    assert spread(admin, web, "maintenance_zone") == [1, 1, 1]
    assert host(admin, lone) == home
    assert acme.json("server group audit web --violations") == []


def test_many_servers_spread_evenly_over_few_zones(admin: Session, acme: Session) -> None:
    """Servers spread evenly over few zones while capacity lasts, and new ones restore the balance after deletions."""
    crowd = group_of(acme, "crowd", "--policy soft-anti-affinity:maintenance_zone")
    boot(acme, "early", 20, "crowd")
    assert spread(admin, crowd, "maintenance_zone") == [7, 7, 6]

    where = places(admin, crowd, "maintenance_zone")
    zone = Counter(where.values()).most_common(1)[0][0]
    gone = [server for server in where if where[server] == zone][:5]
    acme.run(f"server delete {' '.join(gone)}")
    deadline = time.monotonic() + PATIENCE_S
    while sum(spread(admin, crowd, "maintenance_zone")) != 15:
        assert time.monotonic() < deadline
    assert spread(admin, crowd, "maintenance_zone") == [7, 6, 2]  # no server moved
    boot(acme, "again", 5, "crowd")
    assert spread(admin, crowd, "maintenance_zone") == [7, 7, 6]

    boot(acme, "late", 10, "crowd")  # the small zone takes two servers, and the other zones share the rest
    assert spread(admin, crowd, "maintenance_zone") == [11, 11, 8]


def test_zone_is_targeted_by_a_tenant_specific_identifier(admin: Session, acme: Session, globex: Session) -> None:
    """Tenants may target a hall, but each tenant has its own identifiers of halls."""
    admin.json("policy scope create hall --allow-identifiers --obfuscate-identifiers")
    north = add_place(admin, "hall", "north-hall", ["node-01", "node-02"])
    south = add_place(admin, "hall", "south-hall", ["node-05", "node-06"])
    seen: dict[str, dict[str, str]] = {}
    for name, tenant in (("acme", acme), ("globex", globex)):
        known = admin.json(f"policy scope show hall --as-project {name}")["aggregates"]
        seen[name] = {row["group_id"]: row["obfuscated_group_id"] for row in known}
        shown = tenant.json("policy scope show hall")
        assert {row["group_id"] for row in shown["aggregates"]} == set(seen[name].values())
        assert not {"north-hall", "node-01"} & set(str(shown).split("'"))
        assert "obfuscate_namespace_uuid" not in shown
    assert seen["acme"].keys() == seen["globex"].keys() == {north, south}
    assert not set(seen["acme"].values()) & set(seen["globex"].values())

    for stranger in (seen["globex"][north], north, "north-hall"):
        said = acme.refusal(f"server group create --policy affinity:hall:{stranger} mine")
        assert "has no" in said
        assert "hall" in said
    for name, tenant in (("acme", acme), ("globex", globex)):
        made = tenant.json(f"server group create --policy affinity:hall:{seen[name][north]} mine")
        assert made["policies"] == [f"affinity:hall:{seen[name][north]}"]
        boot(tenant, "mine", 2, "mine")
        assert set(places(admin, made["id"], "hall").values()) == {north}
        assert {row["Placements"]["hall"] for row in tenant.json("server group audit mine")} == {seen[name][north]}
    elsewhere = group_of(acme, "elsewhere", f"--policy anti-affinity:hall:{seen['acme'][north]} --policy affinity:hall")
    boot(acme, "away", 3, "elsewhere")
    assert set(places(admin, elsewhere, "hall").values()) == {south}


def test_later_servers_are_placed_near_or_apart_from_an_existing_one(admin: Session, acme: Session) -> None:
    """New servers are placed on the host of a server without a group, or on another host."""
    for name, policy in (("close", "affinity"), ("distant", "anti-affinity")):
        (lone,) = boot(acme, name, 1).values()
        home = host(admin, lone)
        group = group_of(acme, f"{name}-group", f"--policy {policy}")
        acme.json(f"server group add server {name}-group {lone}")
        others = boot(acme, f"{name}friend", 3, f"{name}-group").values()
        where = places(admin, group, "host")
        assert where.keys() == {lone, *others}
        assert where[lone] == home
        if policy == "affinity":
            assert set(where.values()) == {home}
        else:
            assert len(set(where.values())) == 4
        assert acme.json(f"server group audit {name}-group --violations") == []


def test_group_of_existing_servers_is_audited_and_rebalanced(admin: Session, acme: Session) -> None:
    """Existing servers become a group; the audit reports violations, and a rebalance resolves them."""
    group_of(acme, "cradle", "--policy affinity")
    servers = boot(acme, "node", 6, "cradle")
    acme.run("server group delete cradle")
    web = group_of(acme, "web", "--policy anti-affinity:maintenance_zone --rule max_server_per_maintenance_zone=2")
    for server in servers.values():
        acme.json(f"server group add server web {server}")
    before = places(admin, web, "maintenance_zone")
    assert before.keys() == set(servers.values())
    (broken,) = acme.json("server group audit web --violations")
    assert (broken["Policy"], broken["Soft"]) == ("anti-affinity:maintenance_zone", False)
    assert set(broken["Members"]) == set(servers.values())

    plan = acme.json("server group rebalance web --dry-run")
    assert (len(plan["moves"]), plan["optimal"], plan["violations_after"]) == (4, True, [])
    assert "node-" not in str(plan)
    assert places(admin, web, "maintenance_zone") == before
    assert "rebalance to be performed" in acme.refusal("server group rebalance web")

    done = admin.json(f"server group rebalance {web} --wait")
    assert (done["status"], done["moves_done"]) == ("done", 4)
    assert acme.json("server group audit web --violations") == []
    after = places(admin, web, "maintenance_zone")
    assert after.keys() == before.keys()
    assert spread(admin, web, "maintenance_zone") == [2, 2, 2]
    assert sum(after[server] != before[server] for server in before) == 4
    for server in servers.values():
        wait_until_idle(acme, server)
