"""`covey manage placement`: its text, JSON and exit status."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from covey.model.claims import NewServer, Plan
from covey.model.ids import ProjectId, ServerId, UserId
from covey.model.resources import server_resources
from covey.model.servers import Power, Server, VmState
from covey.storage import engine
from covey.storage.store import Store
from tests.acceptance.processes import Result, covey
from tests.build import NOW, a_flavor

DATABASE = "sqlite:///covey.sqlite"
LOST = "00000000-0000-4000-8000-000000000001"
SERVER = ServerId("00000000-0000-4000-8000-000000000002")
FLEET = """
hosts:
  - {name: "n[1-2]", vcpus: 1, memory_mb: 1024, disk_gb: 10, ratios: {VCPU: 1.0}}
scopes:
  - {name: rack}
aggregates:
  - {name: fast, hosts: [n1, n2], metadata: {"trait:CUSTOM_FAST": required, "trait:FAST": required}}
"""


def manage(directory: Path, *arguments: str) -> Result:
    return covey(directory, "manage", "placement", *arguments, "--database", DATABASE)


def manage_json(directory: Path, *arguments: str) -> Any:
    return json.loads(manage(directory, *arguments, "--json").stdout)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    done = covey(tmp_path, "fleet", "apply", "-", "--database", DATABASE, stdin=FLEET)
    assert done.status == 0, done.stderr
    return tmp_path


@pytest.fixture
def store(directory: Path) -> Store:
    return Store(engine.connect(f"sqlite:///{directory / 'covey.sqlite'}"))


def hold(store: Store, consumer: str, kind: str = "INSTANCE") -> None:
    """Allocate all of n1."""
    with store.write() as tx:
        host = tx.hosts.by_name("n1")
        assert host is not None
        tx.server_allocations.add_consumer(consumer, "web", "alice", kind)
        tx.allocations.take([(host.id, "VCPU", 1)])
        tx.server_allocations.allocate(consumer, {host.id: server_resources(1, 0, 0)})


def boot(store: Store) -> None:
    """Create a server on n1 without allocations."""
    with store.write() as tx:
        host = tx.hosts.by_name("n1")
        assert host is not None
        flavor = a_flavor(vcpus=1, memory_mb=512, disk_gb=1)
        server = Server(
            SERVER,
            "s",
            ProjectId("web"),
            UserId("alice"),
            flavor,
            VmState.ACTIVE,
            None,
            Power.RUNNING,
            NOW,
            NOW,
            host_id=host.id,
        )
        tx.claims.commit(Plan(placed=[NewServer(server, "r", {host.id: server_resources(1, 512, 1)})]), "", 0, None)
        tx.server_allocations.release(SERVER)


def test_sync_aggregates_counts_links_and_lists_them_on_request(directory: Path, store: Store) -> None:
    with store.write() as tx:
        (aggregate,) = tx.aggregates.all()
        for host in tx.hosts.find():
            tx.providers.set_aggregates(host.id, [])
    done = manage(directory, "sync_aggregates", "--verbose")
    assert (done.status, done.stdout.splitlines()) == (
        0,
        [
            f"+ provider n1 in aggregate fast ({aggregate.uuid})",
            f"+ provider n2 in aggregate fast ({aggregate.uuid})",
            "2 links added, of 2 required.",
        ],
    )
    again = manage(directory, "sync_aggregates", "--verbose")
    assert (again.status, again.stdout) == (0, "0 links added, of 2 required.\n")
    assert manage_json(directory, "sync_aggregates") == {"added": [], "failed": [], "total": 2}


def test_unreachable_database_exits_with_2(directory: Path) -> None:
    nowhere = "postgresql://unknown@127.0.0.1:1/nothing"
    done = covey(directory, "manage", "placement", "sync_aggregates", "--database", nowhere)
    assert done.status == 2
    assert done.stderr.startswith("Error: The database")


def test_invalid_trait_exits_with_1_and_other_traits_are_added(directory: Path) -> None:
    done = manage(directory, "sync_traits")
    assert (done.status, done.stdout.splitlines()) == (
        1,
        [
            "+ trait CUSTOM_FAST",
            "+ trait CUSTOM_FAST on n1 (aggregate fast)",
            "+ trait CUSTOM_FAST on n2 (aggregate fast)",
            "! aggregate fast requires FAST: neither a standard trait nor a CUSTOM_ one.",
            "2 traits added.",
        ],
    )
    assert manage_json(directory, "sync_traits") == {
        "added": [],
        "created": [],
        "unknown": [{"aggregate": "fast", "trait": "FAST"}],
        "applied": True,
    }


def test_audit_finds_and_deletes_orphaned_allocations(directory: Path, store: Store) -> None:
    none = manage(directory, "audit")
    assert (none.status, none.stdout) == (0, "0 consumers without a server or a migration found.\n")
    hold(store, LOST)
    found = manage(directory, "audit")
    line = f"INSTANCE {LOST} on n1: VCPU 1"
    assert (found.status, found.stdout) == (3, f"! {line}\n1 consumer without a server or a migration found.\n")
    (orphan,) = manage_json(directory, "audit")["orphans"]
    assert (orphan["consumer"], orphan["type"], orphan["project_id"]) == (LOST, "INSTANCE", "web")
    assert [(held["provider"], held["resources"]) for held in orphan["allocations"]] == [("n1", {"VCPU": 1})]
    deleted = manage(directory, "audit", "--delete")
    assert (deleted.status, deleted.stdout) == (4, f"- {line}\n1 consumer without a server or a migration deleted.\n")
    assert manage(directory, "audit", "--delete").status == 0
    with store.read() as tx:
        assert all(not has.used for host in tx.hosts.find() for has in host.inventories.values())


def test_heal_allocations_exit_status_reports_the_outcome(directory: Path, store: Store) -> None:
    nothing = manage(directory, "heal_allocations")
    assert (nothing.status, nothing.stdout) == (4, "0 servers healed.\n")
    boot(store)
    hold(store, LOST)
    line = f"server {SERVER} (s): VCPU 1, MEMORY_MB 512, DISK_GB 1 on n1"
    full = manage(directory, "heal_allocations")
    assert (full.status, full.stdout.splitlines()[0].startswith(f"! {line}: ")) == (3, True)
    assert manage(directory, "audit", "--delete").status == 4
    dry = manage(directory, "heal_allocations", "--dry-run")
    assert (dry.status, dry.stdout) == (0, f"~ {line}\n1 server would be healed.\n")
    assert manage(directory, "heal_allocations", "--instance", str(uuid4())).status == 127
    assert manage_json(directory, "heal_allocations", "--instance", SERVER) == {
        "healed": [{"server": SERVER, "name": "s", "allocations": {"n1": {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}}}],
        "failed": [],
        "applied": True,
    }
    assert manage(directory, "heal_allocations").status == 4


@pytest.mark.parametrize("command", ["sync_aggregates", "sync_traits", "audit", "heal_allocations"])
def test_help_lists_the_exit_status(tmp_path: Path, command: str) -> None:
    shown = covey(tmp_path, "manage", "placement", command, "--help")
    assert "Exit status:" in shown.stdout
