"""`covey user`: the users file of auth_strategy=basic."""

import os
import uuid
from pathlib import Path
from typing import Any

import bcrypt
import click
import yaml

_MAX_PASSWORD_BYTES = 72  # bcrypt ignores the rest


@click.group()
def user() -> None:
    """Manage the users file of auth_strategy=basic."""


@user.command()
@click.argument("name")
@click.option("--project", help="Project of the user; created if it does not exist. Required for a new user.")
@click.option(
    "--role", "roles", multiple=True, help="Role of the user; may be repeated. A new user defaults to member."
)
@click.option("--file", "path", type=click.Path(dir_okay=False, path_type=Path), default=Path("users.yaml"))
@click.password_option(help="Password; prompted for if omitted.")
def add(name: str, project: str | None, roles: tuple[str, ...], path: Path, password: str) -> None:
    """Add the user NAME, or change its password. Omitted options keep the values of an existing user.

    \b
    Example:
      covey user add alice --project web --role member --file /etc/covey/users.yaml
    """
    document = yaml.safe_load(path.read_text()) if path.exists() else {"projects": [], "users": []}
    known: dict[str, Any] = next((user for user in document["users"] if user["name"] == name), {})
    project = project or known.get("project")
    if project is None:
        raise click.UsageError(f"The user {name} is new: --project is required.")
    roles = roles or tuple(known.get("roles", ("member",)))
    write(path, with_user(document, name, project, roles, password))
    click.echo(f"{name} is in {path}; a running service notices within a second.")


def with_user(
    document: dict[str, Any], name: str, project: str, roles: tuple[str, ...], password: str
) -> dict[str, Any]:
    """Return the users file with that user. Raises ClickException for an empty or too long password."""
    secret = password.encode()
    if not 1 <= len(secret) <= _MAX_PASSWORD_BYTES:
        raise click.ClickException(f"The password has {len(secret)} bytes; it must have 1 to {_MAX_PASSWORD_BYTES}.")
    projects = document["projects"]
    if not any(project in {known["id"], known["name"]} for known in projects):
        projects = [*projects, {"id": uuid.uuid4().hex, "name": project}]
    entry = {
        "name": name,
        "password_hash": bcrypt.hashpw(secret, bcrypt.gensalt()).decode(),
        "project": project,
        "roles": list(roles),
    }
    return {"projects": projects, "users": [u for u in document["users"] if u["name"] != name] + [entry]}


def write(path: Path, document: dict[str, Any]) -> None:
    """Replace the file atomically, readable by its owner only."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        yaml.safe_dump(document, stream, sort_keys=False)
    fresh.replace(path)
