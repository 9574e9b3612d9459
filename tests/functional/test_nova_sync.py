"""What a reading of Nova changes in Covey: members, migrations in progress, and the versions of groups."""

import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from keystoneauth1 import adapter, session
from keystoneauth1.identity import v3

from covey import remote_api
from covey.model.errors import Unavailable
from covey.model.ids import GroupId
from covey.model.nova import NovaCloud, NovaKind
from covey.services.nova_sync import NovaSync
from covey.services.nova_sync.nova import Nova as NovaReader
from covey.storage import tables
from covey.storage.nova_mirror import NovaMirror
from tests.functional.fleets import BuildCloud, Cloud
from tests.functional.nova_consumers import Nova, violation
from tests.functional.nova_service import TOKEN, NovaService, running_nova

GROUP = str(uuid.UUID(int=77))


@pytest.fixture
def nova(build_cloud: BuildCloud) -> Iterator[NovaService]:
    """Three computes, and no host of Covey's own."""
    ledger = Nova(build_cloud(0))
    for name in ("cn1", "cn2", "cn3"):
        ledger.add_compute(name)
    with running_nova(ledger) as service:
        yield service


@pytest.fixture
def cloud(nova: NovaService) -> Cloud:
    return nova.ledger.cloud


def separate(nova: NovaService) -> None:
    """Never two members of the group on one host."""
    body = {"server_group": {"policies": ["anti-affinity"]}}
    assert nova.ledger.cloud.admin.put(f"/os-server-groups/{GROUP}", body).status == 200


def test_migration_that_began_before_the_first_reading_keeps_its_source(nova: NovaService) -> None:
    member, migration = nova.resize_unseen("cn1", "cn2", GROUP)
    nova.sync()
    separate(nova)
    other = nova.ledger.member(GROUP)
    for host in ("cn1", "cn2"):
        assert "its host already holds 1 of the group" in violation(nova.ledger.claim(other, host))
    held = nova.ledger.placement.get(f"/allocations/{member}").json["consumer_generation"]
    held_by_migration = nova.ledger.placement.get(f"/allocations/{migration}").json["consumer_generation"]
    reverted = nova.ledger.exchange(instance=(member, ["cn1"], held), migration=(migration, (), held_by_migration))
    assert reverted.status == 204, reverted.text
    nova.ledger.place(other, "cn2")
    assert migration not in {row.consumer_uuid for row in nova.ledger.cloud.rows(tables.group_consumers)}


def test_reading_with_known_migrations_changes_nothing(nova: NovaService, cloud: Cloud) -> None:
    nova.resize_unseen("cn1", "cn2", GROUP)
    assert nova.sync().changes > 0
    before = cloud.rows(tables.group_consumers), cloud.rows(tables.instance_groups)
    assert nova.sync().changes == 0
    assert (cloud.rows(tables.group_consumers), cloud.rows(tables.instance_groups)) == before


def test_migration_without_allocations_is_no_member(nova: NovaService, cloud: Cloud) -> None:
    member, migration = nova.resize_unseen("cn1", "cn2", GROUP)
    nova.ledger.delete(migration)
    nova.sync()
    assert [row.consumer_uuid for row in cloud.rows(tables.group_consumers)] == [member]


def test_member_that_nova_no_longer_lists_is_a_change_once_it_is_deleted(nova: NovaService, cloud: Cloud) -> None:
    nova.boot("cn1", GROUP)
    gone = nova.boot("cn2", GROUP)
    nova.sync()
    del nova.instances[gone]
    assert nova.sync().changes == 1, "the instance of the mirror"
    before = cloud.rows(tables.instance_groups)
    assert nova.sync().changes == 0
    assert cloud.rows(tables.instance_groups) == before, "a member stays for an hour, and while it holds allocations"
    nova.ledger.delete(gone)
    cloud.time.advance(timedelta(hours=2).total_seconds())
    assert nova.sync().changes == 1
    assert cloud.rows(tables.instance_groups) != before
    assert gone not in {row.member_uuid for row in cloud.rows(tables.group_consumers)}


def test_reading_that_a_later_one_overtook_writes_nothing(nova: NovaService, cloud: Cloud) -> None:
    nova.boot("cn1")

    class Slow(NovaReader):
        def read(self, since: datetime | None = None) -> NovaCloud:
            found = super().read(since)
            nova.boot("cn2")
            cloud.time.advance(1)
            nova.sync()
            return found

    api = remote_api.connect("compute", url=f"{nova.url}/v2.1", token=TOKEN)
    report = NovaSync(cloud.store, Slow(api), cloud.time).run()
    assert (report.changes, "Another `covey sync nova`" in report.warnings[0]) == (0, True)
    assert len(cloud.rows(tables.nova_servers)) == 2


def test_group_added_during_a_reading_does_not_fail_the_reading(
    nova: NovaService, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    nova.boot("cn1", GROUP)
    with cloud.store.write() as tx:
        tx.nova_mirror.own(NovaKind.GROUP, GROUP)
        monkeypatch.setattr(NovaMirror, "owned", lambda *_: set())  # as read before the other transaction ended
        tx.nova_mirror.set_owned(NovaKind.GROUP, {GROUP})
    assert GROUP in {row.object_id for row in cloud.rows(tables.nova_objects)}


def policies(nova: NovaService) -> list[str] | None:
    """Return the policies of the group; None if Covey does not know it."""
    found = nova.ledger.cloud.admin.get(f"/os-server-groups/{GROUP}")
    return found.json["server_group"]["policies"] if found.status == 200 else None


def test_group_that_a_deletion_between_two_pages_hides_stays(nova: NovaService, cloud: Cloud) -> None:
    first, second = (str(uuid.UUID(int=number)) for number in (1, 2))
    nova.groups = [first, second]
    member, nova.page = nova.boot("cn1", GROUP), 2
    nova.sync()
    separate(nova)
    nova.deleted_between_pages = first
    nova.sync()
    assert policies(nova) == ["anti-affinity"]
    with cloud.store.read() as tx:
        assert tx.group_consumers.members(GroupId(GROUP)) == [member]
    assert {row.id for row in cloud.rows(tables.instance_groups)} == {first, second, GROUP}
    nova.sync()
    assert {row.id for row in cloud.rows(tables.instance_groups)} == {second, GROUP}


def test_no_group_is_deleted_for_a_user_that_sees_one_project_only(nova: NovaService, cloud: Cloud) -> None:
    member = nova.boot("cn1", GROUP)
    nova.sync()
    separate(nova)
    nova.ledger.delete(member)
    nova.is_admin = False
    cloud.time.advance(timedelta(hours=2).total_seconds())
    report = nova.sync()
    assert policies(nova) == ["anti-affinity"]
    (warning,) = report.warnings
    assert GROUP in warning
    assert "administrator" in warning
    with cloud.store.read() as tx:
        assert tx.group_consumers.members(GroupId(GROUP)) == [member]
    nova.is_admin = True
    nova.sync()
    assert nova.sync().warnings == ()


def test_group_for_which_nova_fails_stays(nova: NovaService) -> None:
    nova.groups = [GROUP]
    nova.sync()
    separate(nova)
    nova.groups.clear()
    nova.faults = {GROUP}
    report = nova.sync()
    assert policies(nova) == ["anti-affinity"]
    assert GROUP in report.warnings[0]
    nova.faults.clear()
    assert nova.sync().changes == 1
    assert policies(nova) is None


def without_keystone(cloud: Cloud) -> NovaSync:
    """Return a mirror whose Keystone does not answer, and with it the catalogue that has the address of Nova."""
    auth = v3.Password("http://127.0.0.1:9/v3", username="covey", password="secret", user_domain_name="Default")
    api = remote_api.RemoteApi(adapter.Adapter(session.Session(auth=auth), service_type="compute"), "Compute")
    return NovaSync(cloud.store, NovaReader(api), cloud.time)


def test_reading_without_keystone_is_an_error_that_waits(nova: NovaService, cloud: Cloud) -> None:
    with pytest.raises(Unavailable, match="Compute cannot be reached"):
        without_keystone(cloud).run()
    nova.sync()
    with pytest.raises(Unavailable):
        without_keystone(cloud).run()
    with cloud.store.read() as tx:
        state = tx.nova_mirror.state()
    assert state is not None
    assert (state.url, "cannot be reached" in str(state.error)) == (f"{nova.url}/v2.1", True)


def test_address_outlives_keystone(nova: NovaService) -> None:
    api = remote_api.connect("compute", url=f"{nova.url}/v2.1", token=TOKEN)
    assert api.url == f"{nova.url}/v2.1"
    api._adapter = without_keystone(nova.ledger.cloud).nova._api._adapter
    assert api.url == f"{nova.url}/v2.1"


def test_reading_is_written_although_the_clock_was_ahead_at_the_last_one(nova: NovaService, cloud: Cloud) -> None:
    cloud.time.advance(86_400)
    nova.sync()
    cloud.time.advance(-86_400)
    nova.boot("cn1")
    assert nova.sync().warnings == ()
    with cloud.store.read() as tx:
        assert tx.nova_mirror.count_servers() == 1
