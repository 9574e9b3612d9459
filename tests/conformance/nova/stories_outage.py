"""Covey is stopped in the middle of boots, which fail or wait, as Nova is configured."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier, Event

from tests.conformance.nova.cloud import START_S
from tests.conformance.nova.tenant import Tenant

_OUTAGE_S = 20
_GROUPS = 4
_BOOTS, _BEFORE = 5, 3  # requests for each group, and how many of them begin before the outage
# Covey is the image service of the laboratory as well.
_RETRIES = """
[placement]
connect_retries = 120
connect_retry_delay = 1
[glance]
num_retries = 120
"""


@dataclass(frozen=True)
class Boots:
    """Servers by the end of the outage, and at last."""

    accepted: list[str]
    failed: list[str]  # during the outage
    unfinished: list[str]  # when it ended
    active: list[str]


def outage(tenant: Tenant) -> str:
    """By default, boots fail that need Covey during its outage. None violates a policy, and nothing is left behind."""
    boots = _boot_through_outage(tenant)
    assert boots.failed, "no boot fell into the outage"
    lost = {*boots.accepted} - {*boots.active}
    assert lost >= {*boots.failed}
    return f"{_told(boots)}; {len(boots.failed)} failed during the outage"


def outage_with_retries(tenant: Tenant) -> str:
    """With retries, boots wait for Covey: every one becomes ACTIVE."""
    with tenant.lab.reconfigured(_RETRIES):
        boots = _boot_through_outage(tenant)
    assert boots.failed == []
    assert boots.unfinished, "no boot fell into the outage"
    assert len(boots.accepted) == _GROUPS * _BOOTS
    assert set(boots.active) == set(boots.accepted)
    return f"{_told(boots)}; {len(boots.unfinished)} waited at the end of the outage"


def _boot_through_outage(tenant: Tenant) -> Boots:
    """Boot members of several groups before and during the outage, check their policies, and leave nothing."""
    lab, accepted = tenant.lab, list[str]()
    groups = [tenant.create_group("anti-affinity", max_server_per_host=1) for _ in range(_GROUPS)]
    earlier = [server for group in groups for server in tenant.start(group)]
    begun, stopped = Barrier(_GROUPS + 1), Event()

    def boot(group: str) -> None:
        for number in range(_BOOTS):
            answer = tenant.post_server(group)
            if answer.status_code == 202:  # otherwise Nova's API itself misses Covey
                accepted.append(answer.json()["server"]["id"])
            if number + 1 == _BEFORE:
                begun.wait(START_S)
                stopped.wait(START_S)

    with ThreadPoolExecutor(_GROUPS) as pool:
        running = [pool.submit(boot, group) for group in groups]
        begun.wait(START_S)
        lab.stop_covey()
        stopped.set()
        time.sleep(_OUTAGE_S)
        met = tenant.shown(list(accepted))
        lab.start_covey()
        for each in running:
            each.result()
    tenant.wait(accepted)
    active = tenant.active(accepted)
    for group in groups:
        _check_apart(tenant, group, [*earlier, *active])
    tenant.delete([*earlier, *accepted])
    tenant.delete(tenant.start(groups[0]))
    lab.manage("placement", "audit", "--verbose")
    in_state = {status: [one["id"] for one in met if one["status"] == status] for status in ("ERROR", "BUILD")}
    return Boots(accepted, in_state["ERROR"], in_state["BUILD"], active)


def _check_apart(tenant: Tenant, group: str, servers: list[str]) -> None:
    answer = tenant.cloud.compute.get(f"/os-server-groups/{group}", microversion="2.64").json()
    members = [server for server in answer["server_group"]["members"] if server in servers]
    assert max(tenant.spread(members).values()) == 1, group


def _told(boots: Boots) -> str:
    return (
        f"of {_GROUPS * _BOOTS} requests Nova's API accepted {len(boots.accepted)}, {len(boots.active)} are ACTIVE; "
        "none violates its policy, the audit finds nothing"
    )


STORIES = (outage, outage_with_retries)
