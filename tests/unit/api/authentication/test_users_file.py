"""The users file: what a good one says, and what is said of a bad one."""

import time
from pathlib import Path

import pytest

from covey.api.authentication import Project
from covey.api.authentication.users_file import LOOK_AGAIN_S, UsersFile
from covey.model.errors import Invalid

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


def test_a_user_acts_for_a_project_given_by_its_name_or_its_id(path: Path) -> None:
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


def test_the_dearest_password_tells_what_a_check_costs(path: Path) -> None:
    dear = a_user(name="dear", password_hash=HASH.replace("04", "11"))
    assert UsersFile(path).bcrypt_rounds == 4
    assert UsersFile(written(path, f"{PROJECTS}users: [{a_user()}, {dear}]")).bcrypt_rounds == 11
    assert UsersFile(written(path, "projects: []\nusers: []")).bcrypt_rounds == 12


PROBLEMS = {
    "nothing": ("", "the file breaks the rule type: 'object'"),
    "no YAML": ("users: [", "not a YAML file: "),
    "no users": ("projects: []", "the file breaks the rule required: ['projects', 'users']"),
    "an unknown section": (
        "projects: []\nusers: []\ngroups: []",
        "the file breaks the rule additionalProperties: False",
    ),
    "a project without a name": ("projects: [{id: p}]\nusers: []", "projects/0 breaks the rule required"),
    "a name with a colon": (f"{PROJECTS}users: [{a_user(name='a:b')}]", "users/0/name breaks the rule pattern"),
    "a user without roles": (f"{PROJECTS}users: [{a_user(roles='[]')}]", "users/0/roles breaks the rule minItems: 1"),
    "a password in the open": (
        f"{PROJECTS}users: [{a_user(password_hash='hunter2')}]",
        "users/0/password_hash breaks the rule pattern",
    ),
    "an unknown project": (
        f"{PROJECTS}users: [{a_user(project='mail')}]",
        "the user alice is in the project mail, which is not listed.",
    ),
}


@pytest.mark.parametrize(("text", "problem"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_problem_is_told_with_its_place_and_no_secret(path: Path, text: str, problem: str) -> None:
    with pytest.raises(Invalid) as caught:
        UsersFile(written(path, text))
    assert caught.value.message.startswith(f"{path}: {problem}")
    assert "hunter2" not in caught.value.message


def test_bytes_that_are_no_text_are_no_yaml(path: Path) -> None:
    path.write_bytes(b"users: \xff\xfe")
    with pytest.raises(Invalid, match="not a YAML file"):
        UsersFile(path)


def test_a_file_that_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"can't be read: No such file .*point \[api\] users_file to it"):
        UsersFile(tmp_path / "nope.yaml")


def test_a_changed_file_counts_at_the_next_look_and_not_before(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = UsersFile(path)
    written(path, f"projects: [{{id: p9, name: new}}]\nusers: [{a_user(name='carol', project='new')}]")
    assert users.find("carol") is None
    later = time.monotonic() + LOOK_AGAIN_S + 0.1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert users.find("carol") is not None
    assert users.find("alice") is None
    assert users.projects() == [Project("p9", "new")]


def test_a_file_that_did_not_change_is_not_read_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = UsersFile(path)
    before = users.find("alice")
    later = time.monotonic() + LOOK_AGAIN_S + 0.1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert users.find("alice") is before
