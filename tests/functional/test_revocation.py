"""What a user can still do who was removed from the users file, or lost a role."""

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import falcon.testing
import pytest

from covey import bootstrap
from covey.api.authentication import basic
from covey.bootstrap import Settings
from covey.cli.users import with_user, write
from tests.functional.client import HOST_NAME, Client, Service
from tests.functional.conftest import Build

NO_USERS: dict[str, Any] = {"projects": [{"id": "web", "name": "web"}], "users": []}
SPEC = {"type": "os.nova.server", "version": "1.0", "properties": {"flavor": "small"}}
BASIC = base64.b64encode(b"alice:wonderland").decode()


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A users file with one user, which the service reads before each request."""
    monkeypatch.setattr(basic, "RELOAD_INTERVAL_S", 0.0)
    monkeypatch.setattr(basic, "GRACE_S", 0.0, raising=False)
    write(tmp_path / "users.yaml", with_user(NO_USERS, "alice", "web", ("member",), "wonderland"))
    return tmp_path / "users.yaml"


@pytest.fixture
def service(build: Build, users: Path) -> Service:
    return build(("api", "auth_strategy", "basic"), ("api", "users_file", str(users)))


@pytest.fixture
def alice(service: Service) -> Client:
    return service.as_(None).sending(Authorization=f"Basic {BASIC}")


@pytest.fixture
def webhook(alice: Client, tmp_path: Path) -> Client:
    """The webhook of a receiver of alice, which scales her cluster out."""
    api = alice.below("/clustering/v1")
    profile = api.post("/profiles", {"profile": {"name": "p", "spec": SPEC}}).json["profile"]["id"]
    cluster = {"name": "web", "profile_id": profile, "desired_capacity": 0}
    assert api.post("/clusters", {"cluster": cluster}).status == 202
    (worker,) = bootstrap.workers(Settings(config_files=(str(tmp_path / "covey.conf"),)).load(), 1)
    while worker.run_once():
        pass
    receiver = {"name": "hook", "type": "webhook", "cluster_id": "web", "action": "CLUSTER_SCALE_OUT"}
    channel = api.post("/receivers", {"receiver": receiver}).json["receiver"]["channel"]
    return Client(alice.http, None, prefix=urlsplit(channel["alarm_url"]).path)


def replaced(users: Path, *roles: str) -> None:
    write(users, with_user(NO_USERS, "alice", "web", roles, "other") if roles else NO_USERS)


def trigger(webhook: Client) -> int:
    return webhook.ask("POST", "", query_string="V=2").status


def test_webhook_acts_for_its_creator(webhook: Client) -> None:
    assert trigger(webhook) == 202


def test_webhook_of_a_removed_user_is_refused(webhook: Client, users: Path) -> None:
    replaced(users)
    assert trigger(webhook) == 403


def test_webhook_of_a_user_without_the_role_is_refused(webhook: Client, users: Path) -> None:
    replaced(users, "reader")
    assert trigger(webhook) == 403


@pytest.mark.sqlite_only
@pytest.mark.parametrize("text", ["users: [", None], ids=["broken", "deleted"])
def test_unusable_users_file_admits_no_user(alice: Client, webhook: Client, users: Path, text: str | None) -> None:
    assert alice.get("/servers").status == 200
    users.unlink() if text is None else users.write_text(text)
    assert (alice.get("/servers").status, trigger(webhook)) == (503, 503)


def stream(service: Service) -> Iterable[bytes]:
    headers = {"Authorization": f"Basic {BASIC}"}
    environ = falcon.testing.create_environ(
        "/dashboard/events", headers=headers, query_string="seconds=60", host=HOST_NAME
    )
    body: Iterable[bytes] = service.app(environ, lambda *_: lambda _: None)
    return body


@pytest.mark.parametrize("roles", [(), ("member",)], ids=["removed", "with another password"])
def test_open_event_stream_of_a_revoked_user_ends(
    service: Service, alice: Client, users: Path, roles: tuple[str, ...]
) -> None:
    assert alice.get("/servers").status == 200
    pieces = iter(stream(service))
    assert next(pieces).startswith(b"event: hello")
    replaced(users, *roles)
    assert list(pieces) == []
