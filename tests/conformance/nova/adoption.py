"""The way of an existing cloud to Covey: evaluate beside the original Placement, adopt it, switch the endpoint."""

import json
from typing import Any

from keystoneauth1.adapter import Adapter

from tests.conformance.nova.cloud import say
from tests.conformance.nova.tenant import Tenant

_PARTS = ("", "/inventories", "/traits", "/aggregates", "/allocations", "/usages")
_CANDIDATES = (
    "/allocation_candidates?resources=VCPU:2,MEMORY_MB:512,DISK_GB:10",
    "/allocation_candidates?resources=VCPU:1,CUSTOM_MAGIC:2",
    "/allocation_candidates?resources=VCPU:1&required=COMPUTE_NODE&resources1=CUSTOM_MAGIC:1&limit=1000",
)


def adopt_and_switch(tenant: Tenant) -> str:
    """Servers that Nova started on the original stay as they are, and Nova moves and deletes them on Covey."""
    lab = tenant.lab
    group = tenant.create_group("anti-affinity")
    tenant.create_flavor("adopted", {"resources:CUSTOM_MAGIC": "1"})
    servers = [*tenant.start(group, 2), *tenant.start(flavor="adopted")]
    report = json.loads(lab.covey("adopt", "--cloud", "admin", "--json"))
    assert report["check"]["differences"] == [], report
    mirrored = lab.covey("sync", "nova", "--once", "--cloud", "admin")
    audit = tenant.covey("GET", f"/os-server-groups/{group}/audit")
    assert audit, mirrored
    compared = _compare(tenant, servers)
    say(
        f"{report['resource_providers']} providers, {report['consumers']} consumers, {compared} answers alike … ",
        end="",
    )
    hosts = tenant.hosts(servers)
    lab.stop_nova()
    checked = json.loads(lab.covey("adopt", "--update", "--cloud", "admin", "--json"))
    assert checked["check"]["differences"] == [], checked
    lab.stop("placement")
    lab.stop_covey()
    lab.set_placement(f"{lab.covey_url}/placement")
    lab.start_covey()
    lab.start_nova()
    tenant.connect()
    assert tenant.hosts(servers) == hosts
    held = tenant.allocations(servers[2])
    tenant.act(servers[2], "migrate", None, "VERIFY_RESIZE")
    tenant.act(servers[2], "confirmResize", None, "ACTIVE")
    assert tenant.host(servers[2]) != hosts[2]
    assert held.keys() != tenant.allocations(servers[2]).keys()
    tenant.delete(servers)
    return f"adopted {report['resource_providers']} providers and {report['consumers']} consumers, switched, migrated"


def _compare(tenant: Tenant, servers: list[str]) -> int:
    """Return how many answers of both services are equal; all are."""
    providers = tenant.providers().values()
    paths = [f"/resource_providers/{uuid}{part}" for uuid in providers for part in _PARTS]
    paths += [f"/allocations/{server}" for server in servers]
    paths += ["/resource_providers", "/resource_classes", "/traits", *_CANDIDATES]
    copy = Adapter(tenant.cloud.session, endpoint_override=f"{tenant.lab.covey_url}/placement")
    for path in paths:
        theirs, ours = (_answer(api, path) for api in (tenant.cloud.placement, copy))
        assert ours == theirs, f"{path}: {ours} is not {theirs}"
    return len(paths)


def _answer(api: Adapter, path: str) -> tuple[int, Any]:
    answer = api.get(path, headers={"OpenStack-API-Version": "placement 1.36"}, raise_exc=False)
    return answer.status_code, _sorted(answer.json())


def _sorted(document: Any) -> Any:
    """Return a document whose lists have one order: the services promise none."""
    if isinstance(document, dict):
        return {key: _sorted(value) for key, value in document.items()}
    if isinstance(document, list):
        return sorted((_sorted(each) for each in document), key=json.dumps)
    return document
