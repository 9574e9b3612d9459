"""Microversions: parsing, negotiation, and versioned values."""

import falcon.testing
import pytest

from covey.api.compute.microversions import VERSIONS
from covey.api.middleware import negotiate
from covey.api.requests import Request
from covey.api.versions import NotAcceptable, Version, Versioned, VersionRange
from covey.model.errors import Invalid

PLAIN = VersionRange("placement", Version(1, 0), Version(1, 39))

PARSED = {
    "2.1": Version(2, 1),
    "2.0": Version(2, 0),
    "2.1000": Version(2, 1000),
    "10.20": Version(10, 20),
}
NONSENSE = [
    "",
    "2",
    "2.",
    ".1",
    "2.1.1",
    "2.01",
    "02.1",
    "0.1",
    "-2.1",
    "2.-1",
    "2.1 ",
    " 2.1",
    "2.1\n",
    "a.b",
    "\u0662.1",
]


@pytest.mark.parametrize(("text", "version"), PARSED.items(), ids=PARSED)
def test_version_round_trips(text: str, version: Version) -> None:
    assert Version.parse(text) == version
    assert str(version) == text


@pytest.mark.parametrize("text", [*NONSENSE, "2." + "9" * 10_000], ids=lambda text: repr(text[:12]))
def test_invalid_version_is_none(text: str) -> None:
    assert Version.parse(text) is None


def test_versions_compare_by_number() -> None:
    assert Version(2, 9) < Version(2, 10) < Version(2, 100) < Version(3, 0)


def test_versioned_value_is_the_newest_not_newer() -> None:
    shape = Versioned({Version(2, 1): "first", Version(2, 64): "third", Version(2, 15): "second"})
    asked = [Version(2, 1), Version(2, 14), Version(2, 15), Version(2, 63), Version(2, 64), Version(2, 1000)]
    assert [shape.at(v) for v in asked] == ["first", "first", "second", "second", "third", "third"]


def a_request(**headers: str) -> Request:
    environ = falcon.testing.create_environ(headers={name.replace("_", "-"): value for name, value in headers.items()})
    return Request(environ)


CHOICES = {
    "nothing asks for the oldest": ({}, "2.1"),
    "the common header names the service": ({"OpenStack_API_Version": "compute 2.64"}, "2.64"),
    "the service's name may have any case": ({"OpenStack_API_Version": "Compute 2.64"}, "2.64"),
    "spaces do not matter": ({"OpenStack_API_Version": "  compute   2.64 "}, "2.64"),
    "several services share the header": ({"OpenStack_API_Version": "placement 1.3, compute 2.64"}, "2.64"),
    "another service's version is not ours": ({"OpenStack_API_Version": "placement 1.3"}, "2.1"),
    "a service alone asks for nothing": ({"OpenStack_API_Version": "compute"}, "2.1"),
    "the old header has a version alone": ({"X_OpenStack_Nova_API_Version": "2.13"}, "2.13"),
    "the common header beats the old one": (
        {"OpenStack_API_Version": "compute 2.64", "X_OpenStack_Nova_API_Version": "2.13"},
        "2.64",
    ),
    "the old header counts where the common one is about others": (
        {"OpenStack_API_Version": "placement 1.3", "X_OpenStack_Nova_API_Version": "2.13"},
        "2.13",
    ),
    "latest is the newest": ({"OpenStack_API_Version": "compute latest"}, "2.1000"),
    "latest works in the old header too": ({"X_OpenStack_Nova_API_Version": "latest"}, "2.1000"),
    "the newest by number is accepted": ({"OpenStack_API_Version": "compute 2.1000"}, "2.1000"),
    "a version between Nova's last and ours is accepted": ({"OpenStack_API_Version": "compute 2.500"}, "2.500"),
}


@pytest.mark.parametrize(("headers", "version"), CHOICES.values(), ids=CHOICES)
def test_request_headers_select_the_version(headers: dict[str, str], version: str) -> None:
    assert str(negotiate(a_request(**headers), VERSIONS)) == version


@pytest.mark.parametrize("text", ["2.1001", "3.0", "2.0", "1.99"])
def test_version_out_of_range_is_not_acceptable(text: str) -> None:
    with pytest.raises(NotAcceptable) as caught:
        negotiate(a_request(OpenStack_API_Version=f"compute {text}"), VERSIONS)
    message = f"Version {text} is not supported by the API. Minimum is 2.1 and maximum is 2.1000."
    assert (caught.value.message, caught.value.code) == (message, "not_acceptable")
    assert str(caught.value.requested) == text


@pytest.mark.parametrize("text", ["2", "abc", "2.1.1", "LATEST", "2.01"])
def test_malformed_version_is_invalid(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        negotiate(a_request(OpenStack_API_Version=f"compute {text}"), VERSIONS)
    assert caught.value.message == (
        f"API Version String {text} is of invalid format. Must be of format MajorNum.MinorNum."
    )


def test_response_headers_name_the_version() -> None:
    assert VERSIONS.headers(Version(2, 64)) == {
        "OpenStack-API-Version": "compute 2.64",
        "X-OpenStack-Nova-API-Version": "2.64",
        "Vary": "OpenStack-API-Version, X-OpenStack-Nova-API-Version",
    }
    assert PLAIN.headers(Version(1, 3)) == {
        "OpenStack-API-Version": "placement 1.3",
        "Vary": "OpenStack-API-Version",
    }


def test_legacy_header_is_ignored_where_unsupported() -> None:
    assert negotiate(a_request(X_OpenStack_Nova_API_Version="2.64"), PLAIN) == Version(1, 0)
