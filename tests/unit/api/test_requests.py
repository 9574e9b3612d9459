"""Requests: JSON bodies, their limits, and queries."""

import io

import falcon.testing
import pytest

from covey.api.requests import BodyReads, Request, UnsupportedMedia, _read_in_time, parse_json, query_lists, read_json
from covey.model.access import Actor
from covey.model.errors import Busy, Invalid, TooLarge
from covey.model.ids import ProjectId, UserId
from covey.request_slots import ProjectLimit

GOOD = {
    "nothing at all": (b"", None),
    "null": (b"null", None),
    "an object": (b'{"a": [1, "\xc3\xbc"]}', {"a": [1, "ü"]}),
    "a repeated key, whose last value counts": (b'{"a": 1, "a": 2}', {"a": 2}),
    "a very large number": (b"123456789012345678901234567890", 123456789012345678901234567890),
    "a backslash before u0000, which is just text": (rb'"\\u0000"', r"\u0000"),
    "other escapes": (rb'"\u00fc\u20ac"', "ü€"),
    "lines and tabs in a text": (rb'{"a": "1\n\t2\r\n"}', {"a": "1\n\t2\r\n"}),
}
BAD = {
    "half an object": b"{",
    "something after the end": b"{} {}",
    "a word": b"abc",
    "not a number": b"NaN",
    "an infinite number": b"1e999",
    "bytes that are no UTF-8": b'"\xff"',
    "half a surrogate pair": rb'"\ud800"',
    "a single quote": b"{'a': 1}",
    "a mark of the byte order": b"\xef\xbb\xbf{}",
    "lists in lists beyond measure": b"[" * 100_000 + b"]" * 100_000,
}
CONTROL_CHARACTERS = {
    "in a text": rb'"a\u0000"',
    "in a key": rb'{"a\u0000": 1}',
    "in a list": rb'{"a": [1, {"b": "\u0000"}]}',
    "an escape": rb'"\u001B[2J"',
    "a backspace": rb'"\b"',
    "a delete, as it is": b'"\x7f"',
    "a control sequence, as it is": b'"\xc2\x9b"',
    "a control sequence, escaped": rb'"\u009b"',
    "a line end in a key": rb'{"a\n": 1}',
}


@pytest.mark.parametrize(("body", "value"), GOOD.values(), ids=GOOD)
def test_json_is_parsed(body: bytes, value: object) -> None:
    assert parse_json(body) == value


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_invalid_json_is_malformed(body: bytes) -> None:
    with pytest.raises(Invalid) as caught:
        parse_json(body)
    assert caught.value.message == "Malformed request body"


@pytest.mark.parametrize("body", CONTROL_CHARACTERS.values(), ids=CONTROL_CHARACTERS)
def test_control_character_is_rejected(body: bytes) -> None:
    with pytest.raises(Invalid, match="may not contain the character"):
        parse_json(body)


def a_request(body: bytes = b"", query: str = "", **headers: str) -> Request:
    request = Request(falcon.testing.create_environ(body=body, query_string=query, headers=headers))
    request.context.max_body_bytes = 20
    return request


JSON_TYPES = ["application/json", "Application/JSON; charset=utf-8", "application/vnd.openstack.compute+json"]


@pytest.mark.parametrize("declared", JSON_TYPES)
def test_json_content_types_are_accepted(declared: str) -> None:
    assert read_json(a_request(b"[1]", **{"Content-Type": declared})) == [1]


@pytest.mark.parametrize("header", [{"Origin": "https://a.example"}, {"Sec-Fetch-Site": "same-origin"}])
def test_body_of_a_browser_needs_a_content_type(header: dict[str, str]) -> None:
    assert read_json(a_request()) is None
    assert read_json(a_request(b"[1]")) == [1], "Senlin's clients send none"
    with pytest.raises(UnsupportedMedia, match="send application/json"):
        read_json(a_request(b"[1]", **header))


@pytest.mark.parametrize("declared", ["text/plain", "application/xml", "application/jsonp"])
def test_other_content_types_are_rejected(declared: str) -> None:
    with pytest.raises(UnsupportedMedia, match="Unsupported Content-Type"):
        read_json(a_request(b"[1]", **{"Content-Type": declared}))


def test_body_above_the_limit_is_too_large() -> None:
    declared = {"Content-Type": "application/json"}
    assert read_json(a_request(b'"' + b"x" * 18 + b'"', **declared)) == "x" * 18
    with pytest.raises(TooLarge, match=r"Request is too large\."):
        read_json(a_request(b'"' + b"x" * 19 + b'"', **declared))


class EndlessBody(io.BytesIO):
    """A body without a length, as HTTP's chunked ones."""

    sent = 0

    def read(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        self.sent += size
        assert self.sent < 1_000_000, "the limit ends it"
        return b"x" * size


def test_no_more_than_the_limit_is_read_of_a_body_without_a_length() -> None:
    request, body = a_request(), EndlessBody()
    assert request.content_length is None
    request.stream = body
    with pytest.raises(TooLarge, match=r"Request is too large\."):
        read_json(request)
    assert body.sent == request.context.max_body_bytes + 1


def test_query_returns_all_values_in_order() -> None:
    assert query_lists(a_request(query="a=1&b=&a=%20x+y&c")) == {"a": ["1", " x y"], "b": [""], "c": [""]}


def test_too_many_query_parameters_are_rejected() -> None:
    with pytest.raises(Invalid, match="the limit is 1000"):
        query_lists(a_request(query="a=1&" * 1001))


class SlowLine:
    """A body that comes at a rate, and the clock that it takes."""

    def __init__(self, body: bytes, bytes_s: float) -> None:
        self.rest, self.bytes_s, self.now = body, bytes_s, 0.0

    def read(self, size: int) -> bytes:
        piece, self.rest = self.rest[:size], self.rest[size:]
        self.now += len(piece) / self.bytes_s
        return piece


def read_slowly(size: int, bytes_s: float) -> bytes:
    line = SlowLine(bytes(size), bytes_s)
    return _read_in_time(line, 10_000_000, lambda: line.now)


def test_body_on_a_slow_line_is_read() -> None:
    assert len(read_slowly(100_000, 4000)) == 100_000
    assert len(read_slowly(8_000_000, 64 << 10)) == 8_000_000


def test_body_that_takes_too_long_is_refused() -> None:
    for size, bytes_s in ((100_000, 1000), (8_000_000, 20_000)):
        with pytest.raises(Invalid, match="takes too long"):
            read_slowly(size, bytes_s)


def test_bodies_of_agents_are_limited_by_user() -> None:
    """A project has many agents, and a user each."""
    first, second = (Actor(UserId(name), ProjectId("service"), frozenset()) for name in ("agent-1", "agent-2"))
    bodies = BodyReads(limit=ProjectLimit(2, 1), by_user=True)
    with bodies.reading(first), bodies.reading(second), pytest.raises(Busy), bodies.reading(first):
        pass
    of_projects = BodyReads(limit=ProjectLimit(2, 1))
    with of_projects.reading(first), pytest.raises(Busy), of_projects.reading(second):
        pass
