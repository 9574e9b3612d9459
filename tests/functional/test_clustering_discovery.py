"""Discovery, version negotiation and errors of the Clustering API."""

import pytest

from tests.functional.client import Client, Service
from tests.functional.clusters import clustering_client
from tests.functional.conftest import Build

pytestmark = pytest.mark.sqlite_only

HOST = "http://localhost"
PLAIN = "text/plain; charset=utf-8"


@pytest.fixture
def alice(module_service: Service) -> Client:
    return clustering_client(module_service, "alice:web")


@pytest.mark.parametrize(("path", "status"), [("/", 300), ("/versions", 300), ("/v1", 200), ("/v1/", 200)])
def test_version_documents_need_no_authentication(module_service: Service, path: str, status: int) -> None:
    answer = module_service.as_(None).below("/clustering").get(path)
    (version,) = answer.json["versions"] if status == 300 else [answer.json["version"]]
    assert answer.status == status
    assert version["links"][0] == {"rel": "self", "href": f"{HOST}/clustering/v1"}
    assert {key: version[key] for key in ("id", "status", "min_version", "max_version")} == {
        "id": "1.0",
        "status": "CURRENT",
        "min_version": "1.0",
        "max_version": "1.14",
    }
    assert version.keys() >= {"updated", "media-types"}


def test_separate_clustering_api_is_at_the_root(build: Build) -> None:
    alone = build(only_api="clustering").as_(None).below("")
    assert alone.get("/").json["versions"][0]["links"][0]["href"] == f"{HOST}/v1"


@pytest.mark.parametrize(("asked", "answered"), [(None, "1.0"), ("1.0", "1.0"), ("1.13", "1.13"), ("latest", "1.14")])
def test_version_negotiation(module_service: Service, asked: str | None, answered: str) -> None:
    answer = clustering_client(module_service, "alice:web", asked).get("/profile-types")
    assert answer.status == 200
    assert answer.headers["openstack-api-version"] == f"clustering {answered}"
    assert answer.headers["vary"] == "OpenStack-API-Version"


@pytest.mark.parametrize("asked", ["1.15", "2.0", "99.99"])
def test_version_out_of_range_returns_406(module_service: Service, asked: str) -> None:
    answer = clustering_client(module_service, "alice:web", asked).get("/profile-types")
    message = f"Version '{asked}' is not supported by the API. Minimum is '1.0' and maximum is '1.14'."
    assert (answer.status, answer.message) == (406, message)
    assert answer.json["error"]["type"] == "InvalidGlobalAPIVersion"
    assert "openstack-api-version" not in answer.headers
    assert answer.headers["x-openstack-request-id"].startswith("req-")


def test_malformed_version_returns_plain_text(module_service: Service) -> None:
    answer = clustering_client(module_service, "alice:web", "1.a").get("/profile-types")
    assert (answer.status, answer.headers["content-type"]) == (400, PLAIN)
    assert "1.a" in answer.text


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/nothing"), ("PUT", "/profiles"), ("OPTIONS", "/profiles"), ("DELETE", "/build-info"), ("GET", "/../v2")],
)
def test_unknown_route_returns_404_in_plain_text(alice: Client, method: str, path: str) -> None:
    answer = alice.ask(method, path)
    assert (answer.status, answer.headers["content-type"]) == (404, PLAIN)
    assert "openstack-api-version" not in answer.headers


def test_error_has_a_type_and_no_version_header(alice: Client) -> None:
    answer = alice.get("/profiles/nothing")
    message = "The profile 'nothing' could not be found."
    assert answer.json.pop("explanation")
    assert (answer.status, answer.json) == (
        404,
        {
            "code": 404,
            "title": "Not Found",
            "error": {"code": 404, "message": message, "type": "ResourceNotFound"},
        },
    )
    assert "openstack-api-version" not in answer.headers
    assert "x-openstack-request-id" in answer.headers


def test_unauthenticated_request_returns_401(module_service: Service) -> None:
    answer = clustering_client(module_service, None).get("/profiles")
    assert (answer.status, answer.json["error"]["type"]) == (401, "Unauthorized")
    assert "www-authenticate" in answer.headers


def test_build_info(alice: Client) -> None:
    info = alice.get("/build-info").json["build_info"]
    assert info["api"]["revision"] == info["engine"]["revision"] != ""


class TestTypes:
    """Profile types and policy types."""

    UPSTREAM = frozenset({"affinity", "deletion", "scaling", "zone_placement"})

    def test_type_list_has_only_names_before_1_5(self, module_service: Service) -> None:
        named = clustering_client(module_service, "alice:web", "1.4").get("/profile-types").json["profile_types"]
        names = ("container.dockerinc.docker-1.0", "os.heat.stack-1.0", "os.nova.server-1.0")
        assert named == [{"name": name} for name in names]
        shown = (
            clustering_client(module_service, "alice:web", "1.4")
            .get("/policy-types/senlin.policy.deletion-1.1")
            .json["policy_type"]
        )
        assert shown.keys() == {"name", "schema"}

    def test_type_list_has_versions_and_support_status_from_1_5(self, module_service: Service) -> None:
        alice = clustering_client(module_service, "alice:web", "1.5")
        listed = alice.get("/policy-types").json["policy_types"]
        assert {(kind["name"], kind["version"]) for kind in listed} == {
            *((f"senlin.policy.{name}", "1.0") for name in self.UPSTREAM),
            *((f"senlin.policy.{name}", "1.1") for name in ("affinity", "deletion")),
        }
        assert all(kind["support_status"][kind["version"]][0].keys() == {"status", "since"} for kind in listed)
        assert "support_status" in alice.get("/profile-types/os.nova.server-1.0").json["profile_type"]

    def test_type_shows_its_schema(self, alice: Client) -> None:
        schema = alice.get("/policy-types/senlin.policy.affinity-1.0").json["policy_type"]["schema"]
        assert schema["servergroup"]["schema"]["policies"] == {
            "type": "String",
            "description": "The group's policy.",
            "required": False,
            "updatable": False,
            "default": "anti-affinity",
            "constraints": [
                {
                    "type": "AllowedValues",
                    "constraint": ["affinity", "soft-affinity", "anti-affinity", "soft-anti-affinity"],
                }
            ],
        }
        networks = alice.get("/profile-types/os.nova.server-1.0").json["profile_type"]["schema"]["networks"]
        assert (networks["type"], networks["schema"]["*"]["type"]) == ("List", "Map")

    def test_profile_type_lists_its_operations(self, module_service: Service) -> None:
        alice = clustering_client(module_service, "alice:web", "1.4")
        operations = alice.get("/profile-types/os.nova.server-1.0/ops").json["operations"]
        assert operations["change_password"]["parameters"]["admin_pass"]["required"]
        assert operations["reboot"]["parameters"]["type"]["default"] == "SOFT"
        assert alice.get("/profile-types/os.nova.server-1.1/ops").status == 400

    def test_operations_of_a_type_require_1_4(self, module_service: Service) -> None:
        answer = clustering_client(module_service, "alice:web", "1.3").get("/profile-types/os.nova.server-1.0/ops")
        assert (answer.status, answer.message) == (400, "API version '1.3' is not supported on this method.")
        assert answer.json["error"]["type"] == "MethodVersionNotFound"

    @pytest.mark.parametrize("name", ["os.nova.server", "os.nova.server-1.1", "nothing"])
    def test_type_without_a_known_name_and_version_returns_404(self, alice: Client, name: str) -> None:
        profile, policy = alice.get(f"/profile-types/{name}"), alice.get(f"/policy-types/{name}")
        assert (profile.status, profile.message) == (404, f"The profile_type '{name}' could not be found.")
        assert (policy.status, policy.message) == (404, f"The policy_type '{name}' could not be found.")
