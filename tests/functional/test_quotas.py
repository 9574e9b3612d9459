"""Quota sets, quota classes and limits."""

import pytest

from tests.functional.client import Client
from tests.functional.conftest import Build

ALWAYS = {
    "instances": 10,
    "cores": 20,
    "ram": 51200,
    "metadata_items": 128,
    "key_pairs": 100,
    "server_groups": 10,
    "server_group_members": 10,
}
NETWORK = dict.fromkeys(("fixed_ips", "floating_ips", "security_groups", "security_group_rules"), -1)
PERSONALITY = {"injected_files": 5, "injected_file_content_bytes": 10240, "injected_file_path_bytes": 255}
GROUPS = ("server_groups", "server_group_members")
BY_VERSION = [
    pytest.param("2.1", ALWAYS | NETWORK | PERSONALITY, id="2.1 has everything"),
    pytest.param("2.35", ALWAYS | NETWORK | PERSONALITY, id="2.35 has networks for the last time"),
    pytest.param("2.36", ALWAYS | PERSONALITY, id="2.36 has no networks"),
    pytest.param("2.56", ALWAYS | PERSONALITY, id="2.56 has files for the last time"),
    pytest.param("2.57", ALWAYS, id="2.57 has no files"),
    pytest.param("2.1000", ALWAYS, id="2.1000 has no more"),
]


class TestQuotaSets:
    """/os-quota-sets/{project}."""

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize(("version", "limits"), BY_VERSION)
    def test_resources_follow_the_microversion(self, admin: Client, version: str, limits: dict[str, int]) -> None:
        client = admin.at(version)
        for path in ("", "/defaults"):
            answer = client.get(f"/os-quota-sets/web{path}")
            assert (answer.status, answer.json) == (200, {"quota_set": {"id": "web", **limits}})
        detail = {name: {"limit": limit, "in_use": 0, "reserved": 0} for name, limit in limits.items()}
        assert client.get("/os-quota-sets/web/detail").json == {"quota_set": {"id": "web", **detail}}
        assert client.put("/os-quota-sets/web", {"quota_set": {}}).json == {"quota_set": limits}

    def test_limits_are_set_and_reset_to_defaults(self, admin: Client, alice: Client) -> None:
        body = {"quota_set": {"server_groups": 20, "server_group_members": -1, "cores": "40"}}
        changed = admin.at("2.57").put("/os-quota-sets/web", body)
        expected = ALWAYS | {"server_groups": 20, "server_group_members": -1, "cores": 40}
        assert (changed.status, changed.json) == (200, {"quota_set": expected})
        assert alice.at("2.57").get("/os-quota-sets/web").json == {"quota_set": {"id": "web", **expected}}
        assert admin.at("2.57").get("/os-quota-sets/mail").json == {"quota_set": {"id": "mail", **ALWAYS}}
        reset = admin.delete("/os-quota-sets/web")
        assert (reset.status, reset.text) == (202, "")
        assert alice.at("2.57").get("/os-quota-sets/web").json == {"quota_set": {"id": "web", **ALWAYS}}

    def test_second_update_keeps_the_first(self, admin: Client) -> None:
        admin.put("/os-quota-sets/web", {"quota_set": {"cores": 1}})
        changed = admin.put("/os-quota-sets/web", {"quota_set": {"ram": 2}}).json["quota_set"]
        assert (changed["cores"], changed["ram"]) == (1, 2)

    def test_force_is_a_flag_and_no_resource(self, admin: Client) -> None:
        for force in (True, "true", False):
            answer = admin.put("/os-quota-sets/web", {"quota_set": {"cores": 0, "force": force}})
            assert (answer.status, "force" in answer.json["quota_set"]) == (200, False)

    def test_limit_below_usage_requires_force(self, admin: Client, alice: Client) -> None:
        for name in ("one", "two"):
            assert (
                alice.post("/os-server-groups", {"server_group": {"name": name, "policies": ["affinity"]}}).status
                == 200
            )
        refused = admin.put("/os-quota-sets/web", {"quota_set": {"server_groups": 1, "cores": 1}})
        message = "Quota limit 1 for server_groups must be greater than or equal to already used and reserved 2."
        assert (refused.status, refused.message) == (400, message)
        detail = alice.get("/os-quota-sets/web/detail").json["quota_set"]
        assert detail["server_groups"] == {"limit": 10, "in_use": 2, "reserved": 0}
        assert detail["cores"]["limit"] == 20
        assert alice.get("/limits").json["limits"]["absolute"]["totalServerGroupsUsed"] == 2
        for quota in ({"server_groups": -1}, {"server_groups": 2}, {"server_groups": 1, "force": True}):
            assert admin.put("/os-quota-sets/web", {"quota_set": quota}).status == 200

    def test_user_id_is_accepted_and_ignored(self, admin: Client) -> None:
        assert admin.at("2.57").get("/os-quota-sets/web", user_id="bob").json["quota_set"]["cores"] == 20

    def test_resetting_unset_limits_succeeds(self, admin: Client) -> None:
        assert admin.delete("/os-quota-sets/unknown").status == 202

    @pytest.mark.parametrize("path", ["", "/detail"])
    def test_members_see_only_their_own_quota(self, alice: Client, path: str) -> None:
        assert alice.get(f"/os-quota-sets/web{path}").status == 200
        rule = "os_compute_api:os-quota-sets:" + (path[1:] or "show")
        foreign = alice.get(f"/os-quota-sets/mail{path}")
        assert (foreign.status, foreign.message) == (403, f"Policy doesn't allow {rule} to be performed.")

    def test_every_role_may_see_the_defaults(self, alice: Client) -> None:
        assert alice.get("/os-quota-sets/mail/defaults").status == 200


class TestQuotaClasses:
    """/os-quota-class-sets/{name}."""

    @pytest.mark.parametrize(
        ("version", "limits"),
        [
            pytest.param("2.1", ALWAYS | NETWORK | PERSONALITY, id="2.1 has everything but groups"),
            pytest.param("2.49", ALWAYS | NETWORK | PERSONALITY, id="2.49 has everything but groups"),
            pytest.param("2.50", ALWAYS | PERSONALITY, id="2.50 has groups and no networks"),
            pytest.param("2.57", ALWAYS, id="2.57 has no files"),
        ],
    )
    def test_resources_follow_the_microversion(self, admin: Client, version: str, limits: dict[str, int]) -> None:
        client = admin.at(version)
        if version < "2.50":
            limits = {name: limit for name, limit in limits.items() if name not in GROUPS}
        assert client.get("/os-quota-class-sets/default").json == {"quota_class_set": {"id": "default", **limits}}
        changed = client.put("/os-quota-class-sets/default", {"quota_class_set": {}})
        assert (changed.status, changed.json) == (200, {"quota_class_set": limits})

    def test_default_class_applies_to_every_project(self, admin: Client, alice: Client) -> None:
        admin.put("/os-quota-sets/mail", {"quota_set": {"cores": 5}})
        changed = admin.put("/os-quota-class-sets/default", {"quota_class_set": {"cores": 30}})
        assert (changed.status, changed.json["quota_class_set"]["cores"]) == (200, 30)
        assert alice.get("/os-quota-sets/web").json["quota_set"]["cores"] == 30
        assert alice.get("/os-quota-sets/web/defaults").json["quota_set"]["cores"] == 30
        assert alice.get("/limits").json["limits"]["absolute"]["maxTotalCores"] == 30
        assert admin.get("/os-quota-sets/mail").json["quota_set"]["cores"] == 5
        admin.delete("/os-quota-sets/mail")
        assert admin.get("/os-quota-sets/mail").json["quota_set"]["cores"] == 30

    def test_other_classes_apply_to_no_project(self, admin: Client) -> None:
        admin.put("/os-quota-class-sets/gold", {"quota_class_set": {"cores": 99}})
        assert admin.get("/os-quota-class-sets/gold").json["quota_class_set"]["cores"] == 99
        assert admin.get("/os-quota-sets/web").json["quota_set"]["cores"] == 20


MAXIMA = {
    "maxServerMeta": 128,
    "maxTotalInstances": 10,
    "maxTotalCores": 20,
    "maxTotalRAMSize": 51200,
    "maxTotalKeypairs": 100,
    "maxServerGroups": 10,
    "maxServerGroupMembers": 10,
}
USED = dict.fromkeys(("totalInstancesUsed", "totalCoresUsed", "totalRAMUsed", "totalServerGroupsUsed"), 0)
IMAGES = {"maxImageMeta": 128}
FILES = {"maxPersonality": 5, "maxPersonalitySize": 10240}
NETWORKS = {"maxTotalFloatingIps": -1, "maxSecurityGroups": -1, "maxSecurityGroupRules": -1} | {
    "totalFloatingIpsUsed": 0,
    "totalSecurityGroupsUsed": 0,
}


class TestLimits:
    """/limits."""

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize(
        ("version", "more"),
        [
            pytest.param("2.1", IMAGES | FILES | NETWORKS, id="2.1 has everything"),
            pytest.param("2.36", IMAGES | FILES, id="2.36 has no networks"),
            pytest.param("2.39", FILES, id="2.39 has no metadata of images"),
            pytest.param("2.57", {}, id="2.57 has no files"),
        ],
    )
    def test_limits_follow_the_microversion(self, alice: Client, version: str, more: dict[str, int]) -> None:
        answer = alice.at(version).get("/limits", reserved="False")
        expected = {"limits": {"rate": [], "absolute": MAXIMA | USED | more}}
        assert (answer.status, answer.json) == (200, expected)

    def test_limits_follow_the_quota(self, admin: Client, alice: Client) -> None:
        admin.put("/os-quota-sets/web", {"quota_set": {"instances": 3}})
        assert alice.get("/limits").json["limits"]["absolute"]["maxTotalInstances"] == 3
        assert admin.get("/limits").json["limits"]["absolute"]["maxTotalInstances"] == 10

    def test_administrators_may_see_another_projects_limits(self, admin: Client, alice: Client) -> None:
        admin.put("/os-quota-sets/web", {"quota_set": {"instances": 3}})
        assert admin.get("/limits", tenant_id="web").json["limits"]["absolute"]["maxTotalInstances"] == 3
        refused = alice.get("/limits", tenant_id="mail")
        message = "Policy doesn't allow os_compute_api:limits:other_project to be performed."
        assert (refused.status, refused.message) == (403, message)


def test_defaults_come_from_the_configuration(build: Build) -> None:
    alice = build(("quota", "cores", 7), ("quota", "server_groups", -1)).as_("alice:web")
    shown = alice.get("/os-quota-sets/web").json["quota_set"]
    assert (shown["cores"], shown["server_groups"], shown["instances"]) == (7, -1, 10)
