"""Malformed requests are rejected with Nova's messages, without a crash or a change."""

import json
import string
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from covey.storage import engine
from covey.storage.store import Store
from tests.build import NOW, a_host
from tests.functional.client import Answer, Client, Service
from tests.functional.rows import all_rows

FLAVOR = {"name": "new", "ram": 1, "vcpus": 1, "disk": 0}
UUID = "6a6e6a4c-5fb3-4d9b-9b5a-3e6b0a1c2d3e"
MOST_BYTES = 114688
FIVE = "\u0665"  # an Arabic digit
NAMES = "printable characters. Can not start or end with whitespace."
BAD_NAME = f"An invalid 'name' value was provided. The name must be: {NAMES}"
MALFORMED = "Malformed request body"
NO_ZERO = "Malformed request body: a string may not contain the character U+0000."
NO_ZERO_IN_URL = "A request may not contain the character U+0000."
NOT_INTEGER = "Invalid input received: id must be an integer"
BOOLEANS = (
    "[True, 'True', 'TRUE', 'true', '1', 'ON', 'On', 'on', 'YES', 'Yes', 'yes', "
    "False, 'False', 'FALSE', 'false', '0', 'OFF', 'Off', 'off', 'NO', 'No', 'no']"
)


@pytest.fixture(scope="module")
def connected(module_database: str) -> Iterator[sa.Engine]:
    made = engine.connect(module_database)
    with Store(made).write() as tx:
        tx.hosts.add([a_host("node-1")], NOW)
    yield made
    made.dispose()


@pytest.fixture(scope="module")
def admin(module_service: Service, connected: sa.Engine) -> Client:  # noqa: ARG001
    """An administrator of a service with one resource of each kind."""
    client = module_service.as_("admin:operators")
    assert client.post("/os-aggregates", {"aggregate": {"name": "a"}}).status == 200
    assert client.post("/flavors", {"flavor": FLAVOR | {"name": "small", "id": "small"}}).status == 200
    return client


def case(claim: str, request: str, message: str, status: int = 400, *, at: str = "2.1", **sent: Any) -> Any:
    return pytest.param(request, sent, at, status, message, id=claim)


def field(name: str, value: object, reason: str) -> str:
    return f"Invalid input for field/attribute {name}. Value: {value}. {reason}"


def flavor(claim: str, message: str, at: str = "2.1", **fields: Any) -> Any:
    return case(claim, "POST /flavors", message, at=at, json={"flavor": FLAVOR | fields})


def aggregate(claim: str, message: str, **fields: Any) -> Any:
    return case(claim, "POST /os-aggregates", message, json={"aggregate": {"name": "new"} | fields})


def raw(claim: str, body: str | bytes, message: str = MALFORMED) -> Any:
    return case(claim, "POST /os-aggregates", message, body=body)


def query(claim: str, request: str, message: str, at: str = "2.1") -> Any:
    path, _, text = request.partition("?")
    return case(claim, f"GET {path}", message, at=at, query_string=text)


def in_query(name: str, value: str, reason: str) -> str:
    return f"Invalid input for query parameters {name}. Value: {value}. {reason}"


BODIES = [
    raw("what is no JSON", "{"),
    raw("JSON with more after it", '{"aggregate": {"name": "new"}} x'),
    raw("single quotes", "{'aggregate': {'name': 'new'}}"),
    raw("NaN", '{"aggregate": {"name": NaN}}'),
    raw("Infinity", '{"aggregate": {"name": -Infinity}}'),
    raw("bytes that are no text", b'{"aggregate": {"name": "\xff"}}'),
    raw("half of a surrogate pair", r'{"aggregate": {"name": "\ud800"}}'),
    raw("a number too large for a float", '{"aggregate": {"name": 1e999}}'),
    raw("a number of 5,000 digits", '{"aggregate": {"name": %s}}' % ("9" * 5000)),
    raw("100,000 levels of arrays", "[" * 50_000 + "]" * 50_000),
    raw("100,000 levels that never end", "[" * 100_000),
    raw("15,000 levels of objects", '{"a":' * 15_000 + "1" + "}" * 15_000),
    raw("a raw line break in a string", '{"aggregate": {"name": "a\nb"}}'),
    raw("a zero byte in a value", r'{"aggregate": {"name": "a\u0000b"}}', NO_ZERO),
    raw("a zero byte in a key", r'{"aggregate": {"name": "a", "\u0000": 1}}', NO_ZERO),
    raw("a zero byte deep inside", r'{"aggregate": {"name": [[{"x": "\u0000"}]]}}', NO_ZERO),
    raw("no body", "", "None is not of type 'object'"),
    raw("null", "null", "None is not of type 'object'"),
    raw("a list", "[]", "[] is not of type 'object'"),
    raw("a string", '"aggregate"', "'aggregate' is not of type 'object'"),
    raw("an empty object", "{}", "'aggregate' is a required property"),
    raw("another key", '{"x": {}}', "'aggregate' is a required property"),
    raw(
        "one key too many",
        '{"aggregate": {"name": "new"}, "x": 1}',
        "Additional properties are not allowed ('x' was unexpected)",
    ),
    raw("an object that is none", '{"aggregate": 5}', field("aggregate", 5, "5 is not of type 'object'")),
    case(
        "XML",
        "POST /os-aggregates",
        "Unsupported Content-Type",
        415,
        body="<aggregate/>",
        headers={"Content-Type": "application/xml"},
    ),
    case(
        "JSON that is called a form",
        "PUT /os-aggregates/1",
        "Unsupported Content-Type",
        415,
        body='{"aggregate": {"name": "new"}}',
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    ),
    case(
        "an action that is called text",
        "POST /os-aggregates/1/action",
        "Unsupported Content-Type",
        415,
        body="{}",
        headers={"Content-Type": "text/plain"},
    ),
    case("a body one byte too long", "POST /os-aggregates", "Request is too large.", 413, body=" " * (MOST_BYTES + 1)),
    case("an action of a megabyte", "POST /flavors/small/action", "Request is too large.", 413, body="9" * 2**20),
]

NAMES_AND_ZONES = [
    aggregate("a name that is a number", field("name", 5, "5 is not of type 'string'"), name=5),
    aggregate("no name at all", field("name", "None", "None is not of type 'string'"), name=None),
    aggregate("an empty name", field("name", "", "'' should be non-empty"), name=""),
    aggregate("a name of 256 characters", field("name", "x" * 256, f"'{'x' * 256}' is too long"), name="x" * 256),
    aggregate("a name with a leading space", BAD_NAME, name=" a"),
    aggregate("a name with a trailing space", BAD_NAME, name="a "),
    aggregate("a name of spaces", BAD_NAME, name="   "),
    aggregate("a name with a tab", BAD_NAME, name="a\tb"),
    aggregate("a name with a line break at its end", BAD_NAME, name="a\n"),
    aggregate("a name with an escape", BAD_NAME, name="a\x1b[31m"),
    aggregate("a name with text that turns around", BAD_NAME, name="a\u202eb"),
    aggregate("a name with a trailing space of another kind", BAD_NAME, name="a\u3000"),
    aggregate(
        "an unknown field",
        field("aggregate", {"name": "new", "x": 1}, "Additional properties are not allowed ('x' was unexpected)"),
        x=1,
    ),
    aggregate(
        "an empty zone",
        field("availability_zone", "", "'' is not valid under any of the given schemas"),
        availability_zone="",
    ),
    aggregate(
        "a zone with a colon",
        field("availability_zone", "a:b", "'a:b' is not valid under any of the given schemas"),
        availability_zone="a:b",
    ),
    aggregate(
        "a zone that is a number",
        field("availability_zone", 5, "5 is not valid under any of the given schemas"),
        availability_zone=5,
    ),
    case(
        "a change of nothing",
        "PUT /os-aggregates/1",
        field("aggregate", {}, "{} is not valid under any of the given schemas"),
        json={"aggregate": {}},
    ),
    case("a bad new name", "PUT /os-aggregates/1", BAD_NAME, json={"aggregate": {"name": " "}}),
]

ACTIONS = [
    case("no action", "POST /os-aggregates/1/action", MALFORMED, body="{}"),
    case("an empty action", "POST /os-aggregates/1/action", MALFORMED, body=""),
    case("a list of actions", "POST /os-aggregates/1/action", MALFORMED, json=["add_host"]),
    case(
        "two actions",
        "POST /os-aggregates/1/action",
        f"{MALFORMED}: it has 2 actions (add_host, remove_host); send one.",
        json={"add_host": {"host": "node-1"}, "remove_host": {"host": "node-1"}},
    ),
    case("an unknown action", "POST /os-aggregates/1/action", "There is no such action: explode", json={"explode": {}}),
    case("an unknown action of a flavor", "POST /flavors/small/action", "There is no such action: x", json={"x": None}),
    case(
        "an action without its object",
        "POST /os-aggregates/1/action",
        field("add_host", "None", "None is not of type 'object'"),
        json={"add_host": None},
    ),
    case(
        "a host that is not named",
        "POST /os-aggregates/1/action",
        field("add_host", {}, "'host' is a required property"),
        json={"add_host": {}},
    ),
    case(
        "a host with a slash",
        "POST /os-aggregates/1/action",
        field("host", "a/b", "'a/b' does not match '^[a-zA-Z0-9-._]*$'"),
        json={"add_host": {"host": "a/b"}},
    ),
    case(
        "metadata that is a list",
        "POST /os-aggregates/1/action",
        field("metadata", [], "[] is not of type 'object'"),
        json={"set_metadata": {"metadata": []}},
    ),
    case(
        "metadata with a number",
        "POST /os-aggregates/1/action",
        field("k", 5, "5 is not of type 'string', 'null'"),
        json={"set_metadata": {"metadata": {"k": 5}}},
    ),
    case(
        "a value of 256 characters",
        "POST /os-aggregates/1/action",
        field("k", "v" * 256, f"'{'v' * 256}' is too long"),
        json={"set_metadata": {"metadata": {"k": "v" * 256}}},
    ),
    case(
        "a project with a slash",
        "POST /flavors/small/action",
        field("tenant", "a/b", "'a/b' does not match '^[a-zA-Z0-9-]*$'"),
        json={"addTenantAccess": {"tenant": "a/b"}},
    ),
    case(
        "images that are none",
        "POST /os-aggregates/1/images",
        field("cache", [], "[] should be non-empty"),
        at="2.81",
        json={"cache": []},
    ),
    case(
        "an image that is no uuid",
        "POST /os-aggregates/1/images",
        field("id", "x", "'x' is not a 'uuid'"),
        at="2.81",
        json={"cache": [{"id": "x"}]},
    ),
]

FLAVORS = [
    flavor("memory of nothing", field("ram", 0, "0 is less than the minimum of 1"), ram=0),
    flavor("memory of nothing, in digits", field("ram", 0, "0 is less than the minimum of 1"), ram="0"),
    flavor("less than no disk", field("disk", -1, "-1 is less than the minimum of 0"), disk=-1),
    flavor("memory in words", field("ram", "much", "'much' does not match '^[0-9]*$'"), ram="much"),
    flavor("memory with a sign", field("ram", "+5", "'+5' does not match '^[0-9]*$'"), ram="+5"),
    flavor("memory with a space", field("ram", " 5", "' 5' does not match '^[0-9]*$'"), ram=" 5"),
    flavor("digits of another script", field("ram", FIVE, f"'{FIVE}' does not match '^[0-9]*$'"), ram=FIVE),
    flavor("half a processor", field("vcpus", 0.5, "0.5 is not of type 'integer', 'string'"), vcpus=0.5),
    flavor("a true processor", field("vcpus", True, "True is not of type 'integer', 'string'"), vcpus=True),
    flavor("no processors", field("vcpus", "None", "None is not of type 'integer', 'string'"), vcpus=None),
    flavor(
        "memory beyond 32 bits", field("ram", 2**31, f"{2**31} is greater than the maximum of {2**31 - 1}"), ram=2**31
    ),
    flavor(
        "swap beyond 32 bits, in digits",
        field("swap", 2**31, f"{2**31} is greater than the maximum of {2**31 - 1}"),
        swap=str(2**31),
    ),
    flavor(
        "a public that is neither",
        field("os-flavor-access:is_public", "maybe", f"'maybe' is not one of {BOOLEANS}"),
        **{"os-flavor-access:is_public": "maybe"},
    ),
    flavor(
        "a factor of nothing", field("rxtx_factor", 0, "0 is less than or equal to the minimum of 0"), rxtx_factor=0
    ),
    flavor(
        "a factor in words", field("rxtx_factor", "x", r"'x' does not match '^[0-9]+(\\.[0-9]+)?$'"), rxtx_factor="x"
    ),
    flavor("an id with a slash", field("id", "a/b", "'a/b' does not match '^(?! )[a-zA-Z0-9. _-]+(?<! )$'"), id="a/b"),
    flavor("an empty id", field("id", "", "'' should be non-empty"), id=""),
    flavor(
        "a description too early",
        field(
            "flavor",
            FLAVOR | {"description": "x"},
            "Additional properties are not allowed ('description' was unexpected)",
        ),
        at="2.54",
        description="x",
    ),
    flavor(
        "a factor too late",
        field(
            "flavor",
            FLAVOR | {"rxtx_factor": 1},
            "Additional properties are not allowed ('rxtx_factor' was unexpected)",
        ),
        at="2.102",
        rxtx_factor=1,
    ),
    case(
        "a flavor without memory",
        "POST /flavors",
        field("flavor", {"name": "x"}, "'ram' is a required property"),
        json={"flavor": {"name": "x"}},
    ),
    case(
        "a change of the memory",
        "PUT /flavors/small",
        field("flavor", {"ram": 5}, "'description' is a required property"),
        at="2.55",
        json={"flavor": {"ram": 5}},
    ),
    case(
        "a description that is a number",
        "PUT /flavors/small",
        field("description", 5, "5 is not of type 'string', 'null'"),
        at="2.55",
        json={"flavor": {"description": 5}},
    ),
    case(
        "an extra spec that is true",
        "POST /flavors/small/os-extra_specs",
        field("k", True, "True is not of type 'string', 'number'"),
        json={"extra_specs": {"k": True}},
    ),
    case(
        "an extra spec that is null",
        "POST /flavors/small/os-extra_specs",
        field("k", "None", "None is not of type 'string', 'number'"),
        json={"extra_specs": {"k": None}},
    ),
    case(
        "an extra spec of 300 digits",
        "POST /flavors/small/os-extra_specs",
        "extra_specs value has 300 characters, more than 255.",
        body='{"extra_specs": {"k": %s}}' % ("9" * 300),
    ),
    case(
        "an extra spec of 256 characters",
        "PUT /flavors/small/os-extra_specs/k",
        field("k", "v" * 256, f"'{'v' * 256}' is too long"),
        json={"k": "v" * 256},
    ),
    case("no extra spec to put", "PUT /flavors/small/os-extra_specs/k", "{} should be non-empty", body="{}"),
]

SERVICES_AND_QUOTAS = [
    case(
        "a status that is none",
        f"PUT /os-services/{UUID}",
        field("status", "on", "'on' is not one of ['enabled', 'disabled']"),
        at="2.53",
        json={"status": "on"},
    ),
    case(
        "a force that is a number",
        f"PUT /os-services/{UUID}",
        field("forced_down", 2, "2 is not of type 'boolean', 'string'"),
        at="2.53",
        json={"forced_down": 2},
    ),
    case(
        "a reason of 256 characters",
        f"PUT /os-services/{UUID}",
        field("disabled_reason", "x" * 256, f"'{'x' * 256}' is too long"),
        at="2.53",
        json={"status": "disabled", "disabled_reason": "x" * 256},
    ),
    case(
        "a verb without a host",
        "PUT /os-services/disable",
        "'host' is a required property",
        json={"binary": "nova-compute"},
    ),
    case(
        "a force before its version",
        "PUT /os-services/disable",
        "Additional properties are not allowed ('forced_down' was unexpected)",
        at="2.10",
        json={"host": "node-1", "binary": "nova-compute", "forced_down": True},
    ),
    case(
        "a quota below unlimited",
        "PUT /os-quota-sets/web",
        field("cores", -2, "-2 is less than the minimum of -1"),
        json={"quota_set": {"cores": -2}},
    ),
    case(
        "a quota beyond 32 bits",
        "PUT /os-quota-sets/web",
        field("cores", 2**31, f"{2**31} is greater than the maximum of {2**31 - 1}"),
        json={"quota_set": {"cores": 2**31}},
    ),
    case(
        "a quota in words",
        "PUT /os-quota-sets/web",
        field("cores", "many", "'many' does not match '^-?[0-9]+$'"),
        json={"quota_set": {"cores": "many"}},
    ),
    case(
        "a quota of what there is not",
        "PUT /os-quota-sets/web",
        field("quota_set", {"wheels": 4}, "Additional properties are not allowed ('wheels' was unexpected)"),
        json={"quota_set": {"wheels": 4}},
    ),
    case(
        "a quota of what is gone",
        "PUT /os-quota-sets/web",
        field("quota_set", {"fixed_ips": 4}, "Additional properties are not allowed ('fixed_ips' was unexpected)"),
        at="2.36",
        json={"quota_set": {"fixed_ips": 4}},
    ),
    case(
        "a quota of a class without groups",
        "PUT /os-quota-class-sets/default",
        field(
            "quota_class_set",
            {"server_groups": 4},
            "Additional properties are not allowed ('server_groups' was unexpected)",
        ),
        at="2.49",
        json={"quota_class_set": {"server_groups": 4}},
    ),
    case(
        "a project of 256 characters",
        f"PUT /os-quota-sets/{'p' * 256}",
        "project_id has 256 characters, more than 255.",
        json={"quota_set": {"cores": 1}},
    ),
    case(
        "a class of 256 characters",
        f"PUT /os-quota-class-sets/{'c' * 256}",
        "quota_class_name has 256 characters, more than 255.",
        json={"quota_class_set": {"cores": 1}},
    ),
]

URLS = [
    query("an id that is no number", "/os-aggregates/abc", NOT_INTEGER),
    query("an id with a point", "/os-aggregates/1.5", NOT_INTEGER),
    query("an id of digits from another script", "/os-aggregates/%D9%A1", NOT_INTEGER),
    case("deleting by a name", "DELETE /os-aggregates/a", NOT_INTEGER),
    case("an id beyond 32 bits", f"GET /os-aggregates/{2**31}", f"Aggregate {2**31} could not be found.", 404),
    case("an id of 5,000 digits", f"GET /os-aggregates/{'9' * 5000}", "Aggregate 0 could not be found.", 404),
    case("an id below zero", "GET /os-aggregates/-1", "Aggregate -1 could not be found.", 404),
    case("a host's id beyond 32 bits", f"DELETE /os-services/{2**31}", f"Service {2**31} not found.", 404),
    case("a flavor that is no text", "GET /flavors/%ff", "Flavor \ufffd could not be found.", 404),
    query("a zero byte in the path", "/flavors/a%00b", NO_ZERO_IN_URL),
    query("a zero byte in the query", "/flavors?marker=%00", NO_ZERO_IN_URL),
    query("a zero byte in an unknown parameter", "/flavors?%00=1", NO_ZERO_IN_URL),
    query("far too many parameters", "/flavors?" + "a=1&" * 1500, "Too many query parameters; the limit is 1000."),
    query("a limit below zero", "/flavors?limit=-1", in_query("limit", "-1", "'-1' does not match '^[0-9]*$'")),
    query("a limit in words", "/flavors?limit=abc", in_query("limit", "abc", "'abc' does not match '^[0-9]*$'")),
    query("a limit with a point", "/flavors?limit=1.5", in_query("limit", "1.5", "'1.5' does not match '^[0-9]*$'")),
    query("an empty limit", "/flavors?limit=", in_query("limit", "", "'' should be non-empty")),
    query("one bad limit of two", "/flavors?limit=x&limit=1", in_query("limit", "x", "'x' does not match '^[0-9]*$'")),
    query(
        "a limit of hosts",
        "/os-hypervisors?limit=-1",
        in_query("limit", "-1", "'-1' does not match '^[0-9]*$'"),
        "2.33",
    ),
    query("a marker of flavors", "/flavors?marker=nope", "marker [nope] not found"),
    query("a marker of hosts", "/os-hypervisors?marker=99", "marker [99] not found", "2.33"),
    query("a marker of hosts that is no uuid", "/os-hypervisors?marker=1", "Invalid uuid 1", "2.53"),
    query("a filter by memory in words", "/flavors?minRam=much", "Invalid minRam filter [much]"),
    query("a filter by less than no disk", "/flavors?minDisk=-1", "Invalid minDisk filter [-1]"),
    query(
        "a filter that is neither public nor private", "/flavors?is_public=maybe", "Invalid is_public filter [maybe]"
    ),
    query(
        "an order that is none",
        "/flavors?sort_dir=up",
        in_query("sort_dir", "up", "'up' is not one of ['asc', 'desc']"),
    ),
    query(
        "servers, maybe",
        "/os-hypervisors?with_servers=maybe",
        in_query("with_servers", "maybe", f"'maybe' is not one of {BOOLEANS}"),
        "2.53",
    ),
    query(
        "a pattern with a star",
        "/os-hypervisors?hypervisor_hostname_pattern=*",
        in_query("hypervisor_hostname_pattern", "*", "'*' does not match '^[a-zA-Z0-9-._]*$'"),
        "2.53",
    ),
]

HEADERS = [
    case(
        "a version that is none",
        "GET /flavors",
        "API Version String x is of invalid format. Must be of format MajorNum.MinorNum.",
        at="x",
    ),
    case(
        "a version that is not spoken",
        "GET /flavors",
        "Version 2.1001 is not supported by the API. Minimum is 2.1 and maximum is 2.1000.",
        406,
        at="2.1001",
    ),
    case(
        "another project in the path",
        "GET /mail/flavors",
        "Malformed request URL: URL's project_id 'mail' doesn't match Context's project_id 'operators'",
    ),
]

CASES = [*BODIES, *NAMES_AND_ZONES, *ACTIONS, *FLAVORS, *SERVICES_AND_QUOTAS, *URLS, *HEADERS]
NAME_OF_FAULT = {400: "badRequest", 404: "itemNotFound", 406: "computeFault", 413: "overLimit", 415: "badMediaType"}


@pytest.mark.sqlite_only
@pytest.mark.parametrize(("request_line", "sent", "at", "status", "message"), CASES)
def test_malformed_request_is_rejected_without_effect(
    admin: Client, connected: sa.Engine, request_line: str, sent: dict[str, Any], at: str, status: int, message: str
) -> None:
    before = all_rows(connected)
    method, _, path = request_line.partition(" ")
    answer = admin.at(at).ask(method, path, **sent)
    assert (answer.status, answer.message) == (status, message)
    assert answer.json.keys() == {NAME_OF_FAULT[status]}
    assert all_rows(connected) == before


def test_at_least_sixty_cases_exist() -> None:
    assert len({param.id for param in CASES}) == len(CASES) >= 60


def test_chunked_body_has_the_same_size_limit(admin: Client) -> None:
    answer = chunked(admin, b" " * (MOST_BYTES + 1))
    assert (answer.status, answer.json) == (
        413,
        {"overLimit": {"code": 413, "message": "Request is too large.", "retryAfter": 0}},
    )


def test_chunked_body_is_read(admin: Client) -> None:
    answer = chunked(admin, b'{"aggregate": {"name": 5}}')
    assert (answer.status, answer.message) == (400, field("name", 5, "5 is not of type 'string'"))


def test_declared_length_above_the_limit_is_rejected(admin: Client) -> None:
    answer = admin.ask("POST", "/os-aggregates", body="{}", headers={"Content-Length": str(10**9)})
    assert answer.status == 413


LISTS = [
    *("/flavors", "/flavors/detail", "/os-services", "/os-quota-sets/web", "/limits", "/os-keypairs"),
]
SHOWS = [
    *("/os-aggregates", "/os-aggregates/1", "/flavors/small", "/flavors/small/os-extra_specs", "/extensions"),
    *("/os-availability-zone", "/os-availability-zone/detail", "/os-quota-sets/web/defaults"),
    "/os-quota-class-sets/default",
]
UNEXPECTED = "Additional properties are not allowed ('nonsense' was unexpected)"


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("path", "strict_from", "lenient_at"),
    [
        *(pytest.param(path, "2.75", "2.74", id=f"{path} from 2.75 on") for path in LISTS),
        *(pytest.param(path, "2.102", "2.101", id=f"{path} from 2.102 on") for path in SHOWS),
        *(
            pytest.param(f"/os-hypervisors{x}", "2.53", "2.52", id=f"/os-hypervisors{x} from 2.53 on")
            for x in ("", "/detail")
        ),
    ],
)
def test_unknown_parameter_is_rejected_from_the_strict_version(
    admin: Client, path: str, strict_from: str, lenient_at: str
) -> None:
    assert admin.at(lenient_at).get(path, nonsense="1").status == 200
    answer = admin.at(strict_from).get(path, nonsense="1")
    assert (answer.status, answer.message) == (400, UNEXPECTED)


def chunked(client: Client, body: bytes) -> Answer:
    """Send a chunked request: a stream without a length."""
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": f"{client.prefix}/os-aggregates",
        "QUERY_STRING": "",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_TRANSFER_ENCODING": "chunked",
        "HTTP_X_AUTH_TOKEN": client.token,
        "CONTENT_TYPE": "application/json",
        "wsgi.input": BytesIO(body),
        "wsgi.url_scheme": "http",
        "wsgi.errors": BytesIO(),
    }
    statuses: list[int] = []
    parts = client.http.app(environ, lambda status, *_: statuses.append(int(status[:3])))  # type: ignore[arg-type]
    text = b"".join(parts).decode()
    return Answer(statuses[0], json.loads(text), {}, text)


WRITES = [
    *("POST /os-aggregates", "PUT /os-aggregates/1", "POST /os-aggregates/1/action", "POST /os-aggregates/1/images"),
    *("POST /flavors", "PUT /flavors/small", "POST /flavors/small/action", "POST /flavors/small/os-extra_specs"),
    *("PUT /flavors/small/os-extra_specs/k", f"PUT /os-services/{UUID}", "PUT /os-services/disable"),
    *("PUT /os-quota-sets/web", "PUT /os-quota-class-sets/default", "POST /image/v2/images"),
]
READS = [
    *("/flavors", "/flavors/detail", "/os-hypervisors", "/os-hypervisors/detail", "/os-services", "/limits"),
    *("/os-keypairs", "/os-quota-sets/web", "/os-aggregates", "/os-availability-zone", "/os-hypervisors/statistics"),
    *("/os-availability-zone/detail", "/os-aggregates/1", "/flavors/small", "/flavors/small/os-extra_specs"),
    *("/flavors/small/os-flavor-access", "/os-quota-class-sets/default", "/extensions", "/image/v2/images"),
    "/identity/v3/projects",
]
VERSIONS = st.sampled_from(["2.1", "2.33", "2.53", "2.55", "2.75", "2.81", "2.86", "2.102", "2.1000"])
KEYS = st.sampled_from(
    [
        *("aggregate", "flavor", "quota_set", "quota_class_set", "extra_specs", "cache", "add_host", "set_metadata"),
        *("addTenantAccess", "metadata", "host", "tenant", "binary", "status", "forced_down", "name", "id", "ram"),
        *("vcpus", "disk", "swap", "rxtx_factor", "description", "cores", "availability_zone", "force", "k"),
    ]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(["1", "-1", "nova-compute", "node-1", "disabled", UUID, "x" * 300, "\u0000", "9" * 400]),
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
PARAMETERS = [
    *("limit", "marker", "is_public", "minRam", "minDisk", "sort_key", "sort_dir", "host", "binary", "tenant_id"),
    *("with_servers", "hypervisor_hostname_pattern", "user_id", "reserved", "nonsense"),
]
QUERIES = st.lists(
    st.tuples(
        st.sampled_from(PARAMETERS), st.text(string.printable, max_size=12) | st.sampled_from(["0", "1", "%00", "%ff"])
    ),
    max_size=4,
)
BOUNDED = settings(
    max_examples=50, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


@BOUNDED
@given(st.sampled_from(WRITES), VERSIONS, JSON | st.dictionaries(KEYS, JSON, min_size=1, max_size=1))
def test_random_bodies_never_cause_500(admin: Client, request_line: str, version: str, body: Any) -> None:
    method, _, path = request_line.partition(" ")
    client = of_api(admin, path).at(version)
    answer = client.ask(method, path, body=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status < 500, answer.text


@BOUNDED
@given(st.sampled_from(READS), VERSIONS, QUERIES)
def test_random_queries_never_cause_500(admin: Client, path: str, version: str, query: list[tuple[str, str]]) -> None:
    text = "&".join(f"{name}={value}" for name, value in query)
    client = of_api(admin, path).at(version)
    answer = client.ask("GET", path, query_string=text.replace("\n", "%0a").replace(" ", "+").lstrip("?"))
    assert answer.status < 500, answer.text


def of_api(client: Client, path: str) -> Client:
    """Return the whole path: paths of the Compute API are relative to its version."""
    return client.below("") if path.startswith(("/image", "/identity")) else client
