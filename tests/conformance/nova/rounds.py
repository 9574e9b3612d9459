"""Rounds of parallel boots into an anti-affinity group, of as many servers as there are hosts."""

from contextlib import suppress

from tests.conformance.nova.cloud import LabFailed, say
from tests.conformance.nova.tenant import Tenant

_ROUND_S = 120.0  # Nova may lose a boot between a failed host and the next one: then it builds for ever


def parallel_boots(tenant: Tenant, rounds: int, placement: str) -> tuple[int, int]:
    """Print how many become ACTIVE in each round. Return the complete rounds, and those with a violation."""
    number, complete, violated, booted = len(tenant.lab.computes), 0, 0, list[str]()
    say(f"  {number} parallel boots, anti-affinity, {number} hosts, {placement}:", end="")
    for _ in range(rounds):
        servers = tenant.request_in_parallel(tenant.create_group("anti-affinity"), number)
        with suppress(LabFailed):
            tenant.wait(servers, within_s=_ROUND_S)
        active = tenant.active(servers)
        complete += len(active) == number
        violated += max(tenant.spread(active).values(), default=1) > 1
        say(f" {len(active)}", end="")
        tenant.delete(servers, wait=False)  # they go during the boots of the next round
        booted += servers
    tenant.delete(booted)
    say(f"; {complete} of {rounds} rounds complete, {violated} with a violation")
    return complete, violated
