"""All commands: help, microversion, errors, and reference."""

from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from osc_lib.exceptions import CommandError

from covey.api.compute import drains, policy_scopes, rebalances, routes, server_group_actions
from covey.api.compute.microversions import COVEY
from covey.api.versions import Version, exists_at
from tests.unit.client.wire import Answer, Wire, help_of

NAMES = sorted(each.name.replace("_", " ") for each in entry_points(group="openstack.covey.v1"))
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "client.md"


BEFORE = Version(2, 999)
COMMANDS = {
    "Drains.on_get": "compute drain list",
    "Drains.on_get_one": "compute drain show",
    "Drains.on_post": "compute drain",
    "Drains.on_post_action cancel": "compute drain --cancel",
    "Drains.on_post_action undo": "compute drain --undo",
    "PlacementExplain.on_post": "server placement explain",
    "PolicyScopes.on_delete_one": "policy scope delete",
    "PolicyScopes.on_get": "policy scope list --as-project",
    "PolicyScopes.on_get_one": "policy scope show --as-project",
    "PolicyScopes.on_post": "policy scope create",
    "PolicyScopes.on_post_action add_aggregate": "policy scope add aggregate",
    "PolicyScopes.on_post_action remove_aggregate": "policy scope remove aggregate",
    "PolicyScopes.on_post_one": "policy scope set",
    "PolicyScopes.on_put_one": "policy scope set",
    "Rebalances.on_get": "server group rebalance show",
    "ServerGroupActions.on_get_audit": "server group audit --violations",
    "ServerGroupActions.on_post add_instance": "server group add server",
    "ServerGroupActions.on_post cancel_rebalance": "server group rebalance cancel",
    "ServerGroupActions.on_post evacuate": "server group evacuate",
    "ServerGroupActions.on_post headroom": "server group headroom",
    "ServerGroupActions.on_post preview": "server group preview",
    "ServerGroupActions.on_post rebalance": "server group rebalance --dry-run",
    "ServerGroupActions.on_post remove_instance": "server group remove server",
    "ServerGroups.on_post_one": "server group set",
    "ServerGroups.on_put_one": "server group set",
    "Servers.on_get_placement": "server placement show",
}
ACTIONS: dict[str, Iterable[str]] = {
    "Drains.on_post_action": drains.ACTIONS,
    "PolicyScopes.on_post_action": policy_scopes.ACTIONS,
    "ServerGroupActions.on_post": {**server_group_actions.ACTIONS, **rebalances.ACTIONS},
}


def test_every_operation_of_2_1000_has_a_command() -> None:
    resources = [each for each in vars(routes).values() if isinstance(each, type)]
    new = [
        f"{resource.__name__}.{name}"
        for resource in resources
        for name, responder in vars(resource).items()
        if name.startswith("on_") and exists_at(responder, COVEY) and not exists_at(responder, BEFORE)
    ]
    operations = [f"{each} {action}" for each in new for action in ACTIONS.get(each, ())]
    operations += [each for each in new if each not in ACTIONS]
    assert sorted(operations) == sorted(COMMANDS)
    for command in COMMANDS.values():
        name, _, option = command.partition(" --")
        assert name in NAMES
        assert not option or f"--{option}" in help_of(name)


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
