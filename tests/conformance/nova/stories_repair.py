"""Rebalances and drains of Nova's instances: Covey plans, and Nova's migrations carry it out."""

from typing import Any

from tests.conformance.nova.cloud import eventually
from tests.conformance.nova.tenant import Tenant

Json = dict[str, Any]


def rebalanced_group(tenant: Tenant) -> str:
    """Live migrations, and a cold one for the stopped member, end the violations of a policy that was changed."""
    racks = min(3, len(set(tenant.domains["rack"].values())))
    group = tenant.create_group("soft-affinity", "affinity")
    servers = tenant.start(group, racks)
    assert len(tenant.spread(servers)) == 1
    tenant.act(servers[0], "os-stop", None, "SHUTOFF")
    tenant.set_policies(group, "anti-affinity:rack")
    eventually(lambda: len(_planned(tenant, group)["moves"]) == racks - 1, "the plan knows all members")
    tenant.covey("POST", f"/os-server-groups/{group}/action", {"rebalance": {}})
    eventually(lambda: _rebalance(tenant, group)["status"] != "running", "the rebalance ends")
    over = _rebalance(tenant, group)
    assert (over["status"], over["moves_done"]) == ("done", racks - 1), over
    assert set(tenant.spread(servers, "rack").values()) == {1}, tenant.spread(servers, "rack")
    assert _planned(tenant, group)["violations_before"] == []
    kinds = [each["migration_type"] for server in servers for each in tenant.migrations(server)]
    shown = {one["id"]: one["status"] for one in tenant.shown(servers)}
    assert shown == {server: "SHUTOFF" if server == servers[0] else "ACTIVE" for server in servers}
    tenant.delete(servers)
    return f"{racks} members of one host in {racks} racks, by {', '.join(sorted(kinds))}"


def drained_rack(tenant: Tenant) -> str:
    """A rack is emptied within the policies, its services are disabled, and an undo enables them."""
    rack = tenant.domains["rack"][tenant.lab.computes[0]]
    hosts = {host for host, domain in tenant.domains["rack"].items() if domain == rack}
    group = tenant.create_group("soft-anti-affinity", "anti-affinity")
    members = tenant.start(group, len(tenant.lab.computes) - len(hosts))
    others = tenant.start(None, 3)
    eventually(
        lambda: {*members, *others} <= _mirrored(tenant, hosts, members + others), "the mirror has all instances"
    )
    wanted = {"drain": {"scope": "rack", "domain": rack}}
    dry_run = {"drain": {**wanted["drain"], "dry_run": True}}
    eventually(
        lambda: not tenant.covey("POST", "/os-drains", dry_run)["drain"]["left"],
        "the mirror has no instance that spawns",
    )
    drain = tenant.covey("POST", "/os-drains", wanted)["drain"]
    over = _ended(tenant, drain)
    assert (over["status"], set(over["disabled_hosts"])) == ("done", hosts), over
    assert not hosts & set(tenant.hosts(members + others))
    assert max(tenant.spread(members).values()) == 1
    assert _drained(tenant) == dict.fromkeys(hosts, f"drained by {drain['id']}")
    later = tenant.start(None, 1)
    assert not hosts & set(tenant.hosts(later))
    tenant.covey("POST", f"/os-drains/{drain['id']}/action", {"undo": {}})
    eventually(lambda: not _drained(tenant), "the services are enabled")
    tenant.delete([*members, *others, *later])
    return f"{over['moves_done']} instances left {len(hosts)} hosts; disabled, undone"


def cancelled_drain(tenant: Tenant) -> str:
    """A drain that is cancelled at once leaves every instance whole, and its services disabled until the undo."""
    servers = tenant.start(None, 6)
    host, number = tenant.spread(servers).most_common(1)[0]
    drain = tenant.covey("POST", "/os-drains", {"drain": {"domain": host}})["drain"]
    eventually(lambda: host in _drained(tenant), "the service is disabled")
    tenant.covey("POST", f"/os-drains/{drain['id']}/action", {"cancel": {}})
    over = _ended(tenant, drain)
    assert over["status"] in {"cancelled", "done"}, over  # the computes' fake migrations take no time
    eventually(lambda: not any(step["status"] == "moving" for step in _drain(tenant, drain)["moves"]), "moves end")
    tenant.wait(servers, "ACTIVE")
    assert host in _drained(tenant)
    tenant.covey("POST", f"/os-drains/{drain['id']}/action", {"undo": {}})
    eventually(lambda: not _drained(tenant), "the service is enabled")
    tenant.delete(servers)
    return f"{over['status']} with {over['moves_done']} of {number} moves, all instances ACTIVE"


def _planned(tenant: Tenant, group: str) -> Json:
    found: Json = tenant.covey("POST", f"/os-server-groups/{group}/action", {"rebalance": {"dry_run": True}})
    plan: Json = found["rebalance"]
    return plan


def _rebalance(tenant: Tenant, group: str) -> Json:
    found: Json = tenant.covey("GET", f"/os-server-groups/{group}/rebalance")["rebalance"]
    return found


def _drain(tenant: Tenant, drain: Json) -> Json:
    found: Json = tenant.covey("GET", f"/os-drains/{drain['id']}")["drain"]
    return found


def _ended(tenant: Tenant, drain: Json) -> Json:
    """Return the drain after its end."""
    eventually(lambda: _drain(tenant, drain)["status"] != "running", "the drain ends")
    return _drain(tenant, drain)


def _mirrored(tenant: Tenant, hosts: set[str], servers: list[str]) -> set[str]:
    """Return those of the servers that Covey could move, or that are on other hosts."""
    left = set[str]()
    for host in hosts:
        plan = tenant.covey("POST", "/os-drains", {"drain": {"domain": host, "dry_run": True}})["drain"]
        left |= {each["instance_id"] for each in plan["left"] if "has not read yet" in each["reason"]}
    return {*servers} - left


def _drained(tenant: Tenant) -> dict[str, str]:
    """Return the reasons of compute services that drains disabled, by host. Other stories disable some, too."""
    services = tenant.cloud.compute.get("/os-services?binary=nova-compute", microversion="2.90").json()["services"]
    reasons = {each["host"]: each["disabled_reason"] or "" for each in services if each["status"] == "disabled"}
    return {host: reason for host, reason in reasons.items() if reason.startswith("drained by ")}


STORIES = (rebalanced_group, drained_rack, cancelled_drain)
