"""Audits: the domains of members as the caller may see them, and violations."""

import uuid
from typing import Any

import pytest
import sqlalchemy as sa

from covey.model.servers import PlacementRecord
from covey.storage import tables
from covey.storage.rows import dump
from tests.build import NOW
from tests.functional.client import Client
from tests.functional.fleets import UNKNOWN_ID, BuildCloud
from tests.functional.rows import all_rows
from tests.functional.scopes import Scoped, scoped

Placements = dict[str, str | None]


@pytest.fixture
def racks(build_cloud: BuildCloud) -> Scoped:
    return scoped(build_cloud(5))


def audit(client: Client, group: str, **query: str) -> dict[str, Any]:
    answer = client.get(f"/os-server-groups/{group}/audit", **query)
    assert answer.status == 200, answer.text
    assert answer.json.keys() == {"server_group_policy_audit"}
    found: dict[str, Any] = answer.json["server_group_policy_audit"]
    return found


def placements(client: Client, group: str) -> dict[str, Placements]:
    return {member["instance_id"]: member["placements"] for member in audit(client, group)["members"]}


def violations(client: Client, group: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = audit(client, group, violations="true")["violations"]
    return found


def is_uuid(text: str | None) -> bool:
    return text is not None and str(uuid.UUID(text)) == text


# Placements


@pytest.mark.sqlite_only
def test_example_of_the_updates_specification(racks: Scoped) -> None:
    group = racks.group("anti-affinity")
    servers = [racks.boot_on("node-1", group), racks.boot_on("node-2", group)]
    assert audit(racks.admin, group) == {
        "server_group_id": group,
        "members": [
            {"instance_id": servers[0], "placements": {"host": "node-1"}},
            {"instance_id": servers[1], "placements": {"host": "node-2"}},
        ],
    }
    tenants = audit(racks.alice, group)
    assert tenants.keys() == {"server_group_id", "members"}
    hosts = [member["placements"]["host"] for member in tenants["members"]]
    assert all(map(is_uuid, hosts))
    assert len(set(hosts)) == 2


@pytest.mark.sqlite_only
def test_example_of_the_scopes_specification(racks: Scoped) -> None:
    group = racks.group("soft-affinity:zone", "anti-affinity:host")
    servers = [racks.boot_on("node-1", group), racks.boot_on("node-5", group)]
    tenants = audit(racks.alice, group)
    assert tenants == {
        "server_group_id": group,
        "members": [
            {
                "instance_id": server,
                "placements": {"zone": racks.zone(zone), "host": member["placements"]["host"]},
            }
            for server, zone, member in zip(servers, ("zone-a", "zone-b"), tenants["members"], strict=True)
        ],
    }


@pytest.mark.sqlite_only
def test_audit_lists_only_the_scopes_of_the_policies(racks: Scoped) -> None:
    group = racks.group(
        "affinity:rack", f"soft-affinity:row:{racks.domains['row']['row-a']}", "soft-anti-affinity:rack"
    )
    server = racks.boot_on("node-2", group)
    assert placements(racks.admin, group) == {
        server: {"rack": racks.domains["rack"]["rack-a"], "row": racks.domains["row"]["row-b"]}
    }
    racks.alice.post(f"/os-server-groups/{group}", {"server_group": {"policies": ["affinity:zone"]}})
    assert placements(racks.admin, group) == {server: {"zone": racks.domains["zone"]["zone-a"]}}


@pytest.mark.sqlite_only
def test_identifiers_are_obfuscated_per_caller(racks: Scoped) -> None:
    group = racks.group("soft-affinity:rack", "soft-affinity:zone", "soft-affinity:row", "soft-affinity")
    near = [racks.boot_on(host, group) for host in ("node-1", "node-1", "node-2", "node-3")]
    first, again = placements(racks.alice, group), placements(racks.alice, group)
    rack_ids, host_ids = ([first[server][scope] for server in near] for scope in ("rack", "host"))
    assert rack_ids[0] == rack_ids[1] == rack_ids[2] != rack_ids[3], "alike if and only if it is the same place"
    assert host_ids[0] == host_ids[1]
    assert len(set(host_ids)) == 3
    assert all(is_uuid(shown) for shown in rack_ids + host_ids)
    for server in near:
        for scope in ("rack", "host"):
            assert first[server][scope] != again[server][scope], "and never the same twice"
        assert first[server]["zone"] == again[server]["zone"] == racks.zone("zone-a"), "which can be used in policies"
    rows = racks.domains["row"]
    assert [first[server]["row"] for server in near] == [rows["row-a"], rows["row-a"], rows["row-b"], rows["row-b"]]
    passing = {
        shown for seen in (first, again) for places in seen.values() for shown in (places["rack"], places["host"])
    }
    assert not passing & {racks.zone("zone-a"), *racks.domains["rack"].values()}
    real = placements(racks.admin, group)
    assert [real[server]["host"] for server in near] == ["node-1", "node-1", "node-2", "node-3"]
    assert {real[server]["zone"] for server in near} == {racks.domains["zone"]["zone-a"]}


@pytest.mark.sqlite_only
def test_members_without_host_or_domain_have_null_domains(racks: Scoped) -> None:
    group = racks.group("soft-affinity:row", "soft-affinity")
    shelved, nowhere = racks.boot_on("node-1", group), racks.boot_on("node-5", group)
    racks.run_action(racks.alice, shelved, "shelve")
    for client in (racks.alice, racks.admin):
        seen = placements(client, group)
        assert seen[shelved] == {"row": None, "host": None}
        assert seen[nowhere]["row"] is None
        assert seen[nowhere]["host"] is not None
    assert violations(racks.admin, group) == [
        {
            "policy": "soft-affinity:row",
            "scope": "row",
            "domain": None,
            "members": [nowhere],
            "soft": True,
            "reason": "1 member is in no row",
        }
    ]


@pytest.mark.sqlite_only
def test_empty_group_has_no_violations(racks: Scoped) -> None:
    group = racks.group("affinity:rack", "anti-affinity")
    expected: dict[str, Any] = {"server_group_id": group, "members": []}
    assert audit(racks.alice, group) == expected
    assert audit(racks.alice, group, violations="true") == expected | {"violations": []}


def test_readers_may_audit_and_other_projects_get_404(racks: Scoped) -> None:
    group = racks.group("affinity")
    path = f"/os-server-groups/{group}/audit"
    assert racks.alice.sending(X_Roles="reader").get(path).status == 200
    for anonymous in (racks.bob, racks.bob.sending(X_Roles="reader")):
        answer = anonymous.get(path)
        assert (answer.status, answer.message) == (404, f"Instance group {group} could not be found.")
    assert racks.admin.get(f"/os-server-groups/{UNKNOWN_ID}/audit").status == 404


@pytest.mark.sqlite_only
@pytest.mark.parametrize("value", ["nonsense", "", "2", "null", "truefalse"])
def test_invalid_query_returns_400(racks: Scoped, value: str) -> None:
    answer = racks.alice.ask("GET", f"/os-server-groups/{racks.group('affinity')}/audit?violations={value}")
    assert answer.status == 400
    assert "violations" in answer.message
    answer = racks.alice.get(f"/os-server-groups/{racks.group('affinity')}/audit", more="1")
    assert answer.status == 400


def test_audit_changes_nothing(racks: Scoped) -> None:
    group = racks.group("affinity:zone")
    racks.boot_on("node-1", group)
    before = all_rows(racks.connection)
    audit(racks.alice, group, violations="true")
    assert all_rows(racks.connection) == before


# Violations


def test_violations_are_included_on_request(racks: Scoped) -> None:
    group = racks.group("anti-affinity")
    racks.boot_on("node-1", group)
    assert "violations" not in audit(racks.alice, group)
    assert "violations" not in audit(racks.alice, group, violations="false")
    assert violations(racks.alice, group) == []


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("policy", "hosts", "domain", "wrong", "reason"),
    [
        ("anti-affinity", "112", "node-1", "01", "2 members are on one host; the limit is 1"),
        ("anti-affinity:rack", "123", "rack-a", "01", "2 members are in one rack; the limit is 1"),
        ("anti-affinity:zone", "145", "zone-b", "12", "2 members are in one zone; the limit is 1"),
        ("anti-affinity:row", "23", "row-b", "01", "2 members are in one row; the limit is 1"),
        ("affinity", "112", "node-1", "2", "1 member is outside the host that holds most of the group"),
        ("affinity:rack", "342", "rack-b", "2", "1 member is outside the rack that holds most of the group"),
        ("affinity:row", "25", None, "1", "1 member is in no row"),
        ("anti-affinity:row", "25", None, "1", "1 member is in no row"),
        ("affinity:zone:zone-b", "145", "zone-b", "0", "1 member is outside the zone that the group requires"),
        ("anti-affinity:zone:zone-b", "145", "zone-b", "12", "2 members are in the zone that the group avoids"),
        ("affinity:row:row-a", "12", "row-a", "1", "1 member is outside the row that the group requires"),
        ("anti-affinity:row:row-a", "125", "row-a", "0", "1 member is in the row that the group avoids"),
        (
            "soft-anti-affinity:zone",
            "123",
            "zone-a",
            "012",
            "the fullest zone holds 3 of the group; the emptiest usable one holds 0",
        ),
        ("soft-affinity:zone", "124", "zone-a", "2", "1 member is outside the zone that holds most of the group"),
        ("soft-affinity:zone:zone-b", "14", "zone-b", "0", "1 member is outside the zone that the group requires"),
        ("soft-anti-affinity:zone:zone-a", "14", "zone-a", "0", "1 member is in the zone that the group avoids"),
    ],
)
def test_each_policy_kind_reports_its_violations(
    racks: Scoped, policy: str, hosts: str, domain: str | None, wrong: str, reason: str
) -> None:
    kind, scope, target = (*policy.split(":"), "host", "")[:3] if ":" not in policy else (*policy.split(":"), "")[:3]
    known = racks.domains.get(scope, {})

    def words(identifiers: dict[str, str]) -> str:
        return ":".join([kind, *([scope] if scope != "host" else []), *([identifiers[target]] if target else [])])

    theirs = {name: racks.zone(name) if scope == "zone" else real for name, real in known.items()}
    group = racks.group(words(theirs))
    members = [racks.boot_on(f"node-{number}", group) for number in hosts]
    expected = {
        "policy": words(dict(known)),
        "scope": scope,
        "domain": None if domain is None else known.get(domain, domain),
        "members": [members[int(number)] for number in wrong],
        "soft": kind.startswith("soft"),
        "reason": reason,
    }
    assert violations(racks.admin, group) == [expected]
    (tenants,) = violations(racks.alice, group)
    if domain is not None and scope in {"host", "rack"}:
        assert is_uuid(tenants["domain"]), "a passing name"
        expected["domain"] = tenants["domain"]
    elif domain is not None:
        expected["domain"] = theirs[domain]
    assert tenants == expected | {"policy": words(theirs)}


@pytest.mark.sqlite_only
def test_temporary_identifier_is_constant_within_one_response(racks: Scoped) -> None:
    group = racks.group("anti-affinity:rack", "anti-affinity")
    for host in ("node-1", "node-1", "node-3"):
        racks.boot_on(host, group)
    seen = audit(racks.alice, group, violations="1")
    first = seen["members"][0]["placements"]
    assert [violation["domain"] for violation in seen["violations"]] == [first["rack"], first["host"]]


def test_audit_shows_violations_of_an_update_until_a_migration_resolves_them(racks: Scoped) -> None:
    group = racks.group("affinity")
    servers = [racks.boot(group=group) for _ in range(2)]
    racks.alice.post(f"/os-server-groups/{group}", {"server_group": {"policies": ["anti-affinity"]}})
    (broken,) = violations(racks.alice, group)
    assert broken["members"] == servers
    racks.run_action(racks.admin, servers[1], "os-migrateLive", {"host": None, "block_migration": "auto"})
    assert violations(racks.alice, group) == []


def test_large_group_is_audited_completely(racks: Scoped) -> None:
    """10,000 members, two thousand on each host."""
    group = racks.group("anti-affinity:rack", "soft-anti-affinity", max_server_per_rack=4000)
    ids = _insert_members(racks, group, 10_000)
    seen = audit(racks.alice, group, violations="true")
    assert [member["instance_id"] for member in seen["members"]] == ids
    hosts = [member["placements"]["host"] for member in seen["members"]]
    assert len(set(hosts)) == 5
    assert seen["violations"] == []
    real = [member["placements"]["host"] for member in audit(racks.admin, group)["members"]]
    assert [real.count(f"node-{n}") for n in range(1, 6)] == [2000] * 5
    assert len({(shown, name) for shown, name in zip(hosts, real, strict=True)}) == 5
    racks.alice.post(f"/os-server-groups/{group}", {"server_group": {"rules": {"max_server_per_rack": 3999}}})
    assert [len(violation["members"]) for violation in violations(racks.alice, group)] == [4000, 4000]


def _insert_members(racks: Scoped, group: str, number: int) -> list[str]:
    with racks.store.read() as tx:
        hosts = [host.id for host in tx.hosts.find()]
    ids = [f"00000000-0000-4000-8000-{n:012d}" for n in range(number)]
    same = {
        "name": "s",
        "project_id": "web",
        "user_id": "alice",
        "vm_state": "active",
        "power_state": 1,
        "flavor": "{}",
        "request": "{}",
        "details": "{}",
        "vcpus": 1,
        "memory_mb": 1,
        "disk_gb": 0,
        "decision": dump(PlacementRecord()),
        "created_at": NOW,
        "updated_at": NOW,
    }
    rows = [same | {"id": server, "host_id": hosts[n % len(hosts)]} for n, server in enumerate(ids)]
    with racks.connection.begin() as connection:
        connection.execute(sa.insert(tables.servers), rows)
        members = [{"server_id": server, "group_id": group} for server in ids]
        connection.execute(sa.insert(tables.instance_group_members), members)
    return ids
