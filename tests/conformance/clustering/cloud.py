"""The cloud of Senlin's tests: a real Keystone with Covey in its catalogue."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.acceptance.keystone import DOMAIN, REGION, Keystone, running_keystone
from tests.acceptance.processes import running_covey
from tests.databases import PostgreSQL, SQLite

_FLEET = """\
hosts:
  - {name: "host-[1-4]", vcpus: 64, memory_mb: 65536, disk_gb: 1000}
flavors:
  - {name: "1", vcpus: 1, memory_mb: 64, disk_gb: 1}
  - {name: new_flavor, vcpus: 2, memory_mb: 64, disk_gb: 1}
images:
  - {name: cirros-0.4.0-x86_64-disk}
  - {name: new_image}
"""
_COVEY = """\
[api]
auth_strategy = keystone

[quota]
instances = -1
cores = -1
ram = -1

[keystone_authtoken]
"""
_TEMPEST = """\
[DEFAULT]
log_file = {directory}/tempest.log

[auth]
use_dynamic_credentials = false
test_accounts_file = {directory}/accounts.yaml

[identity]
uri_v3 = {auth_url}
region = {region}
default_domain_id = {domain}

[clustering]
min_microversion = 1.0
wait_timeout = 30
delete_with_dependency = true

[oslo_concurrency]
lock_path = {directory}
"""
_PASSWORD = "not-a-secret"


@contextmanager
def cloud(database: str, directory: Path, processes: int) -> Iterator[Path]:
    """Run a cloud with users and projects for that many test processes; yield its tempest.conf."""
    (directory / "keystone").mkdir()
    with _connection(database, directory) as url, running_keystone(directory / "keystone") as keystone:
        options = "\n".join(f"{name} = {value}" for name, value in keystone.authtoken_options().items())
        (directory / "covey.conf").write_text(_COVEY + options)
        (directory / "fleet.yaml").write_text(_FLEET)
        files = ("--config-file", str(directory / "covey.conf"), "--fleet", str(directory / "fleet.yaml"))
        with running_covey(directory / "covey", "serve", *files, "--database", url) as covey:
            keystone.register_service("clustering", "covey-clustering", f"{covey.url}/clustering")
            keystone.register_service("compute", "covey", f"{covey.url}/compute/v2.1")
            keystone.register_service("network", "none", f"{covey.url}/network")  # looked up but not used
            (directory / "accounts.yaml").write_text(yaml.safe_dump(_accounts(keystone, processes)))
            config = directory / "tempest.conf"
            config.write_text(
                _TEMPEST.format(directory=directory, auth_url=keystone.auth_url, region=REGION, domain=DOMAIN)
            )
            yield config


def _accounts(keystone: Keystone, processes: int) -> list[dict[str, object]]:
    """Create a member and an administrator for each process, each in its own project."""
    accounts: list[dict[str, object]] = []
    for role in ("member", "admin"):
        for number in range(processes):
            name = f"{role}-{number}"
            keystone.create_project(name)
            keystone.create_user(name, _PASSWORD, name, role)
            account: dict[str, object] = {
                "username": name,
                "project_name": name,
                "password": _PASSWORD,
                "roles": [role],
            }
            accounts.append(account | ({"types": ["admin"]} if role == "admin" else {}))
    return accounts


@contextmanager
def _connection(name: str, directory: Path) -> Iterator[str]:
    if name == "sqlite":
        with SQLite(directory).fresh(directory) as url:
            yield url
        return
    server = PostgreSQL(directory / "server")
    try:
        with server.fresh() as url:
            yield url
    finally:
        server.stop()
