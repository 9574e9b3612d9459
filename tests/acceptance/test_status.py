"""`covey status` reports hosts without exactly one domain, as text and as JSON."""

import json
from pathlib import Path

import sqlalchemy as sa

from covey.storage import engine
from tests.acceptance.processes import covey

FLEET = """
hosts:
  - {name: "n[1-2]", vcpus: 8, memory_mb: 1024, disk_gb: 10, domains: {rack: "r[1-2]"}}
  - {name: "n[3-9]", vcpus: 8, memory_mb: 1024, disk_gb: 10}
scopes:
  - {name: rack}
flavors:
  - {name: small, vcpus: 1, memory_mb: 512, disk_gb: 1}
"""
TEAR = (
    "ALTER TABLE aggregate_hosts RENAME TO kept",
    "CREATE TABLE aggregate_hosts AS SELECT * FROM kept",
    "INSERT INTO aggregate_hosts SELECT 2, host_id, zone, scope_id FROM kept WHERE aggregate_id = 1",
)


def test_text_names_a_few_hosts_and_json_all(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'covey.sqlite'}"
    assert covey(tmp_path, "db", "upgrade", "--database", database).status == 0
    assert covey(tmp_path, "fleet", "apply", "-", "--database", database, stdin=FLEET).status == 0
    connected = engine.connect(database)
    with connected.begin() as connection:  # as a change outside Covey can
        for statement in TEAR:
            connection.execute(sa.text(statement))
    connected.dispose()
    nowhere = "7 hosts are in no domain of the scope rack: n3, n4, n5, n6, n7 and 2 more."
    ambiguous = "1 host is in more than one domain of the scope rack, so excluded by its policies: n1 (r1, r2)."

    people = covey(tmp_path, "status", "--database", database)
    assert people.status == 1
    warnings = [line.strip() for line in people.stdout.splitlines() if "warning" in line]
    assert warnings == [f"warning: {nowhere}", f"warning: {ambiguous}"]
    assert "n8" not in people.stdout

    programs = covey(tmp_path, "status", "--json", "--database", database)
    assert programs.status == 1
    report = json.loads(programs.stdout)
    assert report["warnings"] == [nowhere, ambiguous]
    assert report["hosts_in_no_domain"] == {"rack": [f"n{n}" for n in range(3, 10)]}
    assert report["hosts_in_several_domains"] == {"rack": {"n1": ["r1", "r2"]}}
