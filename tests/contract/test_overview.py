"""The state of the fleet at a glance, on every database."""

from dataclasses import replace

from covey.model.ids import ScopeId
from covey.model.scopes import Scope
from covey.services.overview import Overview, overview
from covey.storage.store import Store
from tests.build import NOW, a_flavor, a_host, an_image

RACK, CELL = (Scope(ScopeId(f"s{n}"), name, False, False, "n") for n, name in enumerate(("rack", "cell")))


def test_an_empty_fleet_says_what_is_missing(store: Store) -> None:
    seen = overview(store, "nova")
    assert seen == Overview(0, 0, 0, (), 0, (), 0, 0, seen.warnings)
    assert [warning.partition(":")[0].partition(",")[0] for warning in seen.warnings] == [
        "There are no hosts yet",
        "There are no flavors",
    ]


def test_a_fleet_is_counted_and_a_scope_without_domains_is_told(store: Store) -> None:
    with store.write() as tx:
        tx.hosts.add([a_host("n1"), a_host("n2"), a_host("n3")], NOW)
        first, second, _ = tx.hosts.find()
        tx.hosts.set_state(replace(first, disabled=True), NOW)
        tx.hosts.set_state(replace(second, forced_down=True), NOW)
        tx.scopes.add([RACK, CELL])
        zoned, _ = tx.aggregates.add([("u1", "a", "az", None), ("u2", "r1", None, RACK.id)], NOW)
        tx.aggregates.add_hosts([(zoned, first.id)], NOW)
        tx.flavors.add([a_flavor(is_public=False)], NOW)
        tx.images.add([an_image()])
    assert overview(store, "nova") == Overview(
        hosts=3,
        disabled=1,
        down=1,
        zones=(("az", 1), ("nova", 2)),
        aggregates=2,
        scopes=(("cell", 0), ("rack", 1)),
        flavors=1,
        images=1,
        warnings=("The scope cell has no domains.",),
    )
