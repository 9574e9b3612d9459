"""Editable groups at 2.1000: scoped policies, updates and membership changes."""

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from covey.storage import tables
from tests.build import NOW, a_host
from tests.functional.client import Answer, Client
from tests.functional.conftest import Build
from tests.functional.fleets import IMAGE, UNKNOWN_ID, BuildCloud, Cloud
from tests.functional.rows import all_rows
from tests.functional.scopes import Scoped, scope, scoped

LISTENING = ("notifications", "driver", "log")
STRANGE = "ffffffff-ffff-4fff-bfff-ffffffffffff"
USE = "os_compute_api:os-policy-scopes:use"
GROUPS = "os_compute_api:os-server-groups"


@pytest.fixture
def racks(build_cloud: BuildCloud) -> Scoped:
    return scoped(build_cloud(5))


@pytest.fixture(scope="module")
def module_racks(module_cloud: Cloud) -> Scoped:
    """Racks for tests that change nothing."""
    with module_cloud.store.write() as tx:
        tx.hosts.add([a_host("node-4"), a_host("node-5")], NOW)
    return scoped(module_cloud)


def create(client: Client, **group: Any) -> Answer:
    return client.post("/os-server-groups", {"server_group": {"name": "g"} | group})


def update(client: Client, group: str, **change: Any) -> Answer:
    return client.post(f"/os-server-groups/{group}", {"server_group": change})


def shown(answer: Answer) -> dict[str, Any]:
    assert answer.status == 200, answer.text
    found: dict[str, Any] = answer.json["server_group"]
    return found


def add(client: Client, group: str, server: str, **more: Any) -> Answer:
    body = {"add_instance": {"instance_id": server} | more}
    return client.post(f"/os-server-groups/{group}/action", body)


def remove(client: Client, group: str, server: str) -> Answer:
    return client.post(f"/os-server-groups/{group}/action", {"remove_instance": {"instance_id": server}})


def rack(host: str | None) -> str:
    return {"1": "a", "2": "a", "3": "b", "4": "b", "5": "c"}[(host or "")[-1]]


def racks_of(cloud: Cloud, *servers: str) -> list[str]:
    return [rack(host) for host in cloud.hosts(servers)]


# Examples of the specifications


def test_examples_of_the_scopes_specification(racks: Scoped) -> None:
    target = f"affinity:zone:{racks.zone('zone-a')}"
    made = shown(racks.alice.post("/os-server-groups", {"server_group": {"name": "test", "policies": [target]}}))
    assert made == {
        "id": made["id"],
        "name": "test",
        "policies": [target],
        "members": [],
        "policy": {"name": target, "rules": {}},
        "rules": {},
        "project_id": "web",
        "user_id": "alice",
    }
    body = {"server_group": {"name": "renamed test", "policies": [target, "anti-affinity:host"]}}
    path = f"/os-server-groups/{made['id']}"
    changed = shown(racks.alice.post(path, body))
    assert changed == made | {"name": "renamed test", "policies": [target, "anti-affinity"]}
    assert shown(racks.alice.get(path)) == changed
    assert shown(racks.alice.put(path, body)) == changed
    below = racks.alice.below("/compute/v2.1/web")
    assert shown(below.post(path, body)) == changed, "also below the tenant's id"


def test_examples_of_the_updates_specification(racks: Scoped) -> None:
    group, server = racks.group("anti-affinity"), racks.boot()
    path = f"/os-server-groups/{group}"
    changed = shown(racks.alice.post(path, {"server_group": {"name": "renamed test", "policies": ["affinity"]}}))
    assert (changed["name"], changed["policies"]) == ("renamed test", ["affinity"])
    joined = shown(racks.alice.post(f"{path}/action", {"add_instance": {"instance_id": server}}))
    assert joined == changed | {"members": [server]}
    left = shown(racks.alice.post(f"{path}/action", {"remove_instance": {"instance_id": server}}))
    assert left == changed


# Create and update


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("asked", "policies", "rules"),
    [
        ({"policy": {"name": "anti-affinity", "rules": {"max_server_per_host": 3}}}, ["anti-affinity"], {"host": 3}),
        ({"policy": {"name": "soft-affinity"}}, ["soft-affinity"], {}),
        ({"policy": "anti-affinity", "rules": {"max_server_per_host": "4"}}, ["anti-affinity"], {"host": 4}),
        ({"policy": "affinity"}, ["affinity"], {}),
        ({"policies": ["affinity:rack"]}, ["affinity:rack"], {}),
        ({"policies": ["soft-affinity:host"]}, ["soft-affinity"], {}),
        (
            {
                "policies": [
                    "anti-affinity:host",
                    "anti-affinity:rack",
                    "soft-affinity:zone",
                    "soft-anti-affinity:row",
                ],
                "rules": {"max_server_per_rack": 2, "max_server_per_host": 1},
            },
            ["anti-affinity", "anti-affinity:rack", "soft-affinity:zone", "soft-anti-affinity:row"],
            {"host": 1, "rack": 2},
        ),
        ({"policies": ["affinity:zone", "anti-affinity"]}, ["affinity:zone", "anti-affinity"], {}),
        ({"policies": ["affinity", "soft-anti-affinity"]}, ["affinity", "soft-anti-affinity"], {}),
    ],
)
def test_all_policy_forms_are_accepted_by_create_and_update(
    racks: Scoped, asked: dict[str, Any], policies: list[str], rules: dict[str, int]
) -> None:
    named = {f"max_server_per_{place}": limit for place, limit in rules.items()}
    made = shown(create(racks.alice, **asked))
    changed = shown(update(racks.alice, racks.group("soft-anti-affinity"), **asked))
    for group in (made, changed):
        assert (group["policies"], group["rules"]) == (policies, named)
        own = {name: limit for name, limit in named.items() if f"anti-affinity:{name[15:]}" == with_scope(policies[0])}
        assert group["policy"] == {"name": policies[0], "rules": own}
        assert shown(racks.alice.get(f"/os-server-groups/{group['id']}")) == group


def test_update_changes_only_the_given_fields(racks: Scoped) -> None:
    group = racks.group("anti-affinity", "anti-affinity:rack", max_server_per_rack=3, max_server_per_host=2)
    first = shown(racks.alice.get(f"/os-server-groups/{group}"))
    renamed = shown(update(racks.alice, group, name="群 other"))
    assert renamed == first | {"name": "群 other"}
    ruled = shown(update(racks.alice, group, rules={"max_server_per_rack": 5}))
    assert ruled["policies"] == first["policies"]
    assert ruled["rules"] == {"max_server_per_rack": 5}, "rules are replaced as a whole"
    bare = shown(update(racks.alice, group, rules={}))
    assert (bare["policies"], bare["rules"]) == (first["policies"], {})
    shown(update(racks.alice, group, rules={"max_server_per_rack": 5}))
    other = shown(update(racks.alice, group, policies=["anti-affinity:rack"]))
    assert (other["policies"], other["rules"]) == (["anti-affinity:rack"], {}), "new policies bring their own rules"
    assert other["name"] == "群 other"


def with_scope(policy: str) -> str:
    return policy if ":" in policy else f"{policy}:host"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"policies": ["affinity"], "rules": {"max_server_per_rack": 2}}, "max_server_per_rack needs the policy anti-aff"),
    ({"policies": ["anti-affinity"], "rules": {"max_server_per_rack": 2}}, "needs the policy anti-affinity:rack"),
    ({"policies": ["soft-anti-affinity:rack"], "rules": {"max_server_per_rack": 2}}, "needs the policy anti-affinity:"),
    ({"policies": ["affinity:rack"], "rules": {"max_server_per_host": 2}}, "Only anti-affinity policy supports rules"),
    ({"policies": ["anti-affinity:rack"], "rules": {"max_server_per_rack": 0}}, "is 0; it must be at least 1."),
    ({"policies": ["anti-affinity:rack"], "rules": {"max_server_per_rack": -1}}, "is -1; it must be at least 1."),
    ({"policies": ["anti-affinity:rack"], "rules": {"max_server_per_rack": "-1"}}, "is -1; it must be at least 1."),
    ({"policies": ["anti-affinity:rack"], "rules": {"max_server_per_rack": 1.5}}, "max_server_per_rack. Value: 1.5"),
    ({"policies": ["anti-affinity:rack"], "rules": {"most": 2}}, "most"),
    ({"policies": ["anti-affinity:rack"], "rules": [2]}, "rules. Value: [2]"),
    ({"policies": ["affinity:shelf"]}, "Policy scope 'shelf' does not exist."),
    ({"policies": ["affinity:Rack"]}, "Policy scope 'Rack' does not exist."),
    ({"policies": ["affinity:群"]}, "Policy scope '群' does not exist."),
    ({"policies": ["affinity: rack"]}, "Policy scope ' rack' does not exist."),
    ({"policies": [f"affinity:zone:{STRANGE}"]}, f"The policy scope 'zone' has no domain '{STRANGE}';"),
    ({"policies": ["affinity:zone:group:with:colons"]}, "has no domain 'group:with:colons'"),
    ({"policies": ["affinity:row:1e2"]}, "The policy scope 'row' has no domain '1e2';"),
    ({"policies": ["affinity:row:群"]}, "The policy scope 'row' has no domain '群';"),
    ({"policies": ["affinity:rack:1"]}, "the policy scope 'rack' allows none"),
    ({"policies": ["affinity:host:node-1"]}, "the policy scope 'host' allows none"),
    ({"policies": ["affinity:"]}, "'affinity:' has an empty part"),
    ({"policies": ["affinity:rack:"]}, "'affinity:rack:' has an empty part"),
    ({"policies": ["affinity::1"]}, "'affinity::1' has an empty part"),
    ({"policies": ["::"]}, "'::' has an unknown type; use one of anti-affinity, affinity,"),
    ({"policies": [":rack"]}, "':rack' has an unknown type"),
    ({"policies": ["Affinity"]}, "'Affinity' has an unknown type"),
    ({"policies": [" affinity"]}, "' affinity' has an unknown type"),
    ({"policies": [""]}, "'' should be non-empty"),
    ({"policies": ["affinity:" + "x" * 592]}, "is too long"),
    ({"policies": ["affinity:" + "x" * 591]}, "Policy scope 'xxx"),
    ({"policies": ["affinity\ud7ff"]}, "has an unknown type"),
    ({"policies": [5]}, "5 is not of type 'string'"),
    ({"policies": [None]}, "None is not of type 'string'"),
    ({"policies": [["affinity"]]}, "is not of type 'string'"),
    ({"policies": "affinity"}, "'affinity' is not of type 'array'"),
    ({"policies": {}}, "{} is not of type 'array'"),
    ({"policies": None}, "None is not of type 'array'"),
    ({"policies": []}, "[] should be non-empty"),
    ({"policies": ["affinity"] * 2}, "has non-unique elements"),
    ({"policies": ["affinity"], "policy": "affinity"}, "('policy' was unexpected)"),
    ({"policies": ["affinity", "affinity:host"]}, "The policies affinity and affinity repeat each other"),
    ({"policies": ["affinity:rack", "soft-affinity:rack"]}, "affinity:rack and soft-affinity:rack repeat each other"),
    ({"policies": ["anti-affinity:rack", "affinity:rack"]}, "anti-affinity:rack and affinity:rack contradict"),
    ({"policies": ["anti-affinity", "affinity:host"]}, "The policies anti-affinity and affinity contradict"),
    ({"policy": "affinity:rack"}, "'affinity:rack' is not one of"),
    ({"policy": None}, "None is not of type 'string'"),
    (
        {"policy": {"name": "affinity", "rules": {"max_server_per_host": 2}}},
        "Only anti-affinity policy supports rules.",
    ),
    ({"policy": {"rules": {}}}, "'name' is a required property"),
    ({"policies": ["affinity"], "members": []}, "('members' was unexpected)"),
    ({"policies": ["affinity"], "name": ""}, "'' should be non-empty"),
    ({"policies": ["affinity"], "name": None}, "None is not of type 'string'"),
    ({"policies": ["affinity"], "name": "x" * 256}, "is too long"),
    ({"policies": ["affinity"], "name": " g"}, "The name must be: printable characters."),
]


@pytest.fixture(scope="module")
def existing_group(module_racks: Scoped) -> str:
    return module_racks.group("soft-anti-affinity")


@pytest.mark.sqlite_only
@pytest.mark.parametrize(("asked", "message"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_invalid_policies_return_400_and_change_nothing(
    module_racks: Scoped, existing_group: str, asked: dict[str, Any], message: str
) -> None:
    before = all_rows(module_racks.connection)
    for answer in (create(module_racks.alice, **asked), update(module_racks.alice, existing_group, **asked)):
        assert answer.status == 400, answer.text
        assert message in answer.message
    assert all_rows(module_racks.connection) == before


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"server_group": {}}, "{} should be non-empty"),
        ({"server_group": None}, "None is not of type 'object'"),
        ({"server_group": {"rules": {"max_server_per_host": 2}}}, "Only anti-affinity policy supports rules."),
        ({"server_group": {"rules": {"max_server_per_rack": 2}}}, "The rule max_server_per_rack needs the policy"),
        ({"server_group": {"id": STRANGE}}, "('id' was unexpected)"),
        ({}, "'server_group' is a required property"),
        ({"server_group": {"name": "n"}, "more": 1}, "('more' was unexpected)"),
        ([], "[] is not of type 'object'"),
        (None, "None is not of type 'object'"),
    ],
)
def test_invalid_updates_return_400(module_racks: Scoped, existing_group: str, body: Any, message: str) -> None:
    before = all_rows(module_racks.connection)
    answer = module_racks.alice.post(f"/os-server-groups/{existing_group}", body)
    assert answer.status == 400, answer.text
    assert message in answer.message
    assert all_rows(module_racks.connection) == before


@pytest.mark.sqlite_only
def test_contradictions_are_reported_with_the_tenants_identifiers(racks: Scoped) -> None:
    mine, real = racks.zone("zone-a"), racks.domains["zone"]["zone-a"]
    pair = [f"affinity:zone:{mine}", f"soft-affinity:zone:{mine}"]
    said = create(racks.alice, policies=pair)
    assert said.status == 400
    assert f"{pair[0]} and {pair[1]} repeat each other" in said.message
    assert f"zone:{real} " not in f"{said.message} "
    by_admin = create(racks.admin, policies=[f"affinity:zone:{real}", f"soft-affinity:zone:{real}"])
    assert f"affinity:zone:{real} and soft-affinity:zone:{real} repeat" in by_admin.message
    both = [f"affinity:zone:{mine}", f"anti-affinity:zone:{racks.zone('zone-b')}", f"soft-anti-affinity:zone:{mine}"]
    assert shown(create(racks.alice, policies=both))["policies"] == both, "of several places, there is no conflict"


def test_group_of_another_project_returns_404(racks: Scoped) -> None:
    group = racks.group("anti-affinity")
    before = all_rows(racks.connection)
    server = UNKNOWN_ID
    path = f"/os-server-groups/{group}"
    for answer in (
        update(racks.bob, group, name="mine"),
        racks.bob.put(path, {"server_group": {"name": "mine"}}),
        add(racks.bob, group, server),
        remove(racks.bob, group, server),
        racks.bob.get(f"{path}/audit"),
        racks.bob.post(f"{path}/action", {"preview": {"flavor": "small"}}),
        racks.bob.post(f"{path}/action", {"headroom": {"flavor": "small"}}),
    ):
        assert (answer.status, answer.message) == (404, f"Instance group {group} could not be found.")
    assert all_rows(racks.connection) == before
    assert update(racks.admin, group, name="by an operator").status == 200


@pytest.mark.sqlite_only
@pytest.mark.parametrize("key", [UNKNOWN_ID, "x" * 300, "%F0%9F%90%A6", "..%2F", "'; --"])
def test_unknown_group_returns_404_on_every_route(module_racks: Scoped, key: str) -> None:
    alice, path = module_racks.alice, f"/os-server-groups/{key}"
    assert update(alice, key, name="n").status == 404
    assert alice.put(path, {"server_group": {"name": "n"}}).status == 404
    assert add(alice, key, UNKNOWN_ID).status == 404
    assert remove(alice, key, UNKNOWN_ID).status == 404
    assert alice.get(f"{path}/audit").status == 404
    assert alice.post(f"{path}/action", {"preview": {"flavor": "small"}}).status == 404


@pytest.mark.sqlite_only
def test_readers_cannot_change_groups(racks: Scoped) -> None:
    group, server = racks.group("anti-affinity"), racks.boot()
    reader = racks.alice.sending(X_Roles="reader")
    before = all_rows(racks.connection)
    for answer in (update(reader, group, name="n"), add(reader, group, server), remove(reader, group, server)):
        assert answer.status == 403
        assert "os_compute_api:os-server-groups:update" in answer.message
    assert all_rows(racks.connection) == before


@pytest.mark.sqlite_only
@pytest.mark.sqlite_only
def test_nova_clients_see_the_rules_of_the_policy_that_they_see(racks: Scoped) -> None:
    soft_first = racks.group("soft-affinity:rack", "anti-affinity", max_server_per_host=2)
    hard_first = racks.group("anti-affinity", "soft-affinity:rack", max_server_per_host=2)
    for group, policy, rules in (
        (soft_first, "soft-affinity:rack", {}),
        (hard_first, "anti-affinity", {"max_server_per_host": 2}),
    ):
        seen = shown(racks.alice.at("2.64").get(f"/os-server-groups/{group}"))
        assert (seen["policy"], seen["rules"]) == (policy, rules)
        assert shown(racks.alice.get(f"/os-server-groups/{group}"))["rules"] == {"max_server_per_host": 2}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("version", ["2.1", "2.64", "2.104", "2.999"])
def test_older_microversions_show_the_first_policy_and_lack_new_routes(racks: Scoped, version: str) -> None:
    group = racks.group("anti-affinity:rack", "soft-affinity", max_server_per_rack=2)
    server, path, old = racks.boot(), f"/os-server-groups/{group}", racks.alice.at(version)
    before = all_rows(racks.connection)
    for answer in (
        update(old, group, name="n"),
        old.put(path, {"server_group": {"name": "n"}}),
        add(old, group, server),
        remove(old, group, server),
        old.post(f"{path}/action", {"preview": {"flavor": "small"}}),
        old.get(f"{path}/audit"),
    ):
        assert answer.status == 404, answer.text
    assert all_rows(racks.connection) == before
    read = shown(old.get(path))
    assert read.get("policy", read.get("policies")) in ("anti-affinity:rack", ["anti-affinity:rack"])
    assert read.get("rules") in (None, {"max_server_per_rack": 2})


# Access to scopes


def closed(build_cloud: BuildCloud, directory: Path, *rules: str) -> Scoped:
    """A cloud whose policy denies tenants the racks, or the identifiers of rows."""
    lines = [f'"{rule}": "role:admin or not \'{name}\':%(scope_name)s"' for rule, name in map(str.split, rules)]
    (directory / "policy.yaml").write_text("\n".join(lines))
    return scoped(build_cloud(5))


@pytest.mark.sqlite_only
def test_scope_without_use_permission_returns_403(build_cloud: BuildCloud, tmp_path: Path) -> None:
    racks = closed(build_cloud, tmp_path, f"{USE} rack")
    group = racks.group("affinity:zone")
    before = all_rows(racks.connection)
    for answer in (
        create(racks.alice, policies=["affinity:zone", "anti-affinity:rack"]),
        update(racks.alice, group, policies=["soft-affinity:rack"]),
    ):
        assert answer.status == 403, answer.text
        assert answer.message == (
            f"Policy doesn't allow {USE} to be performed: you may not use the policy scope 'rack'."
        )
    assert all_rows(racks.connection) == before
    assert create(racks.admin, policies=["anti-affinity:rack"]).status == 200


@pytest.mark.sqlite_only
def test_identifiers_without_use_permission_return_403(build_cloud: BuildCloud, tmp_path: Path) -> None:
    racks = closed(build_cloud, tmp_path, f"{USE}_identifier row")
    row = racks.domains["row"]["row-a"]
    answer = create(racks.alice, policies=[f"affinity:row:{row}"])
    assert answer.status == 403, answer.text
    assert f"{USE}_identifier to be performed: you may not use the policy scope 'row'." in answer.message
    assert create(racks.alice, policies=["affinity:row"]).status == 200
    assert create(racks.alice, policies=[f"affinity:zone:{racks.zone('zone-a')}"]).status == 200
    assert create(racks.admin, policies=[f"affinity:row:{row}"]).status == 200


# Visibility of identifiers


@pytest.mark.sqlite_only
def test_list_of_all_projects_shows_the_surrogates_of_each_groups_project(
    build_cloud: BuildCloud, tmp_path: Path
) -> None:
    auditors = "role:auditor or role:admin"
    rules = [f"{GROUPS}:index:all_projects", f"{GROUPS}:show", f"{GROUPS}:audit"]
    (tmp_path / "policy.yaml").write_text("\n".join(f'"{rule}": "{auditors}"' for rule in rules))
    racks = scoped(build_cloud(5))
    own, others = racks.zone("zone-a", "db"), racks.zone("zone-a", "web")
    for client, zone in ((racks.bob, own), (racks.alice, others)):
        assert create(client, policies=[f"affinity:zone:{zone}"]).status == 200
    auditor = racks.bob.sending(X_Roles="auditor,member,reader")
    listed = auditor.get("/os-server-groups", all_projects="1").json["server_groups"]
    shown_policies = {group["project_id"]: group["policies"] for group in listed}
    assert shown_policies == {"db": [f"affinity:zone:{own}"], "web": [f"affinity:zone:{others}"]}
    for group in listed:
        assert shown(auditor.get(f"/os-server-groups/{group['id']}"))["policies"] == group["policies"]
    words = [each["words"] for each in auditor.below("/dashboard").get("/data/groups").json["groups"]]
    assert words == [f"only in zone {own}", f"only in zone {others}"]


@pytest.mark.sqlite_only
def test_tenants_use_their_own_identifiers_of_a_zone(racks: Scoped) -> None:
    real = racks.domains["zone"]["zone-a"]
    alices, bobs = racks.zone("zone-a", "web"), racks.zone("zone-a", "db")
    namespace = uuid.UUID(scope(racks, "zone").namespace_uuid)
    assert alices == str(uuid.uuid5(uuid.uuid5(namespace, "web"), real))
    assert len({alices, bobs, real}) == 3
    for client, mine, others in ((racks.alice, alices, (bobs, real)), (racks.bob, bobs, (alices, real))):
        made = shown(create(client, policies=[f"affinity:zone:{mine}"]))
        assert made["policies"] == [f"affinity:zone:{mine}"]
        for other in others:
            answer = create(client, policies=[f"affinity:zone:{other}"])
            assert answer.status == 400
            assert f"The policy scope 'zone' has no domain '{other}';" in answer.message
        by_admin = shown(racks.admin.get(f"/os-server-groups/{made['id']}"))
        assert by_admin["policies"] == [f"affinity:zone:{real}"]
        assert by_admin["policy"]["name"] == f"affinity:zone:{real}"
    stored = {row.identifier for row in racks.rows(tables.instance_group_policies)}
    assert stored == {real}
    listed = racks.admin.get("/os-server-groups", all_projects="1").json["server_groups"]
    assert [group["policies"] for group in listed] == [[f"affinity:zone:{real}"]] * 2
    (mine_only,) = racks.alice.get("/os-server-groups").json["server_groups"]
    assert mine_only["policies"] == [f"affinity:zone:{alices}"]


@pytest.mark.sqlite_only
def test_real_identifiers_require_a_scope_without_obfuscation(racks: Scoped) -> None:
    real = racks.domains["row"]["row-b"]
    made = shown(create(racks.alice, policies=[f"anti-affinity:row:{real}"]))
    assert made["policies"] == [f"anti-affinity:row:{real}"]
    zone = racks.domains["zone"]["zone-a"]
    assert create(racks.alice, policies=[f"affinity:row:{zone}"]).status == 400, "a domain of another scope"


@pytest.mark.sqlite_only
def test_tenant_sees_an_operators_update_obfuscated(racks: Scoped) -> None:
    group = racks.group("affinity")
    real = racks.domains["zone"]["zone-b"]
    changed = shown(update(racks.admin, group, policies=[f"affinity:zone:{real}"]))
    assert changed["policies"] == [f"affinity:zone:{real}"]
    read = shown(racks.alice.get(f"/os-server-groups/{group}"))
    assert read["policies"] == [f"affinity:zone:{racks.zone('zone-b')}"]
    old = shown(racks.alice.at("2.64").get(f"/os-server-groups/{group}"))
    assert old["policy"] == f"affinity:zone:{racks.zone('zone-b')}"


# Effects on later decisions


def test_new_servers_follow_scoped_policies(racks: Scoped) -> None:
    group = racks.group("anti-affinity:rack")
    assert sorted(racks_of(racks, *(racks.boot(group=group) for _ in range(3)))) == ["a", "b", "c"]
    lost = racks.boot(group=group)
    assert racks.show(lost, racks.alice)["fault"]["message"] == (
        "No valid host was found. Of 5 hosts: 5 already hold 1 of the group in their rack."
    )


def test_new_servers_follow_targets(racks: Scoped) -> None:
    group = racks.group(f"affinity:zone:{racks.zone('zone-b')}", "anti-affinity")
    servers = [racks.boot(group=group) for _ in range(3)]
    assert sorted(filter(None, racks.hosts(servers))) == ["node-4", "node-5"]
    assert racks.status(servers[2]) == "ERROR"


def test_update_applies_to_the_next_server(racks: Scoped, build: Build) -> None:
    """The update also applies in another process that cached the group."""
    other = build().as_("alice:web", "2.1000")
    group = racks.group("affinity")
    first = racks.boot(group=group)
    second = racks.boot(other, group=group)
    assert racks.host(first) == racks.host(second)
    shown(update(racks.alice, group, policies=["anti-affinity:rack"]))
    third, fourth = racks.boot(other, group=group), racks.boot(group=group)
    assert len(set(racks_of(racks, first, third, fourth))) == 3
    fault = racks.show(racks.boot(other, group=group))["fault"]["message"]
    assert "already hold 1 of the group in their rack" in fault
    assert (
        "2 already hold 2 of the group in their rack" in fault or "1 already holds 2 of the group in its rack" in fault
    )
    shown(update(other, group, rules={"max_server_per_rack": 2}))
    fifth = racks.boot(group=group)
    assert racks.status(fifth) == "ACTIVE"
    shown(update(other, group, policies=["soft-affinity"]))
    assert racks.host(racks.boot(group=group)) in racks.hosts([first, second])


def test_update_moves_no_server_and_may_create_violations(racks: Scoped) -> None:
    group = racks.group("affinity")
    servers = [racks.boot(group=group) for _ in range(2)]
    hosts = racks.hosts(servers)
    shown(update(racks.alice, group, policies=["anti-affinity", "anti-affinity:rack"]))
    assert racks.hosts(servers) == hosts
    assert racks.jobs() == []


# Members


def test_later_members_avoid_a_server_that_joined(racks: Scoped) -> None:
    """A server that was created without a group joins one."""
    lone, group = racks.boot_on("node-3"), racks.group("anti-affinity:rack")
    joined = shown(add(racks.alice, group, lone))
    assert joined["members"] == [lone]
    assert racks.host(lone) == "node-3", "it did not move"
    more = [racks.boot(group=group) for _ in range(2)]
    assert sorted(racks_of(racks, *more)) == ["a", "c"]
    assert racks.members(group) == {lone, *more}
    assert racks.status(racks.boot(group=group)) == "ERROR"


def test_membership_changes_apply_in_other_processes(racks: Scoped, build: Build) -> None:
    other = build().as_("alice:web", "2.1000")
    group = racks.group("anti-affinity:rack", "affinity:row")
    first = racks.boot(other, group=group, availability_zone="nova")
    lone = racks.boot_on("node-3" if racks.host(first) != "node-3" else "node-2")
    shown(update(racks.alice, group, policies=["anti-affinity"]))
    shown(add(racks.alice, group, lone))
    hosts = {racks.host(racks.boot(other, group=group)) for _ in range(3)}
    assert not hosts & {racks.host(first), racks.host(lone)}
    shown(remove(other, group, lone))
    assert racks.host(racks.boot(group=group)) == racks.host(lone)


def test_server_is_in_at_most_one_group(racks: Scoped) -> None:
    mine, other = racks.group("anti-affinity"), racks.group("affinity")
    server = racks.boot(group=mine)
    before = all_rows(racks.connection)
    answer = add(racks.alice, other, server)
    assert (answer.status, mine in answer.message) == (409, True)
    assert all_rows(racks.connection) == before
    assert shown(add(racks.alice, mine, server))["members"] == [server], "once more is no matter"
    assert all_rows(racks.connection) == before
    shown(remove(racks.alice, mine, server))
    assert shown(add(racks.alice, other, server))["members"] == [server]


def test_added_members_count_against_the_quota(racks: Scoped) -> None:
    group, servers = racks.group("soft-anti-affinity"), [racks.boot() for _ in range(3)]
    racks.set_quota(server_group_members=2)
    for server in servers[:2]:
        shown(add(racks.alice, group, server))
    before = all_rows(racks.connection)
    answer = add(racks.alice, group, servers[2])
    assert (answer.status, answer.message) == (403, "Quota exceeded, too many servers in group")
    assert all_rows(racks.connection) == before
    shown(add(racks.alice, group, servers[1]))
    shown(remove(racks.alice, group, servers[0]))
    shown(add(racks.alice, group, servers[2]))


def test_servers_of_other_projects_and_unknown_servers_cannot_join(racks: Scoped) -> None:
    group, bobs = racks.group("anti-affinity"), racks.boot(racks.bob)
    gone = racks.boot()
    racks.delete(gone)
    for server in (bobs, gone, UNKNOWN_ID):
        answer = add(racks.alice, group, server)
        assert (answer.status, answer.message) == (404, f"Instance {server} could not be found.")
    by_admin = add(racks.admin, group, bobs)
    assert by_admin.status == 400
    assert "it belongs to another project" in by_admin.message
    assert racks.members(group) == set()


def test_deleted_and_unplaced_servers_cannot_join(racks: Scoped) -> None:
    group = racks.group("anti-affinity")
    lost, going = racks.boot(flavorRef="giant"), racks.boot()
    assert racks.alice.delete(f"/servers/{going}").status == 204
    for server in (lost, going):
        answer = add(racks.alice, group, server)
        assert (answer.status, server in answer.message) == (409, True)
    assert racks.members(group) == set()
    racks.settle()


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"add_instance": {}}, "'instance_id' is a required property"),
        ({"add_instance": None}, "None is not of type 'object'"),
        ({"add_instance": {"instance_id": "x"}}, "instance_id. Value: x"),
        ({"add_instance": {"instance_id": 5}}, "5 is not of type 'string'"),
        ({"add_instance": {"instance_id": UNKNOWN_ID, "enforce": "maybe"}}, "enforce. Value: maybe"),
        ({"add_instance": {"instance_id": UNKNOWN_ID, "enforce": None}}, "enforce. Value: None"),
        ({"add_instance": {"instance_id": UNKNOWN_ID, "more": 1}}, "('more' was unexpected)"),
        ({"remove_instance": {"instance_id": UNKNOWN_ID, "enforce": True}}, "('enforce' was unexpected)"),
        ({"remove_instance": {}}, "'instance_id' is a required property"),
        (
            {"add_instance": {"instance_id": UNKNOWN_ID}, "remove_instance": {"instance_id": UNKNOWN_ID}},
            "it has 2 actions (add_instance, remove_instance); send one.",
        ),
        ({}, "Send exactly one of add_instance, remove_instance, preview, headroom, evacuate"),
        ({"explode": {}}, "Unknown action 'explode'."),
        ([], "[] is not of type 'object'"),
        (None, "None is not of type 'object'"),
    ],
)
def test_invalid_actions_return_400(module_racks: Scoped, existing_group: str, body: Any, message: str) -> None:
    answer = module_racks.alice.post(f"/os-server-groups/{existing_group}/action", body)
    assert answer.status == 400, answer.text
    assert message in answer.message


# Enforced policies when joining


def test_joining_may_violate_policies_unless_enforced(racks: Scoped) -> None:
    group = racks.group("anti-affinity:rack", "affinity:zone", "anti-affinity")
    first, near = racks.boot_on("node-1", group), racks.boot_on("node-2")
    before = all_rows(racks.connection)
    answer = add(racks.alice, group, near, enforce=True)
    reason = "its host already holds 1 of the group in its rack"
    said = f"Server {near} would violate the group's policies on its host: {reason}."
    assert (answer.status, answer.message) == (409, said)
    assert all_rows(racks.connection) == before
    fine = racks.boot_on("node-3")
    assert shown(add(racks.alice, group, fine, enforce="true"))["members"] == [first, fine]
    assert set(shown(add(racks.alice, group, near, enforce=False))["members"]) == {first, fine, near}


@pytest.mark.parametrize(("of_group", "joining"), [("node-1", "node-3"), ("node-3", "node-1")])
def test_enforced_affinity_rejects_servers_in_other_domains(racks: Scoped, of_group: str, joining: str) -> None:
    group = racks.group("affinity:rack")
    racks.boot_on(of_group, group)
    away = racks.boot_on(joining)
    answer = add(racks.alice, group, away, enforce=True)
    assert answer.status == 409, answer.text
    assert "its host is not in the rack of the group" in answer.message
    assert away not in racks.members(group)


def test_enforcement_covers_targets_and_hosts_without_a_domain(racks: Scoped) -> None:
    keeps, avoids = racks.zone("zone-a"), racks.zone("zone-b")
    server = racks.boot_on("node-5")
    for policy, reason in (
        (f"affinity:zone:{keeps}", "its host is outside the zone that the group requires"),
        (f"anti-affinity:zone:{avoids}", "its host is in the zone that the group avoids"),
        ("affinity:row", "its host is in no row"),
        ("anti-affinity:row", "its host is in no row"),
    ):
        answer = add(racks.alice, racks.group(policy), server, enforce=True)
        assert (answer.status, reason in answer.message) == (409, True), answer.text
        assert "node-" not in answer.text
    shown(add(racks.alice, racks.group(f"anti-affinity:zone:{keeps}"), server, enforce=True))


def test_soft_policies_are_never_enforced(racks: Scoped) -> None:
    policies = ["soft-anti-affinity", "soft-affinity:row", f"soft-affinity:zone:{racks.zone('zone-b')}"]
    group = racks.group(*policies)
    servers = [racks.boot_on("node-1", flavorRef="small") for _ in range(3)]
    for server in servers:
        shown(add(racks.alice, group, server, enforce=True))
    assert racks.members(group) == set(servers)


def test_existing_violations_do_not_block_joining(racks: Scoped) -> None:
    group = racks.group("anti-affinity")
    for _ in range(2):
        racks.boot_on("node-1", group)
    fine, crowding = racks.boot_on("node-2"), racks.boot_on("node-1")
    shown(add(racks.alice, group, fine, enforce=True))
    assert add(racks.alice, group, crowding, enforce=True).status == 409


def test_server_without_a_host_violates_nothing(racks: Scoped) -> None:
    group, shelved = racks.group("anti-affinity"), racks.boot_on("node-1")
    racks.boot_on("node-1", group)
    racks.run_action(racks.alice, shelved, "shelve")
    shown(add(racks.alice, group, shelved, enforce=True))
    racks.run_action(racks.alice, shelved, "unshelve")
    assert racks.host(shelved) != "node-1", "it obeys from its next decision on"


# Concurrency


def run_concurrently(*requests: Callable[[], Answer]) -> list[int]:
    with ThreadPoolExecutor(len(requests)) as pool:
        return [answer.status for answer in pool.map(lambda request: request(), requests)]


def test_concurrent_joins_of_one_server_succeed_once(racks: Scoped) -> None:
    groups, server = [racks.group("anti-affinity") for _ in range(8)], racks.boot()
    statuses = run_concurrently(*(partial(add, racks.alice, group, server) for group in groups))
    assert sorted(statuses) == [200, *[409] * 7]
    assert [racks.members(group) for group in groups].count({server}) == 1


def test_concurrent_joins_and_creations_keep_enforced_policies(racks: Scoped) -> None:
    group = racks.group("anti-affinity")
    lone = [racks.boot_on(f"node-{number}") for number in range(1, 6)]
    body = {"server": {"name": "s", "flavorRef": "small", "imageRef": IMAGE, "networks": "none"}}
    boot = partial(racks.alice.post, "/servers", body | {"os:scheduler_hints": {"group": group}})
    statuses = run_concurrently(
        *(partial(add, racks.alice, group, server, enforce=True) for server in lone), *[boot] * 5
    )
    racks.settle()
    assert set(statuses[:5]) <= {200, 409}
    assert statuses[5:] == [202] * 5
    members = racks.members(group)
    assert len(members) == len(set(racks.hosts(members))) == 5, "all places are taken, each once"


# Leaving


def test_removed_members_no_longer_count(racks: Scoped) -> None:
    group = racks.group("anti-affinity:rack")
    servers = [racks.boot(group=group) for _ in range(3)]
    left = shown(remove(racks.alice, group, servers[1]))
    assert left["members"] == [servers[0], servers[2]]
    assert racks.status(servers[1]) == "ACTIVE"
    again = racks.boot(group=group)
    assert racks_of(racks, again) == racks_of(racks, servers[1])
    racks.delete(*servers, again)
    assert racks.members(group) == set()
    assert racks.is_empty()


def test_removing_a_server_that_is_no_member_returns_404(racks: Scoped) -> None:
    group, other = racks.group("anti-affinity"), racks.group("anti-affinity")
    lone, elsewhere = racks.boot(), racks.boot(group=other)
    before = all_rows(racks.connection)
    for server in (lone, elsewhere, UNKNOWN_ID):
        answer = remove(racks.alice, group, server)
        assert (answer.status, answer.message) == (
            404,
            f"Server {server} is not a member of the server group {group}.",
        )
    assert all_rows(racks.connection) == before


# During a move


def test_joining_during_a_move_counts_on_both_hosts(racks: Scoped) -> None:
    group, moving = racks.group("anti-affinity:rack"), racks.boot_on("node-1")
    racks.act(racks.admin, moving, "migrate", {"host": "node-3"})
    shown(add(racks.alice, group, moving))
    third = racks.request_server(racks.alice, group=group).json["server"]["id"]
    assert racks_of(racks, third) == ["c"]
    lost = racks.request_server(racks.alice, group=group).json["server"]["id"]
    assert racks.status(lost) == "ERROR"
    racks.settle()
    racks.run_action(racks.alice, moving, "confirmResize")
    assert racks_of(racks, moving, racks.boot(group=group)) == ["b", "a"]


def test_enforcement_checks_both_hosts_of_a_move(racks: Scoped) -> None:
    for source, destination in (("node-1", "node-3"), ("node-3", "node-1")):
        group, moving = racks.group("anti-affinity:rack"), racks.boot_on(source)
        racks.boot_on("node-2", group)
        racks.act(racks.admin, moving, "migrate", {"host": destination})
        answer = add(racks.alice, group, moving, enforce=True)
        assert answer.status == 409, answer.text
        racks.settle()


def test_leaving_during_a_move_counts_on_neither_host(racks: Scoped) -> None:
    group = racks.group("anti-affinity:rack")
    moving = racks.boot_on("node-1", group)
    racks.boot_on("node-5", group)
    racks.act(racks.admin, moving, "migrate", {"host": "node-3"})
    shown(remove(racks.alice, group, moving))
    more = [racks.boot(group=group) for _ in range(2)]
    assert sorted(racks_of(racks, *more)) == ["a", "b"]
    assert racks.status(moving) == "VERIFY_RESIZE"
    racks.run_action(racks.alice, moving, "revertResize")
    assert racks.host(moving) == "node-1"


def test_server_may_join_while_it_builds(racks: Scoped) -> None:
    group = racks.group("anti-affinity")
    new = racks.request_server(racks.alice).json["server"]["id"]
    shown(add(racks.alice, group, new))
    racks.settle()
    assert racks.status(new) == "ACTIVE"
    assert racks.members(group) == {new}
    others = {racks.host(racks.boot(group=group)) for _ in range(4)}
    assert len(others | {racks.host(new)}) == 5


def test_moves_of_added_members_follow_the_policies(racks: Scoped) -> None:
    group, lone = racks.group("anti-affinity:rack"), racks.boot_on("node-1")
    racks.boot_on("node-3", group)
    shown(add(racks.alice, group, lone))
    racks.run_action(racks.admin, lone, "migrate")
    assert rack(racks.host(lone)) in {"a", "c"}


# Notifications


def test_group_changes_are_published(build_cloud: BuildCloud) -> None:
    racks = scoped(build_cloud(5, LISTENING))
    group, server = racks.group("affinity"), racks.boot()
    with racks.store.write() as tx:
        tx.outbox.published([note.id for note in tx.outbox.oldest(1000)])
    target = f"anti-affinity:zone:{racks.zone('zone-b')}"
    shown(update(racks.alice, group, name="n", policies=["anti-affinity", target], rules={"max_server_per_host": 2}))
    shown(add(racks.alice, group, server))
    shown(add(racks.alice, group, server))
    shown(remove(racks.alice, group, server))
    assert update(racks.alice, group, policies=["nearby"]).status == 400
    assert remove(racks.alice, group, server).status == 404
    with racks.store.read() as tx:
        notifications: list[Any] = tx.outbox.oldest(1000)
    data = [note.payload["nova_object.data"] for note in notifications]
    assert [(note.event, each["members"]) for note, each in zip(notifications, data, strict=True)] == [
        ("server_group.update", []),
        ("server_group.add_member", [server]),
        ("server_group.remove_member", []),
    ]
    for each in data:
        assert (each["uuid"], each["name"], each["rules"]) == (group, "n", {"max_server_per_host": 2})
        assert each["policy"]["nova_object.data"]["name"] == "anti-affinity"
        assert each["policies"] == ["anti-affinity", f"anti-affinity:zone:{racks.domains['zone']['zone-b']}"]


@pytest.mark.sqlite_only
def test_administrator_may_post_real_identifiers_and_surrogates_of_its_project(racks: Scoped) -> None:
    real = racks.domains["zone"]["zone-a"]
    for given in (real, racks.zone("zone-a", "operators"), racks.zone("zone-a", "operators").upper()):
        group = racks.group(f"affinity:zone:{given}", client=racks.admin)
        shown = racks.admin.get(f"/os-server-groups/{group}").json["server_group"]
        assert shown["policies"] == [f"affinity:zone:{real}"]
    body = {"server_group": {"name": "g", "policies": [f"affinity:zone:{racks.zone('zone-a', 'web')}"]}}
    assert racks.admin.post("/os-server-groups", body).status == 400


@pytest.mark.sqlite_only
def test_tenant_may_post_surrogates_in_any_letter_case(racks: Scoped) -> None:
    surrogate = racks.zone("zone-a")
    group = racks.group(f"affinity:zone:{surrogate.upper()}")
    shown = racks.alice.get(f"/os-server-groups/{group}").json["server_group"]
    assert shown["policies"] == [f"affinity:zone:{surrogate}"]
