"""Control characters: a terminal would carry them out, and a log would take some for another line."""

import pytest

from tests.functional.client import Client, Service
from tests.functional.clusters import as_clustering_client

CHARACTERS = {"escape": "\x1b", "line end": "\n", "delete": "\x7f", "control sequence": "\x9b", "bell": "\a"}
each_character = pytest.mark.parametrize("character", CHARACTERS.values(), ids=CHARACTERS)


def statuses(service: Service, name: str) -> dict[str, int]:
    """Return the status of each request that stores the name."""
    alice, admin = service.as_("alice:web", "2.1000"), service.as_("admin:operators", "2.1000")
    placement = service.as_("admin:operators").below("/placement").sending(OpenStack_API_Version="placement 1.39")
    flavor = {"name": name, "ram": 1, "vcpus": 1, "disk": 0}
    spec = {"type": "os.nova.server", "version": "1.0", "properties": {"flavor": "small"}}
    scope = {"name": name, "allow_identifiers": True, "obfuscate_identifiers": True}
    asked = {
        "server": alice.post("/servers", {"server": {"name": name, "flavorRef": "1", "networks": "none"}}),
        "tag": alice.post("/servers", {"server": _server(tags=[name])}),
        "metadata": alice.post("/servers", {"server": _server(metadata={name: "x"})}),
        "group": alice.post("/os-server-groups", {"server_group": {"name": name, "policies": ["affinity"]}}),
        "scope": admin.post("/os-policy-scopes", {"policy_scope": scope}),
        "aggregate": admin.post("/os-aggregates", {"aggregate": {"name": name, "availability_zone": None}}),
        "zone": admin.post("/os-aggregates", {"aggregate": {"name": "a", "availability_zone": name}}),
        "flavor": admin.post("/flavors", {"flavor": flavor}),
        "extra spec": admin.post("/flavors/1/os-extra_specs", {"extra_specs": {name: "x"}}),
        "image": alice.below("/image/v2").post("/images", {"name": name}),
        "image tag": alice.below("/image/v2").post("/images", {"name": "i", "tags": [name]}),
        "image property": alice.below("/image/v2").post("/images", {"name": "i", name: "x"}),
        "profile": as_clustering_client(alice).post("/profiles", {"profile": {"name": name, "spec": spec}}),
        "provider": placement.post("/resource_providers", {"name": name}),
        "resource class": placement.post("/resource_classes", {"name": f"CUSTOM_{name}"}),
        "trait": placement.put(f"/traits/CUSTOM_{_quoted(name)}"),
    }
    return {what: answer.status for what, answer in asked.items()}


def _server(**fields: object) -> dict[str, object]:
    return {"name": "s", "flavorRef": "1", "networks": "none", **fields}


def _quoted(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


@each_character
def test_names_have_no_control_characters(service: Service, character: str) -> None:
    for name in (f"a{character}b", f"a{character}"):
        found = statuses(service, name)
        assert found == dict.fromkeys(found, 400)


@each_character
def test_path_has_no_control_characters(alice: Client, character: str) -> None:
    assert alice.get(f"/servers/{_quoted(character)}").status == 400


def test_texts_have_lines_and_tabs_but_no_other_control_characters(alice: Client) -> None:
    images = alice.below("/image/v2")
    assert images.post("/images", {"name": "i", "note": "two\n\tlines\r\n"}).status == 201
    refused = images.post("/images", {"name": "i", "note": "a\x1b]0;owned\x07"})
    assert (refused.status, refused.message) == (
        400,
        "Malformed request body: a string may not contain the character U+001B.",
    )
