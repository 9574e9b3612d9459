"""A scale-out by a thousand nodes on ten thousand hosts: one decision, one claim, and visible progress."""

import re
import time
from collections import Counter
from pathlib import Path

import sqlalchemy as sa

from covey.storage import tables
from tests.acceptance.cluster_users import CliUser, running_deployment
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


def test_scale_out_by_a_thousand_nodes_is_one_claim(tmp_path: Path, postgresql_server: PostgreSQL) -> None:
    with (
        postgresql_server.fresh() as database,
        running_deployment(tmp_path, database, FLEET) as deployment,
        Session(deployment.cloud("acme")) as session,
    ):
        acme = CliUser(deployment, "acme", session)
        acme.profile("plain")
        acme.policy("racks", {"servergroup": TWO_TO_A_RACK}, version=1.1)
        acme.cluster("web", "plain")
        acme.succeeds("policy attach --policy racks web")
        action, reasons, start = acme.start(f"expand --count {NODES} web"), set[str](), time.monotonic()
        while (now := acme.get(f"/actions/{action}")["action"])["status"] not in {"SUCCEEDED", "FAILED"}:
            reasons.add(now["status_reason"])
        print(f"{NODES} nodes in {time.monotonic() - start:.1f} s; reasons: {sorted(reasons)}")  # noqa: T201
        assert (now["status"], len(now["outputs"]["nodes_added"])) == ("SUCCEEDED", NODES)
        assert any(re.fullmatch(rf"Created \d+ of {NODES} nodes.", reason) for reason in reasons)
        with deployment.rows.connect() as rows:
            servers = rows.execute(sa.select(tables.servers.c.host_id, tables.servers.c.created_at)).all()
            racks = dict(
                rows.execute(sa.select(tables.aggregate_hosts.c.host_id, tables.aggregate_hosts.c.aggregate_id)).all()
            )
        assert len({server.created_at for server in servers}) == 1  # one claim
        assert Counter(Counter(racks[server.host_id] for server in servers).values()) == {2: RACKS}
        wait_until_idle(deployment.rows)
        assert violations(deployment.rows, idle=True) == []
