"""Deleting servers by force, actions without effect, and what remains of a deleted server."""

from datetime import timedelta

import pytest

from covey.storage import tables
from tests.functional.fleets import Cloud

UNKNOWN = "6a6e6a4c-5fb3-4d9b-9b5a-3e6b0a1c2d3e"


def test_force_delete_deletes_a_server_in_any_state(cloud: Cloud) -> None:
    servers = [cloud.boot() for _ in range(3)]
    cloud.run_action(cloud.alice, servers[1], "os-stop")
    cloud.run_action(cloud.admin, servers[2], "os-resetState", {"state": "error"})
    for server in servers:
        assert cloud.act(cloud.alice, server, "forceDelete").status == 202
    cloud.settle()
    assert cloud.is_empty()


def test_no_server_can_be_restored(cloud: Cloud) -> None:
    server = cloud.boot()
    refused = cloud.act(cloud.alice, server, "restore")
    message = f"Cannot 'restore' instance {server} while it is in vm_state active"
    assert (refused.status, refused.message) == (409, message)


def test_network_information_is_injected_without_effect(cloud: Cloud) -> None:
    server = cloud.boot()
    before = cloud.show(server)
    assert cloud.act(cloud.admin, server, "injectNetworkInfo").status == 202
    assert cloud.show(server) == before
    refused = cloud.act(cloud.alice, server, "injectNetworkInfo")
    message = "Policy doesn't allow os_compute_api:os-admin-actions:inject_network_info to be performed."
    assert (refused.status, refused.message) == (403, message)


def test_reset_network_is_410(cloud: Cloud) -> None:
    refused = cloud.act(cloud.admin, cloud.boot(), "resetNetwork")
    assert (refused.status, refused.message) == (410, "The action resetNetwork was removed from the API.")


@pytest.mark.parametrize("action", ["forceDelete", "restore", "injectNetworkInfo"])
def test_action_on_an_unknown_server_is_404(cloud: Cloud, action: str) -> None:
    refused = cloud.act(cloud.admin, UNKNOWN, action)
    assert (refused.status, refused.message) == (404, f"Instance {UNKNOWN} could not be found.")


@pytest.mark.parametrize("action", ["forceDelete", "restore"])
def test_action_on_a_locked_server_is_409(cloud: Cloud, action: str) -> None:
    server = cloud.boot()
    cloud.run_action(cloud.alice, server, "lock")
    refused = cloud.act(cloud.alice, server, action)
    assert (refused.status, refused.message) == (409, f"Instance {server} is locked")
    cloud.run_action(cloud.alice, server, "unlock")


@pytest.mark.parametrize("action", ["forceDelete", "restore"])
def test_reader_runs_no_action(cloud: Cloud, action: str) -> None:
    server = cloud.boot()
    refused = cloud.act(cloud.alice.sending(X_Roles="reader"), server, action)
    assert (refused.status, "os-deferred-delete" in refused.message) == (403, True)


def test_deleted_server_keeps_its_instance_actions_for_its_owner(cloud: Cloud) -> None:
    server = cloud.boot()
    cloud.delete(server)
    path = f"/servers/{server}/os-instance-actions"
    for client in (cloud.alice.at("2.21"), cloud.admin.at("2.1000")):
        actions = client.get(path).json["instanceActions"]
        assert [action["action"] for action in actions] == ["delete", "create"]
        shown = client.get(f"{path}/{actions[0]['request_id']}").json["instanceAction"]
        assert [(event["event"], event["result"]) for event in shown["events"]] == [
            ("compute_terminate_instance", "Success")
        ]
    for client in (cloud.alice.at("2.20"), cloud.bob):
        refused = client.get(path)
        assert (refused.status, refused.message) == (404, f"Instance {server} could not be found.")


def test_instance_actions_of_a_deleted_server_are_forgotten_after_thirty_days(cloud: Cloud) -> None:
    deleted, kept = cloud.boot(), cloud.boot()
    cloud.delete(deleted)
    for age, statuses in ((timedelta(days=29), (200, 200)), (timedelta(days=2), (404, 200))):
        cloud.time.advance(age.total_seconds())
        cloud.assembled.maintenance.run_if_due()
        answers = [cloud.alice.get(f"/servers/{server}/os-instance-actions") for server in (deleted, kept)]
        assert tuple(answer.status for answer in answers) == statuses
    assert {row.server_id for row in cloud.rows(tables.instance_actions)} == {kept}
    assert cloud.rows(tables.deleted_servers) == []
