"""Flavors: lifecycle, microversions, listing, and access lists."""

from typing import Any

import pytest

from tests.functional.client import Answer, Client, Service
from tests.functional.conftest import Build

HOST = "http://localhost/compute"
ACCESS = "os-flavor-access:is_public"


def create(client: Client, name: str, **fields: Any) -> Answer:
    return client.post("/flavors", {"flavor": {"name": name, "id": name, "ram": 512, "vcpus": 1, "disk": 1} | fields})


def names(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.text
    return [flavor["name"] for flavor in answer.json["flavors"]]


def test_flavor_is_created_shown_and_deleted(admin: Client) -> None:
    created = create(admin, "small", swap=64, **{"OS-FLV-EXT-DATA:ephemeral": 2})
    assert (created.status, created.json) == (
        200,
        {
            "flavor": {
                "id": "small",
                "name": "small",
                "ram": 512,
                "vcpus": 1,
                "disk": 1,
                "swap": 64,
                "OS-FLV-EXT-DATA:ephemeral": 2,
                "OS-FLV-DISABLED:disabled": False,
                ACCESS: True,
                "rxtx_factor": 1.0,
                "links": [
                    {"rel": "self", "href": f"{HOST}/v2.1/flavors/small"},
                    {"rel": "bookmark", "href": f"{HOST}/flavors/small"},
                ],
            }
        },
    )
    assert admin.get("/flavors/small").json == created.json
    deleted = admin.delete("/flavors/small")
    assert (deleted.status, deleted.text) == (202, "")
    for answer in (admin.get("/flavors/small"), admin.delete("/flavors/small")):
        assert (answer.status, answer.message) == (404, "Flavor small could not be found.")


FIRST = {
    *("id", "name", "links", "ram", "disk", "vcpus", "swap", "rxtx_factor"),
    *("OS-FLV-EXT-DATA:ephemeral", "OS-FLV-DISABLED:disabled", ACCESS),
}


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("version", "fields", "swap", "short"),
    [
        pytest.param("2.1", FIRST, "", {"id", "name", "links"}, id="2.1 shows no swap as nothing"),
        pytest.param("2.54", FIRST, "", {"id", "name", "links"}, id="2.54 knows no description"),
        pytest.param(
            "2.55", FIRST | {"description"}, "", {"id", "name", "links", "description"}, id="2.55 has a description"
        ),
        pytest.param(
            "2.61",
            FIRST | {"description", "extra_specs"},
            "",
            {"id", "name", "links", "description"},
            id="2.61 adds extra specs",
        ),
        pytest.param(
            "2.75",
            FIRST | {"description", "extra_specs"},
            0,
            {"id", "name", "links", "description"},
            id="2.75 shows no swap as 0",
        ),
        pytest.param(
            "2.102",
            FIRST - {"rxtx_factor", "OS-FLV-DISABLED:disabled"} | {"description", "extra_specs"},
            0,
            {"id", "name", "links", "description"},
            id="2.102 drops unused fields",
        ),
    ],
)
def test_flavor_shape_follows_the_microversion(
    admin: Client, version: str, fields: set[str], swap: object, short: set[str]
) -> None:
    create(admin, "small")
    client = admin.at(version)
    shown = client.get("/flavors/small").json["flavor"]
    assert shown.keys() == fields
    assert shown["swap"] == swap
    assert client.get("/flavors/detail").json == {"flavors": [shown]}
    assert client.get("/flavors").json["flavors"][0].keys() == short
    assert create(client, "other").json["flavor"].keys() == fields
    if version >= "2.55":
        assert client.put("/flavors/small", {"flavor": {"description": None}}).json["flavor"].keys() == fields


def test_flavor_without_id_gets_a_uuid(admin: Client) -> None:
    for given in ({"id": None}, {}):
        body = {"flavor": {"name": f"f{len(given)}", "ram": 1, "vcpus": 1, "disk": 0} | given}
        assert len(admin.post("/flavors", body).json["flavor"]["id"]) == 36


def test_numbers_are_accepted_as_strings(admin: Client) -> None:
    body = {"id": 7, "ram": "512", "vcpus": "2", "disk": "0", "swap": "1", "rxtx_factor": "1.5", ACCESS: "yes"}
    made = create(admin, "small", **body).json["flavor"]
    assert (made["id"], made["ram"], made["vcpus"], made["disk"], made["swap"]) == ("7", 512, 2, 0, 1)
    assert (made["rxtx_factor"], made[ACCESS]) == (1.5, True)


def test_duplicate_name_or_id_returns_409(admin: Client) -> None:
    create(admin, "f1")
    by_name, by_id = create(admin, "f1", id="else"), create(admin, "else", id="f1")
    assert (by_name.status, by_name.json) == (
        409,
        {"conflictingRequest": {"code": 409, "message": "Flavor with name f1 already exists."}},
    )
    assert (by_id.status, by_id.message) == (409, "Flavor with ID f1 already exists.")
    assert names(admin.get("/flavors")) == ["f1"]


def test_description_is_set_changed_and_removed(admin: Client) -> None:
    client = admin.at("2.55")
    assert create(client, "small", description="for tests").json["flavor"]["description"] == "for tests"
    for text in ("for fun\nand more", None):
        changed = client.put("/flavors/small", {"flavor": {"description": text}})
        assert (changed.status, changed.json["flavor"]["description"]) == (200, text)
        assert client.get("/flavors").json["flavors"][0]["description"] == text
    missing = client.put("/flavors/none", {"flavor": {"description": "x"}})
    assert (missing.status, missing.message) == (404, "Flavor none could not be found.")


def test_links_work_for_an_id_with_spaces(admin: Client) -> None:
    links = create(admin, "f1", id="very small").json["flavor"]["links"]
    assert [link["href"] for link in links] == [f"{HOST}/v2.1/flavors/very%20small", f"{HOST}/flavors/very%20small"]
    assert admin.get("/flavors/very%20small").json["flavor"]["id"] == "very small"


class TestListing:
    """Order, pages and filters."""

    @pytest.fixture
    def admin(self, admin: Client) -> Client:
        for number, name in enumerate(("a", "b", "c", "d", "e")):
            create(admin, name, ram=1024 * (5 - number), disk=number)
        return admin

    def test_links_lead_through_all_pages(self, admin: Client) -> None:
        seen, path = [], "/flavors?limit=2"
        while path:
            answer = admin.ask("GET", path.partition("?")[0], query_string=path.partition("?")[2])
            seen.append(names(answer))
            (link,) = answer.json.get("flavors_links", [{"rel": "next", "href": ""}])
            assert link["rel"] == "next"
            path = link["href"].removeprefix(f"{HOST}/v2.1")
        assert seen == [["a", "b"], ["c", "d"], ["e"]]

    def test_marker_starts_after_a_flavor(self, admin: Client) -> None:
        assert names(admin.get("/flavors/detail", marker="c", limit="9")) == ["d", "e"]
        assert names(admin.get("/flavors", marker="e")) == []

    def test_marker_need_not_match_the_filters(self, admin: Client) -> None:
        assert names(admin.get("/flavors", marker="b", minDisk="3")) == ["d", "e"]
        assert names(admin.get("/flavors", marker="b", is_public="False")) == []

    def test_next_link_keeps_the_query(self, admin: Client) -> None:
        (link,) = admin.get("/flavors/detail", limit="1", sort_dir="desc", is_public="None").json["flavors_links"]
        assert link["href"] == f"{HOST}/v2.1/flavors/detail?limit=1&sort_dir=desc&is_public=None&marker=e"

    def test_unknown_marker_returns_400(self, admin: Client) -> None:
        answer = admin.get("/flavors", marker="z")
        assert (answer.status, answer.message) == (400, "marker [z] not found")

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            pytest.param({"sort_key": "memory_mb"}, "edcba", id="by memory"),
            pytest.param({"sort_key": "name", "sort_dir": "desc"}, "edcba", id="by name, descending"),
            pytest.param({"sort_key": "root_gb", "sort_dir": "asc"}, "abcde", id="by disk"),
            pytest.param({"minRam": "3072"}, "abc", id="by minimum memory"),
            pytest.param({"minDisk": "3"}, "de", id="by minimum disk"),
            pytest.param({"minRam": "2048", "minDisk": "2"}, "cd", id="by minimum memory and disk"),
            pytest.param({"minRam": "9" * 5000}, "", id="minimum above any memory"),
            pytest.param({"limit": "0"}, "", id="limit 0 is an empty page"),
            pytest.param({"limit": "9" * 5000}, "abcde", id="a huge limit is no limit"),
        ],
    )
    def test_flavors_are_sorted_and_filtered(self, admin: Client, query: dict[str, str], expected: str) -> None:
        assert "".join(names(admin.get("/flavors", **query))) == expected

    def test_last_value_of_a_repeated_parameter_applies(self, admin: Client) -> None:
        assert names(admin.ask("GET", "/flavors", query_string="limit=4&limit=1")) == ["a"]


def test_max_limit_caps_the_page_size(build: Build) -> None:
    admin = build(("api", "max_limit", 2)).as_("admin")
    for name in ("a", "b", "c"):
        create(admin, name)
    for query in ({}, {"limit": "3"}):
        page = admin.get("/flavors", **query)
        assert names(page) == ["a", "b"]
        assert page.json["flavors_links"][0]["href"].endswith("marker=b")
    assert "flavors_links" not in admin.get("/flavors", marker="b").json


class TestPrivateFlavors:
    """A private flavor is usable by the projects on its access list."""

    @pytest.fixture
    def admin(self, admin: Client) -> Client:
        create(admin, "public")
        create(admin, "private", **{ACCESS: False})
        return admin

    @pytest.mark.parametrize(
        ("is_public", "expected"),
        [
            pytest.param("True", ["public"], id="public"),
            pytest.param("false", ["private"], id="private"),
            pytest.param("None", ["private", "public"], id="all, in the spelling of the client"),
            pytest.param("none", ["private", "public"], id="all"),
            pytest.param("1", ["public"], id="by number"),
            pytest.param("no", ["private"], id="by word"),
        ],
    )
    def test_administrators_filter_by_is_public(self, admin: Client, is_public: str, expected: list[str]) -> None:
        assert names(admin.get("/flavors/detail", is_public=is_public)) == expected

    def test_default_listing_shows_public_flavors(self, admin: Client) -> None:
        assert names(admin.get("/flavors")) == ["public"]

    def test_invalid_is_public_returns_400(self, admin: Client) -> None:
        answer = admin.get("/flavors", is_public="maybe")
        assert (answer.status, answer.message) == (400, "Invalid is_public filter [maybe]")

    @pytest.mark.parametrize("is_public", ["True", "False", "None"])
    def test_members_see_only_usable_flavors(self, admin: Client, service: Service, is_public: str) -> None:
        give(admin, "private", "web")
        assert names(service.as_("alice:web").get("/flavors", is_public=is_public)) == ["private", "public"]
        assert names(service.as_("bob:mail").get("/flavors", is_public=is_public)) == ["public"]

    def test_private_flavor_of_another_project_returns_404(self, admin: Client, service: Service) -> None:
        give(admin, "private", "web")
        assert service.as_("alice:web").get("/flavors/private").status == 200
        for path in ("", "/os-extra_specs", "/os-extra_specs/k"):
            hidden = service.as_("bob:mail").get(f"/flavors/private{path}")
            assert (hidden.status, hidden.message) == (404, "Flavor private could not be found.")

    def test_access_is_added_listed_and_removed(self, admin: Client) -> None:
        assert admin.get("/flavors/private/os-flavor-access").json == {"flavor_access": []}
        web, mail = ({"flavor_id": "private", "tenant_id": project} for project in ("web", "mail"))
        assert give(admin, "private", "web").json == {"flavor_access": [web]}
        assert give(admin, "private", "mail").json == {"flavor_access": [mail, web]}
        assert admin.get("/flavors/private/os-flavor-access").json == {"flavor_access": [mail, web]}
        taken = admin.post("/flavors/private/action", {"removeTenantAccess": {"tenant": "web"}})
        assert (taken.status, taken.json) == (200, {"flavor_access": [mail]})

    def test_adding_access_twice_returns_409(self, admin: Client) -> None:
        give(admin, "private", "web")
        again = give(admin, "private", "web")
        message = "Flavor access already exists for flavor private and project web combination."
        assert (again.status, again.message) == (409, message)

    def test_removing_missing_access_returns_404(self, admin: Client) -> None:
        answer = admin.post("/flavors/private/action", {"removeTenantAccess": {"tenant": "web"}})
        assert (answer.status, answer.message) == (404, "Flavor access not found for private / web combination.")

    def test_public_flavor_has_no_access_list(self, admin: Client) -> None:
        listed, given = admin.get("/flavors/public/os-flavor-access"), give(admin, "public", "web")
        assert (listed.status, listed.message) == (404, "Access list not available for public flavors.")
        assert (given.status, given.message) == (409, "Can not add access to a public flavor.")

    @pytest.mark.parametrize("action", ["addTenantAccess", "removeTenantAccess"])
    def test_unknown_flavor_returns_404(self, admin: Client, action: str) -> None:
        answer = admin.post("/flavors/none/action", {action: {"tenant": "web"}})
        assert (answer.status, answer.message) == (404, "Flavor none could not be found.")

    def test_deleting_a_flavor_removes_its_access_list(self, admin: Client) -> None:
        give(admin, "private", "web")
        admin.delete("/flavors/private")
        create(admin, "private", **{ACCESS: False})
        assert admin.get("/flavors/private/os-flavor-access").json == {"flavor_access": []}


def give(admin: Client, flavor: str, project: str) -> Answer:
    return admin.post(f"/flavors/{flavor}/action", {"addTenantAccess": {"tenant": project}})
