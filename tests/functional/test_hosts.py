"""Hosts as hypervisors, compute services and members of availability zones."""

import re
from typing import Any

import pytest

from tests.build import a_host
from tests.functional.client import Answer, Client
from tests.functional.conftest import AddHosts, Build

HOST = "http://localhost/compute/v2.1"
UNKNOWN_ID = "6a6e6a4c-5fb3-4d9b-9b5a-3e6b0a1c2d3e"
SHORT = {"id", "hypervisor_hostname", "state", "status"}
FULL = SHORT | {"hypervisor_type", "hypervisor_version", "host_ip", "service"}
USE = {
    *("vcpus", "memory_mb", "local_gb", "vcpus_used", "memory_mb_used", "local_gb_used", "free_ram_mb"),
    *("free_disk_gb", "current_workload", "running_vms", "disk_available_least", "cpu_info"),
}


@pytest.fixture(autouse=True)
def _hosts(add_hosts: AddHosts) -> None:
    add_hosts(a_host("node-1", 4, 8192, 50), a_host("node-2"), a_host("rack.3"))


def hypervisors(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.text
    return [item["hypervisor_hostname"] for item in answer.json["hypervisors"]]


def service(client: Client, host: str) -> Any:
    (found,) = client.get("/os-services", host=host).json["services"]
    return found


def zones(client: Client, path: str = "/os-availability-zone") -> dict[str, Any]:
    return {zone["zoneName"]: zone for zone in client.get(path).json["availabilityZoneInfo"]}


class TestHypervisors:
    """Hosts as hypervisors with capacity and usage."""

    @pytest.mark.sqlite_only
    def test_list_has_the_short_form(self, admin: Client) -> None:
        listed = admin.get("/os-hypervisors").json["hypervisors"]
        assert [item["hypervisor_hostname"] for item in listed] == ["node-1", "node-2", "rack.3"]
        assert all(item.keys() == SHORT and isinstance(item["id"], int) for item in listed)
        assert (listed[0]["state"], listed[0]["status"]) == ("up", "enabled")

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize(
        ("version", "fields", "cpu_info"),
        [
            pytest.param("2.1", FULL | USE, "{}", id="2.1 writes cpu_info as a string"),
            pytest.param("2.27", FULL | USE, "{}", id="2.27 writes cpu_info as a string"),
            pytest.param("2.28", FULL | USE, {}, id="2.28 writes an object"),
            pytest.param("2.87", FULL | USE, {}, id="2.87 shows use for the last time"),
            pytest.param("2.88", FULL | {"uptime"}, None, id="2.88 shows uptime instead"),
        ],
    )
    def test_detail_and_show_follow_the_microversion(
        self, admin: Client, version: str, fields: set[str], cpu_info: object
    ) -> None:
        client = admin.at(version)
        listed = client.get("/os-hypervisors/detail").json["hypervisors"]
        assert len(listed) == 3
        assert listed[0].keys() == fields
        assert listed[0].get("cpu_info") == cpu_info
        assert client.get(f"/os-hypervisors/{listed[0]['id']}").json == {"hypervisor": listed[0]}
        assert listed[0]["service"] == {"id": listed[0]["id"], "host": "node-1", "disabled_reason": None}

    @pytest.mark.sqlite_only
    def test_ids_are_numbers_before_2_53_and_uuids_after(self, admin: Client) -> None:
        (old, *_), (new, *_) = (admin.at(v).get("/os-hypervisors").json["hypervisors"] for v in ("2.52", "2.53"))
        assert isinstance(old["id"], int)
        assert len(new["id"]) == 36
        assert admin.at("2.52").get(f"/os-hypervisors/{old['id']}").status == 200

    def test_usage_is_shown_in_numbers(self, admin: Client) -> None:
        shown = admin.get("/os-hypervisors/detail").json["hypervisors"][0]
        assert (shown["vcpus"], shown["memory_mb"], shown["local_gb"]) == (4, 8192, 50)
        assert (shown["vcpus_used"], shown["free_ram_mb"], shown["free_disk_gb"]) == (0, 8192, 50)

    def test_statistics_cover_enabled_hosts(self, admin: Client) -> None:
        put(admin, "disable", host="node-2", binary="nova-compute")
        sums = admin.get("/os-hypervisors/statistics").json["hypervisor_statistics"]
        assert (sums["count"], sums["vcpus"], sums["memory_mb"], sums["local_gb"]) == (2, 12, 24576, 150)
        assert sums.keys() == USE - {"cpu_info"} | {"count"}

    def test_uptime_counts_from_the_last_change_of_state(self, admin: Client) -> None:
        put(admin, "enable", host="node-1", binary="nova-compute")
        shown = admin.get("/os-hypervisors/1/uptime").json["hypervisor"]
        assert shown.keys() == {"id", "hypervisor_hostname", "state", "status", "uptime"}
        assert re.fullmatch(r"\d\d:\d\d:\d\d up 0:0\d", shown["uptime"])
        assert " up 0:0" in admin.at("2.88").get("/os-hypervisors/detail").json["hypervisors"][0]["uptime"]

    def test_host_that_is_down_has_no_uptime(self, admin: Client) -> None:
        put(admin.at("2.11"), "force-down", host="node-1", binary="nova-compute", forced_down=True)
        answer = admin.get("/os-hypervisors/1/uptime")
        message = "Compute service of node-1 is unavailable at this time."
        assert (answer.status, answer.message) == (400, message)
        assert admin.at("2.88").get("/os-hypervisors/detail").json["hypervisors"][0]["uptime"] is None

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize("path", ["", "/uptime"])
    def test_unknown_hypervisor_returns_404(self, admin: Client, path: str) -> None:
        for version, key in (("2.1", "99"), ("2.1", "abc"), ("2.53", UNKNOWN_ID)):
            answer = admin.at(version).get(f"/os-hypervisors/{key}{path}")
            assert (answer.status, answer.message) == (404, f"Hypervisor with ID '{key}' could not be found.")

    @pytest.mark.sqlite_only
    def test_id_must_be_a_uuid_from_2_53(self, admin: Client) -> None:
        answer = admin.at("2.53").get("/os-hypervisors/1")
        assert (answer.status, answer.message) == (400, "Invalid uuid 1")

    @pytest.mark.parametrize("path", ["search", "servers"])
    def test_path_matches_names_before_2_53(self, admin: Client, path: str) -> None:
        found = admin.at("2.52").get(f"/os-hypervisors/ode-/{path}")
        assert hypervisors(found) == ["node-1", "node-2"]
        assert found.json["hypervisors"][0].keys() == SHORT
        missing = admin.get(f"/os-hypervisors/z/{path}")
        assert (missing.status, missing.message) == (404, "No hypervisor matching 'z' could be found.")

    def test_name_pattern_is_plain_text(self, admin: Client) -> None:
        assert admin.get("/os-hypervisors/node%25/search").status == 404
        assert admin.get("/os-hypervisors/node_1/search").status == 404

    def test_query_matches_names_from_2_53(self, admin: Client) -> None:
        client = admin.at("2.53")
        for path in ("/os-hypervisors", "/os-hypervisors/detail"):
            assert hypervisors(client.get(path, hypervisor_hostname_pattern="node")) == ["node-1", "node-2"]
            missing = client.get(path, hypervisor_hostname_pattern="z")
            assert (missing.status, missing.message) == (404, "No hypervisor matching 'z' could be found.")

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize("paging", [{"limit": "1"}, {"marker": UNKNOWN_ID}])
    def test_paging_name_matches_returns_400(self, admin: Client, paging: dict[str, str]) -> None:
        answer = admin.at("2.53").get("/os-hypervisors", hypervisor_hostname_pattern="node", **paging)
        assert (answer.status, answer.message) == (
            400,
            "Paging over hypervisors with the hypervisor_hostname_pattern query parameter is not supported.",
        )

    def test_servers_are_included_on_request(self, admin: Client) -> None:
        for version, key in (("2.53", False), ("2.74", False), ("2.75", True)):
            client = admin.at(version)
            first = client.get("/os-hypervisors", with_servers="true").json["hypervisors"][0]
            assert ("servers" in first) is key
            assert (
                "servers" in client.get(f"/os-hypervisors/{first['id']}", with_servers="1").json["hypervisor"]
            ) is key
            assert "servers" not in client.get("/os-hypervisors", with_servers="0").json["hypervisors"][0]

    @pytest.mark.parametrize("version", ["2.33", "2.53"])
    @pytest.mark.parametrize("path", ["/os-hypervisors", "/os-hypervisors/detail"])
    def test_links_lead_through_all_pages(self, admin: Client, version: str, path: str) -> None:
        client, seen, query = admin.at(version), [], "limit=2"
        while query:
            answer = client.ask("GET", path, query_string=query)
            seen.append(hypervisors(answer))
            (link,) = answer.json.get("hypervisors_links", [{"href": ""}])
            query = link["href"].removeprefix(f"{HOST}{path}?")
        assert seen == [["node-1", "node-2"], ["rack.3"]]

    @pytest.mark.sqlite_only
    def test_paging_is_ignored_before_2_33(self, admin: Client) -> None:
        answer = admin.at("2.32").get("/os-hypervisors", limit="1")
        assert len(hypervisors(answer)) == 3
        assert "hypervisors_links" not in answer.json

    def test_unknown_marker_returns_400(self, admin: Client) -> None:
        for version, marker in (("2.33", "99"), ("2.33", "abc"), ("2.53", UNKNOWN_ID)):
            answer = admin.at(version).get("/os-hypervisors", marker=marker)
            assert (answer.status, answer.message) == (400, f"marker [{marker}] not found")


def test_max_limit_caps_the_page_size(build: Build) -> None:
    admin = build(("api", "max_limit", 2)).as_("admin").at("2.33")
    for query in ({}, {"limit": "9" * 5000}):
        page = admin.get("/os-hypervisors", **query)
        assert hypervisors(page) == ["node-1", "node-2"]
        assert page.json["hypervisors_links"][0]["rel"] == "next"
    assert admin.get("/os-hypervisors", limit="0").json == {"hypervisors": []}


class TestServices:
    """Hosts as services that can be disabled."""

    @pytest.mark.sqlite_only
    def test_service_shape_follows_the_microversion(self, admin: Client) -> None:
        first = {"id", "binary", "host", "zone", "status", "state", "updated_at", "disabled_reason"}
        old = service(admin.at("2.10"), "node-1")
        assert old.keys() == first
        assert isinstance(old["id"], int)
        assert (old["binary"], old["zone"], old["status"], old["state"]) == ("nova-compute", "nova", "enabled", "up")
        assert service(admin.at("2.11"), "node-1") == old | {"forced_down": False}
        assert len(service(admin.at("2.53"), "node-1")["id"]) == 36

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            pytest.param({}, 3, id="all"),
            pytest.param({"host": "node-1"}, 1, id="of a host"),
            pytest.param({"host": "node"}, 0, id="part of a host name"),
            pytest.param({"binary": "nova-compute"}, 3, id="of the only binary"),
            pytest.param({"binary": "nova-scheduler"}, 0, id="of another binary"),
            pytest.param({"host": "", "binary": ""}, 3, id="empty filters"),
        ],
    )
    def test_services_are_filtered_by_host_and_binary(
        self, admin: Client, query: dict[str, str], expected: int
    ) -> None:
        assert len(admin.get("/os-services", **query).json["services"]) == expected

    def test_host_is_disabled_and_enabled_by_uuid(self, admin: Client) -> None:
        client = admin.at("2.53")
        key = service(client, "node-1")["id"]
        off = put(client, key, status="disabled", disabled_reason="disk")
        assert (off.status, off.json["service"]) == (200, service(client, "node-1"))
        assert (off.json["service"]["status"], off.json["service"]["disabled_reason"]) == ("disabled", "disk")
        assert off.json["service"]["state"] == "up"
        shown = client.get(f"/os-hypervisors/{key}").json["hypervisor"]
        assert (shown["status"], shown["service"]["disabled_reason"]) == ("disabled", "disk")
        on = put(client, key, status="enabled").json["service"]
        assert (on["status"], on["disabled_reason"]) == ("enabled", None)

    def test_host_is_forced_down_and_up_by_uuid(self, admin: Client) -> None:
        client = admin.at("2.53")
        key = service(client, "node-1")["id"]
        down = put(client, key, forced_down=True).json["service"]
        assert (down["state"], down["forced_down"], down["status"]) == ("down", True, "enabled")
        assert client.get(f"/os-hypervisors/{key}").json["hypervisor"]["state"] == "down"
        assert put(client, key, forced_down="false").json["service"]["state"] == "up"

    def test_status_and_forced_down_change_in_one_request(self, admin: Client) -> None:
        client = admin.at("2.53")
        changed = put(client, service(client, "node-1")["id"], status="disabled", forced_down=True).json["service"]
        assert (changed["status"], changed["forced_down"]) == ("disabled", True)

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize(
        ("body", "message"),
        [
            pytest.param(
                {},
                "No updates were requested. Fields 'status' or 'forced_down' should be specified.",
                id="nothing",
            ),
            pytest.param(
                {"disabled_reason": "x"},
                "No updates were requested. Fields 'status' or 'forced_down' should be specified.",
                id="reason without status",
            ),
            pytest.param(
                {"status": "enabled", "disabled_reason": "x"},
                "Specifying 'disabled_reason' with status 'enabled' is invalid.",
                id="reason with enabled",
            ),
        ],
    )
    def test_invalid_changes_return_400(self, admin: Client, body: dict[str, Any], message: str) -> None:
        client = admin.at("2.53")
        answer = put(client, service(client, "node-1")["id"], **body)
        assert (answer.status, answer.message) == (400, message)

    @pytest.mark.sqlite_only
    def test_unknown_service_returns_404(self, admin: Client) -> None:
        client = admin.at("2.53")
        changed, deleted = put(client, UNKNOWN_ID, status="enabled"), client.delete(f"/os-services/{UNKNOWN_ID}")
        assert (changed.status, changed.message) == (404, f"Service {UNKNOWN_ID} could not be found.")
        assert (deleted.status, deleted.message) == (404, f"Service {UNKNOWN_ID} not found.")
        old = admin.delete("/os-services/99")
        assert (old.status, old.message) == (404, "Service 99 not found.")

    @pytest.mark.sqlite_only
    def test_service_id_follows_the_microversion(self, admin: Client) -> None:
        client = admin.at("2.53")
        for answer in (put(client, "1", status="enabled"), client.delete("/os-services/1")):
            assert (answer.status, answer.message) == (400, "Invalid uuid 1")
        old = admin.delete(f"/os-services/{UNKNOWN_ID}")
        assert (old.status, old.message) == (400, "Invalid input received: id must be an integer")

    def test_deleting_a_service_removes_its_host(self, admin: Client) -> None:
        key = admin.post("/os-aggregates", {"aggregate": {"name": "a"}}).json["aggregate"]["id"]
        for host in ("node-1", "node-2"):
            admin.post(f"/os-aggregates/{key}/action", {"add_host": {"host": host}})
        new, old = (service(admin.at(version), host) for version, host in (("2.53", "node-1"), ("2.1", "node-2")))
        deleted = admin.at("2.53").delete(f"/os-services/{new['id']}")
        assert (deleted.status, deleted.text) == (204, "")
        assert admin.delete(f"/os-services/{old['id']}").status == 204
        assert hypervisors(admin.get("/os-hypervisors")) == ["rack.3"]
        assert admin.get(f"/os-aggregates/{key}").json["aggregate"]["hosts"] == []

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize(
        ("verb", "more", "response_fields", "shown"),
        [
            pytest.param("disable", {}, {"status": "disabled"}, {"status": "disabled"}, id="disable"),
            pytest.param(
                "disable-log-reason",
                {"disabled_reason": "disk"},
                {"status": "disabled", "disabled_reason": "disk"},
                {"status": "disabled", "disabled_reason": "disk"},
                id="disable with a reason",
            ),
            pytest.param("enable", {}, {"status": "enabled"}, {"status": "enabled"}, id="enable"),
            pytest.param(
                "force-down",
                {"forced_down": "yes"},
                {"forced_down": True},
                {"forced_down": True, "state": "down"},
                id="force down",
            ),
        ],
    )
    def test_path_names_the_action_before_2_53(
        self, admin: Client, verb: str, more: dict[str, Any], response_fields: dict[str, Any], shown: dict[str, Any]
    ) -> None:
        client, named = admin.at("2.11"), {"host": "node-1", "binary": "nova-compute"}
        answer = put(client, verb, **named, **more)
        assert (answer.status, answer.json) == (200, {"service": named | response_fields})
        assert shown.items() <= service(client, "node-1").items()
        assert service(client, "node-2")["status"] == "enabled"

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize(
        ("verb", "body", "status", "message"),
        [
            pytest.param("explode", {}, 404, "Unknown action", id="unknown verb"),
            pytest.param("disable-log-reason", {}, 400, "Missing disabled reason field", id="no reason"),
            pytest.param("force-down", {}, 400, "Missing forced_down field", id="no forced_down"),
            pytest.param(
                "disable",
                {"host": "nope"},
                404,
                "Could not find binary nova-compute on host nope.",
                id="no such host",
            ),
            pytest.param(
                "disable",
                {"binary": "nova-scheduler"},
                400,
                "Updating a nova-scheduler service is not supported. Only nova-compute services can be updated.",
                id="no such binary",
            ),
        ],
    )
    def test_unknown_action_in_the_path_is_rejected(
        self, admin: Client, verb: str, body: dict[str, Any], status: int, message: str
    ) -> None:
        answer = put(admin.at("2.11"), verb, **{"host": "node-1", "binary": "nova-compute"} | body)
        assert (answer.status, answer.message) == (status, message)


class TestZones:
    """Hosts in availability zones."""

    @pytest.fixture
    def admin(self, admin: Client) -> Client:
        key = admin.post("/os-aggregates", {"aggregate": {"name": "a", "availability_zone": "z1"}}).json["aggregate"][
            "id"
        ]
        admin.post(f"/os-aggregates/{key}/action", {"add_host": {"host": "node-1"}})
        admin.post("/os-aggregates", {"aggregate": {"name": "b", "availability_zone": "empty"}})
        return admin

    @pytest.mark.sqlite_only
    def test_every_role_may_list_zones_with_hosts(self, admin: Client, alice: Client) -> None:
        expected = {
            name: {"zoneName": name, "zoneState": {"available": True}, "hosts": None} for name in ("nova", "z1")
        }
        assert zones(alice) == zones(admin) == expected

    @pytest.mark.sqlite_only
    def test_detailed_zone_list_includes_hosts(self, admin: Client) -> None:
        detailed = zones(admin, "/os-availability-zone/detail")
        assert {name: set(zone["hosts"]) for name, zone in detailed.items()} == {
            "nova": {"node-2", "rack.3"},
            "z1": {"node-1"},
        }
        shown = detailed["z1"]["hosts"]["node-1"]
        assert (shown.keys(), shown["nova-compute"].keys()) == (
            {"nova-compute"},
            {"available", "active", "updated_at"},
        )
        assert (shown["nova-compute"]["available"], shown["nova-compute"]["active"]) == (True, True)

    def test_zone_is_available_while_one_host_is_enabled(self, admin: Client) -> None:
        for host in ("node-1", "node-2"):
            put(admin, "disable", host=host, binary="nova-compute")
        for path in ("/os-availability-zone", "/os-availability-zone/detail"):
            found = zones(admin, path)
            assert {name: zone["zoneState"]["available"] for name, zone in found.items()} == {"nova": True, "z1": False}

    @pytest.mark.sqlite_only
    def test_detailed_zone_list_shows_down_and_disabled_hosts(self, admin: Client) -> None:
        put(admin.at("2.11"), "force-down", host="node-2", binary="nova-compute", forced_down=True)
        put(admin, "disable", host="node-2", binary="nova-compute")
        shown = zones(admin, "/os-availability-zone/detail")["nova"]["hosts"]["node-2"]["nova-compute"]
        assert (shown["available"], shown["active"]) == (False, False)

    @pytest.mark.sqlite_only
    def test_default_zone_has_the_configured_name(self, admin: Client, build: Build) -> None:
        assert "nova" in zones(admin)
        other = build(("scheduler", "default_availability_zone", "here")).as_("admin")
        assert zones(other).keys() == {"here", "z1"}
        assert service(other, "node-2")["zone"] == "here"


def put(client: Client, key: str, **body: Any) -> Answer:
    return client.ask("PUT", f"/os-services/{key}", json=body)
