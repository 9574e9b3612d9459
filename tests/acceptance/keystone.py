"""A real Keystone for the acceptance tests, on SQLite and loopback, in a child process of its own.

The child runs this same file as a script. Importing Keystone takes longer than all that is then done with it, so
the child imports it once, runs each `keystone-manage` step in a fork of itself, and serves when all have succeeded.
"""

import http.client
import importlib
import multiprocessing
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from keystoneauth1.adapter import Adapter
from keystoneauth1.identity import v3
from keystoneauth1.session import Session

REGION = "RegionOne"
DOMAIN = "default"
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 10.0
TAIL_LINES = 30

CONFIGURATION = """\
[DEFAULT]
log_file = {directory}/keystone.log

[database]
connection = sqlite:///{directory}/keystone.sqlite
# The file need not survive a power cut.
sqlite_synchronous = false

[fernet_tokens]
key_repository = {directory}/fernet-keys

[fernet_receipts]
key_repository = {directory}/fernet-keys

[credential]
key_repository = {directory}/credential-keys

[identity]
# The lowest cost that bcrypt knows: these passwords guard nothing.
password_hash_algorithm = bcrypt
password_hash_rounds = 4
# What bcrypt can take; with the default, Keystone warns about truncation at every password.
max_password_length = 72
"""


class KeystoneFailed(Exception):
    """Keystone did not start; the message ends with its last output."""


@dataclass(frozen=True)
class Keystone:
    """A running Keystone, and what its administrator can do with it.

    Projects, users and roles are named by their names, in the default domain; ids are what the calls return.
    """

    auth_url: str
    admin_password: str = field(repr=False)
    service_password: str = field(repr=False)

    def session(self, user: str, password: str, project: str) -> Session:
        """Return a keystoneauth session for the user in the project."""
        return Session(
            auth=v3.Password(
                auth_url=self.auth_url,
                username=user,
                password=password,
                project_name=project,
                user_domain_id=DOMAIN,
                project_domain_id=DOMAIN,
            )
        )

    def token_without_project(self, user: str, password: str, domain: str | None = None) -> str:
        """Return a token of the user for that domain, or for the system."""
        plugin = v3.Password(
            self.auth_url,
            username=user,
            password=password,
            user_domain_id=DOMAIN,
            domain_name=domain,
            system_scope="all" if domain is None else None,
        )
        return str(plugin.get_token(Session()))

    def create_domain(self, name: str) -> str:
        """Make a domain and return its id."""
        return self._create("domain", name=name)

    def create_project(self, name: str) -> str:
        """Make a project and return its id."""
        return self._create("project", name=name, domain_id=DOMAIN)

    def create_user(self, name: str, password: str, project: str, role: str) -> str:
        """Make a user who has the role in the project, and return the user's id."""
        user_id = self._create("user", name=name, password=password, domain_id=DOMAIN)
        self.grant(user_id, project, role)
        return user_id

    def grant(self, user_id: str, project: str, role: str) -> None:
        """Give the user one more role in the project."""
        project_id, role_id = self._id_of("project", project), self._id_of("role", role)
        self._admin.put(f"/projects/{project_id}/users/{user_id}/roles/{role_id}")

    def grant_without_project(self, user_id: str, role: str, domain_id: str | None = None) -> None:
        """Give the user a role in that domain, or in the system."""
        owner = "system" if domain_id is None else f"domains/{domain_id}"
        self._admin.put(f"/{owner}/users/{user_id}/roles/{self._id_of('role', role)}")

    def set_enabled(self, user_id: str, *, enabled: bool) -> None:
        """Enable or disable a user."""
        self._admin.patch(f"/users/{user_id}", json={"user": {"enabled": enabled}})

    def service_user_id(self) -> str:
        """Return the id of the user with which the service validates tokens."""
        return self._id_of("user", "covey")

    def register_service(self, service_type: str, name: str, url: str) -> str:
        """Put the service into the catalogue with one URL for all its interfaces, and return the service's id."""
        service_id = self._create("service", type=service_type, name=name)
        for interface in ("public", "internal", "admin"):
            self._create("endpoint", service_id=service_id, interface=interface, url=url, region_id=REGION)
        return service_id

    def authtoken_options(self) -> dict[str, str]:
        """Return what a service needs under [keystone_authtoken] to validate tokens here."""
        return {
            "auth_type": "password",
            "auth_url": self.auth_url,
            "www_authenticate_uri": self.auth_url,
            "username": "covey",
            "password": self.service_password,
            "project_name": "service",
            "user_domain_id": DOMAIN,
            "project_domain_id": DOMAIN,
            "region_name": REGION,
            "service_token_roles": "service",
            "service_token_roles_required": "true",
        }

    def clouds_yaml(self, path: Path, users: Mapping[str, tuple[str, str, str]]) -> None:
        """Write a clouds.yaml: for each cloud's name a user, that user's password, and a project."""
        clouds = {
            cloud: {
                "auth_type": "v3password",
                "auth": {
                    "auth_url": self.auth_url,
                    "username": user,
                    "password": password,
                    "project_name": project,
                    "user_domain_id": DOMAIN,
                    "project_domain_id": DOMAIN,
                },
                "region_name": REGION,
            }
            for cloud, (user, password, project) in users.items()
        }
        path.write_text(yaml.safe_dump({"clouds": clouds}))

    @cached_property
    def _admin(self) -> Adapter:
        session = self.session("admin", self.admin_password, "admin")
        return Adapter(session, endpoint_override=self.auth_url)

    def _create(self, kind: str, **attributes: str) -> str:
        answer = self._admin.post(f"/{kind}s", json={kind: attributes})
        return str(answer.json()[kind]["id"])

    def _id_of(self, kind: str, name: str) -> str:
        found: list[dict[str, Any]] = self._admin.get(f"/{kind}s", params={"name": name}).json()[f"{kind}s"]
        if len(found) != 1:
            raise LookupError(f"{len(found)} {kind}s are called {name!r}")
        return str(found[0]["id"])


@contextmanager
def running_keystone(directory: Path) -> Iterator[Keystone]:
    """Run a new Keystone in the empty directory for as long as the context lasts.

    Raises KeystoneFailed if it does not come up. On leaving, the child process is ended.
    """
    directory = directory.resolve()
    (directory / "keystone.conf").write_text(CONFIGURATION.format(directory=directory))
    admin_password = secrets.token_urlsafe()
    # Reserves the port: the child inherits the bound socket, and listens once it is ready.
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        url = f"http://127.0.0.1:{port}/v3"
        child = _start(directory, listener, url, admin_password)
    try:
        _wait_until_ready(child, port, directory)
        keystone = Keystone(url, admin_password, secrets.token_urlsafe())
        keystone.create_project("service")
        keystone.create_user("covey", keystone.service_password, "service", "service")
        yield keystone
    finally:
        _stop(child)


def _start(directory: Path, listener: socket.socket, url: str, admin_password: str) -> subprocess.Popen[bytes]:
    """Start the child. -P keeps this file's directory off its path, where this file would hide the real package."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    environment["OS_BOOTSTRAP_PASSWORD"] = admin_password
    with (directory / "output.log").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-P", __file__, str(directory), str(listener.fileno()), url],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[listener.fileno()],
        )


def _wait_until_ready(child: subprocess.Popen[bytes], port: int, directory: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise KeystoneFailed(f"Keystone ended with status {child.returncode}.\n{_output_tail(directory)}")
        if _answers(port):
            return
        time.sleep(0.05)
    raise KeystoneFailed(f"Keystone did not answer within {START_TIMEOUT_S:.0f} s.\n{_output_tail(directory)}")


def _answers(port: int) -> bool:
    """Return whether GET /v3 succeeds. The connection is refused until the child listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/v3")
        return connection.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()


def _output_tail(directory: Path) -> str:
    logs = (directory / "keystone.log", directory / "output.log")
    tails = {log.name: log.read_text(errors="replace").splitlines()[-TAIL_LINES:] for log in logs if log.exists()}
    return "\n".join(f"--- {name} ---\n" + "\n".join(lines) for name, lines in tails.items())


def _stop(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _serve(directory: str, descriptor: int, url: str) -> None:
    """Prepare the database and the keys, then serve on the inherited socket until ended."""
    configuration = f"{directory}/keystone.conf"
    owner = ("--keystone-user", str(os.getuid()), "--keystone-group", str(os.getgid()))
    urls = [f"--bootstrap-{interface}-url={url}" for interface in ("public", "internal", "admin")]
    # Imported by name: a type checker may take `keystone` for this file.
    manage = importlib.import_module("keystone.cmd.cli").main
    for step in (
        ("db_sync",),
        ("fernet_setup", *owner),
        ("credential_setup", *owner),
        ("bootstrap", f"--bootstrap-region-id={REGION}", *urls),
    ):
        _run_in_fork(manage, ["keystone-manage", "--config-file", configuration, *step])
    os.environ["OS_KEYSTONE_CONFIG_FILES"] = configuration
    del sys.argv[1:]  # Keystone reads its options from sys.argv on import.
    application = importlib.import_module("keystone.wsgi.api").application
    # One thread: concurrent writes fail on SQLite with "database is locked".
    importlib.import_module("waitress").serve(application, sockets=[socket.socket(fileno=descriptor)], threads=1)


def _run_in_fork(manage: Callable[[list[str]], None], argv: list[str]) -> None:
    """Run one step in a child process, which discards its parsed options and open connections."""
    fork = multiprocessing.get_context("fork").Process(target=manage, args=(argv,))
    fork.start()
    fork.join()
    if fork.exitcode != 0:
        sys.exit(f"{' '.join(argv)} ended with status {fork.exitcode}")


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), sys.argv[3])
