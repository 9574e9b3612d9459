"""Bring the laboratory up: PostgreSQL, RabbitMQ, Keystone, Covey, the original Placement, Nova with fake computes."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.acceptance.keystone import DOMAIN, REGION, Keystone, running_keystone
from tests.acceptance.rabbitmq import running_rabbitmq
from tests.conformance.nova.cloud import HERE, PASSWORD, START_S, Lab, say
from tests.conformance.nova.network import running_network
from tests.databases import PostgreSQL
from tests.environments import HERE as ENVIRONMENTS
from tests.environments import prepared

PACKAGE = HERE.parents[2] / "packages" / "covey-nova"
_FLEET = "images:\n  - {name: linux}\n  - {name: bsd}\n"
_FILES = ("alone.conf", "without_group_filters.conf")
# Keystone answers one request at a time, so tokens are cached and time limits are long.
_COVEY = """\
[DEFAULT]
transport_url = {transport_url}
[api]
auth_strategy = keystone
request_timeout_s = 60
connection_timeout_s = 120
[log]
level = info
[keystone_authtoken]
token_cache_time = 600
http_connect_timeout = 60
{authtoken}
[nova]
region_name = {region}
{nova}
"""
_PLACEMENT = """\
[DEFAULT]
log_file = {directory}/placement.log
[api]
auth_strategy = keystone
[placement_database]
connection = postgresql+psycopg2://postgres@/placement?host={socket}
sync_on_startup = true
[keystone_authtoken]
token_cache_time = 600
http_connect_timeout = 60
{authtoken}
"""


@contextmanager
def running_lab(directory: Path, computes: Sequence[str], *, original: bool) -> Iterator[Lab]:
    """Bring the laboratory up, and down when the context ends. Nova begins on the original Placement, or on Covey."""
    say("  Nova's environment is installed …")
    commands = prepared(ENVIRONMENTS / "nova", HERE / "requirements.txt")
    install_package(commands)
    with ExitStack() as stack:
        say("  PostgreSQL, RabbitMQ and Keystone start …")
        postgresql = PostgreSQL(directory / "postgresql")
        stack.callback(postgresql.stop)
        connection = stack.enter_context(postgresql.fresh())
        broker = stack.enter_context(running_rabbitmq(directory / "rabbitmq"))
        (directory / "keystone").mkdir()
        keystone = stack.enter_context(running_keystone(directory / "keystone"))
        options = ("--config-file", str(directory / "covey.conf"), "--database", connection)
        lab = Lab(directory, computes, keystone, commands, options)
        stack.callback(lab.stop_all)
        _register(lab, stack.enter_context(running_network()))
        _configure(lab, postgresql, broker.url)
        lab.start_covey()
        if original:
            lab.start_original()
            lab.set_placement(lab.original_url)
        say(f"  Nova with {len(computes)} computes starts …")
        _create_cells(lab)
        lab.start_nova(*(["alone.conf"] if original else []))
        lab.discover()
        yield lab


def install_package(commands: Path) -> None:
    """Install covey-nova beside Nova, from this checkout."""
    uv = str(Path(sys.executable).with_name("uv"))
    install = [uv, "pip", "install", "--quiet", "--no-deps", "--reinstall-package=covey-nova"]
    subprocess.run([*install, "--python", commands / "python", PACKAGE], check=True, timeout=START_S)


def _register(lab: Lab, network: str) -> None:
    """Create Nova's users, a second project, and the catalogue."""
    keystone = lab.keystone
    user = keystone.create_user("nova", PASSWORD, "service", "service")
    keystone.grant(user, "service", "admin")
    keystone.create_user("nova-placement", PASSWORD, "service", "service")
    keystone.create_project("other")
    keystone.create_user("other", PASSWORD, "other", "member")
    keystone.clouds_yaml(lab.directory / "clouds.yaml", {"admin": ("admin", keystone.admin_password, "admin")})
    urls = {
        "compute": f"http://127.0.0.1:{lab.nova_port}/v2.1",
        "placement": f"{lab.covey_url}/placement",
        "image": f"{lab.covey_url}/image",
        "network": network,
    }
    for kind, url in urls.items():
        keystone.register_service(kind, kind, url)


def _configure(lab: Lab, postgresql: PostgreSQL, transport_url: str) -> None:
    directory = lab.directory
    for name in ("nova_api", "nova_cell0", "nova_cell1", "placement"):
        postgresql._run(f"CREATE DATABASE {name}")
    values = {
        "directory": directory,
        "transport_url": transport_url,
        "socket": postgresql.socket.parent,
        "auth_url": lab.keystone.auth_url,
        "region": REGION,
        "nova": credentials(lab.keystone, "nova"),
        "placement": credentials(lab.keystone, "nova-placement"),
        "authtoken": "\n".join(f"{name} = {value}" for name, value in lab.keystone.authtoken_options().items()),
    }
    texts = {"covey.conf": _COVEY, "placement.conf": _PLACEMENT, "nova.conf": (HERE / "nova.conf").read_text()}
    for name, text in texts.items():
        (directory / name).write_text(text.format_map(values))
        (directory / name).chmod(0o600)
    (directory / "fleet.yaml").write_text(_FLEET)
    for name in _FILES:
        (directory / name).write_text((HERE / name).read_text())
    (directory / "api-paste.ini").write_text((lab.commands.parent / "etc" / "nova" / "api-paste.ini").read_text())
    (directory / "state" / "controller").mkdir(parents=True)
    (directory / "computes").mkdir()
    for name in lab.computes:
        lab.configure_compute(name)


def credentials(keystone: Keystone, user: str = "nova-placement") -> str:
    """Return the options of a group with which Nova signs in."""
    options = {
        "auth_type": "password",
        "auth_url": keystone.auth_url,
        "username": user,
        "password": PASSWORD,
        "project_name": "service",
        "user_domain_id": DOMAIN,
        "project_domain_id": DOMAIN,
    }
    return "\n".join(f"{name} = {value}" for name, value in options.items())


def _create_cells(lab: Lab) -> None:
    lab.manage("api_db", "sync")
    lines = (lab.directory / "nova.conf").read_text().splitlines()
    cell1 = next(line.partition("=")[2].strip() for line in lines if "nova_cell1" in line)
    lab.manage("cell_v2", "map_cell0", "--database_connection", cell1.replace("nova_cell1", "nova_cell0"))
    lab.manage("db", "sync")
    lab.manage("cell_v2", "create_cell", "--name", "cell1")
