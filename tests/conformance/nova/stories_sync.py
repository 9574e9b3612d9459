"""`covey sync nova` mirrors the cloud: what appears, what a restart catches up with, and how old it is."""

import re

from tests.conformance.nova.cloud import SYNC_S, eventually
from tests.conformance.nova.tenant import Tenant

_HOUR = ("--interval", "3600")
_READ = "nova.synced"


def mirrored_cloud(tenant: Tenant) -> str:
    """What changes while the sync is stopped appears after its restart; a notification causes a reading."""
    lab, log = tenant.lab, tenant.lab.directory / "covey-sync.out"
    lab.stop("covey-sync")
    with tenant.aggregate("fast", lab.computes[:2], metadata={"ssd": "true"}):
        group = tenant.create_group("anti-affinity")
        lab.start_sync("--interval", str(SYNC_S))
        eventually(lambda: "fast" in _aggregates(tenant) and group in _groups(tenant), "aggregate and group appear")
    eventually(lambda: "fast" not in _aggregates(tenant), "the aggregate is gone")
    lab.stop("covey-sync")
    readings = log.read_text().count(_READ)
    lab.start_sync(*_HOUR, "--notifications")
    eventually(lambda: log.read_text().count(_READ) > readings, "the sync has read once")
    announced = tenant.create_group("affinity")
    eventually(lambda: announced in _groups(tenant), "a notification announces the group")
    lab.stop("covey-sync")
    status = lab.covey("status", allowed=(0, 1))
    lag = re.search(r"nova: .*, read (\d+ s) ago", status)
    assert lag, status
    lab.start_sync("--interval", str(SYNC_S))
    counts = lab.covey("sync", "nova", "--once", "--cloud", "admin").strip()
    return f"resumed after a restart, woken by a notification; {lag[1]} of lag. {counts}"


def _aggregates(tenant: Tenant) -> set[str]:
    return {one["name"] for one in tenant.covey("GET", "/os-aggregates")["aggregates"]}


def _groups(tenant: Tenant) -> set[str]:
    return {one["id"] for one in tenant.covey("GET", "/os-server-groups?all_projects=true")["server_groups"]}


STORIES = (mirrored_cloud,)
