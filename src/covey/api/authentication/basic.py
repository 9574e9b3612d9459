"""auth_strategy=basic: HTTP Basic against a file of users, for one machine or a lab."""

import base64
import binascii
import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import bcrypt

from covey import cpu_affinity
from covey.api.authentication import Project
from covey.api.authentication.users_file import User, UsersFile
from covey.model.access import Actor
from covey.model.errors import Unauthorized
from covey.request_slots import RequestSlots

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_REMEMBERED = 10_000  # verified credentials
_LONGEST = 1024  # bytes of an Authorization header worth looking at


class Basic:
    """Checks a password by bcrypt, and remembers for a short while that it was right.

    What is remembered is a keyed hash under a key that only this process has, never the password.
    """

    challenge = 'Basic realm="covey", charset="UTF-8"'

    def __init__(
        self,
        users: UsersFile,
        remember_s: float,
        request_slots: RequestSlots,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._users = users
        self._remember_s = remember_s
        self._slots = request_slots
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._decoy = bcrypt.hashpw(secrets.token_bytes(16), bcrypt.gensalt(users.bcrypt_rounds))
        self._known: dict[bytes, tuple[float, User]] = {}
        self._checking: dict[bytes, threading.Lock] = {}

    def __call__(self, environ: "WSGIEnvironment") -> Actor:
        header: str = environ.get("HTTP_AUTHORIZATION", "")
        if not header:
            raise Unauthorized(
                "The request you have made requires authentication: send a user name and a password (HTTP Basic)."
            )
        fingerprint = hashlib.blake2b(header.encode("latin-1", "replace"), key=self._key).digest()
        user = self._remembered(fingerprint)
        if user is None:
            # Requests of one client come together when its password was forgotten: one checks, the others wait.
            with self._slots.aside(), cpu_affinity.anywhere(), self._checking.setdefault(fingerprint, threading.Lock()):
                user = self._remembered(fingerprint) or self._check(header, fingerprint)
            self._checking.pop(fingerprint, None)
        return user.actor

    def _remembered(self, fingerprint: bytes) -> User | None:
        """Who sent the same header a moment ago, if the file still says the same of that user."""
        until, user = self._known.get(fingerprint, (0.0, None))
        if user is None or self._clock() >= until or self._users.find(user.name) != user:
            return None
        return user

    def _check(self, header: str, fingerprint: bytes) -> User:
        try:
            user = self._verified(header)
        except Unauthorized:
            self._checking.pop(fingerprint, None)
            raise
        if len(self._known) >= _REMEMBERED:
            self._known = {}
        self._known[fingerprint] = (self._clock() + self._remember_s, user)
        return user

    def project(self, project_id: str) -> Project | None:
        return next((p for p in self._users.projects() if p.id == project_id), None)

    def projects_named(self, name: str | None) -> Sequence[Project]:
        return [p for p in self._users.projects() if name is None or p.name == name]

    def _verified(self, header: str) -> User:
        name, password = _credentials(header)
        user = self._users.find(name)
        # An unknown user costs as much time as a wrong password, so that names can't be guessed by the clock.
        right = _matches(password, user.password_hash if user else self._decoy)
        if user is None or not right:
            raise Unauthorized("The user name or the password is wrong.")
        return user


def _matches(password: bytes, hashed: bytes) -> bool:
    try:
        return bcrypt.checkpw(password[:72], hashed)
    except ValueError:  # looks like a hash, and is none
        return False


def _credentials(header: str) -> tuple[str, bytes]:
    nonsense = Unauthorized("The Authorization header makes no sense. Send: Basic, then base64 of user:password.")
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic" or len(header) > _LONGEST:
        raise nonsense
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True)
        name, colon, password = decoded.partition(b":")
        user = name.decode()
    except (ValueError, binascii.Error) as error:
        raise nonsense from error
    if not colon or b"\0" in password:
        raise nonsense
    return user, password
