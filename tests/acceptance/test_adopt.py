"""`covey adopt` copies a real Placement, which may change while it is read."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from covey import clock_and_ids, remote_api
from covey.model.errors import Conflict
from covey.model.ledger_copy import Ledger
from covey.services.adoption import Adoption
from covey.services.adoption.original import Original
from covey.services.adoption.reading import Reading
from covey.storage import engine, tables
from covey.storage.store import Store
from tests.acceptance.original_placement import TOKEN, Placement, fill, running_placement, uuid
from tests.acceptance.processes import Result, covey, free_port, running_covey

PARTS = ("", "/inventories", "/traits", "/aggregates", "/allocations", "/usages")
CONSUMERS = ("server", "licence", "1.0", "1.8", "1.12", "1.28", "1.38")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Placement]:
    with running_placement(tmp_path_factory.mktemp("placement")) as served:
        fill(served)
        yield served


def adopt(directory: Path, original: Placement, database: str, *options: str) -> Result:
    where = ("--url", original.url, "--token", TOKEN, "--database", database)
    return covey(directory, "adopt", *where, *options)


def without_progress(_: str, __: int) -> Any:
    return lambda _: None


class Watched(remote_api.RemoteApi):
    """The API of the original. It records the paths, and lets a test act before one of them is read."""

    def __init__(self, url: str) -> None:
        api = remote_api.connect("placement", url=url, token=TOKEN)
        super().__init__(api._adapter, "Placement")
        self.paths: list[str] = []
        self.before: dict[str, Any] = {}

    def get(self, path: str, *, version: str | None = None, **query: str) -> Any:
        self.paths.append(path)
        self.before.pop(path, lambda: None)()
        return super().get(path, version=version, **query)


@pytest.fixture
def api(original: Placement) -> Watched:
    return Watched(original.url)


@pytest.fixture
def adoption(api: Watched, store: Store) -> Adoption:
    return Adoption(Original(api, 4), store, clock_and_ids.now, without_progress)


def copied(adoption: Adoption, *, update: bool = False) -> Reading:
    """Read and write, without a check."""
    reading = adoption.read(update=update)
    adoption.write(reading.ledger, update=update)
    return reading


def rows_of(store: Store) -> Ledger:
    with store.read() as tx:
        return tx.ledger_copies.read()


def sorted_lists(document: Any) -> Any:
    """Return a document whose lists have one order: the services promise none."""
    if isinstance(document, dict):
        return {key: sorted_lists(value) for key, value in document.items()}
    if isinstance(document, list):
        return sorted((sorted_lists(each) for each in document), key=json.dumps)
    return document


class TestCopy:
    """An empty database."""

    def test_copy_answers_every_read_as_the_original_does(
        self, tmp_path: Path, original: Placement, database: str
    ) -> None:
        done = adopt(tmp_path, original, database, "--json")
        assert done.status == 0, done.stdout + done.stderr
        report = json.loads(done.stdout)
        assert (report["resource_providers"], report["consumers"], report["check"]["differences"]) == (8, 7, [])
        (tmp_path / "covey.conf").write_text("[api]\nauth_strategy = none\n")
        serve = ("serve", "--api", "placement", "--config-file", "covey.conf", "--database", database)
        with running_covey(tmp_path, *serve) as running:
            copy = Placement(running.url)
            listed = [each["uuid"] for each in original.get("/resource_providers")["resource_providers"]]
            paths = [f"/resource_providers/{each}{part}" for each in listed for part in PARTS]
            paths += [f"/allocations/{uuid(name)}" for name in CONSUMERS]
            paths += ["/resource_providers", "/resource_classes", "/traits", "/usages?project_id=web"]
            paths += ["/allocation_candidates?resources=VCPU:2,MEMORY_MB:512,DISK_GB:10"]
            for version in ("1.28", "1.39"):
                for path in paths:
                    assert sorted_lists(copy.get(path, version)) == sorted_lists(original.get(path, version)), path

    def test_report_lists_the_steps_to_switch_the_endpoint_and_back(
        self, tmp_path: Path, original: Placement, database: str
    ) -> None:
        shown = adopt(tmp_path, original, database).stdout
        assert "Copied: 8 resource providers, 7 consumers, 2 custom traits, 1 custom resource classes." in shown
        assert "Checked: 8 providers and 7 consumers are equal in both." in shown
        assert "openstack endpoint set --url URL-OF-COVEY ENDPOINT" in shown
        assert f"set the endpoints to {original.url} again" in shown

    @pytest.mark.sqlite_only
    def test_dry_run_writes_nothing(self, tmp_path: Path, original: Placement, database: str, store: Store) -> None:
        done = adopt(tmp_path, original, database, "--dry-run")
        assert (done.status, rows_of(store)) == (0, Ledger())
        assert "To copy: 8 resource providers" in done.stdout
        assert "To switch" not in done.stdout

    def test_database_with_providers_is_refused(
        self, tmp_path: Path, original: Placement, database: str, store: Store
    ) -> None:
        with store.write() as tx:
            tx.providers.add(uuid("other"), "other", None, clock_and_ids.now())
        done = adopt(tmp_path, original, database)
        assert done.status == 1
        assert "The database has 1 resource providers." in done.stderr
        assert rows_of(store).providers.keys() == {uuid("other")}

    def test_interrupted_write_leaves_an_empty_database(self, adoption: Adoption, store: Store) -> None:
        def interrupt(written: int) -> None:
            if written:
                raise KeyboardInterrupt

        reading = adoption.read(update=False)
        stopped = Adoption(adoption.original, store, clock_and_ids.now, lambda _, __: interrupt)
        with pytest.raises(KeyboardInterrupt):
            stopped.write(reading.ledger, update=False)
        assert rows_of(store) == Ledger()
        copied(adoption)
        assert adoption.check().differences == ()

    @pytest.mark.sqlite_only
    def test_credentials_come_from_clouds_yaml(self, tmp_path: Path, original: Placement, database: str) -> None:
        auth = {"auth_type": "admin_token", "auth": {"endpoint": original.url, "token": TOKEN}}
        file = tmp_path / "clouds.yaml"
        file.write_text(json.dumps({"clouds": {"old": auth}}))
        arguments = ("adopt", "--cloud", "old", "--dry-run", "--database", database)
        done = covey(tmp_path, *arguments, OS_CLIENT_CONFIG_FILE=str(file))
        assert done.status == 0, done.stderr

    @pytest.mark.sqlite_only
    def test_unreachable_original_is_an_error_with_its_address(self, tmp_path: Path, database: str) -> None:
        nothing = Placement(f"http://127.0.0.1:{free_port()}")
        done = adopt(tmp_path, nothing, database)
        assert done.status == 1
        assert done.stderr.startswith("Error: Placement cannot be reached")
        assert nothing.url in done.stderr

    @pytest.mark.sqlite_only
    def test_refused_token_is_an_error(self, tmp_path: Path, original: Placement, database: str) -> None:
        done = covey(tmp_path, "adopt", "--url", original.url, "--token", "nobody", "--database", database)
        assert (done.status, "Placement answered 403 to GET" in done.stderr) == (1, True)


class TestCheck:
    """The copy compared with the original."""

    @pytest.mark.sqlite_only
    def test_every_difference_is_listed(self, tmp_path: Path, original: Placement, database: str) -> None:
        assert adopt(tmp_path, original, database, "--skip-check").status == 0
        connected = engine.connect(database)
        changes = [
            sa.update(tables.inventories).where(tables.inventories.c.resource_class == "DISK_GB").values(reserved=7),
            sa.delete(tables.provider_traits).where(tables.provider_traits.c.trait == "MISC_SHARES_VIA_AGGREGATE"),
            sa.update(tables.consumers).where(tables.consumers.c.uuid == uuid("licence")).values(project_id="x"),
            sa.delete(tables.allocations).where(tables.allocations.c.consumer_uuid == uuid("1.38")),
            sa.delete(tables.custom_traits).where(tables.custom_traits.c.name == "CUSTOM_UNUSED"),
        ]
        with engine.writer(connected).begin() as connection:
            for change in changes:
                connection.execute(change)
        connected.dispose()
        done = adopt(tmp_path, original, database, "--check-only")
        assert done.status == 1
        storage, node = uuid("storage"), uuid("node1")
        assert f"! provider {storage} traits: MISC_SHARES_VIA_AGGREGATE: present in the original, absent" in done.stdout
        assert f"! consumer {uuid('licence')} project_id: tools in the original, x in Covey" in done.stdout
        assert f"! provider {node} allocations: {uuid('1.38')}:" in done.stdout
        assert "! trait CUSTOM_UNUSED: exists in the original, absent in Covey" in done.stdout
        found = json.loads(adopt(tmp_path, original, database, "--check-only", "--json").stdout)["check"]["differences"]
        assert ("inventories: DISK_GB", 100, 7) in [
            (each["field"], each["original"]["reserved"], each["copy"]["reserved"])
            for each in found
            if each["subject"] == storage and each["field"].startswith("inventories")
        ]

    def test_consumer_at_the_same_generation_is_not_read_twice(self, adoption: Adoption, api: Watched) -> None:
        reading = copied(adoption)
        api.paths.clear()
        assert adoption.check(reading.ledger).differences == ()
        assert [path for path in api.paths if path.startswith("/allocations/")] == []
        assert f"/resource_providers/{uuid('node1')}/allocations" in api.paths


class TestChangingOriginal:
    """Writes to the original between two reads."""

    def test_provider_that_changes_between_its_parts_is_read_again(
        self, adoption: Adoption, api: Watched, original: Placement
    ) -> None:
        path = f"/resource_providers/{uuid('empty')}/traits"
        api.before[path] = lambda: original.aggregates("empty", f"late{clock_and_ids.new_seed()}")
        reading = copied(adoption)
        assert api.paths.count(path) == 2
        assert reading.changing == frozenset()
        assert adoption.check().differences == ()

    def test_move_during_the_reading_is_copied_whole(
        self, adoption: Adoption, api: Watched, original: Placement, store: Store
    ) -> None:
        original.allocate("mover", node1={"MEMORY_MB": 128})
        later = f"/allocations/{uuid('mover')}"  # read after all providers
        api.before[later] = lambda: original.allocate("mover", node2={"MEMORY_MB": 256})
        copied(adoption)
        held = {
            name: rows_of(store).providers[uuid(name)].allocations.get(uuid("mover")) for name in ("node1", "node2")
        }
        assert held["node1"] is None
        assert held["node2"] is not None
        assert held["node2"].resources == {"MEMORY_MB": 256}
        assert adoption.check().differences == ()
        original.delete(later)

    def test_allocations_that_are_deleted_during_the_reading_are_not_copied(
        self, adoption: Adoption, api: Watched, original: Placement, store: Store
    ) -> None:
        original.allocate("brief", node1={"MEMORY_MB": 128})
        api.before["/usages"] = lambda: original.delete(f"/allocations/{uuid('brief')}")  # changes no generation
        copied(adoption)
        assert uuid("brief") not in rows_of(store).consumers
        assert adoption.check().differences == ()

    def test_provider_that_is_deleted_during_the_reading_is_not_copied(
        self, adoption: Adoption, api: Watched, original: Placement, store: Store
    ) -> None:
        original.provider("leaving")
        path = f"/resource_providers/{uuid('leaving')}"
        api.before[f"{path}/traits"] = lambda: original.delete(path)
        copied(adoption)
        assert uuid("leaving") not in rows_of(store).providers
        assert adoption.check().differences == ()

    def test_provider_that_never_rests_is_reported(self, adoption: Adoption, api: Watched, original: Placement) -> None:
        path = f"/resource_providers/{uuid('empty')}/allocations"

        def change_again() -> None:
            original.aggregates("empty", f"late{clock_and_ids.new_seed()}")
            api.before[path] = change_again

        api.before[path] = change_again
        with pytest.raises(Conflict, match="change faster than they are read"):
            adoption.read(update=False)


class TestUpdate:
    """`--update` of an earlier copy."""

    def test_update_reads_and_writes_only_what_changed(
        self, adoption: Adoption, api: Watched, original: Placement, store: Store
    ) -> None:
        original.provider("spare", VCPU=4)
        original.provider("child", "spare", VCPU=4)
        original.allocate("guest", child={"VCPU": 1})
        copied(adoption)
        original.allocate("guest", project="other", spare={"VCPU": 2})
        original.put(f"/resource_providers/{uuid('child')}", {"name": "renamed", "parent_provider_uuid": uuid("node2")})
        original.put(f"/resource_providers/{uuid('spare')}", {"name": "child"})
        original.put("/traits/CUSTOM_LATE")
        api.paths.clear()
        copied(adoption, update=True)
        read = {path.split("/")[2] for path in api.paths if path.startswith("/resource_providers/")}
        assert read == {uuid("spare"), uuid("child")}
        assert [path for path in api.paths if path.startswith("/allocations/")] == [f"/allocations/{uuid('guest')}"]
        assert adoption.check().differences == ()
        original.delete(f"/allocations/{uuid('guest')}")
        original.delete(f"/resource_providers/{uuid('child')}")
        original.delete(f"/resource_providers/{uuid('spare')}")
        original.delete("/traits/CUSTOM_LATE")
        copied(adoption, update=True)
        assert adoption.check().differences == ()
        assert uuid("guest") not in rows_of(store).consumers

    def test_running_service_sees_the_updated_providers(
        self, adoption: Adoption, original: Placement, database: str, tmp_path: Path
    ) -> None:
        copied(adoption)
        (tmp_path / "covey.conf").write_text("[api]\nauth_strategy = none\n")
        serve = ("serve", "--api", "placement", "--config-file", "covey.conf", "--database", database)
        candidates = "/allocation_candidates?resources=CUSTOM_LICENSE:2"
        with running_covey(tmp_path, *serve) as running:
            copy = Placement(running.url)
            assert len(copy.get(candidates)["allocation_requests"]) == 1
            original.allocate("taker", node1={"CUSTOM_LICENSE": 3})
            copied(adoption, update=True)
            assert copy.get(candidates)["allocation_requests"] == []
        original.delete(f"/allocations/{uuid('taker')}")

    def test_copy_that_is_in_use_is_not_overwritten(self, adoption: Adoption, store: Store) -> None:
        copied(adoption)
        with store.write() as tx:
            provider = tx.providers.by_uuid(uuid("node1"))
            assert provider is not None
            tx.providers.bump({provider.id: 1}, clock_and_ids.now())
        with pytest.raises(Conflict, match="1 providers, such as node1, are newer in Covey"):
            adoption.read(update=True)

    @pytest.mark.sqlite_only
    def test_host_that_the_original_lacks_is_kept(self, tmp_path: Path, original: Placement, database: str) -> None:
        hosts = "hosts:\n  - {name: mine, vcpus: 1, memory_mb: 1024, disk_gb: 10}\n"
        assert covey(tmp_path, "fleet", "apply", "-", "--database", database, stdin=hosts).status == 0
        done = adopt(tmp_path, original, database, "--update")
        assert done.status == 1
        assert "The original has no provider of the hosts mine: remove them first." in done.stderr
