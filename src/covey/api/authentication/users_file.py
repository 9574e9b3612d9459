"""The users file of auth_strategy=basic; reloaded when it changes."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import structlog
import yaml

from covey.api.authentication import Project
from covey.model.access import Actor, with_implied
from covey.model.errors import Invalid
from covey.model.ids import ProjectId, UserId

log = structlog.get_logger()

RELOAD_INTERVAL_S = 1.0

_TEXT = {"type": "string", "minLength": 1, "maxLength": 255}
_SCHEMA = {
    "type": "object",
    "properties": {
        "projects": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"id": _TEXT, "name": _TEXT},
                "required": ["id", "name"],
                "additionalProperties": False,
            },
        },
        "users": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {**_TEXT, "pattern": "^[^:]+$"},
                    "password_hash": {"type": "string", "pattern": r"^\$2[aby]\$[0-9]{2}\$.{53}$"},
                    "project": _TEXT,
                    "roles": {"type": "array", "items": _TEXT, "minItems": 1},
                },
                "required": ["name", "password_hash", "project", "roles"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["projects", "users"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class User:
    """An entry of the users file."""

    name: str
    password_hash: bytes
    actor: Actor


class UsersFile:
    """Users by name, and their projects. Raises Invalid for a file that cannot be read or is not valid."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp = self._read_stamp()
        self._users, self._projects = _load(path)
        self._next_reload = time.monotonic() + RELOAD_INTERVAL_S

    @property
    def bcrypt_rounds(self) -> int:
        """The highest bcrypt cost in the file."""
        return max((int(user.password_hash[4:6]) for user in self._users.values()), default=12)

    def find(self, name: str) -> User | None:
        self._refresh()
        return self._users.get(name)

    def projects(self) -> Sequence[Project]:
        self._refresh()
        return self._projects

    def _refresh(self) -> None:
        if time.monotonic() < self._next_reload:
            return
        with self._lock:
            self._next_reload = time.monotonic() + RELOAD_INTERVAL_S
            try:
                stamp = self._read_stamp()
                if stamp != self._stamp:
                    self._stamp = stamp
                    self._users, self._projects = _load(self._path)
            except Invalid as error:  # the previous users stay valid
                log.warning("users_file.reload_failed", reason=error.message)

    def _read_stamp(self) -> tuple[int, int]:
        try:
            status = self._path.stat()
        except OSError as error:
            raise Invalid(
                f"Cannot read the users file {self._path}: {error.strerror}. "
                "Create it (see docs/reference/users-file.md), or set [api] users_file."
            ) from error
        return status.st_mtime_ns, status.st_size


def _load(path: Path) -> tuple[dict[str, User], list[Project]]:
    try:
        document = yaml.safe_load(path.read_text())
        jsonschema.validate(document, _SCHEMA)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Invalid(f"{path}: not a YAML file: {error}") from error
    except jsonschema.ValidationError as error:
        # The message omits the value: it may be a secret.
        where = "/".join(str(step) for step in error.absolute_path) or "the file"
        raise Invalid(f"{path}: {where} violates {error.validator}: {error.validator_value!r}") from None
    projects = [Project(p["id"], p["name"]) for p in document["projects"]]
    return {user["name"]: _user(user, projects, path) for user in document["users"]}, projects


def _user(entry: dict[str, Any], projects: Sequence[Project], path: Path) -> User:
    project = next((p for p in projects if entry["project"] in {p.id, p.name}), None)
    if project is None:
        raise Invalid(f"{path}: the project {entry['project']} of the user {entry['name']} is not in projects.")
    actor = Actor(
        user_id=UserId(entry["name"]),
        project_id=ProjectId(project.id),
        roles=with_implied(frozenset(entry["roles"])),
        user_name=entry["name"],
        project_name=project.name,
    )
    return User(entry["name"], entry["password_hash"].encode(), actor)
