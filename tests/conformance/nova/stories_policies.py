"""Soft policies, changes and audits of groups, and what nova-scheduler does without an answer of Covey in time."""

from tests.conformance.nova.deployment import credentials
from tests.conformance.nova.slow_proxy import running_proxy
from tests.conformance.nova.tenant import Json, Tenant

_LIMIT_S = 5  # the filter's default
_SLOW = """\
[covey]
timeout = {timeout}
on_unavailable = {choice}
endpoint_override = {url}/placement
{credentials}
"""


def soft_policies(tenant: Tenant) -> str:
    """Members gather behind one switch, and spread over its racks as evenly as possible."""
    group = tenant.create_group("soft-anti-affinity", "soft-affinity:switch", "soft-anti-affinity:rack")
    servers = [server for _ in range(4) for server in tenant.start(group)]
    switches, racks = tenant.spread(servers, "switch"), tenant.spread(servers, "rack")
    assert len(switches) == 1, switches
    behind = {tenant.domains["rack"][host] for host, one in tenant.domains["switch"].items() if one in switches}
    assert set(racks.values()) == {4 // len(behind)}, racks
    tenant.delete(servers)
    return f"4 behind {next(iter(switches))}, {4 // len(behind)} in each of its {len(behind)} racks"


def changed_policy(tenant: Tenant) -> str:
    """A policy that is changed live holds for later boots; the audit shows which members violate it."""
    group = tenant.create_group("soft-affinity", "affinity:rack")
    servers = tenant.start(group, 2)
    assert len(tenant.spread(servers, "rack")) == 1
    assert _audit(tenant, group)["violations"] == []
    tenant.set_policies(group, "anti-affinity:rack")
    (violation,) = _audit(tenant, group)["violations"]
    assert (violation["policy"], set(violation["members"])) == ("anti-affinity:rack", set(servers)), violation
    (later,) = tenant.start(group)
    assert tenant.spread([later], "rack").keys().isdisjoint(tenant.spread(servers, "rack"))
    tenant.delete(servers[:1])
    assert _audit(tenant, group)["violations"] == []
    tenant.delete([servers[1], later])
    return f"affinity:rack becomes anti-affinity:rack; the audit says: {violation['reason']}"


def _audit(tenant: Tenant, group: str) -> Json:
    found: Json = tenant.covey("GET", f"/os-server-groups/{group}/audit?violations=true")["server_group_policy_audit"]
    return found


def without_group_filters(tenant: Tenant) -> str:
    """Nova's own group filters may be off: Covey keeps Nova's policies as well."""
    tenant.lab.restart_schedulers("without_group_filters.conf")
    number = len(tenant.lab.computes)
    apart = tenant.start(tenant.create_group("anti-affinity"), number)
    assert max(tenant.spread(apart).values()) == 1
    free = tenant.host(apart[0])
    tenant.delete(apart[:1])
    moved = apart[1]
    tenant.act(moved, "migrate", None, "VERIFY_RESIZE")
    tenant.act(moved, "confirmResize", None, "ACTIVE")
    assert tenant.host(moved) == free
    tenant.act(moved, "shelve", None, "SHELVED_OFFLOADED")
    tenant.act(moved, "unshelve", None, "ACTIVE")
    assert max(tenant.spread(apart[1:]).values()) == 1
    tenant.delete(apart[1:])
    together = tenant.boot(tenant.create_group("affinity"), 4)
    active = tenant.active(together)
    assert len(tenant.spread(active)) == 1
    tenant.delete(together)
    tenant.lab.restart_schedulers()
    return (
        f"{number} of {number} parallel boots apart, also after a migration to the one free host and an unshelve; "
        f"{len(active)} of 4 on one host"
    )


def slow_answers(tenant: Tenant) -> str:
    """After the filter's default time limit a boot is refused, or Nova decides alone, as configured."""
    lab = tenant.lab
    log = lab.directory / "nova-scheduler.log"
    outcomes = []
    with running_proxy(lab.covey_port) as proxy:
        for choice, expected in (("refuse", "ERROR"), ("ignore", "ACTIVE")):
            values = {"choice": choice, "timeout": _LIMIT_S, "url": proxy.url, "credentials": credentials(lab.keystone)}
            (lab.directory / "slow.conf").write_text(_SLOW.format_map(values))
            lab.restart_schedulers("slow.conf")
            group = tenant.create_group("anti-affinity")
            proxy.delay_s = 0
            servers = tenant.start(group)
            proxy.delay_s = 2 * _LIMIT_S
            (late,) = tenant.boot(group)
            assert tenant.show(late)["status"] == expected, tenant.show(late)
            assert f"on_unavailable = {choice}" in log.read_text()
            outcomes.append(f"{choice}: {expected}")
            proxy.delay_s = 0
            servers += [late, *tenant.start(group)]
            active = tenant.active(servers)
            assert max(tenant.spread(active).values()) == 1
            tenant.delete(servers)
    lab.restart_schedulers()
    return f"{', '.join(outcomes)}; ACTIVE before and after"


STORIES = (soft_policies, changed_policy, without_group_filters, slow_answers)
