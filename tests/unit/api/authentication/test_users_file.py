"""The users file: its entries, its errors, its reload."""

import os
import time
from pathlib import Path

import pytest

from covey.api.authentication import Project
from covey.api.authentication.basic import GRACE_S, RELOAD_INTERVAL_S, UsersFile
from covey.model.errors import Invalid, Unavailable

HASH = "$2b$04$" + "." * 53
PROJECTS = "projects: [{id: p1, name: web}, {id: p2, name: db}]\n"


def a_user(**fields: str) -> str:
    entry = {"name": "alice", "password_hash": HASH, "project": "web", "roles": "[member]"} | fields
    return "{" + ", ".join(f"{key}: {value}" for key, value in entry.items()) + "}"


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(tmp_path / "users.yaml", f"{PROJECTS}users: [{a_user()}, {a_user(name='bob', project='p2')}]")


def test_project_of_a_user_is_given_by_name_or_id(path: Path) -> None:
    users = UsersFile(path)
    alice, bob = users.find("alice"), users.find("bob")
    assert alice is not None
    assert bob is not None
    assert (alice.actor.project_id, alice.actor.project_name) == ("p1", "web")
    assert (bob.actor.project_id, bob.actor.project_name) == ("p2", "db")
    assert alice.actor.roles == {"member", "reader"}
    assert alice.password_hash == HASH.encode()
    assert users.find("carol") is None
    assert users.projects() == [Project("p1", "web"), Project("p2", "db")]


def test_bcrypt_rounds_are_the_highest_in_the_file(path: Path) -> None:
    dear = a_user(name="dear", password_hash=HASH.replace("04", "11"))
    assert UsersFile(path).bcrypt_rounds == 4
    assert UsersFile(written(path, f"{PROJECTS}users: [{a_user()}, {dear}]")).bcrypt_rounds == 11
    assert UsersFile(written(path, "projects: []\nusers: []")).bcrypt_rounds == 12


PROBLEMS = {
    "nothing": ("", "the file violates type: 'object'"),
    "no YAML": ("users: [", "not a YAML file: "),
    "no users": ("projects: []", "the file violates required: ['projects', 'users']"),
    "an unknown section": (
        "projects: []\nusers: []\ngroups: []",
        "the file violates additionalProperties: False",
    ),
    "a project without a name": ("projects: [{id: p}]\nusers: []", "projects/0 violates required"),
    "a name with a colon": (f"{PROJECTS}users: [{a_user(name='a:b')}]", "users/0/name violates pattern"),
    "a user without roles": (f"{PROJECTS}users: [{a_user(roles='[]')}]", "users/0/roles violates minItems: 1"),
    "a password in the open": (
        f"{PROJECTS}users: [{a_user(password_hash='hunter2')}]",
        "users/0/password_hash violates pattern",
    ),
    "an unknown project": (
        f"{PROJECTS}users: [{a_user(project='mail')}]",
        "the project mail of the user alice is not in projects.",
    ),
}


@pytest.mark.parametrize(("text", "problem"), PROBLEMS.values(), ids=PROBLEMS)
def test_problem_names_its_place_and_no_secret(path: Path, text: str, problem: str) -> None:
    with pytest.raises(Invalid) as caught:
        UsersFile(written(path, text))
    assert caught.value.message.startswith(f"{path}: {problem}")
    assert "hunter2" not in caught.value.message


def test_binary_file_is_not_yaml(path: Path) -> None:
    path.write_bytes(b"users: \xff\xfe")
    with pytest.raises(Invalid, match="not a YAML file"):
        UsersFile(path)


def test_missing_file_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"Cannot read the users file .*: No such file .*set \[api\] users_file"):
        UsersFile(tmp_path / "nope.yaml")


def test_changed_file_is_reloaded_after_the_interval(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = UsersFile(path)
    written(path, f"projects: [{{id: p9, name: new}}]\nusers: [{a_user(name='carol', project='new')}]")
    assert users.find("carol") is None
    later = time.monotonic() + RELOAD_INTERVAL_S + 0.1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert users.find("carol") is not None
    assert users.find("alice") is None
    assert users.projects() == [Project("p9", "new")]


@pytest.mark.parametrize("text", ["users: [", None], ids=["a broken file", "a deleted file"])
def test_unusable_file_keeps_its_users_for_a_short_time_only(
    path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    """Any of the users may have been removed, so none is admitted."""
    users, good = UsersFile(path), path.read_text()
    stamp = path.stat().st_mtime_ns
    now = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    path.unlink() if text is None else path.write_text(text)
    for seconds in (RELOAD_INTERVAL_S + 0.1, GRACE_S - 0.1):
        now[0] += seconds
        assert users.find("alice") is not None
    now[0] += RELOAD_INTERVAL_S
    for name in ("alice", "carol"):
        with pytest.raises(Unavailable, match="users file of this service cannot be used"):
            users.find(name)
    written(path, good)
    os.utime(path, ns=(stamp, stamp))
    now[0] += RELOAD_INTERVAL_S + 0.1
    assert users.find("alice") is not None


def test_unchanged_file_is_not_reloaded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = UsersFile(path)
    before = users.find("alice")
    later = time.monotonic() + RELOAD_INTERVAL_S + 0.1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert users.find("alice") is before
