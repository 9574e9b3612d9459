"""Host aggregates: hosts, metadata, availability zones and image caching."""

import re
from typing import Any

import pytest

from tests.functional.client import Answer, Client
from tests.functional.conftest import AddHosts

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}")


@pytest.fixture(autouse=True)
def _hosts(add_hosts: AddHosts) -> None:
    add_hosts("h1", "h2", "h3")


def create(admin: Client, name: str, zone: str | None = None, *hosts: str) -> int:
    body = {"name": name} if zone is None else {"name": name, "availability_zone": zone}
    created = admin.post("/os-aggregates", {"aggregate": body})
    assert created.status == 200, created.text
    key: int = created.json["aggregate"]["id"]
    for host in hosts:
        assert act(admin, key, add_host={"host": host}).status == 200
    return key


def act(admin: Client, key: int, **action: Any) -> Answer:
    return admin.post(f"/os-aggregates/{key}/action", action)


def show(admin: Client, key: int) -> Any:
    return admin.get(f"/os-aggregates/{key}").json["aggregate"]


def zone_of(admin: Client, host: str) -> str:
    (found,) = admin.get("/os-services", host=host).json["services"]
    zone: str = found["zone"]
    return zone


def test_create_response_has_neither_hosts_nor_metadata(admin: Client) -> None:
    answer = admin.post("/os-aggregates", {"aggregate": {"name": "a", "availability_zone": "z"}})
    made = answer.json["aggregate"]
    assert TIME.fullmatch(made.pop("created_at"))
    assert isinstance(made.pop("id"), int)
    nothing = {"updated_at": None, "deleted_at": None, "deleted": False}
    assert (answer.status, made) == (200, {"name": "a", "availability_zone": "z", **nothing})


def test_show_returns_all_fields(admin: Client) -> None:
    key = create(admin, "a", "z", "h2", "h1")
    shown = show(admin, key)
    assert TIME.fullmatch(shown.pop("created_at"))
    assert TIME.fullmatch(shown.pop("updated_at"))
    assert shown == {
        "id": key,
        "name": "a",
        "availability_zone": "z",
        "hosts": ["h1", "h2"],
        "metadata": {"availability_zone": "z"},
        "deleted_at": None,
        "deleted": False,
    }


def test_metadata_without_zone_omits_availability_zone(admin: Client) -> None:
    shown = show(admin, create(admin, "a"))
    assert (shown["availability_zone"], shown["metadata"]) == (None, {})


def test_uuid_is_shown_from_2_41(admin: Client) -> None:
    key = create(admin, "a")
    assert "uuid" not in admin.at("2.40").get(f"/os-aggregates/{key}").json["aggregate"]
    new = admin.at("2.41")
    uuid = new.get(f"/os-aggregates/{key}").json["aggregate"]["uuid"]
    assert len(uuid) == 36
    assert new.get("/os-aggregates").json["aggregates"][0]["uuid"] == uuid
    assert new.put(f"/os-aggregates/{key}", {"aggregate": {"name": "b"}}).json["aggregate"]["uuid"] == uuid
    assert "uuid" in new.post("/os-aggregates", {"aggregate": {"name": "c"}}).json["aggregate"]


def test_list_items_equal_show(admin: Client) -> None:
    assert admin.get("/os-aggregates").json == {"aggregates": []}
    keys = [create(admin, "a", "z", "h1"), create(admin, "b")]
    assert admin.get("/os-aggregates").json == {"aggregates": [show(admin, key) for key in keys]}


def test_duplicate_name_returns_409(admin: Client) -> None:
    create(admin, "a")
    other = create(admin, "b")
    for answer in (
        admin.post("/os-aggregates", {"aggregate": {"name": "a"}}),
        admin.put(f"/os-aggregates/{other}", {"aggregate": {"name": "a"}}),
    ):
        assert (answer.status, answer.message) == (409, "Aggregate a already exists.")
    assert show(admin, other)["name"] == "b"


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("PUT", "", {"aggregate": {"name": "x"}}),
        ("DELETE", "", None),
        ("POST", "/action", {"add_host": {"host": "h1"}}),
        ("POST", "/action", {"set_metadata": {"metadata": {"k": "v"}}}),
        ("POST", "/images", {"cache": [{"id": "6a6e6a4c-5fb3-4d9b-9b5a-3e6b0a1c2d3e"}]}),
    ],
)
def test_unknown_aggregate_returns_404(admin: Client, method: str, path: str, body: object) -> None:
    answer = admin.at("2.81").ask(method, f"/os-aggregates/99{path}", json=body)
    assert (answer.status, answer.message) == (404, "Aggregate 99 could not be found.")


def test_update_changes_name_and_zone(admin: Client) -> None:
    key = create(admin, "a", "z1", "h1")
    changed = admin.put(f"/os-aggregates/{key}", {"aggregate": {"name": "b", "availability_zone": "z2"}})
    assert changed.status == 200
    assert changed.json["aggregate"] == show(admin, key)
    assert (show(admin, key)["name"], show(admin, key)["metadata"]) == ("b", {"availability_zone": "z2"})


def test_update_with_the_current_name_succeeds(admin: Client) -> None:
    key = create(admin, "a")
    assert admin.put(f"/os-aggregates/{key}", {"aggregate": {"name": "a"}}).status == 200


def test_aggregate_with_hosts_cannot_be_deleted(admin: Client) -> None:
    key = create(admin, "a", None, "h1")
    refused = admin.delete(f"/os-aggregates/{key}")
    message = f"Cannot remove host from aggregate {key}. Reason: Host aggregate is not empty."
    assert (refused.status, refused.message) == (400, message)
    act(admin, key, remove_host={"host": "h1"})
    deleted = admin.delete(f"/os-aggregates/{key}")
    assert (deleted.status, deleted.text) == (200, "")


class TestHosts:
    """Hosts are added and removed."""

    def test_host_is_added_and_removed(self, admin: Client) -> None:
        key = create(admin, "a")
        added = act(admin, key, add_host={"host": "h1"})
        assert (added.status, added.json["aggregate"]["hosts"]) == (200, ["h1"])
        removed = act(admin, key, remove_host={"host": "h1"})
        assert (removed.status, removed.json["aggregate"]["hosts"]) == (200, [])

    def test_adding_a_host_twice_returns_409(self, admin: Client) -> None:
        key = create(admin, "a", None, "h1")
        answer = act(admin, key, add_host={"host": "h1"})
        assert (answer.status, answer.message) == (409, f"Aggregate {key} already has host h1.")

    def test_unknown_host_returns_404(self, admin: Client) -> None:
        key = create(admin, "a")
        answer = act(admin, key, add_host={"host": "nope"})
        assert (answer.status, answer.message) == (404, "Compute host nope could not be found.")

    @pytest.mark.parametrize("host", ["h2", "nope"], ids=["host in another aggregate", "unknown host"])
    def test_removing_a_host_that_is_no_member_returns_404(self, admin: Client, host: str) -> None:
        key = create(admin, "a", None, "h1")
        answer = act(admin, key, remove_host={"host": host})
        assert (answer.status, answer.message) == (404, f"Cannot remove host {host} in aggregate {key}")

    def test_host_may_be_in_many_aggregates_without_zones(self, admin: Client) -> None:
        keys = [create(admin, name, None, "h1") for name in ("a", "b")]
        keys.append(create(admin, "zoned", "z", "h1"))
        assert all(show(admin, key)["hosts"] == ["h1"] for key in keys)
        assert zone_of(admin, "h1") == "z"


class TestMetadata:
    """set_metadata merges."""

    def test_metadata_keys_are_added_changed_and_removed(self, admin: Client) -> None:
        key = create(admin, "a")
        assert metadata(admin, key, k="1", other="2") == {"k": "1", "other": "2"}
        assert metadata(admin, key, k="3") == {"k": "3", "other": "2"}
        assert metadata(admin, key, k=None) == {"other": "2"}
        assert metadata(admin, key, never_there=None) == {"other": "2"}
        assert metadata(admin, key) == {"other": "2"}
        assert show(admin, key)["metadata"] == {"other": "2"}

    def test_empty_metadata_value_is_kept(self, admin: Client) -> None:
        assert metadata(admin, create(admin, "a"), k="") == {"k": ""}


class TestZones:
    """A host has at most one zone."""

    REASON = "Reason: One or more hosts already in availability zone(s) ['zone-1']."

    def test_add_host_rejects_a_second_zone(self, admin: Client) -> None:
        create(admin, "a", "zone-1", "h1")
        key = create(admin, "b", "zone-2")
        answer = act(admin, key, add_host={"host": "h1"})
        assert (answer.status, answer.message) == (409, f"Cannot add host to aggregate {key}. {self.REASON}")
        assert show(admin, key)["hosts"] == []

    def test_update_rejects_a_second_zone(self, admin: Client) -> None:
        create(admin, "a", "zone-1", "h1")
        key = create(admin, "b", None, "h1")
        body = {"aggregate": {"name": "new", "availability_zone": "zone-2"}}
        answer = admin.put(f"/os-aggregates/{key}", body)
        assert (answer.status, answer.message) == (400, f"Cannot update aggregate {key}. {self.REASON}")
        assert (show(admin, key)["name"], show(admin, key)["availability_zone"]) == ("b", None)

    def test_set_metadata_rejects_a_second_zone(self, admin: Client) -> None:
        create(admin, "a", "zone-1", "h1")
        key = create(admin, "b", None, "h1")
        answer = act(admin, key, set_metadata={"metadata": {"availability_zone": "zone-2", "k": "v"}})
        assert (answer.status, answer.message) == (400, f"Cannot update metadata of aggregate {key}. {self.REASON}")
        assert show(admin, key)["metadata"] == {}

    def test_two_aggregates_may_define_the_same_zone(self, admin: Client) -> None:
        first = create(admin, "a", "z", "h1")
        create(admin, "b", "z", "h1")
        assert zone_of(admin, "h1") == "z"
        act(admin, first, remove_host={"host": "h1"})
        assert zone_of(admin, "h1") == "z"

    def test_set_metadata_rejects_an_empty_zone(self, admin: Client) -> None:
        key = create(admin, "a", "z")
        answer = act(admin, key, set_metadata={"metadata": {"availability_zone": ""}})
        reason = "Reason: Aggregate a does not support empty named availability zone."
        assert (answer.status, answer.message) == (400, f"Cannot update metadata of aggregate {key}. {reason}")

    @pytest.mark.parametrize("by", ["put", "metadata"])
    def test_renaming_a_zone_moves_its_hosts(self, admin: Client, by: str) -> None:
        key = create(admin, "a", "old", "h1", "h2")
        rezone(admin, key, "new", by)
        assert [zone_of(admin, host) for host in ("h1", "h2", "h3")] == ["new", "new", "nova"]
        assert show(admin, key)["availability_zone"] == show(admin, key)["metadata"]["availability_zone"] == "new"

    @pytest.mark.parametrize("by", ["put", "metadata"])
    def test_null_removes_the_zone(self, admin: Client, by: str) -> None:
        key = create(admin, "a", "z", "h1")
        rezone(admin, key, None, by)
        assert (show(admin, key)["availability_zone"], show(admin, key)["metadata"]) == (None, {})
        assert zone_of(admin, "h1") == "nova"

    def test_removed_host_loses_its_zone(self, admin: Client) -> None:
        key = create(admin, "a", "z", "h1")
        act(admin, key, remove_host={"host": "h1"})
        assert zone_of(admin, "h1") == "nova"


class TestImages:
    """POST …/images, from 2.81 on."""

    def test_cache_images_accepts_existing_images(self, admin: Client) -> None:
        key = create(admin, "a")
        image = admin.below("/image/v2").post("/images", {"name": "linux"}).json["id"]
        answer = cache(admin, key, image)
        assert (answer.status, answer.text) == (202, "")

    def test_cache_images_rejects_duplicates(self, admin: Client) -> None:
        image = "6a6e6a4c-5fb3-4d9b-9b5a-3e6b0a1c2d3e"
        answer = cache(admin, create(admin, "a"), image, image)
        assert (answer.status, answer.message) == (400, "Duplicate images in request")

    def test_cache_images_rejects_unknown_images(self, admin: Client) -> None:
        image = "6a6e6a4c-5fb3-4d9b-9b5a-3e6b0a1c2d3e"
        answer = cache(admin, create(admin, "a"), image)
        assert (answer.status, answer.message) == (400, f"Image {image} is not found or is not available.")


def metadata(admin: Client, key: int, **changes: str | None) -> Any:
    answer = act(admin, key, set_metadata={"metadata": changes})
    assert answer.status == 200, answer.text
    return answer.json["aggregate"]["metadata"]


def rezone(admin: Client, key: int, zone: str | None, by: str) -> None:
    if by == "put":
        answer = admin.put(f"/os-aggregates/{key}", {"aggregate": {"availability_zone": zone}})
    else:
        answer = act(admin, key, set_metadata={"metadata": {"availability_zone": zone}})
    assert answer.status == 200, answer.text


def cache(admin: Client, key: int, *images: str) -> Answer:
    return admin.at("2.81").post(f"/os-aggregates/{key}/images", {"cache": [{"id": image} for image in images]})
