"""The cloud of Senlin's tests: a real Keystone with Covey in its catalogue."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.acceptance.keystone import Keystone
from tests.conformance.cloud import running_cloud

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
_QUOTA = """\
[quota]
instances = -1
cores = -1
ram = -1
"""
_TEMPEST = """\
[auth]
use_dynamic_credentials = false
test_accounts_file = {directory}/accounts.yaml

[clustering]
min_microversion = 1.0
wait_timeout = 30
delete_with_dependency = true
"""
_PASSWORD = "not-a-secret"


@contextmanager
def cloud(database: str, directory: Path, processes: int) -> Iterator[Path]:
    """Run a cloud with users and projects for that many test processes; yield its tempest.conf."""
    with running_cloud(database, directory, _FLEET, _QUOTA) as running:
        running.keystone.register_service("clustering", "covey-clustering", f"{running.url}/clustering")
        running.keystone.register_service("network", "none", f"{running.url}/network")  # looked up but not used
        # Webhooks look up the present roles of their creators.
        running.keystone.grant(running.keystone.service_user_id(), "service", "admin")
        (directory / "accounts.yaml").write_text(yaml.safe_dump(_accounts(running.keystone, processes)))
        yield running.configure(_TEMPEST.format(directory=directory))


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
