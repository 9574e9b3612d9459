"""Compares the fleet in the memory of each process with the rows."""

from collections.abc import Sequence
from urllib.request import urlopen

import sqlalchemy as sa

from tests.acceptance import storm
from tests.acceptance.invariants import read


def check_memory(connected: sa.Engine, ports: Sequence[int]) -> None:
    """Assert that each process knows the rack and the room of every host, so no claim conflicts with the rows."""
    before = claim_conflicts(ports)
    check_topology(connected, ports)
    storm.check_fleet_in_memory(connected, ports, changed=True)
    assert claim_conflicts(ports) == before


def claim_conflicts(ports: Sequence[int]) -> list[str]:
    """Return each process' count of claims that were decided again."""
    texts = (urlopen(f"http://127.0.0.1:{port}/metrics").read().decode() for port in ports)
    return [line for text in texts for line in text.splitlines() if line.startswith("covey_claim_conflicts_total")]


def check_topology(connected: sa.Engine, ports: Sequence[int]) -> None:
    """Assert that each process knows the rack of every host: an audit tells where members are, from memory."""
    client = storm.Client(ports)
    storm.enable_all_hosts(client)
    made = client.ask("POST", "/compute/v2.1/os-server-groups", storm.group_body(["soft-anti-affinity:rack"], {}))
    group = made.json["server_group"]["id"]
    hosts = {row.name: row.id for row in read(connected).hosts}
    servers: dict[str, int] = {}
    for name, host in hosts.items():
        body = storm.boot_body(f"on-{name}", group=group, availability_zone=f"nova:{name}")
        answer = client.ask("POST", "/compute/v2.1/servers", body)
        servers[answer.json["server"]["id"]] = host
    storm.wait_until_idle(connected)
    racks = {row.host_id: str(row.aggregate_id) for row in read(connected).aggregate_hosts}
    placed = {row.id for row in read(connected).servers if row.host_id is not None}
    expected = {server: racks.get(host) for server, host in servers.items() if server in placed}
    for number in range(len(ports)):
        audit = client.ask("GET", f"/compute/v2.1/os-server-groups/{group}/audit", of=number).json
        members = audit["server_group_policy_audit"]["members"]
        known = {member["instance_id"]: member["placements"]["rack"] for member in members}
        assert known == expected, f"process {number}"
    storm.delete_named(connected, client, "on-")
    client.close()
