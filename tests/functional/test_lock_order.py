"""Changes of the topology and claims lock in one order, so they wait for one another without a deadlock."""

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from covey import clock_and_ids, remote_api
from covey.model.group_consumers import ReportedGroup
from covey.model.ids import GroupId
from covey.model.inventory import ResourceClass
from covey.model.nova import NovaAggregate, NovaCloud
from covey.services.fleets import Fleets
from covey.services.nova_sync import NovaSync
from covey.services.nova_sync.nova import Nova as NovaReader
from tests.functional.client import Answer
from tests.functional.nova_consumers import Nova
from tests.functional.nova_service import TOKEN, running_nova
from tests.functional.racks import Racks, recorded_racks, request_server
from tests.postgresql_cluster import Cluster
from tests.sessions import wait_for_waiting_sessions

TIMEOUT_S = 30
LOCK_HOST = sa.text("SELECT 1 FROM hosts WHERE name = 'node-1' FOR NO KEY UPDATE")
LOCK_INVENTORY = sa.text("""
    SELECT 1 FROM inventories i JOIN hosts h ON h.id = i.provider_id WHERE h.name = 'node-1' FOR UPDATE OF i
""")
LOCK_GROUPS = sa.text("SELECT 1 FROM instance_groups FOR UPDATE")
TRAIT = "HW_CPU_X86_AVX2"
GROUP = GroupId("22222222-3333-4444-5555-666666666666")


@pytest.fixture
def racks(cluster: Cluster, tmp_path: Path) -> Iterator[Racks]:
    with recorded_racks(cluster, tmp_path) as made:
        yield made


@pytest.fixture
def nova(racks: Racks) -> Nova:
    made = Nova(racks.there)
    made.add_compute("cn1")
    return made


def results(racks: Racks, held: sa.TextClause, *calls: Callable[[], Any]) -> list[Any]:
    """Make calls that wait one after the other, while rows are held. Return their results."""
    with ThreadPoolExecutor(len(calls)) as pool:
        with racks.there.connection.connect() as holder:
            holder.execute(held)
            made = []
            for call in calls:
                made.append(pool.submit(call))
                wait_for_waiting_sessions(racks.there.connection, len(made))
        return [each.result(TIMEOUT_S) for each in made]


def test_pruned_aggregate_and_change_of_a_scope_do_not_deadlock(racks: Racks) -> None:
    admin = racks.here.admin
    assert admin.post("/os-policy-scopes", {"policy_scope": {"name": "switch"}}).status == 200
    made = admin.post("/os-aggregates", {"aggregate": {"name": "plain", "availability_zone": None}})
    plain = made.json["aggregate"]["id"]
    assert admin.post(f"/os-aggregates/{plain}/action", {"add_host": {"host": "node-1"}}).status == 200
    fleets = Fleets(racks.there.store, clock_and_ids.now, clock_and_ids.new_uuid, dict.fromkeys(ResourceClass, 1.0))
    file = fleets.export()
    hosts = tuple(replace(host, domains={}) if host.name == "node-2" else host for host in file.hosts)

    def set_scope() -> Answer:
        return admin.post(
            f"/os-aggregates/{racks.ids['rack-1']}/action", {"set_metadata": {"metadata": {"policy_scope": "switch"}}}
        )

    pruned, answer = results(
        racks,
        LOCK_HOST,
        lambda: fleets.apply(replace(file, hosts=hosts, aggregates=()), lambda _: None, prune=True),
        set_scope,
    )
    assert {aggregate.name for aggregate in pruned.removed.aggregates} == {"plain", "rack-2"}
    assert answer.status == 200
    assert racks.deadlocks() == 0


def test_boot_and_change_of_its_hosts_zone_do_not_deadlock(racks: Racks) -> None:
    admin = racks.there.admin
    booted, rezoned = results(
        racks,
        LOCK_INVENTORY,
        lambda: request_server(racks.here.alice.sending(X_Roles="admin"), availability_zone="nova:node-1"),
        lambda: admin.put(f"/os-aggregates/{racks.ids['rack-1']}", {"aggregate": {"availability_zone": "east"}}),
    )
    assert (booted.status, rezoned.status) == (202, 200)
    assert racks.deadlocks() == 0


@pytest.mark.parametrize("change", ["traits", "aggregates", "inventories", "reshaper"])
def test_claim_of_a_member_and_change_of_its_provider_do_not_deadlock(racks: Racks, nova: Nova, change: str) -> None:
    member, provider = nova.member("22222222-3333-4444-5555-666666666666"), nova.computes["cn1"]
    url = f"/resource_providers/{provider}"
    generation = {"resource_provider_generation": nova.placement.get(url).json["generation"]}
    inventories = {"inventories": {"VCPU": {"total": 50}}, **generation}
    requests: dict[str, Callable[[], Answer]] = {
        "traits": lambda: nova.placement.put(f"{url}/traits", {"traits": [TRAIT], **generation}),
        "aggregates": lambda: nova.placement.put(f"{url}/aggregates", {"aggregates": [member], **generation}),
        "inventories": lambda: nova.placement.put(f"{url}/inventories", inventories),
        "reshaper": lambda: nova.placement.post(
            "/reshaper", {"inventories": {provider: inventories}, "allocations": {}}
        ),
    }
    claimed, changed = results(racks, LOCK_GROUPS, lambda: nova.claim(member, "cn1"), requests[change])
    assert (claimed.status, changed.status) == (204, 409), changed.text  # the claim changed the generation
    assert racks.deadlocks() == 0


def test_claim_of_a_member_and_reading_of_nova_that_changes_aggregates_do_not_deadlock(
    racks: Racks, nova: Nova
) -> None:
    member = nova.member(GROUP)
    with running_nova(nova) as service:

        class RackAdded(NovaReader):
            def read(self, since: datetime | None = None) -> NovaCloud:
                """Nova also has another aggregate, and the group another member."""
                told = ReportedGroup(GROUP, "anti-affinity", {}, (member, str(uuid.uuid4())), "web", "alice", "g")
                added = NovaAggregate(str(uuid.uuid4()), "rack-9", {})
                return replace(super().read(since), aggregates={added.uuid: added}, groups={GROUP: told})

        api = remote_api.connect("compute", url=f"{service.url}/v2.1", token=TOKEN)
        reading = NovaSync(racks.here.store, RackAdded(api), clock_and_ids.now)
        report, claimed = results(racks, LOCK_GROUPS, reading.run, lambda: nova.claim(member, "cn1"))
    assert (report.counts["aggregates"], claimed.status) == (1, 204), claimed.text
    assert racks.deadlocks() == 0
