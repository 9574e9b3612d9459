"""The file of users that HTTP Basic checks against; read again when it changes."""

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

LOOK_AGAIN_S = 1.0

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
    """Somebody in the file."""

    name: str
    password_hash: bytes
    actor: Actor


class UsersFile:
    """Users by name, and the projects that they act for. Raises Invalid when the file makes no sense."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp = self._now_stamp()
        self._users, self._projects = _load(path)
        self._look_again_at = time.monotonic() + LOOK_AGAIN_S

    @property
    def bcrypt_rounds(self) -> int:
        """What the file's passwords cost, so that an unknown user can be made to cost the same."""
        return max((int(user.password_hash[4:6]) for user in self._users.values()), default=12)

    def find(self, name: str) -> User | None:
        self._refresh()
        return self._users.get(name)

    def projects(self) -> Sequence[Project]:
        self._refresh()
        return self._projects

    def _refresh(self) -> None:
        if time.monotonic() < self._look_again_at:
            return
        with self._lock:
            self._look_again_at = time.monotonic() + LOOK_AGAIN_S
            try:
                stamp = self._now_stamp()
                if stamp != self._stamp:
                    self._stamp = stamp
                    self._users, self._projects = _load(self._path)
            except Invalid as error:  # an operator's slip locks nobody out, and callers learn nothing of it
                log.warning("users_file.broken", reason=error.message, still="the users of before")

    def _now_stamp(self) -> tuple[int, int]:
        try:
            found = self._path.stat()
        except OSError as error:
            raise Invalid(
                f"The users file {self._path} can't be read: {error.strerror}. "
                "Write one (see docs/reference/users-file.md), or point [api] users_file to it."
            ) from error
        return found.st_mtime_ns, found.st_size


def _load(path: Path) -> tuple[dict[str, User], list[Project]]:
    try:
        document = yaml.safe_load(path.read_text())
        jsonschema.validate(document, _SCHEMA)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Invalid(f"{path}: not a YAML file: {error}") from error
    except jsonschema.ValidationError as error:
        # The value itself stays out of the message: it may be a secret.
        where = "/".join(str(step) for step in error.absolute_path) or "the file"
        raise Invalid(f"{path}: {where} breaks the rule {error.validator}: {error.validator_value!r}") from None
    projects = [Project(p["id"], p["name"]) for p in document["projects"]]
    return {user["name"]: _user(user, projects, path) for user in document["users"]}, projects


def _user(entry: dict[str, Any], projects: Sequence[Project], path: Path) -> User:
    project = next((p for p in projects if entry["project"] in {p.id, p.name}), None)
    if project is None:
        raise Invalid(f"{path}: the user {entry['name']} is in the project {entry['project']}, which is not listed.")
    actor = Actor(
        user_id=UserId(entry["name"]),
        project_id=ProjectId(project.id),
        roles=with_implied(frozenset(entry["roles"])),
        user_name=entry["name"],
        project_name=project.name,
    )
    return User(entry["name"], entry["password_hash"].encode(), actor)
