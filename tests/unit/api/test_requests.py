"""Requests: JSON bodies, their limits, and queries."""

import falcon.testing
import pytest

from covey.api.requests import Request, TooLarge, UnsupportedMedia, parse_json, query_lists, read_json
from covey.model.errors import Invalid

GOOD = {
    "nothing at all": (b"", None),
    "null": (b"null", None),
    "an object": (b'{"a": [1, "\xc3\xbc"]}', {"a": [1, "ü"]}),
    "a repeated key, whose last value counts": (b'{"a": 1, "a": 2}', {"a": 2}),
    "a very large number": (b"123456789012345678901234567890", 123456789012345678901234567890),
    "a backslash before u0000, which is just text": (rb'"\\u0000"', r"\u0000"),
    "other escapes": (rb'"\u0001\u00fc"', "\x01ü"),
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
ZERO_BYTES = {
    "in a text": rb'"a\u0000"',
    "in a key": rb'{"a\u0000": 1}',
    "in a list": rb'{"a": [1, {"b": "\u0000"}]}',
}


@pytest.mark.parametrize(("body", "value"), GOOD.values(), ids=GOOD)
def test_json_is_parsed(body: bytes, value: object) -> None:
    assert parse_json(body) == value


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_invalid_json_is_malformed(body: bytes) -> None:
    with pytest.raises(Invalid) as caught:
        parse_json(body)
    assert caught.value.message == "Malformed request body"


@pytest.mark.parametrize("body", ZERO_BYTES.values(), ids=ZERO_BYTES)
def test_zero_byte_is_rejected(body: bytes) -> None:
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


def test_missing_content_type_means_json() -> None:
    assert read_json(a_request(b"[1]")) == [1]


@pytest.mark.parametrize("declared", ["text/plain", "application/xml", "application/jsonp"])
def test_other_content_types_are_rejected(declared: str) -> None:
    with pytest.raises(UnsupportedMedia, match="Unsupported Content-Type"):
        read_json(a_request(b"[1]", **{"Content-Type": declared}))


def test_body_above_the_limit_is_too_large() -> None:
    assert read_json(a_request(b'"' + b"x" * 18 + b'"')) == "x" * 18
    with pytest.raises(TooLarge, match=r"Request is too large\."):
        read_json(a_request(b'"' + b"x" * 19 + b'"'))


def test_query_returns_all_values_in_order() -> None:
    assert query_lists(a_request(query="a=1&b=&a=%20x+y&c")) == {"a": ["1", " x y"], "b": [""], "c": [""]}


def test_too_many_query_parameters_are_rejected() -> None:
    with pytest.raises(Invalid, match="the limit is 1000"):
        query_lists(a_request(query="a=1&" * 1001))
