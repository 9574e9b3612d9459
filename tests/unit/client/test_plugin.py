"""All commands: help, microversion, errors, and reference."""

from importlib.metadata import entry_points
from pathlib import Path

import pytest
from osc_lib.exceptions import CommandError

from tests.unit.client.wire import Answer, Wire, help_of

NAMES = sorted(each.name.replace("_", " ") for each in entry_points(group="openstack.covey.v1"))
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "client.md"


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_an_example(name: str) -> None:
    assert f"Example: openstack {name} " in help_of(name)


@pytest.mark.parametrize("name", [*NAMES, "server group create"])
def test_reference_names_the_command(name: str) -> None:
    assert f"| `{name} " in PAGE.read_text() or f"| `{name}`" in PAGE.read_text()


def test_no_command_replaces_a_stock_one() -> None:
    """A duplicate command would make the client warn at every command."""
    stock = {
        each.name.replace("_", " ")
        for group in entry_points().groups
        if group.startswith("openstack.") and group != "openstack.covey.v1"
        for each in entry_points(group=group)
    }
    assert stock.isdisjoint(NAMES)


def test_every_request_has_the_microversion() -> None:
    wire = Wire({"GET /os-policy-scopes": (200, {"policy_scopes": []})})
    wire.run("policy scope list")
    assert wire.last().version == "compute 2.1000"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((403, {"forbidden": {"code": 403, "message": "Only an administrator may."}}), "Only an administrator may."),
        ((406, {"computeFault": {"message": "2.1000 is too new"}}), "does not support microversion 2.1000"),
        ((502, b"<html>"), "The compute service returned 502 Somehow."),
        ((500, ["odd"]), "The compute service returned 500 Somehow."),
        ((404, None), "The compute service returned 404 Somehow."),
    ],
    ids=["message", "older service", "proxy", "invalid body", "empty body"],
)
def test_error_shows_the_message_of_the_service(answer: Answer, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        Wire({"GET /os-policy-scopes": answer}).run("policy scope list")
