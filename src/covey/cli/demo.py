"""`covey demo`: a demo cloud on SQLite, in one directory."""

import os
import secrets
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import resources
from pathlib import Path
from typing import Any

import click
import yaml

from covey.bootstrap import Settings
from covey.cli.serve import run
from covey.cli.users import with_user, write

USERS = {"admin": ("admin", "admin"), "demo": ("demo", "member"), "other": ("other", "member")}  # (project, role)
_TRIES = ("admin hypervisor list", "admin aggregate list --long", "demo flavor list")
_TRIES_ON_LIBVIRT = ("admin hypervisor list", "demo server list", "demo console log show web-1")


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=8774, show_default=True)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("covey-demo"),
    show_default=True,
    help="Directory of the database and the files. An existing one is continued.",
)
@click.option("--libvirt", "on_libvirt", is_flag=True, help="Run servers as guests of this machine's libvirt.")
def demo(port: int, data_dir: Path, on_libvirt: bool) -> None:
    """Run Covey with a demo fleet: 24 hosts, 8 racks, 4 switches, 3 maintenance zones, three users.

    Everything is in one directory, on loopback only. Delete the directory to reset the demo. With --libvirt this
    machine is the only host, and two groups of servers run on it as real guests; that takes root and the extra
    `libvirt`. The guests run on when the demo ends.
    """
    data_dir.mkdir(mode=0o711 if on_libvirt else 0o700, parents=True, exist_ok=True)  # QEMU's user opens the disks
    passwords = _passwords(data_dir)
    _write_clouds(data_dir, port, passwords)
    home = data_dir.resolve()
    real = (
        ("driver", "backend", "agents"),
        ("agents", "binding", "first"),  # this machine has any name; the agent's user is "agent"
        ("image", "data_dir", str(home / "images")),
    )
    options = Settings(
        overrides=(
            *(real if on_libvirt else ()),
            ("api", "port", port),
            ("api", "host", "127.0.0.1"),
            ("api", "auth_strategy", "basic"),
            ("api", "users_file", str(home / "users.yaml")),
            ("database", "connection", f"sqlite:///{home / 'covey.sqlite'}"),
            ("log", "format", "console"),
            ("log", "level", "warning"),
        )
    )
    fleet_file = resources.files("covey.demo") / ("libvirt.yaml" if on_libvirt else "fleet.yaml")
    with resources.as_file(fleet_file) as fleet, _guests(home, port) if on_libvirt else nullcontext():
        run(options, str(fleet), _welcome(data_dir, port, passwords, on_libvirt=on_libvirt))


@contextmanager
def _guests(home: Path, port: int) -> Iterator[None]:
    """Run this machine's agent, and start the demo's groups. Both wait for the service; guests run on after them."""
    password = secrets.token_urlsafe(24)
    users = home / "users.yaml"
    write(users, with_user(yaml.safe_load(users.read_text()), "agent", "service", ("service",), password))
    options = {
        "OS_AGENT__AUTH_STRATEGY": "basic",
        "OS_AGENT__USERNAME": "agent",
        "OS_AGENT__PASSWORD": password,
        "OS_LIBVIRT__INSTANCES_DIR": str(home / "instances"),
        "OS_LOG__LEVEL": "warning",
    }
    url = f"http://127.0.0.1:{port}"
    with (
        _child("main", "agent", "--service", url, "--state-dir", str(home / "agent"), **options),
        _child("demo_guests", url, str(home / "clouds.yaml")),
    ):
        yield


@contextmanager
def _child(module: str, *arguments: str, **variables: str) -> Iterator[None]:
    """Run `main` of a module of this package in a process, until the block ends."""
    command = [sys.executable, "-c", f"from covey.cli.{module} import main; main()", *arguments]
    with subprocess.Popen(command, env=os.environ | variables) as child:  # noqa: S603 -- this program
        try:
            yield
        finally:
            child.terminate()


def _passwords(data_dir: Path) -> dict[str, str]:
    """Return the users' passwords: those of an earlier run, or new ones."""
    clouds = data_dir / "clouds.yaml"
    if clouds.exists() and (data_dir / "users.yaml").exists():
        known = yaml.safe_load(clouds.read_text())["clouds"]
        return {name: known[name]["auth"]["password"] for name in USERS}
    passwords = {name: secrets.token_urlsafe(9) for name in USERS}
    document: dict[str, Any] = {"projects": [], "users": []}
    for name, (project, role) in USERS.items():
        document = with_user(document, name, project, (role,), passwords[name])
    write(data_dir / "users.yaml", document)
    return passwords


def _write_clouds(data_dir: Path, port: int, passwords: dict[str, str]) -> None:
    base = f"http://127.0.0.1:{port}"
    # Some commands first discover services that Covey lacks, such as block storage. Without a catalogue, a client uses
    # the endpoint below `auth`, and fails unless that returns a version document. The commands of osc-placement always
    # use it.
    clouds = {
        name: {
            "auth_type": "http_basic",
            "auth": {"username": name, "password": password, "endpoint": f"{base}/placement"},
            "compute_endpoint_override": f"{base}/compute/v2.1",
            "placement_endpoint_override": f"{base}/placement",
            "image_endpoint_override": f"{base}/image",
            "clustering_endpoint_override": f"{base}/clustering/v1",
            "identity_endpoint_override": f"{base}/identity/v3",
        }
        for name, password in passwords.items()
    }
    write(data_dir / "clouds.yaml", {"clouds": clouds})


def _welcome(data_dir: Path, port: int, passwords: dict[str, str], *, on_libvirt: bool) -> str:
    installed = Path(sys.executable).with_name("openstack")
    client = shlex.quote(str(_short(installed))) if installed.exists() else "openstack"
    command = f"OS_CLIENT_CONFIG_FILE={shlex.quote(str(data_dir / 'clouds.yaml'))} {client} --os-cloud"
    users = "\n".join(
        f"    {name:<6} {passwords[name]}   {role} of project {project}" for name, (project, role) in USERS.items()
    )
    tries = _TRIES_ON_LIBVIRT if on_libvirt else _TRIES
    shown = "\n".join(f"    {command} {words}" for words in tries)
    return f"""
Covey is at http://127.0.0.1:{port}/, its data in {data_dir}. Ctrl-C stops it.

  Users:
{users}

  Try, in another shell:
{shown}
"""


def _short(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
