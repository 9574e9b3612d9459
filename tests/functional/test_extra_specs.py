"""The extra specs of flavors."""

import pytest

from tests.functional.client import Client

PATH = "/flavors/small/os-extra_specs"


@pytest.fixture
def admin(admin: Client) -> Client:
    """An administrator of a service with one flavor."""
    flavor = {"name": "small", "id": "small", "ram": 512, "vcpus": 1, "disk": 1}
    assert admin.post("/flavors", {"flavor": flavor}).status == 200
    return admin


def test_extra_specs_are_added_and_merged(admin: Client) -> None:
    assert admin.get(PATH).json == {"extra_specs": {}}
    first = admin.post(PATH, {"extra_specs": {"a": "1", "trait:CUSTOM_X": "required"}})
    assert (first.status, first.json) == (200, {"extra_specs": {"a": "1", "trait:CUSTOM_X": "required"}})
    assert admin.post(PATH, {"extra_specs": {"a": "2", "b": "3"}}).json == {"extra_specs": {"a": "2", "b": "3"}}
    assert admin.get(PATH).json == {"extra_specs": {"a": "2", "b": "3", "trait:CUSTOM_X": "required"}}


def test_empty_extra_specs_change_nothing(admin: Client) -> None:
    admin.post(PATH, {"extra_specs": {"a": "1"}})
    assert admin.post(PATH, {"extra_specs": {}}).json == {"extra_specs": {}}
    assert admin.get(PATH).json == {"extra_specs": {"a": "1"}}


def test_extra_spec_is_shown_changed_and_deleted(admin: Client) -> None:
    admin.post(PATH, {"extra_specs": {"hw:cpu_policy": "shared", "other": "x"}})
    assert admin.get(f"{PATH}/hw:cpu_policy").json == {"hw:cpu_policy": "shared"}
    changed = admin.put(f"{PATH}/hw:cpu_policy", {"hw:cpu_policy": "dedicated"})
    assert (changed.status, changed.json) == (200, {"hw:cpu_policy": "dedicated"})
    deleted = admin.delete(f"{PATH}/hw:cpu_policy")
    assert (deleted.status, deleted.text) == (200, "")
    assert admin.get(PATH).json == {"extra_specs": {"other": "x"}}


def test_put_creates_an_extra_spec(admin: Client) -> None:
    assert admin.put(f"{PATH}/new", {"new": "1"}).status == 200
    assert admin.get(PATH).json == {"extra_specs": {"new": "1"}}


def test_numbers_are_stored_as_text(admin: Client) -> None:
    admin.post(PATH, {"extra_specs": {"n": 4, "x": 1.5}})
    assert admin.get(PATH).json == {"extra_specs": {"n": "4", "x": "1.5"}}


def test_flavors_show_extra_specs_from_2_61(admin: Client, alice: Client) -> None:
    admin.post(PATH, {"extra_specs": {"a": "1"}})
    for client in (admin, alice):
        assert "extra_specs" not in client.at("2.60").get("/flavors/small").json["flavor"]
        assert client.at("2.61").get("/flavors/small").json["flavor"]["extra_specs"] == {"a": "1"}
        assert client.at("2.61").get("/flavors/detail").json["flavors"][0]["extra_specs"] == {"a": "1"}


def test_members_can_read_extra_specs(admin: Client, alice: Client) -> None:
    admin.post(PATH, {"extra_specs": {"a": "1"}})
    assert alice.get(PATH).json == {"extra_specs": {"a": "1"}}
    assert alice.get(f"{PATH}/a").json == {"a": "1"}


def test_extra_specs_require_the_reader_role(admin: Client, alice: Client) -> None:
    admin.post(PATH, {"extra_specs": {"a": "1"}})
    guest = alice.sending(X_Roles="guest").at("2.61")
    assert "extra_specs" not in guest.get("/flavors/small").json["flavor"]
    assert guest.get(PATH).status == 403


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_unknown_key_is_404(admin: Client, method: str) -> None:
    answer = admin.ask(method, f"{PATH}/none")
    assert (answer.status, answer.message) == (404, "Flavor small has no extra specs with key none.")


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("POST", "", {"extra_specs": {"a": "1"}}),
        ("GET", "/a", None),
        ("PUT", "/a", {"a": "1"}),
        ("DELETE", "/a", None),
    ],
)
def test_unknown_flavor_is_404(admin: Client, method: str, path: str, body: object) -> None:
    answer = admin.ask(method, f"/flavors/none/os-extra_specs{path}", json=body)
    assert (answer.status, answer.message) == (404, "Flavor none could not be found.")


def test_body_and_path_name_the_same_key(admin: Client) -> None:
    answer = admin.put(f"{PATH}/a", {"b": "1"})
    assert (answer.status, answer.message) == (400, "Request body and URI mismatch")
    assert admin.get(PATH).json == {"extra_specs": {}}


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("version", "key", "value", "status"),
    [
        pytest.param("2.85", "trait:CUSTOM_X", "maybe", 200, id="any value before 2.86"),
        pytest.param("2.86", "trait:CUSTOM_X", "maybe", 400, id="from 2.86 on a trait is required or forbidden"),
        pytest.param("2.86", "trait1:CUSTOM_X", "maybe", 400, id="from 2.86 on also in a numbered group"),
        pytest.param("2.86", "trait:CUSTOM_X", "required", 200, id="required"),
        pytest.param("2.86", "trait:CUSTOM_X", "forbidden", 200, id="forbidden"),
        pytest.param("2.86", "whatever", "maybe", 200, id="words of one's own are free"),
    ],
)
def test_traits_are_validated_from_2_86_on(admin: Client, version: str, key: str, value: str, status: int) -> None:
    answer = admin.at(version).post(PATH, {"extra_specs": {key: value}})
    assert answer.status == status
    assert admin.get(PATH).json["extra_specs"] == ({key: value} if status == 200 else {})
    if status == 400:
        assert answer.message == (
            f"Validation failed; extra spec '{key}' has the value '{value}', "
            "which is not one of ['required', 'forbidden']."
        )


def test_deleting_a_flavor_deletes_its_extra_specs(admin: Client) -> None:
    admin.post(PATH, {"extra_specs": {"a": "1"}})
    admin.delete("/flavors/small")
    admin.post("/flavors", {"flavor": {"name": "small", "id": "small", "ram": 1, "vcpus": 1, "disk": 0}})
    assert admin.get(PATH).json == {"extra_specs": {}}
