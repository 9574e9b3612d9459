"""Stories of a Nova cloud whose Placement service is Covey. Each one cleans up after itself."""

from collections.abc import Callable

from tests.conformance.nova.tenant import Tenant

LIVE = {"host": None, "block_migration": "auto"}
Story = Callable[[Tenant], str]


def members_spread_over_racks(tenant: Tenant) -> str:
    """anti-affinity:rack holds on boots, cold and live migrations, a resize, its revert, and unshelving."""
    racks = len(set(tenant.domains["rack"].values()))
    group = tenant.create_group("soft-anti-affinity", "anti-affinity:rack")
    servers = tenant.boot(group, racks + 1)
    active = tenant.active(servers)
    assert len(active) == racks, (len(active), racks)
    first = active[0]
    rack = tenant.spread([first], "rack")
    for action, body, then in (
        ("migrate", None, "confirmResize"),
        ("os-migrateLive", LIVE, None),
        ("resize", {"flavorRef": tenant.flavors["medium"]}, "revertResize"),
    ):
        tenant.act(first, action, body, *(["VERIFY_RESIZE"] if then else ["ACTIVE"]))
        assert tenant.spread([first], "rack") == rack, action
        if then:
            tenant.act(first, then, None, "ACTIVE")
    tenant.act(first, "shelve", None, "SHELVED_OFFLOADED")
    tenant.act(first, "unshelve", None, "ACTIVE")
    assert tenant.spread(active, "rack") == dict.fromkeys(set(tenant.domains["rack"].values()), 1)
    tenant.delete(servers)
    return f"{racks} ACTIVE in {racks} racks, 1 refused; cold, live, resize, revert, unshelve stay in the one free rack"


def members_per_rack_are_limited(tenant: Tenant) -> str:
    """max_server_per_rack: 2 holds under parallel boots."""
    racks = len(set(tenant.domains["rack"].values()))
    group = tenant.create_group("soft-anti-affinity", "anti-affinity:rack", rules={"max_server_per_rack": 2})
    servers = tenant.boot(group, 2 * racks + 1)
    active = tenant.active(servers)
    assert set(tenant.spread(active, "rack").values()) == {2}, tenant.spread(active, "rack")
    tenant.delete(servers)
    return f"{len(active)} ACTIVE, two in each of {racks} racks, 1 refused"


def members_gather_behind_a_switch(tenant: Tenant) -> str:
    """affinity:switch holds on parallel boots and on a live migration."""
    group = tenant.create_group("soft-affinity", "affinity:switch")
    servers = tenant.boot(group, 4)
    assert tenant.active(servers) == servers
    assert len(tenant.spread(servers, "switch")) == 1
    tenant.act(servers[0], "os-migrateLive", LIVE, "ACTIVE")
    assert len(tenant.spread(servers, "switch")) == 1
    tenant.delete(servers)
    return "4 ACTIVE behind one switch, also after a live migration"


def batch_spreads_over_racks(tenant: Tenant) -> str:
    """A multi-create keeps anti-affinity:rack, and soft policies rank what is admitted."""
    racks = len(set(tenant.domains["rack"].values()))
    group = tenant.create_group("soft-anti-affinity", "soft-anti-affinity:rack")
    servers = tenant.request(group, count=racks)
    tenant.wait(servers)
    assert len(tenant.spread(tenant.active(servers), "rack")) == racks
    hard = tenant.create_group("soft-anti-affinity", "anti-affinity:rack")
    batch = tenant.request(hard, count=racks)
    tenant.wait(batch)
    assert len(tenant.spread(tenant.active(batch), "rack")) == racks
    tenant.delete([*servers, *batch])
    return f"{racks} of {racks} in one request, each in a rack of its own, hard and soft"


STORIES: tuple[Story, ...] = (
    members_spread_over_racks,
    members_per_rack_are_limited,
    members_gather_behind_a_switch,
    batch_spreads_over_racks,
)
