"""The cloud of Tempest's compute tests: a real Keystone with Covey in its catalogue."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conformance.cloud import Cloud, running_cloud

_FLEET = """\
hosts:
  - {name: "host-[1-4]", vcpus: 64, memory_mb: 65536, disk_gb: 1000}
flavors:
  - {id: "1", name: small, vcpus: 1, memory_mb: 64, disk_gb: 1}
  - {id: "2", name: large, vcpus: 2, memory_mb: 128, disk_gb: 2}
images:
  - {name: first}
  - {name: second}
"""
_TEMPEST = """\
[auth]
use_dynamic_credentials = true
create_isolated_networks = false
admin_username = admin
admin_password = {password}
admin_project_name = admin
admin_domain_name = Default

[service_available]
nova = true
cinder = false
glance = true
neutron = true
swift = false
horizon = false

[enforce_scope]
nova = true

[validation]
run_validation = false

[compute]
image_ref = {first}
image_ref_alt = {second}
flavor_ref = 1
flavor_ref_alt = 2
min_microversion = 2.1
max_microversion = latest
min_compute_nodes = 4
build_timeout = 60

[compute-feature-enabled]
nova_policy_roles = admin,manager,member,reader
resize = true
live_migrate_back_and_forth = true
block_migration_for_live_migration = true
scheduler_enabled_filters = all
hostname_fqdn_sanitization = true
console_output = true
pause = false
suspend = false
rescue = false
interface_attach = false
snapshot = false
metadata_service = false
config_drive = false
"""


@contextmanager
def cloud(database: str, directory: Path) -> Iterator[Path]:
    """Run a cloud; yield its tempest.conf. It claims to have networks, without which most tests skip themselves."""
    with running_cloud(database, directory, _FLEET) as running:
        running.keystone.register_service("image", "covey-image", f"{running.url}/image")
        running.keystone.register_service("network", "none", f"{running.url}/network")  # looked up but not used
        images = _images(running)
        options = {"password": running.keystone.admin_password, "first": images["first"], "second": images["second"]}
        yield running.configure(_TEMPEST.format_map(options))


def _images(running: Cloud) -> dict[str, str]:
    """Return the ids of the images by name."""
    session = running.keystone.session("admin", running.keystone.admin_password, "admin")
    found = session.get(f"{running.url}/image/v2/images").json()["images"]
    return {image["name"]: image["id"] for image in found}
