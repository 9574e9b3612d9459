"""The Keystone of the acceptance tests is real: Covey's middleware accepts its tokens and no others."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import openstack
import pytest
from keystonemiddleware.auth_token import AuthProtocol
from oslo_config import cfg

from tests.acceptance.keystone import Keystone, KeystoneFailed, running_keystone

Headers = dict[str, str]


@pytest.fixture(scope="module")
def keystone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keystone]:
    with running_keystone(tmp_path_factory.mktemp("keystone")) as keystone:
        yield keystone


@pytest.fixture(scope="module")
def project(keystone: Keystone) -> str:
    """Make a project with a member in it, and return the project's id."""
    project_id = keystone.create_project("red")
    keystone.create_user("rosa", "rosa's password", "red", "member")
    return project_id


@pytest.fixture
def token(keystone: Keystone, project: str) -> str:  # noqa: ARG001
    token = keystone.session("rosa", "rosa's password", "red").get_token()
    assert token
    return token


def identity_headers_of(options: dict[str, Any], token: str) -> Headers:
    """Return the identity headers that the middleware sets for a token."""
    seen: Headers = {}

    def service(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        seen.update({name: value for name, value in environ.items() if name.startswith("HTTP_X_")})
        start_response("204 No Content", [])
        return []

    environ: dict[str, Any] = {"HTTP_X_AUTH_TOKEN": token}
    setup_testing_defaults(environ)
    b"".join(AuthProtocol(service, options)(environ, lambda *_: None))
    return seen


def test_token_identifies_the_caller(keystone: Keystone, project: str, token: str) -> None:
    seen = identity_headers_of({**keystone.authtoken_options(), "delay_auth_decision": True}, token)
    assert seen["HTTP_X_IDENTITY_STATUS"] == "Confirmed"
    assert seen["HTTP_X_USER_NAME"] == "rosa"
    assert seen["HTTP_X_PROJECT_ID"] == project
    assert set(seen["HTTP_X_ROLES"].split(",")) == {"member", "reader"}


def test_unknown_token_is_invalid(keystone: Keystone) -> None:
    seen = identity_headers_of({**keystone.authtoken_options(), "delay_auth_decision": True}, "garbage")
    assert seen["HTTP_X_IDENTITY_STATUS"] == "Invalid"
    assert "HTTP_X_PROJECT_ID" not in seen


def test_middleware_rejects_an_unknown_token_by_default(keystone: Keystone) -> None:
    assert identity_headers_of(dict(keystone.authtoken_options()), "garbage") == {}


def test_middleware_reads_a_configuration_file(keystone: Keystone, project: str, token: str, tmp_path: Path) -> None:
    lines = [f"{name} = {value}\n" for name, value in keystone.authtoken_options().items()]
    file = tmp_path / "covey.conf"
    file.write_text("[keystone_authtoken]\n" + "".join(lines))
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[str(file)], default_config_dirs=[])
    assert identity_headers_of({"oslo_config_config": conf}, token)["HTTP_X_PROJECT_ID"] == project


def test_clouds_yaml_works_with_the_clients(keystone: Keystone, project: str, tmp_path: Path) -> None:
    keystone.register_service("compute", "covey", "http://127.0.0.1:1/v2.1")
    file = tmp_path / "clouds.yaml"
    keystone.clouds_yaml(file, {"red": ("rosa", "rosa's password", "red")})
    config = openstack.config.OpenStackConfig(config_files=[str(file)], load_envvars=False)
    cloud = openstack.connection.Connection(config=config.get_one("red"))
    assert cloud.current_project_id == project
    assert cloud.endpoint_for("compute", interface="internal", region_name="RegionOne") == "http://127.0.0.1:1/v2.1"


def test_failed_step_is_reported_with_its_output(tmp_path: Path) -> None:
    (tmp_path / "keystone.sqlite").write_text("This is no database.")
    with (
        pytest.raises(KeystoneFailed, match=r"(?s)file is not a database.*db_sync ended with status 1"),
        running_keystone(tmp_path),
    ):
        pass
