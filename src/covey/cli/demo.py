"""`covey demo`: a demo cloud on SQLite, in one directory."""

import secrets
import shlex
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import click
import yaml

from covey.bootstrap import Settings
from covey.cli.serve import run
from covey.cli.users import with_user, write

USERS = {"admin": ("admin", "admin"), "demo": ("demo", "member"), "other": ("other", "member")}  # (project, role)


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=8774, show_default=True)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("covey-demo"),
    show_default=True,
    help="Directory of the database and the files. An existing one is continued.",
)
def demo(port: int, data_dir: Path) -> None:
    """Run Covey with a demo fleet: 24 hosts, 8 racks, 4 switches, 3 maintenance zones, three users.

    Everything is in one directory, on loopback only. Delete the directory to reset the demo.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    passwords = _passwords(data_dir)
    _write_clouds(data_dir, port, passwords)
    home = data_dir.resolve()
    options = Settings(
        overrides=(
            ("api", "port", port),
            ("api", "host", "127.0.0.1"),
            ("api", "auth_strategy", "basic"),
            ("api", "users_file", str(home / "users.yaml")),
            ("database", "connection", f"sqlite:///{home / 'covey.sqlite'}"),
            ("log", "format", "console"),
            ("log", "level", "warning"),
        )
    )
    with resources.as_file(resources.files("covey.demo") / "fleet.yaml") as fleet:
        run(options, str(fleet), _welcome(data_dir, port, passwords))


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


def _welcome(data_dir: Path, port: int, passwords: dict[str, str]) -> str:
    installed = Path(sys.executable).with_name("openstack")
    client = shlex.quote(str(_short(installed))) if installed.exists() else "openstack"
    command = f"OS_CLIENT_CONFIG_FILE={shlex.quote(str(data_dir / 'clouds.yaml'))} {client} --os-cloud"
    users = "\n".join(
        f"    {name:<6} {passwords[name]}   {role} of project {project}" for name, (project, role) in USERS.items()
    )
    return f"""
Covey is at http://127.0.0.1:{port}/, its data in {data_dir}. Ctrl-C stops it.

  Users:
{users}

  Try, in another shell:
    {command} admin hypervisor list
    {command} admin aggregate list --long
    {command} demo flavor list
"""


def _short(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
