"""auth_strategy=basic: passwords are verified by bcrypt and cached for a short time."""

import base64
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bcrypt
import pytest

from covey.api.authentication import Project
from covey.api.authentication.basic import RELOAD_INTERVAL_S, BasicAuth, UsersFile
from covey.api.authentication.password_checks import PasswordChecks
from covey.model.access import Actor
from covey.model.errors import Busy, Unauthorized
from covey.request_slots import RequestSlots

CACHE_S = 60
TIMEOUT_S = 30
HASHES = {password: bcrypt.hashpw(password.encode()[:72], bcrypt.gensalt(4)).decode() for password in ("s3:cret", "Ü")}
ALICE = "projects: [{id: p1, name: web}]\nusers: [{name: alice, password_hash: %s, project: web, roles: [member]}]\n"


class Clock:
    """A clock that tests advance."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "users.yaml"
    path.write_text(ALICE % HASHES["s3:cret"])
    return path


@pytest.fixture
def basic(path: Path, clock: Clock) -> BasicAuth:
    return BasicAuth(UsersFile(path), CACHE_S, PasswordChecks(RequestSlots(), max_threads=32), clock)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every password that bcrypt has checked."""
    asked: list[bytes] = []
    really = bcrypt.checkpw

    def counted(password: bytes, hashed: bytes) -> bool:
        asked.append(password)
        return really(password, hashed)

    monkeypatch.setattr(bcrypt, "checkpw", counted)
    return asked


def log_in(basic: BasicAuth, name: str, password: str) -> Actor:
    return basic({"HTTP_AUTHORIZATION": header(f"{name}:{password}".encode())})


def header(credentials: bytes, scheme: str = "Basic") -> str:
    return f"{scheme} {base64.b64encode(credentials).decode()}"


def refusal(basic: BasicAuth, value: str) -> str:
    with pytest.raises(Unauthorized) as caught:
        basic({"HTTP_AUTHORIZATION": value})
    return caught.value.message


def test_correct_password_yields_the_actor(basic: BasicAuth) -> None:
    assert log_in(basic, "alice", "s3:cret") == Actor(
        user_id="alice",  # type: ignore[arg-type]
        project_id="p1",  # type: ignore[arg-type]
        roles=frozenset({"member", "reader"}),
        user_name="alice",
        project_name="web",
    )


def test_scheme_is_case_insensitive(basic: BasicAuth) -> None:
    assert basic({"HTTP_AUTHORIZATION": header(b"alice:s3:cret", "bASIC")}).user_id == "alice"


def test_missing_credentials_are_challenged(basic: BasicAuth) -> None:
    with pytest.raises(Unauthorized, match="send a user name and a password"):
        basic({})
    assert basic.challenge.startswith("Basic ")


def test_unknown_user_and_wrong_password_are_indistinguishable(basic: BasicAuth, checks: list[bytes]) -> None:
    wrong = {refusal(basic, header(pair)) for pair in (b"alice:wrong", b"unknown:s3:cret", b"alice:", b":")}
    assert wrong == {"The user name or the password is wrong."}
    assert len(checks) == 4


MALFORMED = {
    "another scheme": "Bearer abc",
    "a scheme alone": "Basic",
    "no base64": "Basic ???",
    "no colon": header(b"alice"),
    "a name that is no UTF-8": header(b"\xff:x"),
    "a zero byte, where bcrypt would stop reading": header(b"alice:s3:cret\0x"),
    "a header beyond measure": header(b"alice:" + b"x" * 2000),
}


@pytest.mark.parametrize("value", MALFORMED.values(), ids=MALFORMED)
def test_malformed_header_has_its_own_message(basic: BasicAuth, checks: list[bytes], value: str) -> None:
    assert refusal(basic, value).startswith("The Authorization header is malformed.")
    assert checks == []


def test_verified_password_is_cached_until_it_expires(basic: BasicAuth, clock: Clock, checks: list[bytes]) -> None:
    for _ in range(3):
        log_in(basic, "alice", "s3:cret")
    clock.now_s += CACHE_S - 1
    log_in(basic, "alice", "s3:cret")
    assert len(checks) == 1
    clock.now_s += 1
    log_in(basic, "alice", "s3:cret")
    assert len(checks) == 2


def test_wrong_password_is_not_cached(basic: BasicAuth, checks: list[bytes]) -> None:
    for _ in range(2):
        refusal(basic, header(b"alice:wrong"))
    assert len(checks) == 2


def test_zero_cache_time_disables_the_cache(path: Path, clock: Clock, checks: list[bytes]) -> None:
    uncached = BasicAuth(UsersFile(path), 0, PasswordChecks(RequestSlots(), max_threads=32), clock)
    for _ in range(2):
        log_in(uncached, "alice", "s3:cret")
    assert len(checks) == 2


def test_cache_holds_no_password(basic: BasicAuth) -> None:
    log_in(basic, "alice", "s3:cret")
    assert not any(b"s3:cret" in key or header(b"alice:s3:cret").encode() in key for key in basic._cache)


def expire_reload_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advance the clock past the next reload of the file."""
    later = time.monotonic() + RELOAD_INTERVAL_S + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)


def test_changed_password_invalidates_the_cached_one(
    basic: BasicAuth, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(basic, "alice", "s3:cret")
    path.write_text(ALICE % HASHES["Ü"] + "# changed\n")
    expire_reload_interval(monkeypatch)
    assert refusal(basic, header(b"alice:s3:cret")) == "The user name or the password is wrong."
    assert log_in(basic, "alice", "Ü").user_id == "alice"


def test_removed_user_is_rejected_despite_the_cache(
    basic: BasicAuth, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(basic, "alice", "s3:cret")
    path.write_text("projects: []\nusers: []\n")
    expire_reload_interval(monkeypatch)
    assert refusal(basic, header(b"alice:s3:cret")) == "The user name or the password is wrong."


def test_projects_come_from_the_file(basic: BasicAuth) -> None:
    web = Project("p1", "web")
    assert (basic.project("p1"), basic.project("web")) == (web, None)
    assert (basic.projects_named("web"), basic.projects_named("p1"), basic.projects_named(None)) == ([web], [], [web])


def test_concurrent_requests_verify_a_password_once(basic: BasicAuth, checks: list[bytes]) -> None:
    with ThreadPoolExecutor(8) as pool:
        actors = list(pool.map(lambda _: log_in(basic, "alice", "s3:cret"), range(32)))
    assert {actor.user_id for actor in actors} == {"alice"}
    assert len(checks) == 1


@pytest.fixture
def flood(basic: BasicAuth, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Send 40 different wrong passwords, of which bcrypt has finished none. Yields what the others got."""
    log_in(basic, "alice", "s3:cret")
    stuck, refused = threading.Event(), threading.Semaphore(0)
    monkeypatch.setattr(bcrypt, "checkpw", lambda *_: not stuck.wait())
    answers: list[str] = []

    def guess(number: int) -> None:
        try:
            log_in(basic, "alice", f"wrong-{number}")
        except (Busy, Unauthorized) as error:
            answers.append(error.code)
            refused.release()

    with ThreadPoolExecutor(40) as pool:
        for number in range(40):
            pool.submit(guess, number)
        try:
            assert all(refused.acquire(timeout=TIMEOUT_S) for _ in range(32))
            yield answers
        finally:
            stuck.set()
    assert sorted(answers) == ["busy"] * 32 + ["unauthorized"] * 8


def test_more_than_eight_passwords_at_once_are_refused(flood: list[str]) -> None:
    assert flood == ["busy"] * 32


def test_two_passwords_are_checked_at_once() -> None:
    checks, running, seen = PasswordChecks[None](RequestSlots(), max_threads=8), list[int](), set[int]()

    def check() -> None:
        running.append(1)
        time.sleep(0.02)  # in which others would start
        seen.add(len(running))
        running.pop()

    with ThreadPoolExecutor(8) as pool:
        for key in range(8):
            pool.submit(checks.run, bytes([key]), check)
    assert max(seen) == 2


def test_cached_user_does_not_wait_for_password_checks(basic: BasicAuth, clock: Clock, flood: list[str]) -> None:
    for _ in range(2):
        assert log_in(basic, "alice", "s3:cret").user_id == "alice"
        clock.now_s += CACHE_S  # its password would be checked again, if a check could start
    assert len(flood) == 32


def test_one_wrong_password_occupies_no_more_than_its_threads(
    path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    basic = BasicAuth(UsersFile(path), CACHE_S, PasswordChecks(RequestSlots(), max_threads=4), clock)
    log_in(basic, "alice", "s3:cret")
    clock.now_s += CACHE_S
    stuck, checks, refused = threading.Event(), [], threading.Semaphore(0)

    def check(*_: object) -> bool:
        checks.append(stuck.wait())
        return False

    monkeypatch.setattr(bcrypt, "checkpw", check)

    def guess(_: int) -> str:
        try:
            log_in(basic, "alice", "wrong")
        except (Busy, Unauthorized) as error:
            refused.release()
            return error.code
        return "accepted"

    with ThreadPoolExecutor(12) as pool:
        answers = pool.map(guess, range(12))
        try:
            assert all(refused.acquire(timeout=TIMEOUT_S) for _ in range(8))
            assert log_in(basic, "alice", "s3:cret").user_id == "alice", "a cached user has to wait"
        finally:
            stuck.set()
    assert sorted(answers) == ["busy"] * 8 + ["unauthorized"] * 4
    assert len(checks) == 1
