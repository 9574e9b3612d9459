"""Each policy on every operation that places an instance: a boot, a cold and a live migration, unshelve, evacuation."""

from dataclasses import dataclass, field

from tests.conformance.nova.cloud import eventually
from tests.conformance.nova.stories import LIVE, Story
from tests.conformance.nova.tenant import Tenant

_TOGETHER = 3  # members of a group that gathers in one domain


@dataclass(frozen=True)
class Case:
    """A policy. `each` is how many members every domain of the scope then has; None: all are in one domain."""

    name: str
    policy: str
    scope: str
    each: int | None = None
    rules: dict[str, int] = field(default_factory=dict)

    def members(self, tenant: Tenant) -> int:
        return _TOGETHER if self.each is None else self.each * len(set(tenant.domains[self.scope].values()))

    def check(self, tenant: Tenant, servers: list[str], after: str) -> None:
        spread = tenant.spread(servers, self.scope)
        even = dict.fromkeys(tenant.domains[self.scope].values(), self.each)
        assert len(spread) == 1 if self.each is None else spread == even, f"{after}: {dict(spread)}"


_CASES = (
    Case("anti_affinity_by_rack", "anti-affinity:rack", "rack", 1),
    Case("limit_of_two_by_rack", "anti-affinity:rack", "rack", 2, {"max_server_per_rack": 2}),
    Case("affinity_by_switch", "affinity:switch", "switch"),
    Case("soft_anti_affinity_by_rack", "soft-anti-affinity:rack", "rack", 1),
    Case("soft_affinity_by_switch", "soft-affinity:switch", "switch"),
)


def _hold(tenant: Tenant, case: Case) -> str:
    group = tenant.create_group("soft-anti-affinity", case.policy, rules=case.rules)
    servers = [server for _ in range(case.members(tenant)) for server in tenant.start(group)]
    case.check(tenant, servers, "boot")
    moved = servers[0]
    _cold_migrate(tenant, moved)
    case.check(tenant, servers, "cold migration")
    _live_migrate(tenant, moved)
    case.check(tenant, servers, "live migration")
    is_hard = not case.policy.startswith("soft")
    if is_hard:
        _reject_live_migration(tenant, case, moved)
    tenant.act(moved, "shelve", None, "SHELVED_OFFLOADED")
    tenant.act(moved, "unshelve", None, "ACTIVE")
    case.check(tenant, servers, "unshelve")
    lost = _evacuate(tenant, moved)
    case.check(tenant, servers, "evacuation")
    tenant.delete(servers)
    _bring_back(tenant, lost)
    refused = "; a live migration elsewhere is refused" if is_hard else ""
    return f"{len(servers)} booted, one of them moved cold, live, by unshelve and evacuation{refused}"


def _cold_migrate(tenant: Tenant, server: str) -> None:
    source = tenant.host(server)
    tenant.act(server, "migrate", None, "VERIFY_RESIZE")
    tenant.act(server, "confirmResize", None, "ACTIVE")
    assert tenant.host(server) != source


def _live_migrate(tenant: Tenant, server: str) -> None:
    source = tenant.host(server)
    tenant.act(server, "os-migrateLive", LIVE, "ACTIVE")
    assert tenant.host(server) != source


def _reject_live_migration(tenant: Tenant, case: Case, server: str) -> None:
    """Ask for a host in another domain. The scheduler refuses it, and the instance stays."""
    source, domains = tenant.host(server), tenant.domains[case.scope]
    elsewhere = next(host for host in domains if domains[host] != domains[source])
    tenant.act(server, "os-migrateLive", LIVE | {"host": elsewhere}, "ACTIVE")
    assert (tenant.host(server), tenant.migrations(server)[0]["status"]) == (source, "error")


def _evacuate(tenant: Tenant, server: str) -> str:
    """Lose the host of a server, and evacuate it; return the host."""
    lost = tenant.host(server)
    tenant.lab.kill_compute(lost)
    _force_down(tenant, lost, down=True)
    tenant.act(server, "evacuate", {}, "ACTIVE")
    eventually(lambda: tenant.host(server) != lost, "the server is evacuated")
    return lost


def _bring_back(tenant: Tenant, host: str) -> None:
    _force_down(tenant, host, down=False)
    tenant.lab.start_compute(host)


def _force_down(tenant: Tenant, host: str, *, down: bool) -> None:
    service = next(iter(tenant.cloud.compute.services(host=host, binary="nova-compute")))
    tenant.cloud.compute.put(f"/os-services/{service.id}", json={"forced_down": down}, microversion="2.53")


def _story(case: Case) -> Story:
    def story(tenant: Tenant) -> str:
        return _hold(tenant, case)

    story.__name__ = case.name
    return story


STORIES = tuple(map(_story, _CASES))
