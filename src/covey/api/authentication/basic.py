"""auth_strategy=basic: HTTP Basic against a users file, for one machine or a lab."""

import base64
import binascii
import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bcrypt
import jsonschema
import structlog
import yaml

from covey.api.authentication import Project
from covey.api.authentication.password_checks import PasswordChecks
from covey.model.access import Actor, with_implied_roles
from covey.model.control_characters import CONTROL
from covey.model.errors import Busy, Invalid, Unauthorized, Unavailable
from covey.model.ids import ProjectId, UserId

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

log = structlog.get_logger()

_MAX_CACHED_CREDENTIALS = 10_000
_MAX_HEADER_BYTES = 1024
RELOAD_INTERVAL_S = 1.0
GRACE_S = 5.0  # for a file that an editor is writing

_TEXT = {"type": "string", "minLength": 1, "maxLength": 255, "not": {"pattern": CONTROL.pattern}}
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
    """Users by name, and their projects. Raises Invalid for a file that cannot be read or is not valid.

    If the file becomes so later, its users stay valid for GRACE_S. Then `find` raises Unavailable, since any of them
    may have been removed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, int] | None = self._read_stamp()
        self._failed_at: float | None = None  # when the file was first found unusable
        self._users, self._projects = _load(path)
        self._next_reload = time.monotonic() + RELOAD_INTERVAL_S

    @property
    def bcrypt_rounds(self) -> int:
        """The highest bcrypt cost in the file."""
        return max((int(user.password_hash[4:6]) for user in self._users.values()), default=12)

    def find(self, name: str) -> User | None:
        """Return a user or None. Raises Unavailable for a file that has been unusable for GRACE_S."""
        self._refresh()
        if self._failed_at is not None and time.monotonic() > self._failed_at + GRACE_S:
            raise Unavailable("The users file of this service cannot be used. Tell its operator.")
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
                    self._users, self._projects = _load(self._path)
                    self._stamp = stamp
                self._failed_at = None
            except Invalid as error:
                self._stamp = None
                self._failed_at = self._failed_at or time.monotonic()
                log.error("users_file.reload_failed", reason=error.message)  # noqa: TRY400 -- the operator's error

    def _read_stamp(self) -> tuple[int, int]:
        try:
            status = self._path.stat()
        except OSError as error:
            raise _cannot_read(self._path, error) from error
        return status.st_mtime_ns, status.st_size


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise _cannot_read(path, error) from error


def _cannot_read(path: Path, error: OSError) -> Invalid:
    return Invalid(
        f"Cannot read the users file {path}: {error.strerror}. "
        "Create it (see docs/reference/users-file.md), or set [api] users_file."
    )


def _load(path: Path) -> tuple[dict[str, User], list[Project]]:
    try:
        document = yaml.safe_load(_read(path))
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
        roles=with_implied_roles(frozenset(entry["roles"])),
        user_name=entry["name"],
        project_name=project.name,
    )
    return User(entry["name"], entry["password_hash"].encode(), actor)


class BasicAuth:
    """Verifies a password by bcrypt, and caches the result for a short time.

    The cache holds keyed hashes under a key of this process, never a password.
    """

    challenge = 'Basic realm="covey", charset="UTF-8"'

    def __init__(
        self,
        users: UsersFile,
        cache_s: float,
        checks: PasswordChecks[User | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._users = users
        self._cache_s = cache_s
        self._checks = checks
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._decoy = bcrypt.hashpw(secrets.token_bytes(16), bcrypt.gensalt(users.bcrypt_rounds))
        self._cache: dict[bytes, tuple[float, User]] = {}

    def __call__(self, environ: "WSGIEnvironment") -> Actor:
        header: str = environ.get("HTTP_AUTHORIZATION", "")
        if not header:
            raise Unauthorized(
                "The request you have made requires authentication: send a user name and a password (HTTP Basic)."
            )
        fingerprint = hashlib.blake2b(header.encode("latin-1", "replace"), key=self._key).digest()
        cached = self._cached(fingerprint)
        # A cached user never waits for other users' passwords: an expired entry is checked again when that is possible.
        if cached is not None and (self._is_fresh(fingerprint) or not self._checks.idle):
            return cached.actor
        name, password = _parse_credentials(header)
        try:
            user = self._checks.run(fingerprint, lambda: self._verify_and_cache(name, password, fingerprint))
        except Busy:
            if cached is None:
                raise
            user = cached
        if user is None:
            raise Unauthorized("The user name or the password is wrong.")
        return user.actor

    def _cached(self, fingerprint: bytes) -> User | None:
        """Return the user of a cached header, unless the users file has changed the user."""
        _, user = self._cache.get(fingerprint, (0.0, None))
        return None if user is None or self._users.find(user.name) != user else user

    def _is_fresh(self, fingerprint: bytes) -> bool:
        return self._clock() < self._cache.get(fingerprint, (0.0, None))[0]

    def _verify_and_cache(self, name: str, password: bytes, fingerprint: bytes) -> User | None:
        cached = self._cached(fingerprint)
        if cached is not None and self._is_fresh(fingerprint):
            return cached  # another thread has checked it in between
        user = self._verify(name, password)
        if user is not None and self._cache_s:
            if len(self._cache) >= _MAX_CACHED_CREDENTIALS:
                self._cache = {}
            self._cache[fingerprint] = (self._clock() + self._cache_s, user)
        return user

    def remaining_roles(self, user: UserId, project: ProjectId, roles: frozenset[str]) -> frozenset[str]:
        """Return those of the roles that the users file still gives the user in the project."""
        found = self._users.find(user)
        return roles & found.actor.roles if found is not None and found.actor.project_id == project else frozenset()

    def project(self, project_id: str) -> Project | None:
        return next((p for p in self._users.projects() if p.id == project_id), None)

    def projects_named(self, name: str | None) -> Sequence[Project]:
        return [p for p in self._users.projects() if name is None or p.name == name]

    def _verify(self, name: str, password: bytes) -> User | None:
        user = self._users.find(name)
        # An unknown user costs as much time as a wrong password, which prevents user enumeration by timing.
        matches = _matches(password, user.password_hash if user else self._decoy)
        return user if matches else None


def _matches(password: bytes, hashed: bytes) -> bool:
    try:
        return bcrypt.checkpw(password[:72], hashed)
    except ValueError:  # the users file's pattern admits strings that are not valid bcrypt hashes
        return False


def _parse_credentials(header: str) -> tuple[str, bytes]:
    malformed = Unauthorized("The Authorization header is malformed. Send: Basic base64(user:password).")
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic" or len(header) > _MAX_HEADER_BYTES:
        raise malformed
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True)
        name, colon, password = decoded.partition(b":")
        user = name.decode()
    except (ValueError, binascii.Error) as error:
        raise malformed from error
    if not colon or b"\0" in password:
        raise malformed
    return user, password
