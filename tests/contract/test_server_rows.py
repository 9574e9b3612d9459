"""Servers in the database: one statement reads a server with all that belongs to it."""

from dataclasses import replace

from covey.model.claims import Plan
from covey.model.ids import ServerId
from covey.model.servers import ServerFilter, ServerName
from covey.storage.store import Store
from tests.contract.test_claims import a_server, hosts


def test_single_read_equals_the_page_and_the_batch(store: Store) -> None:
    one, two = hosts(store)
    with store.write() as tx:
        tx.claims.commit(Plan(placed=[a_server("a", one), a_server("b", two)]), "", 0, None)
        tx.servers.set_tags(a_server("a", one).server.id, frozenset({"x", "é y"}))
    with store.read_once() as tx:
        found = tx.servers.by_id("a")
    assert found is not None
    expected = replace(a_server("a", one).server, host_name="one", tags=frozenset({"x", "é y"}))
    assert replace(found, request=expected.request, details=expected.details, placement=expected.placement) == expected
    with store.read() as tx:
        page = tx.servers.find(ServerFilter(sort_key="uuid", descending=False))
        assert page == [found, tx.servers.by_id("b")] == tx.servers.by_ids([server.id for server in page])
        names = [ServerName(ServerId(name), name) for name in ("b", "a")]
        assert tx.servers.find_names(ServerFilter(sort_key="uuid")) == names


def test_single_read_opens_no_transaction(store: Store) -> None:
    one, _ = hosts(store)
    with store.read_once() as reader:
        assert reader.servers.by_id("a") is None
        with store.write() as tx:
            tx.claims.commit(Plan(placed=[a_server("a", one)]), "", 0, None)
        assert reader.servers.by_id("a") is not None
