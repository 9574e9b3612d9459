"""What Nova does with Placement, on Covey, through the SDK. Each story cleans up after itself."""

from tests.conformance.nova.cloud import eventually
from tests.conformance.nova.tenant import Tenant

_SMALL = {"VCPU": 1, "MEMORY_MB": 64, "DISK_GB": 1}
_MEDIUM = {"VCPU": 2, "MEMORY_MB": 128, "DISK_GB": 1}
_PCI = 'compute_driver = laboratory.Pci\n[pci]\ndevice_spec = {"vendor_id": "15b3", "product_id": "1018"}\n'


def _holds(tenant: Tenant, server: str, resources: dict[str, int]) -> None:
    """Wait until a server holds these resources on its host, and nothing elsewhere."""
    expected = {tenant.host(server): resources}
    eventually(lambda: tenant.allocations(server) == expected, f"{server} holds {expected}")
    assert not any(tenant.allocations(one["uuid"]) for one in tenant.migrations(server))


def boots(tenant: Tenant) -> str:
    """A boot and a multi-create hold what their flavors say."""
    servers = [*tenant.start(), *tenant.start(flavor="medium"), *tenant.request(count=3)]
    tenant.wait(servers, "ACTIVE")
    for server, resources in zip(servers, (_SMALL, _MEDIUM, _SMALL, _SMALL, _SMALL), strict=True):
        _holds(tenant, server, resources)
    tenant.delete(servers)
    assert not any(tenant.allocations(server) for server in servers)
    return "2 boots and a multi-create of 3 hold what their flavors say, and nothing after their deletion"


def resizes(tenant: Tenant) -> str:
    """A resize is reverted, then another one confirmed; both hosts are held in between."""
    compute, (server,) = tenant.cloud.compute, tenant.start()
    for end, resources in ((compute.revert_server_resize, _SMALL), (compute.confirm_server_resize, _MEDIUM)):
        source = tenant.host(server)
        compute.resize_server(server, tenant.flavors["medium"])
        tenant.wait([server], "VERIFY_RESIZE")
        assert tenant.allocations(server) == {tenant.host(server): _MEDIUM}
        assert tenant.allocations(tenant.migrations(server)[0]["uuid"]) == {source: _SMALL}
        end(server)
        tenant.wait([server], "ACTIVE")
        _holds(tenant, server, resources)
    tenant.delete([server])
    return "reverted and confirmed; both hosts held in between, one afterwards"


def migrations(tenant: Tenant) -> str:
    """Cold and live migrations; a live one is aborted."""
    compute, (server,) = tenant.cloud.compute, tenant.start()
    source = tenant.host(server)
    compute.migrate_server(server)
    tenant.wait([server], "VERIFY_RESIZE")
    compute.confirm_server_resize(server)
    tenant.wait([server], "ACTIVE")
    moved = tenant.host(server)
    assert moved != source
    _holds(tenant, server, _SMALL)
    compute.live_migrate_server(server, host=None, block_migration="auto")
    tenant.wait([server], "ACTIVE")
    assert tenant.host(server) != moved
    _holds(tenant, server, _SMALL)
    stays = tenant.host(server)
    compute.live_migrate_server(server, host=None, block_migration="auto")
    eventually(lambda: [one for one in compute.server_migrations(server) if one.status == "running"], "it runs")
    compute.abort_server_migration(next(iter(compute.server_migrations(server))), server)
    tenant.wait([server], "ACTIVE")
    eventually(lambda: tenant.migrations(server)[0]["status"] == "cancelled", "the migration is cancelled")
    assert tenant.host(server) == stays
    _holds(tenant, server, _SMALL)
    tenant.delete([server])
    return "cold, live, and an aborted live one that stays; nothing is left of the migrations"


def shelving_and_rebuild(tenant: Tenant) -> str:
    """A shelved server holds nothing; a rebuild with another image stays where it is."""
    compute, (server,) = tenant.cloud.compute, tenant.start()
    compute.shelve_server(server)
    tenant.wait([server], "SHELVED_OFFLOADED")
    eventually(lambda: tenant.allocations(server) == {}, "a shelved server holds nothing")
    compute.unshelve_server(server)
    tenant.wait([server], "ACTIVE")
    _holds(tenant, server, _SMALL)
    host, image = tenant.host(server), tenant.image_id("bsd")
    compute.rebuild_server(server, image=image)
    tenant.wait([server], "ACTIVE")
    assert (tenant.host(server), tenant.show(server)["image"]["id"]) == (host, image)
    _holds(tenant, server, _SMALL)
    tenant.delete([server])
    return "offloaded without allocations, unshelved, rebuilt in place with another image"


def traits(tenant: Tenant) -> str:
    """A trait that a flavor requires picks the host, and one that it forbids rules it out."""
    chosen = tenant.lab.computes[1]
    with tenant.trait("CUSTOM_GOLD", chosen):
        tenant.create_flavor("gold", {"trait:CUSTOM_GOLD": "required"})
        tenant.create_flavor("plain", {"trait:CUSTOM_GOLD": "forbidden"})
        gold, plain = tenant.start(number=2, flavor="gold"), tenant.start(number=2, flavor="plain")
        assert set(tenant.hosts(gold)) == {chosen}
        assert chosen not in tenant.hosts(plain)
        tenant.delete([*gold, *plain])
    return f"2 with a required trait on {chosen}, 2 with a forbidden one elsewhere"


def nested_providers(tenant: Tenant) -> str:
    """A custom class of a nested provider is allocated, and moves to another provider by a reshape."""
    tenant.create_flavor("magic", {"resources:CUSTOM_MAGIC": "2"})
    (server,) = tenant.start(flavor="magic")
    host = tenant.host(server)
    assert tenant.allocations(server) == {host: _SMALL, f"{host}-child": {"CUSTOM_MAGIC": 2}}
    tenant.lab.restart_compute(host, "compute_driver = laboratory.Reshaping\n")
    reshaped = {host: _SMALL, f"{host}-magic": {"CUSTOM_MAGIC": 2}}
    eventually(lambda: tenant.allocations(server) == reshaped, f"{server} holds {reshaped}")
    tenant.delete([server])
    tenant.lab.restart_compute(host)
    return f"CUSTOM_MAGIC of {host}-child, reshaped to {host}-magic with its allocation"


def pci_devices(tenant: Tenant) -> str:
    """A compute that begins to report its devices reshapes, with the allocation of a device in use."""
    lab, host = tenant.lab, "pci01"
    tenant.create_flavor("device", {"pci_passthrough:alias": "vf:1"})
    lab.configure_compute(host, _PCI)
    lab.start_compute(host)
    lab.discover()
    (server,) = tenant.start(flavor="device", host=host)
    assert tenant.allocations(server) == {host: _SMALL}
    lab.restart_compute(host, _PCI + "report_in_placement = true\n")
    eventually(lambda: len(tenant.allocations(server)) > 1, "the device is allocated")
    held = tenant.allocations(server)
    card = next(name for name in held if name != host)
    assert held == {host: _SMALL, card: {"CUSTOM_PCI_15B3_1018": 1}}
    tenant.delete([server])
    cards = len([name for name in tenant.providers() if name.startswith(f"{host}_")])
    service = next(iter(tenant.cloud.compute.services(host=host, binary="nova-compute")))
    tenant.cloud.compute.disable_service(service)
    return f"{cards} cards are providers after a reshape; the device of a running server is allocated on {card}"


def aggregates_and_zones(tenant: Tenant) -> str:
    """Nova's aggregates are placement aggregates; a zone picks its hosts."""
    hosts = tenant.lab.computes[:2]
    with tenant.aggregate("zone-a", hosts, zone="zone-a") as aggregate:
        members = tenant.providers(f"?member_of={aggregate.uuid}")
        assert set(members) == set(hosts)
        servers = tenant.start(number=3, availability_zone="zone-a")
        assert set(tenant.hosts(servers)) <= set(hosts)
        tenant.delete(servers)
    assert tenant.providers(f"?member_of={aggregate.uuid}") == {}
    return f"3 servers of a zone on its hosts, {' and '.join(hosts)}"


def isolated_aggregates(tenant: Tenant) -> str:
    """Forbidden aggregates: only servers that require its traits enter an aggregate that has them."""
    host, required = tenant.lab.computes[2], {"trait:CUSTOM_LICENSED": "required"}
    tenant.create_flavor("licensed", required)
    with tenant.trait("CUSTOM_LICENSED", host), tenant.aggregate("licensed", [host], metadata=required):
        licensed, others = tenant.start(number=2, flavor="licensed"), tenant.start(number=4)
        assert set(tenant.hosts(licensed)) == {host}
        assert host not in tenant.hosts(others)
        (forced,) = tenant.boot(host=host)
        assert tenant.show(forced)["status"] == "ERROR"
        tenant.delete([*licensed, *others, forced])
    return f"2 with the trait on {host}, 4 without it elsewhere, 1 without it that was forced there refused"


def tenant_isolation(tenant: Tenant) -> str:
    """A project that has an aggregate of its own stays in it."""
    hosts = tenant.lab.computes[3:5]
    other = tenant.lab.connect("other", "other")
    project = str(other.current_project_id)
    with tenant.aggregate("of-other", hosts, metadata={"filter_tenant_id": project}):
        servers = [server for _ in range(3) for server in tenant.request(cloud=other)]
        tenant.wait(servers, "ACTIVE")
        assert set(tenant.hosts(servers)) <= set(hosts)
        tenant.delete(servers)
    return f"3 servers of a project on its hosts, {' and '.join(hosts)}"


def quota_from_usages(tenant: Tenant) -> str:
    """Nova counts cores in Placement."""
    other = tenant.lab.connect("other", "other")
    project = str(other.current_project_id)
    servers = tenant.request(cloud=other, flavor="medium")
    tenant.wait(servers, "ACTIVE")
    assert tenant.placement(f"/usages?project_id={project}")["usages"] == _MEDIUM
    tenant.cloud.compute.update_quota_set(project, cores=3)
    servers += tenant.request(cloud=other)
    tenant.wait(servers, "ACTIVE")
    refused = tenant.post_server(cloud=other)
    assert (refused.status_code, "Quota exceeded for cores" in refused.text) == (403, True), refused.text
    tenant.cloud.compute.revert_quota_set(project)
    tenant.delete(servers)
    return "3 of 3 cores used, one more refused"


def audit_and_healing(tenant: Tenant) -> str:
    """nova-manage heals allocations that were lost, and finds and deletes those of no server."""
    lab, placement, (server,) = tenant.lab, tenant.cloud.placement, tenant.start()
    placement.delete(f"/allocations/{server}")
    lab.manage("placement", "heal_allocations", "--instance", server)
    _holds(tenant, server, _SMALL)
    orphan = "00000000-0000-4000-8000-000000000001"
    held = {tenant.providers()[lab.computes[0]]: {"resources": _SMALL}}
    owner = {"project_id": "lost", "user_id": "lost", "consumer_generation": None}
    answer = placement.put(f"/allocations/{orphan}", json={"allocations": held, **owner}, microversion="1.28")
    assert answer.status_code == 204, answer.text
    found = lab.manage("placement", "audit", "--verbose", allowed=(3,))
    assert orphan in found, found
    lab.manage("placement", "audit", "--verbose", "--delete", allowed=(4,))
    assert tenant.allocations(orphan) == {}
    tenant.delete([server])
    lab.manage("placement", "audit")
    return "a lost allocation healed; one of no server found and deleted"


STORIES = (
    boots,
    resizes,
    migrations,
    shelving_and_rebuild,
    traits,
    nested_providers,
    pci_devices,
    aggregates_and_zones,
    isolated_aggregates,
    tenant_isolation,
    quota_from_usages,
    audit_and_healing,
)
