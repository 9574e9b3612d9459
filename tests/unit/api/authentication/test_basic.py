"""auth_strategy=basic: the right password opens, for a while without bcrypt, and nothing else does."""

import base64
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bcrypt
import pytest

from covey.api.authentication import Project
from covey.api.authentication.basic import Basic
from covey.api.authentication.users_file import LOOK_AGAIN_S, UsersFile
from covey.model.access import Actor
from covey.model.errors import Unauthorized
from covey.request_slots import RequestSlots

REMEMBER_S = 60
HASHES = {password: bcrypt.hashpw(password.encode()[:72], bcrypt.gensalt(4)).decode() for password in ("s3:cret", "Ü")}
ALICE = "projects: [{id: p1, name: web}]\nusers: [{name: alice, password_hash: %s, project: web, roles: [member]}]\n"


class Clock:
    """A clock that only moves when told to."""

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
def basic(path: Path, clock: Clock) -> Basic:
    return Basic(UsersFile(path), REMEMBER_S, RequestSlots(), clock)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every password that bcrypt was asked about."""
    asked: list[bytes] = []
    really = bcrypt.checkpw

    def counted(password: bytes, hashed: bytes) -> bool:
        asked.append(password)
        return really(password, hashed)

    monkeypatch.setattr(bcrypt, "checkpw", counted)
    return asked


def log_in(basic: Basic, name: str, password: str) -> Actor:
    return basic({"HTTP_AUTHORIZATION": header(f"{name}:{password}".encode())})


def header(credentials: bytes, scheme: str = "Basic") -> str:
    return f"{scheme} {base64.b64encode(credentials).decode()}"


def refusal(basic: Basic, value: str) -> str:
    with pytest.raises(Unauthorized) as caught:
        basic({"HTTP_AUTHORIZATION": value})
    return caught.value.message


def test_the_right_password_tells_who_is_asking(basic: Basic) -> None:
    assert log_in(basic, "alice", "s3:cret") == Actor(
        user_id="alice",  # type: ignore[arg-type]
        project_id="p1",  # type: ignore[arg-type]
        roles=frozenset({"member", "reader"}),
        user_name="alice",
        project_name="web",
    )


def test_the_scheme_may_have_any_case(basic: Basic) -> None:
    assert basic({"HTTP_AUTHORIZATION": header(b"alice:s3:cret", "bASIC")}).user_id == "alice"


def test_nobody_hears_how_to_do_better(basic: Basic) -> None:
    with pytest.raises(Unauthorized, match="send a user name and a password"):
        basic({})
    assert basic.challenge.startswith("Basic ")


def test_an_unknown_user_and_a_wrong_password_look_alike_and_cost_alike(basic: Basic, checks: list[bytes]) -> None:
    wrong = {refusal(basic, header(pair)) for pair in (b"alice:wrong", b"nobody:s3:cret", b"alice:", b":")}
    assert wrong == {"The user name or the password is wrong."}
    assert len(checks) == 4


NONSENSE = {
    "another scheme": "Bearer abc",
    "a scheme alone": "Basic",
    "no base64": "Basic ???",
    "no colon": header(b"alice"),
    "a name that is no UTF-8": header(b"\xff:x"),
    "a zero byte, where bcrypt would stop reading": header(b"alice:s3:cret\0x"),
    "a header beyond measure": header(b"alice:" + b"x" * 2000),
}


@pytest.mark.parametrize("value", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_told_from_a_wrong_password(basic: Basic, checks: list[bytes], value: str) -> None:
    assert refusal(basic, value).startswith("The Authorization header makes no sense.")
    assert checks == []


def test_a_right_password_is_remembered_for_a_while(basic: Basic, clock: Clock, checks: list[bytes]) -> None:
    for _ in range(3):
        log_in(basic, "alice", "s3:cret")
    clock.now_s += REMEMBER_S - 1
    log_in(basic, "alice", "s3:cret")
    assert len(checks) == 1
    clock.now_s += 1
    log_in(basic, "alice", "s3:cret")
    assert len(checks) == 2


def test_a_wrong_password_is_never_remembered(basic: Basic, checks: list[bytes]) -> None:
    for _ in range(2):
        refusal(basic, header(b"alice:wrong"))
    assert len(checks) == 2


def test_nothing_is_remembered_when_that_is_the_wish(path: Path, clock: Clock, checks: list[bytes]) -> None:
    forgetful = Basic(UsersFile(path), 0, RequestSlots(), clock)
    for _ in range(2):
        log_in(forgetful, "alice", "s3:cret")
    assert len(checks) == 2


def test_a_remembered_password_is_nowhere_in_memory_as_such(basic: Basic) -> None:
    log_in(basic, "alice", "s3:cret")
    assert not any(b"s3:cret" in key or header(b"alice:s3:cret").encode() in key for key in basic._known)


def look_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the time until the next look at the file had passed."""
    later = time.monotonic() + LOOK_AGAIN_S + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)


def test_a_changed_password_forgets_the_old_one_at_once(
    basic: Basic, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(basic, "alice", "s3:cret")
    path.write_text(ALICE % HASHES["Ü"] + "# changed\n")
    look_again(monkeypatch)
    assert refusal(basic, header(b"alice:s3:cret")) == "The user name or the password is wrong."
    assert log_in(basic, "alice", "Ü").user_id == "alice"


def test_a_removed_user_is_out_even_if_remembered(basic: Basic, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log_in(basic, "alice", "s3:cret")
    path.write_text("projects: []\nusers: []\n")
    look_again(monkeypatch)
    assert refusal(basic, header(b"alice:s3:cret")) == "The user name or the password is wrong."


def test_projects_are_those_of_the_file(basic: Basic) -> None:
    web = Project("p1", "web")
    assert (basic.project("p1"), basic.project("web")) == (web, None)
    assert (basic.projects_named("web"), basic.projects_named("p1"), basic.projects_named(None)) == ([web], [], [web])


def test_of_many_requests_at_once_one_checks_the_password(basic: Basic, checks: list[bytes]) -> None:
    with ThreadPoolExecutor(8) as pool:
        actors = list(pool.map(lambda _: log_in(basic, "alice", "s3:cret"), range(32)))
    assert {actor.user_id for actor in actors} == {"alice"}
    assert len(checks) == 1
