"""Quotas of resource classes: set, shown, and kept by boots, batches, resizes and unshelving."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from covey.storage import rows
from tests.build import NOW
from tests.contract.concurrency import run_concurrently
from tests.functional.client import Answer, Client
from tests.functional.fleets import IMAGE, BuildCloud, Cloud
from tests.functional.test_flavor_resources import GPU, ledger, set_specs  # noqa: F401 -- a fixture
from tests.functional.test_placement import placement_client, provider_of, stock
from tests.functional.test_previews import headroom, preview

QUOTA = "class:CUSTOM_GPU"


def set_limits(cloud: Cloud, body: dict[str, Any], project: str = "web") -> Answer:
    return cloud.admin.put(f"/os-quota-sets/{project}", {"quota_set": body})


def gpus(cloud: Cloud, project: str = "web") -> dict[str, int]:
    found: dict[str, int] = cloud.admin.get(f"/os-quota-sets/{project}/detail").json["quota_set"][QUOTA]
    return found


@pytest.fixture
def stocked(cloud: Cloud, ledger: Client) -> Cloud:  # noqa: F811
    """Three hosts with four GPUs each; a small server takes one, a big one three."""
    for name in ("node-1", "node-2", "node-3"):
        stock(ledger, provider_of(cloud, name), CUSTOM_GPU=4)
    set_specs(cloud, **{GPU: "1"})
    set_specs(cloud, "big", **{GPU: "3"})
    return cloud


class TestLimits:
    """Setting and showing."""

    def test_limit_is_set_shown_and_reset_at_the_covey_version(self, stocked: Cloud) -> None:
        changed = set_limits(stocked, {QUOTA: "4", "class:DISK_GB": 900, "cores": 7})
        assert changed.status == 200
        limits = changed.json["quota_set"]
        assert (limits[QUOTA], limits["class:DISK_GB"], limits["cores"]) == (4, 900, 7)
        stocked.boot()
        shown = stocked.alice.get("/os-quota-sets/web").json["quota_set"]
        assert [name for name in shown if name.startswith("class:")] == [QUOTA, "class:DISK_GB"]
        detail = stocked.alice.get("/os-quota-sets/web/detail").json["quota_set"]
        assert detail[QUOTA] == {"limit": 4, "in_use": 1, "reserved": 0}
        assert detail["class:DISK_GB"] == {"limit": 900, "in_use": 10, "reserved": 0}
        assert QUOTA not in stocked.bob.get("/os-quota-sets/db").json["quota_set"]
        assert stocked.admin.delete("/os-quota-sets/web").status == 202
        assert QUOTA not in stocked.alice.get("/os-quota-sets/web").json["quota_set"]

    def test_default_class_applies_to_projects_without_a_limit(self, stocked: Cloud) -> None:
        changed = stocked.admin.put("/os-quota-class-sets/default", {"quota_class_set": {QUOTA: 1}})
        assert (changed.status, changed.json["quota_class_set"][QUOTA]) == (200, 1)
        assert stocked.admin.get("/os-quota-class-sets/default").json["quota_class_set"][QUOTA] == 1
        assert stocked.alice.get("/os-quota-sets/web/defaults").json["quota_set"][QUOTA] == 1
        stocked.boot()
        assert stocked.request_server(stocked.alice).status == 403
        assert set_limits(stocked, {QUOTA: -1}).status == 200
        stocked.boot()
        assert gpus(stocked) == {"limit": -1, "in_use": 2, "reserved": 0}

    def test_other_versions_neither_show_nor_accept_it(self, stocked: Cloud) -> None:
        set_limits(stocked, {QUOTA: 4})
        stocked.admin.put("/os-quota-class-sets/default", {"quota_class_set": {QUOTA: 4}})
        older = stocked.admin.at("2.96")
        for path in ("/os-quota-sets/web", "/os-quota-sets/web/detail", "/os-quota-sets/web/defaults"):
            assert QUOTA not in older.get(path).json["quota_set"]
        assert QUOTA not in older.get("/os-quota-class-sets/default").json["quota_class_set"]
        assert QUOTA not in older.put("/os-quota-sets/web", {"quota_set": {"cores": 3}}).json["quota_set"]
        for key in ("quota_set", "quota_class_set"):
            path = "/os-quota-sets/web" if key == "quota_set" else "/os-quota-class-sets/default"
            refused = older.put(path, {key: {QUOTA: 4}})
            assert (refused.status, "Additional properties are not allowed" in refused.message) == (400, True)
        assert stocked.admin.get("/limits").json["limits"]["absolute"].keys().isdisjoint({QUOTA})

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize("path", ["/os-quota-sets/web", "/os-quota-class-sets/default"])
    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("class:gpu", "The quota class:gpu names no resource class. Write class: and a name of up to 249 capital"),
            ("class:", "The quota class: names no resource class."),
            ("class:" + 250 * "A", "names no resource class."),
            ("class:VCPU", "The quota cores counts VCPU, so class:VCPU cannot be set. Set cores."),
            ("class:PCPU", "The quota cores counts PCPU, so class:PCPU cannot be set. Set cores."),
            ("class:MEMORY_MB", "The quota ram counts MEMORY_MB, so class:MEMORY_MB cannot be set. Set ram."),
            (
                "class:CUSTOM_NONE",
                "No such resource class: CUSTOM_NONE. A quota may limit each class that the Placement",
            ),
            ("CUSTOM_GPU", "'CUSTOM_GPU' does not match any of the regexes: '^class:'"),
        ],
    )
    def test_other_names_are_400(self, stocked: Cloud, path: str, name: str, message: str) -> None:
        key = "quota_class_set" if "class" in path else "quota_set"
        refused = stocked.admin.put(path, {key: {name: 1, "cores": 3}})
        assert (refused.status, message in refused.message) == (400, True), refused.message
        assert stocked.admin.get(path).json[key]["cores"] == 20

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize("limit", [-2, "many", None, 2**31])
    def test_limits_are_validated_as_others(self, stocked: Cloud, limit: object) -> None:
        assert set_limits(stocked, {QUOTA: limit}).status == 400

    def test_limit_below_the_use_requires_force(self, stocked: Cloud) -> None:
        stocked.boot(min_count=2)
        refused = set_limits(stocked, {QUOTA: 1})
        message = f"Quota limit 1 for {QUOTA} must be greater than or equal to already used and reserved 2."
        assert (refused.status, refused.message) == (400, message)
        assert set_limits(stocked, {QUOTA: 2}).status == 200
        assert set_limits(stocked, {QUOTA: 1, "force": True}).status == 200
        assert gpus(stocked) == {"limit": 1, "in_use": 2, "reserved": 0}

    def test_limits_follow_a_renamed_class_and_end_with_a_deleted_one(self, stocked: Cloud) -> None:
        client = placement_client(stocked, "1.6")  # the last version that renames
        set_limits(stocked, {QUOTA: 5})
        stocked.admin.put("/os-quota-class-sets/default", {"quota_class_set": {QUOTA: 6}})
        assert client.put("/resource_classes/CUSTOM_GPU", {"name": "CUSTOM_CARD"}).status == 200
        shown = stocked.admin.get("/os-quota-sets/web").json["quota_set"]
        assert (QUOTA in shown, shown["class:CUSTOM_CARD"]) == (False, 5)
        assert client.put("/resource_classes/CUSTOM_CARD", {"name": "CUSTOM_" + 248 * "X"}).status == 400
        with stocked.store.write() as tx:
            tx.resource_classes.add("CUSTOM_UNUSED", NOW)
        set_limits(stocked, {"class:CUSTOM_UNUSED": 1})
        assert client.delete("/resource_classes/CUSTOM_UNUSED").status == 204
        assert "class:CUSTOM_UNUSED" not in stocked.admin.get("/os-quota-sets/web").json["quota_set"]


class TestBoots:
    """Requests for servers."""

    def test_boot_beyond_the_limit_is_refused_in_novas_words(self, stocked: Cloud) -> None:
        set_limits(stocked, {QUOTA: 2})
        stocked.boot(min_count=2)
        refused = stocked.request_server(stocked.alice)
        message = f"Quota exceeded for {QUOTA}: Requested 1, but already used 2 of 2 {QUOTA}"
        assert (refused.status, refused.json["forbidden"]["message"]) == (403, message)
        assert len(stocked.servers()) == 2
        stocked.boot(stocked.bob)  # with its own quota
        assert gpus(stocked)["in_use"] == 2

    def test_limit_alone_applies_without_other_limits(self, stocked: Cloud) -> None:
        set_limits(stocked, {QUOTA: 1, "instances": -1, "cores": -1, "ram": -1})
        stocked.boot()
        assert stocked.request_server(stocked.alice).status == 403

    def test_batch_shrinks_to_the_limit(self, stocked: Cloud) -> None:
        set_limits(stocked, {QUOTA: 3})
        stocked.boot(min_count=1, max_count=9)
        assert gpus(stocked)["in_use"] == len(stocked.servers()) == 3
        refused = stocked.request_server(stocked.alice, min_count=2, max_count=9)
        assert refused.message == f"Quota exceeded for {QUOTA}: Requested 2, but already used 3 of 3 {QUOTA}"

    def test_flavors_without_the_class_are_not_limited(self, stocked: Cloud) -> None:
        stocked.boot(min_count=2)
        set_limits(stocked, {QUOTA: 0, "force": True})
        set_specs(stocked, "big", **{GPU: "0"})
        assert stocked.status(stocked.boot(flavorRef="big")) == "ACTIVE"

    def test_limit_of_disk_counts_what_flavors_have_by_their_size(self, stocked: Cloud) -> None:
        set_limits(stocked, {"class:DISK_GB": 25})
        stocked.boot(min_count=2)
        refused = stocked.request_server(stocked.alice)
        expected = "Quota exceeded for class:DISK_GB: Requested 10, but already used 20 of 25 class:DISK_GB"
        assert refused.message == expected

    def test_deletion_releases_the_use(self, stocked: Cloud) -> None:
        set_limits(stocked, {QUOTA: 1})
        server = stocked.boot()
        stocked.delete(server)
        assert gpus(stocked)["in_use"] == 0
        assert stocked.status(stocked.boot()) == "ACTIVE"

    def test_server_that_finds_no_host_holds_nothing(self, stocked: Cloud) -> None:
        set_limits(stocked, {QUOTA: 3})
        set_specs(stocked, "giant", **{GPU: "3"})
        nowhere = [stocked.boot(flavorRef="giant") for _ in range(2)]
        assert [stocked.status(server) for server in nowhere] == ["ERROR", "ERROR"]
        assert gpus(stocked)["in_use"] == 0
        assert stocked.status(stocked.boot(flavorRef="big")) == "ACTIVE"

    def test_only_boots_of_a_limited_class_read_its_use(self, stocked: Cloud, statements: list[str]) -> None:
        def counted() -> tuple[int, int]:
            statements.clear()
            assert post_server(stocked.alice) == 202
            return len(statements), sum("of_consumers" in each for each in statements)

        for _ in range(2):  # the first ones load the fleet and the flavors
            post_server(stocked.alice)
        usual, reads = counted()
        assert reads == 0
        set_limits(stocked, {"class:VGPU": 1})
        assert counted() == (usual, 0)
        set_limits(stocked, {QUOTA: 9})
        assert counted() == (usual + 2, 2), "one for the plan, one under the project's lock"


class TestMoves:
    """Resizes, migrations and unshelving."""

    def test_resize_counts_the_larger_claim_until_it_is_confirmed(self, stocked: Cloud) -> None:
        set_limits(stocked, {QUOTA: 2})
        server = stocked.boot()
        refused = stocked.act(stocked.alice, server, "resize", {"flavorRef": "big"})
        message = f"Quota exceeded for {QUOTA}: Requested 2, but already used 1 of 2 {QUOTA}"
        assert (refused.status, refused.message) == (403, message)
        set_limits(stocked, {QUOTA: 3})
        stocked.run_action(stocked.alice, server, "resize", {"flavorRef": "big"})
        assert gpus(stocked)["in_use"] == 3
        assert stocked.request_server(stocked.alice).status == 403
        stocked.run_action(stocked.alice, server, "revertResize")
        assert gpus(stocked)["in_use"] == 1
        stocked.run_action(stocked.alice, server, "resize", {"flavorRef": "big"})
        stocked.run_action(stocked.alice, server, "confirmResize")
        assert gpus(stocked)["in_use"] == 3
        stocked.run_action(stocked.alice, server, "resize", {"flavorRef": "small"})
        assert gpus(stocked)["in_use"] == 3, "it may still be reverted"
        stocked.run_action(stocked.alice, server, "confirmResize")
        assert gpus(stocked)["in_use"] == 1

    def test_migration_takes_two_places_and_counts_once(self, stocked: Cloud) -> None:
        set_limits(stocked, {QUOTA: 1})
        server = stocked.boot()
        stocked.run_action(stocked.admin, server, "migrate")
        assert (stocked.status(server), gpus(stocked)["in_use"]) == ("VERIFY_RESIZE", 1)
        stocked.run_action(stocked.admin, server, "confirmResize")
        assert gpus(stocked)["in_use"] == 1

    def test_shelved_server_holds_nothing_and_returns_within_the_limit(self, stocked: Cloud) -> None:
        set_limits(stocked, {QUOTA: 1})
        shelved = stocked.boot()
        stocked.run_action(stocked.alice, shelved, "shelve")
        assert gpus(stocked)["in_use"] == 0
        other = stocked.boot()
        refused = stocked.act(stocked.alice, shelved, "unshelve")
        message = f"Quota exceeded for {QUOTA}: Requested 1, but already used 1 of 1 {QUOTA}"
        assert (refused.status, refused.message) == (403, message)
        assert stocked.status(shelved) == "SHELVED_OFFLOADED"
        stocked.delete(other)
        stocked.run_action(stocked.alice, shelved, "unshelve")
        assert (stocked.status(shelved), gpus(stocked)["in_use"]) == ("ACTIVE", 1)


class TestHeadroom:
    """Previews for tenants."""

    def test_headroom_and_previews_stop_at_the_limit(self, stocked: Cloud) -> None:
        set_limits(stocked, {QUOTA: 5})
        stocked.boot(min_count=2)
        group = stocked.group("soft-anti-affinity")
        found = headroom(stocked.alice, group, flavor="small")
        assert (found["count"], found["reason"]) == (3, "The quota leaves 3 more servers of this flavor.")
        assert headroom(stocked.alice, group, flavor="big")["count"] == 1
        shown = preview(stocked.alice, group, flavor="small", count=9)
        assert (shown["fits"], shown["reason"]) == (3, "The quota leaves 3 more servers of this flavor.")


class TestRaces:
    """Concurrent requests of one project, by several processes."""

    def test_concurrent_boots_place_exactly_what_the_limit_allows(
        self, stocked: Cloud, build_cloud: BuildCloud
    ) -> None:
        clients = [stocked.alice, *(build_cloud(None).alice for _ in range(2))]
        for limit in (3, 7):
            set_limits(stocked, {QUOTA: limit})
            left = limit - gpus(stocked)["in_use"]
            answers = run_concurrently([partial(post_server, client) for client in clients * 3])
            assert sorted(map(str, answers)) == ["202"] * left + ["403"] * (9 - left)
            assert gpus(stocked)["in_use"] == limit

    def test_concurrent_growth_of_every_kind_stays_within_the_limit(
        self, stocked: Cloud, build_cloud: BuildCloud
    ) -> None:
        shelved, small = [stocked.boot() for _ in range(2)], [stocked.boot() for _ in range(2)]
        for server in shelved:
            stocked.run_action(stocked.alice, server, "shelve")
        clients = [stocked.alice, build_cloud(None).alice]
        set_limits(stocked, {QUOTA: 4})
        tasks = [
            *(partial(act, client, server, "unshelve", None) for client, server in zip(clients, shelved, strict=True)),
            *(
                partial(act, client, server, "resize", {"flavorRef": "big"})
                for client, server in zip(clients, small, strict=True)
            ),
            *(partial(post_server, client) for client in clients),
        ]
        assert set(run_concurrently(tasks)) == {202, 403}
        assert gpus(stocked)["in_use"] == 4
        stocked.settle()
        stocked.check()


def post_server(client: Client) -> int:
    server = {"name": "s", "flavorRef": "small", "imageRef": IMAGE, "networks": "none"}
    return client.post("/servers", {"server": server}).status


def act(client: Client, server: str, action: str, body: object) -> int:
    return client.post(f"/servers/{server}/action", {action: body}).status


@dataclass
class Recorder:
    """A connection of the driver that records its statements."""

    raw: Any
    statements: list[str]

    def execute(self, statement: str, *values: object) -> Any:
        self.statements.append(statement)
        return self.raw.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


@pytest.fixture
def statements(stocked: Cloud, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All statements that the process runs from now on, by the driver or by SQLAlchemy."""
    seen: list[str] = []
    enter = rows.driver.__enter__
    monkeypatch.setattr(rows.driver, "__enter__", lambda self: Recorder(enter(self), seen))
    sa.event.listen(stocked.connection, "before_cursor_execute", lambda *call: seen.append(call[2]))
    return seen
