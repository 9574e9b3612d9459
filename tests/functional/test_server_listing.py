"""Listing servers: access, filters, order and pages."""

from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.functional.client import Answer, Client
from tests.functional.fleets import IMAGE, UNKNOWN_ID, BuildCloud, Cloud


def names(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.text
    return [server["name"] for server in answer.json["servers"]]


def follow(client: Client, answer: Answer) -> Answer:
    """Return the next page, from the link in the response."""
    (link,) = answer.json["servers_links"]
    assert link["rel"] == "next"
    url = urlsplit(link["href"])
    assert url.path.startswith("/compute/v2.1")
    return client.ask("GET", url.path.removeprefix("/compute/v2.1"), query_string=url.query)


@pytest.fixture
def abc(cloud: Cloud) -> Cloud:
    """Create the servers a, b and c of alice, in that order, and d of bob."""
    for name in "abc":
        cloud.boot(name=name)
    cloud.boot(cloud.bob, name="d")
    return cloud


def id_of(cloud: Cloud, name: str) -> str:
    return str(next(server["id"] for server in cloud.servers() if server["name"] == name))


def test_list_shows_the_callers_project_newest_first(abc: Cloud) -> None:
    for path in ("/servers", "/servers/detail"):
        assert names(abc.alice.get(path)) == ["c", "b", "a"]
        assert names(abc.bob.get(path)) == ["d"]
        assert names(abc.admin.get(path)) == []
    short = abc.alice.get("/servers").json
    assert short.keys() == {"servers"}
    assert short["servers"][0].keys() == {"id", "name", "links"}


def test_only_operators_see_all_tenants(abc: Cloud) -> None:
    for value in ("1", "True", ""):
        assert names(abc.admin.get("/servers", all_tenants=value)) == ["d", "c", "b", "a"]
    assert names(abc.admin.get("/servers", all_tenants="0")) == []
    for path, rule in (("/servers", "index"), ("/servers/detail", "detail")):
        refused = abc.alice.get(path, all_tenants="1")
        assert (refused.status, refused.message) == (
            403,
            f"Policy doesn't allow os_compute_api:servers:{rule}:get_all_tenants to be performed.",
        )


def test_list_is_paged(abc: Cloud) -> None:
    for path in ("/servers", "/servers/detail", "/web/servers"):
        page = abc.alice.get(path, limit="2", sort_dir="asc", sort_key="created_at")
        assert names(page) == ["a", "b"]
        rest = follow(abc.alice, page)
        assert names(rest) == ["c"]
        assert "servers_links" not in rest.json
    assert names(abc.alice.get("/servers", limit="3")) == ["c", "b", "a"]
    assert "servers_links" not in abc.alice.get("/servers", limit="3").json
    assert names(abc.alice.get("/servers", limit="0")) == []
    assert names(abc.alice.get("/servers", limit="9" * 5000)) == ["c", "b", "a"]
    assert names(abc.alice.get("/servers", marker=id_of(abc, "b"))) == ["a"]
    assert names(abc.alice.get("/servers", marker=id_of(abc, "a"))) == []


def test_page_is_limited_to_max_limit(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(3, ("api", "max_limit", 2))
    cloud.boot(min_count=3)
    for query in ({}, {"limit": "5"}):
        page = cloud.alice.get("/servers", **query)
        assert len(names(page)) == 2
        assert len(names(follow(cloud.alice, page))) == 1


def test_unknown_marker_returns_400(abc: Cloud) -> None:
    for marker in (UNKNOWN_ID, "nonsense", id_of(abc, "d")):
        answer = abc.alice.get("/servers", marker=marker)
        assert (answer.status, answer.json) == (
            400,
            {"badRequest": {"code": 400, "message": f"marker [{marker}] not found"}},
        )
    assert names(abc.admin.get("/servers", all_tenants="1", marker=id_of(abc, "d"))) == ["c", "b", "a"]


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("query", "message"),
    [
        *(
            (
                {"limit": value},
                f"Invalid input for query parameters limit. Value: {value}. '{value}' does not match '^[0-9]*$'",
            )
            for value in ("-1", "abc", "1.5")
        ),
        ({"limit": ""}, "Invalid input for query parameters limit. Value: . '' should be non-empty"),
        ({"sort_key": "secret"}, "'secret' is not one of"),
        ({"sort_dir": "up"}, "'up' is not one of ['asc', 'desc']"),
        ({"changes-since": "yesterday"}, "Invalid input for query parameters changes-since. Value: yesterday."),
        ({"name": "("}, "Invalid input for query parameters name. Value: (."),
    ],
)
def test_invalid_query_is_rejected(module_cloud: Cloud, query: dict[str, str], message: str) -> None:
    for path in ("/servers", "/servers/detail"):
        answer = module_cloud.alice.get(path, **query)
        assert answer.status == 400, answer.text
        assert message in answer.message


@pytest.mark.parametrize("name", ["a{1", "(?P<x>a)", "[[:bogus:]]", "a**", "\\", "(?i)a", "*"])
def test_no_name_expression_causes_500(module_cloud: Cloud, name: str) -> None:
    assert module_cloud.alice.get("/servers", name=name).status in {200, 400}


def test_unknown_parameter_is_ignored_and_later_rejected(module_cloud: Cloud) -> None:
    assert module_cloud.alice.at("2.74").get("/servers", colour="red").status == 200
    refused = module_cloud.alice.at("2.75").get("/servers", colour="red")
    assert (refused.status, refused.message) == (400, "Additional properties are not allowed ('colour' was unexpected)")
    one = module_cloud.alice.at("2.102").get(f"/servers/{UNKNOWN_ID}", colour="red")
    assert (one.status, one.message) == (400, "Additional properties are not allowed ('colour' was unexpected)")
    assert module_cloud.alice.at("2.101").get(f"/servers/{UNKNOWN_ID}", colour="red").status == 404


def test_name_filter_may_escape_punctuation(cloud: Cloud) -> None:
    cloud.boot(name="tempest-instance-808422942")
    for expression in (r"^.*\-instance\-[0-9]+$", r"^.*\-instance\-.*$", "-808422942"):
        assert names(cloud.alice.get("/servers", name=expression)) == ["tempest-instance-808422942"]


def test_name_filter_is_a_regular_expression(abc: Cloud) -> None:
    for expression, wanted in (("a", ["a"]), ("a|b", ["b", "a"]), ("^[bc]$", ["c", "b"]), ("x", []), ("", list("cba"))):
        assert names(abc.alice.get("/servers", name=expression)) == wanted


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        (r"[\][]?(a+)+$]", False),  # never returned on SQLite
        ("^(a+)+$", True),
        ("(a|a)*b", False),
        ("a?a?b", False),
        ("a*a*a*a*a*a*b", False),
        ("(.*)(.*)(.*)(.*)x$", False),
        ("^(?:a|b|ab){10,60}$", True),
        (r"^\w{60}$", True),
        ("^[[:alpha:]]+$", True),
    ],
)
def test_name_expression_matches_in_linear_time_on_both_databases(cloud: Cloud, expression: str, found: bool) -> None:
    cloud.boot(name="a" * 60)
    assert names(cloud.alice.get("/servers", name=expression)) == ["a" * 60] * found


@pytest.mark.parametrize("parameter", ["name", "ip", "ip6"])
@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (r"(a)\1", r"invalid escape sequence: \1"),
        ("(?=a)", "invalid perl operator: (?="),
        ("(a{100}){100}", "invalid repetition size: {100}"),
        ("a" * 256, "The regular expression has 256 characters; the limit is 255."),
    ],
)
def test_unsupported_expression_returns_400_with_the_reason(
    module_cloud: Cloud, parameter: str, expression: str, reason: str
) -> None:
    refused = module_cloud.alice.get("/servers", **{parameter: expression})
    assert refused.status == 400
    assert refused.message.startswith(f"Invalid input for query parameters {parameter}. Value: {expression}. ")
    assert refused.message.endswith(reason)


def test_list_filters_by_status(abc: Cloud) -> None:
    abc.run_action(abc.alice, id_of(abc, "b"), "os-stop")
    abc.boot(name="lost", flavorRef="giant")
    abc.request_server(abc.alice, "new")
    for status, wanted in (
        ("ACTIVE", ["c", "a"]),
        ("active", ["c", "a"]),
        ("SHUTOFF", ["b"]),
        ("ERROR", ["lost"]),
        ("BUILD", ["new"]),
        ("SHELVED_OFFLOADED", []),
        ("NONSENSE", []),
    ):
        assert names(abc.alice.get("/servers", status=status)) == wanted, status
        assert names(abc.alice.get("/servers/detail", status=status)) == wanted, status


def test_list_filters_by_status_of_a_task(abc: Cloud) -> None:
    abc.act(abc.admin, id_of(abc, "a"), "migrate")
    abc.act(abc.alice, id_of(abc, "b"), "reboot", {"type": "HARD"})
    assert names(abc.alice.get("/servers", status="RESIZE")) == ["a"]
    assert names(abc.alice.get("/servers", status="HARD_REBOOT")) == ["b"]


def test_list_filters_by_id_user_tags_and_change(abc: Cloud) -> None:
    abc.alice.put(f"/servers/{id_of(abc, 'a')}/tags", {"tags": ["x", "y"]})
    abc.alice.put(f"/servers/{id_of(abc, 'b')}/tags", {"tags": ["y"]})
    abc.boot(abc.service.as_("carol:web", "2.1000"), name="e")
    queries: list[tuple[dict[str, Any], list[str]]] = [
        ({"uuid": id_of(abc, "b")}, ["b"]),
        ({"uuid": id_of(abc, "d")}, []),
        ({"user_id": "carol"}, ["e"]),
        ({"tags": "y"}, ["b", "a"]),
        ({"tags": "x,y"}, ["a"]),
        ({"tags-any": "x,y"}, ["b", "a"]),
        ({"tags": "z"}, []),
        ({"not-tags": "y"}, ["e", "c"]),
        ({"not-tags": "x,y"}, ["e", "c", "b"]),
        ({"not-tags-any": "x,z"}, ["e", "c", "b"]),
        ({"not-tags-any": "x,y"}, ["e", "c"]),
        ({"tags": "y", "not-tags": "x"}, ["b"]),
        ({"changes-since": "2000-01-01T00:00:00Z"}, ["e", "c", "b", "a"]),
        ({"changes-since": "2999-01-01T00:00:00"}, []),
        ({"changes-since": "2000-01-01T00:00:00+02:00"}, ["e", "c", "b", "a"]),
        ({"deleted": "true"}, []),
    ]
    for query, wanted in queries:
        assert names(abc.alice.get("/servers", **query)) == wanted, query


def test_only_operators_filter_by_host(abc: Cloud) -> None:
    hosts = {server["name"]: server["OS-EXT-SRV-ATTR:host"] for server in abc.servers()}
    found = names(abc.admin.get("/servers", all_tenants="1", host=hosts["a"]))
    assert sorted(found) == sorted(name for name, host in hosts.items() if host == hosts["a"])
    assert names(abc.admin.get("/servers", all_tenants="1", host="node-9")) == []
    assert names(abc.alice.get("/servers", host="node-9")) == ["c", "b", "a"], "to a tenant it means nothing"


def test_list_accepts_novas_other_filters(abc: Cloud) -> None:
    for query in (
        {"reservation_id": "r-otherone"},
        {"flavor": "big"},
        {"image": UNKNOWN_ID},
        {"changes-before": "2000-01-01T00:00:00Z"},
        {"vm_state": "stopped"},
        {"project_id": "other"},
    ):
        assert names(abc.admin.get("/servers", all_tenants="1", **query)) == [], query


def test_reservation_id_in_metadata_is_not_matched(cloud: Cloud) -> None:
    first = cloud.request_server(cloud.alice, "first", return_reservation_id=True).json["reservation_id"]
    cloud.boot(cloud.bob, "copy", metadata={"reservation_id": first})
    assert names(cloud.admin.get("/servers", all_tenants="1", reservation_id=first)) == ["first"]
    assert names(cloud.bob.get("/servers", reservation_id=first)) == []


def test_image_id_in_scheduler_hints_is_not_matched(cloud: Cloud) -> None:
    cloud.boot(name="first")
    cloud.boot(name="hinted", hints={"image_id": UNKNOWN_ID})
    assert names(cloud.alice.get("/servers", image=UNKNOWN_ID)) == []
    assert names(cloud.alice.get("/servers", image=IMAGE)) == ["hinted", "first"]


def test_flavor_and_lock_filters_follow_a_change(cloud: Cloud) -> None:
    server = cloud.boot(name="a")
    cloud.run_action(cloud.alice, server, "lock", {"locked_reason": "x"})
    assert names(cloud.alice.get("/servers", locked="true")) == ["a"]
    cloud.run_action(cloud.alice, server, "unlock")
    assert names(cloud.alice.get("/servers", locked="true")) == []
    cloud.run_action(cloud.alice, server, "resize", {"flavorRef": "big"})
    assert names(cloud.alice.get("/servers", flavor="big")) == ["a"]
    assert names(cloud.alice.get("/servers", flavor="small")) == []


def test_any_sort_order_can_be_paged(abc: Cloud) -> None:
    abc.request_server(abc.alice, "e")  # never launched, and with a task
    known = {"created_at": "abce", "display_name": "abce", "launched_at": "eabc"}
    for key in ("created_at", "display_name", "launched_at", "task_state", "vm_state", "updated_at", "uuid", "user_id"):
        for direction in ("asc", "desc"):
            query = {"sort_key": key, "sort_dir": direction}
            whole = names(abc.alice.get("/servers", **query))
            assert sorted(whole) == ["a", "b", "c", "e"]
            if key in known:
                assert "".join(whole) == (known[key] if direction == "asc" else known[key][::-1])
            page = abc.alice.get("/servers", limit="1", **query)
            read = names(page)
            while "servers_links" in page.json:
                page = follow(abc.alice, page)
                read += names(page)
            assert read == whole, query
