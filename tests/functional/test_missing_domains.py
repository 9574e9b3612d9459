"""A domain that hard policies name does not vanish, unless an operator forces it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from covey import clock_and_ids
from covey.model.errors import Conflict
from covey.model.fleet_file import FleetFile
from covey.model.ids import AggregateId
from covey.model.inventory import ResourceClass
from covey.services.fleets import Fleets
from covey.services.overview import get_overview
from tests.functional.client import Answer
from tests.functional.fleets import BuildCloud
from tests.functional.scopes import Scoped, scoped
from tests.functional.test_audits import violations
from tests.sessions import wait_for_waiting_sessions


@pytest.fixture
def rows(build_cloud: BuildCloud) -> Scoped:
    """Rows of racks, whose identifiers tenants may use: row-a and row-b."""
    return scoped(build_cloud(5))


def empty(rows: Scoped, row: str) -> str:
    """Remove the hosts of a row. Return its aggregate's path."""
    path = f"/os-aggregates/{rows.domains['row'][row]}"
    for host in rows.admin.get(path).json["aggregate"]["hosts"]:
        assert rows.admin.post(f"{path}/action", {"remove_host": {"host": host}}).status == 200
    return path


def remove_from_scope(rows: Scoped, row: str, **more: object) -> Answer:
    body = {"remove_aggregate": {"aggregate": rows.domains["row"][row], **more}}
    return rows.admin.post("/os-policy-scopes/row/action", body)


@pytest.mark.parametrize("kind", ["affinity", "anti-affinity"])
def test_domain_of_a_hard_policy_is_not_removed(rows: Scoped, kind: str) -> None:
    policy = f"{kind}:row:{rows.domains['row']['row-a']}"
    group = rows.group(policy)
    path = empty(rows, "row-a")
    refused = [
        rows.admin.delete(path),
        remove_from_scope(rows, "row-a"),
        rows.admin.post(f"{path}/action", {"set_metadata": {"metadata": {"policy_scope": None}}}),
        rows.admin.post(f"{path}/action", {"set_metadata": {"metadata": {"policy_scope": "rack"}}}),
    ]
    assert [answer.status for answer in refused] == [409] * 4
    expected = (
        "The aggregate row-a can't leave the policy scope row while policies of the server groups "
        f"{group} name it. Change these groups first, or force the removal."
    )
    assert {answer.message for answer in refused} == {expected}
    assert rows.admin.get(path).json["aggregate"]["metadata"] == {"policy_scope": "row"}
    changed = rows.alice.post(f"/os-server-groups/{group}", {"server_group": {"policies": [kind]}})
    assert changed.status == 200
    assert rows.admin.delete(path).status == 200


def test_soft_policy_does_not_hold_its_domain(rows: Scoped) -> None:
    rows.group(f"soft-affinity:row:{rows.domains['row']['row-a']}", "soft-anti-affinity:rack")
    assert remove_from_scope(rows, "row-a").status == 200


def test_policy_of_another_domain_does_not_hold_a_domain(rows: Scoped) -> None:
    rows.group(f"affinity:row:{rows.domains['row']['row-b']}")
    assert rows.admin.delete(empty(rows, "row-a")).status == 200


@pytest.mark.parametrize("door", ["delete", "remove_aggregate"])
def test_forced_removal_is_reported_until_the_group_changes(rows: Scoped, door: str) -> None:
    row = rows.domains["row"]["row-a"]
    group = rows.group(f"anti-affinity:row:{row}")
    server = rows.boot_on("node-3", group)
    if door == "delete":
        assert rows.admin.ask("DELETE", empty(rows, "row-a"), params={"force": "true"}).status == 200
    else:
        assert remove_from_scope(rows, "row-a", force=True).status == 200
    (violation,) = violations(rows.admin, group)
    assert violation == {
        "policy": f"anti-affinity:row:{row}",
        "scope": "row",
        "domain": row,
        "members": [],
        "soft": False,
        "reason": "the row that the policy names no longer exists",
    }
    overview = get_overview(rows.store, "nova")
    assert overview.missing_domains == ((group, f"anti-affinity:row:{row}"),)
    expected = f"1 policy names a domain that does not exist: anti-affinity:row:{row} of the server group {group}."
    assert expected in overview.warnings
    renamed = rows.alice.post(f"/os-server-groups/{group}", {"server_group": {"name": "other"}})
    assert renamed.status == 200
    rows.alice.post(f"/os-server-groups/{group}", {"server_group": {"policies": ["anti-affinity:rack"]}})
    assert violations(rows.admin, group) == []
    assert get_overview(rows.store, "nova").missing_domains == ()
    assert rows.members(group) == {server}


def test_group_without_members_reports_its_missing_domain(rows: Scoped) -> None:
    group = rows.group(f"affinity:row:{rows.domains['row']['row-a']}")
    assert remove_from_scope(rows, "row-a", force=True).status == 200
    assert [violation["reason"] for violation in violations(rows.alice, group)] == [
        "the row that the policy names no longer exists"
    ]


def test_tenant_cannot_force(rows: Scoped) -> None:
    rows.group(f"affinity:row:{rows.domains['row']['row-a']}")
    body = {"remove_aggregate": {"aggregate": rows.domains["row"]["row-a"], "force": True}}
    assert rows.alice.post("/os-policy-scopes/row/action", body).status == 403


def test_fleet_file_does_not_prune_a_domain_of_a_hard_policy(rows: Scoped) -> None:
    rows.group(f"affinity:row:{rows.domains['row']['row-a']}")
    fleets = Fleets(rows.store, rows.time, clock_and_ids.new_uuid, dict.fromkeys(ResourceClass, 1.0))
    with pytest.raises(Conflict, match="The aggregate row-a can't leave the policy scope row"):
        fleets.apply(FleetFile(), lambda _: None, prune=True)


def test_group_that_names_a_domain_waits_for_its_removal(rows: Scoped) -> None:
    if rows.connection.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    row = rows.domains["row"]["row-a"]
    with ThreadPoolExecutor(1) as pool:
        with rows.store.write() as tx:
            aggregate = tx.aggregates.by_id(int(row), lock=True)
            assert aggregate is not None
            assert aggregate.scope is not None
            tx.scopes.lock(aggregate.scope)
            body = {"server_group": {"name": "g", "policies": [f"affinity:row:{row}"]}}
            created = pool.submit(rows.alice.post, "/os-server-groups", body)
            wait_for_waiting_sessions(rows.connection)
            tx.aggregates.set_scope([AggregateId(int(row))], None, rows.time())
        answer = created.result(30)
    assert (answer.status, answer.message) == (409, "A domain that a policy names was removed by another request.")
