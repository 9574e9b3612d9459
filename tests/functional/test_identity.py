"""Authentication strategies, project lookups, and policy files."""

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import yaml

from covey.cli.users import with_user, write
from tests.functional.client import Client, Service
from tests.functional.conftest import Build, _build

pytestmark = pytest.mark.sqlite_only

NO_USERS: dict[str, Any] = {"projects": [{"id": "p-web", "name": "web"}, {"id": "p-ops", "name": "ops"}], "users": []}
WRONG = "The user name or the password is wrong."
MALFORMED = "The Authorization header is malformed. Send: Basic base64(user:password)."


class TestNoAuthentication:
    """auth_strategy=none."""

    def test_request_without_a_token_is_401(self, module_service: Service) -> None:
        answer = module_service.as_(None).get("/flavors")
        fault = {"code": 401, "message": "Send a header X-Auth-Token: USER[:PROJECT]."}
        assert (answer.status, answer.json) == (401, {"unauthorized": fault})
        assert answer.headers["www-authenticate"] == 'Token realm="covey"'
        assert "openstack-api-version" not in answer.headers

    def test_other_apis_have_their_own_error_bodies(self, module_service: Service) -> None:
        for path in ("/image/v2/images", "/identity/v3/projects"):
            answer = module_service.as_(None).below("").get(path)
            assert (answer.status, answer.json["error"]["title"]) == (401, "Unauthorized")

    def test_user_admin_is_an_administrator(self, module_service: Service) -> None:
        assert module_service.as_("admin").get("/os-aggregates").status == 200
        assert module_service.as_("alice").get("/os-aggregates").status == 403

    def test_role_and_project_headers_are_trusted(self, module_service: Service) -> None:
        alice = module_service.as_("alice:web")
        assert alice.sending(X_Roles="member, admin").get("/os-aggregates").status == 200
        assert module_service.as_("admin").sending(X_Roles="member").get("/os-aggregates").status == 403
        assert alice.sending(X_Project_Id="mail").get("/mail/limits").status == 200

    def test_project_comes_from_the_token_or_the_user_name(self, module_service: Service) -> None:
        assert module_service.as_("alice:web").get("/web/limits").status == 200
        assert module_service.as_("alice").get("/alice/limits").status == 200

    def test_administrator_can_look_up_any_project(self, module_service: Service) -> None:
        identity = module_service.as_("admin").below("/identity/v3")
        assert identity.get("/projects/mail").json["project"]["name"] == "mail"
        assert [p["id"] for p in identity.get("/projects", name="mail").json["projects"]] == ["mail"]


@pytest.fixture(scope="module")
def two_users() -> dict[str, Any]:
    """Alice is a member of web, root an administrator in ops."""
    document = with_user(NO_USERS, "alice", "web", ("member",), "wonderland")
    return with_user(document, "root", "ops", ("admin",), "toor")


@pytest.fixture
def users(tmp_path: Path, two_users: dict[str, Any]) -> Path:
    """A users file that a test may change."""
    path = tmp_path / "users.yaml"
    write(path, two_users)
    return path


@pytest.fixture
def changing_service(build: Build, users: Path) -> Service:
    """The service with a users file that changes."""
    return build(("api", "auth_strategy", "basic"), ("api", "users_file", str(users)))


@pytest.fixture(scope="module")
def basic_service(module_database: str, tmp_path_factory: pytest.TempPathFactory, two_users: dict[str, Any]) -> Service:
    """The service with a users file that does not change."""
    path = tmp_path_factory.mktemp("basic") / "users.yaml"
    write(path, two_users)
    options = (("api", "auth_strategy", "basic"), ("api", "users_file", str(path)))
    return Service(_build(module_database, path.parent, *options))


class TestBasic:
    """auth_strategy=basic with a constant users file."""

    def test_correct_password_is_accepted(self, basic_service: Service) -> None:
        assert login(basic_service, "alice", "wonderland").get("/flavors").status == 200
        assert login(basic_service, "root", "toor").get("/os-aggregates").status == 200
        assert login(basic_service, "alice", "wonderland").get("/os-aggregates").status == 403

    def test_wrong_password_and_unknown_user_look_alike(self, basic_service: Service) -> None:
        for user in ("alice", "unknown"):
            answer = login(basic_service, user, "looking-glass").get("/flavors")
            assert (answer.status, answer.message) == (401, WRONG)
            assert answer.headers["www-authenticate"] == 'Basic realm="covey", charset="UTF-8"'

    def test_missing_password_is_401(self, basic_service: Service) -> None:
        answer = basic_service.as_("admin").get("/flavors")
        assert answer.status == 401
        assert "requires authentication" in answer.message

    @pytest.mark.parametrize(
        "header",
        [
            pytest.param("Bearer abc", id="another scheme"),
            pytest.param("Basic", id="no credentials"),
            pytest.param("Basic !!!", id="no base64"),
            pytest.param("Basic " + base64.b64encode(b"alice").decode(), id="no colon"),
            pytest.param("Basic " + base64.b64encode(b"\xff:x").decode(), id="a name that is not UTF-8"),
            pytest.param("Basic " + base64.b64encode(b"alice:won\0derland").decode(), id="a zero byte"),
            pytest.param(
                "Basic " + base64.b64encode(b"alice:" + b"x" * 1000).decode(), id="a password that is too long"
            ),
        ],
    )
    def test_malformed_authorization_header_is_401(self, basic_service: Service, header: str) -> None:
        answer = basic_service.as_(None).sending(Authorization=header).get("/flavors")
        assert (answer.status, answer.message) == (401, MALFORMED)

    def test_identity_headers_of_the_caller_are_ignored(self, basic_service: Service) -> None:
        alice = login(basic_service, "alice", "wonderland").sending(
            X_Roles="admin", X_Project_Id="p-ops", X_Auth_Token="admin"
        )
        assert alice.get("/os-aggregates").status == 403
        assert alice.get("/p-web/limits").status == 200
        assert alice.get("/p-ops/limits").status == 400

    def test_discovery_and_health_stay_open(self, basic_service: Service) -> None:
        anonymous = basic_service.as_(None).below("")
        assert [anonymous.get(path).status for path in ("/compute/v2.1", "/identity/v3", "/healthcheck")] == [200] * 3

    def test_members_find_their_own_project_only(self, basic_service: Service) -> None:
        alice = login(basic_service, "alice", "wonderland").below("/identity/v3")
        assert found(alice) == {"web"}
        assert found(alice, name="web") == {"web"}
        assert found(alice, name="ops") == set()
        assert alice.get("/projects/p-web").json["project"]["name"] == "web"
        hidden = alice.get("/projects/p-ops")
        assert (hidden.status, hidden.message) == (404, "Could not find project: p-ops.")

    def test_administrator_finds_every_project(self, basic_service: Service) -> None:
        root = login(basic_service, "root", "toor").below("/identity/v3")
        assert found(root) == {"web", "ops"}
        assert found(root, name="web") == {"web"}
        shown = root.get("/projects/p-web").json["project"]
        assert (shown["id"], shown["enabled"], shown["is_domain"]) == ("p-web", True, False)
        assert root.get("/projects/web").status == 404  # not an id: the client then requests by name


class TestUsersFile:
    """auth_strategy=basic with a changing users file."""

    def test_changed_password_replaces_the_old_one(self, changing_service: Service, users: Path) -> None:
        assert login(changing_service, "alice", "wonderland").get("/flavors").status == 200
        write(users, with_user(yaml.safe_load(users.read_text()), "alice", "web", ("member",), "looking-glass"))
        eventually(lambda: login(changing_service, "alice", "looking-glass").get("/flavors").status == 200)
        assert login(changing_service, "alice", "wonderland").get("/flavors").status == 401

    def test_cached_password_is_not_verified_again_until_its_user_is_removed(
        self, changing_service: Service, users: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        alice = login(changing_service, "alice", "wonderland")
        assert alice.get("/flavors").status == 200
        monkeypatch.setattr(bcrypt, "checkpw", lambda *_: False)  # no password matches from here on
        assert alice.get("/flavors").status == 200
        assert login(changing_service, "root", "toor").get("/flavors").status == 401
        document = yaml.safe_load(users.read_text())
        write(users, document | {"users": [user for user in document["users"] if user["name"] != "alice"]})
        eventually(lambda: alice.get("/flavors").status == 401)

    def test_password_is_verified_each_time_without_a_cache(
        self, build: Build, users: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        never = (("api", "auth_strategy", "basic"), ("api", "users_file", str(users)), ("api", "password_cache_s", 0))
        alice = login(build(*never), "alice", "wonderland")
        assert alice.get("/flavors").status == 200
        monkeypatch.setattr(bcrypt, "checkpw", lambda *_: False)
        assert alice.get("/flavors").status == 401


class TestProjectInThePath:
    """/v2.1/{project_id}/… is equivalent to /v2.1/…."""

    def test_own_project_in_the_path_is_accepted(self, admin: Client) -> None:
        flavor = {"flavor": {"name": "f", "id": "f", "ram": 1, "vcpus": 1, "disk": 0}}
        assert admin.post("/operators/flavors", flavor).status == 200
        assert admin.get("/operators/flavors/f").json == admin.get("/flavors/f").json
        assert admin.delete("/operators/flavors/f").status == 202

    @pytest.mark.parametrize("token", ["alice:web", "admin:web"], ids=["for a member", "for an administrator"])
    def test_other_project_in_the_path_is_400(self, service: Service, token: str) -> None:
        answer = service.as_(token).get("/mail/flavors")
        message = "Malformed request URL: URL's project_id 'mail' doesn't match Context's project_id 'web'"
        assert (answer.status, answer.json) == (400, {"badRequest": {"code": 400, "message": message}})


class TestPolicyFile:
    """policy.yaml overrides the defaults."""

    def test_operator_can_allow_a_route_to_members(self, build: Build, tmp_path: Path) -> None:
        alice = build(override(tmp_path, "os_compute_api:os-aggregates:index", "role:reader")).as_("alice:web")
        assert alice.get("/os-aggregates").status == 200
        assert alice.get("/os-aggregates/1").status == 403

    def test_operator_can_forbid_a_route(self, build: Build, tmp_path: Path) -> None:
        admin = build(override(tmp_path, "os_compute_api:os-aggregates:index", "!")).as_("admin")
        answer = admin.get("/os-aggregates")
        message = "Policy doesn't allow os_compute_api:os-aggregates:index to be performed."
        assert (answer.status, answer.json) == (403, {"forbidden": {"code": 403, "message": message}})

    def test_invalid_rule_forbids(self, build: Build, tmp_path: Path) -> None:
        admin = build(override(tmp_path, "os_compute_api:os-aggregates:index", "role:admin and (")).as_("admin")
        assert admin.get("/os-aggregates").status == 403
        assert admin.get("/os-aggregates/1").status == 404

    def test_changed_policy_file_is_reloaded(self, build: Build, tmp_path: Path) -> None:
        option = override(tmp_path, "os_compute_api:os-aggregates:index", "role:admin")
        alice = build(option).as_("alice:web")
        assert alice.get("/os-aggregates").status == 403
        override(tmp_path, "os_compute_api:os-aggregates:index", "role:reader or role:admin")
        eventually(lambda: alice.get("/os-aggregates").status == 200)


def login(service: Service, user: str, password: str) -> Client:
    encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
    return service.as_(None).sending(Authorization=f"Basic {encoded}")


def found(client: Client, **query: str) -> set[str]:
    return {project["name"] for project in client.get("/projects", **query).json["projects"]}


def override(directory: Path, rule: str, check: str) -> tuple[str, str, str]:
    path = directory / "overrides.yaml"
    path.write_text(yaml.safe_dump({rule: check}))
    return ("oslo_policy", "policy_file", str(path))


def eventually(holds: Callable[[], bool], within_s: float = 5) -> None:
    """Wait for a condition: files are reloaded once a second."""
    until = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.05)
