"""A thousand nodes at once on ten thousand hosts: one decision and one claim, and everybody can see how far it is."""

import re
import time
from collections import Counter
from pathlib import Path

import sqlalchemy as sa

from covey.storage import tables
from tests.acceptance.cluster_people import Person, a_place
from tests.acceptance.invariants import violations
from tests.acceptance.processes import Session
from tests.acceptance.storm import wait_until_idle
from tests.databases import PostgreSQL

NODES, HOSTS, RACKS = 1000, 10_000, 500
FLEET = {
    "hosts": [
        {
            "name": f"host-[1-{HOSTS}]",
            "vcpus": 16,
            "memory_mb": 65536,
            "disk_gb": 1000,
            "domains": {"rack": [f"rack-{number % RACKS}" for number in range(HOSTS)]},
        }
    ],
    "scopes": [{"name": "rack"}],
    "flavors": [{"name": "tiny", "vcpus": 1, "memory_mb": 512, "disk_gb": 1}],
    "images": [{"name": "linux"}],
}
TWO_TO_A_RACK = {"policies": ["anti-affinity:rack"], "rules": {"max_server_per_rack": 2}}


def test_a_thousand_nodes_at_once(tmp_path: Path, postgresql_server: PostgreSQL) -> None:
    with (
        postgresql_server.fresh() as database,
        a_place(tmp_path, database, FLEET) as place,
        Session(place.cloud("acme")) as session,
    ):
        acme = Person(place, "acme", session)
        acme.profile("plain")
        acme.policy("racks", {"servergroup": TWO_TO_A_RACK}, version=1.1)
        acme.cluster("web", "plain")
        acme.works("policy attach --policy racks web")
        action, seen, start = acme.begin(f"expand --count {NODES} web"), set[str](), time.monotonic()
        while (now := acme.ask(f"/actions/{action}")["action"])["status"] not in {"SUCCEEDED", "FAILED"}:
            seen.add(now["status_reason"])
        print(f"{NODES} nodes in {time.monotonic() - start:.1f} s; seen: {sorted(seen)}")  # noqa: T201
        assert (now["status"], len(now["outputs"]["nodes_added"])) == ("SUCCEEDED", NODES)
        assert any(re.fullmatch(rf"Created \d+ of {NODES} nodes.", told) for told in seen)
        with place.rows.connect() as rows:
            servers = rows.execute(sa.select(tables.servers.c.host_id, tables.servers.c.created_at)).all()
            where = dict(
                rows.execute(sa.select(tables.aggregate_hosts.c.host_id, tables.aggregate_hosts.c.aggregate_id)).all()
            )
        assert len({server.created_at for server in servers}) == 1  # in one claim
        assert Counter(Counter(where[server.host_id] for server in servers).values()) == {2: RACKS}
        wait_until_idle(place.rows)
        assert violations(place.rows, idle=True) == []
