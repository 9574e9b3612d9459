"""Clusters at rest without a worker: for stories about what is asked, and not about how it is done."""

from dataclasses import replace

from covey.model.clustering.actions import ActionStatus
from covey.model.clustering.clusters import ClusterStatus, NodeStatus
from covey.model.clustering.listing import Listing
from covey.model.clustering.specs import Binding
from covey.model.ids import ServerId
from covey.model.work import JobKind
from tests.functional.client import Client
from tests.functional.clusters import SERVER, STACK, speaker
from tests.functional.fleets import Cloud


def rest(cloud: Cloud) -> None:
    """Whatever is under way is over, and all is well."""
    now = cloud.time()
    with cloud.store.write() as tx:
        rows = tx.clustering
        under_way = [action for action in rows.actions.page(Listing()) if not action.is_over]
        rows.actions.update([replace(action, status=ActionStatus.SUCCEEDED, ended_at=now) for action in under_way])
        tx.work.finish(JobKind.CLUSTER_ACTION, [action.id for action in under_way])
        for action in under_way:
            rows.locks.free(action.id)
        for cluster in rows.clusters.page(Listing()):
            rows.clusters.update(replace(cluster, status=ClusterStatus.ACTIVE, created_at=now))
        rows.nodes.update([replace(node, status=NodeStatus.ACTIVE) for node in rows.nodes.page(Listing())])


def with_profiles(cloud: Cloud, who: str = "alice:web", version: str = "1.14") -> Client:
    """Somebody who has the profiles `server` and `stack`."""
    client = speaker(cloud.service, who, version)
    for name, spec in (("server", SERVER), ("stack", STACK)):
        assert client.post("/profiles", {"profile": {"name": name, "spec": spec}}).status == 201
    return client


def a_cluster(cloud: Cloud, client: Client, name: str = "web", nodes: int = 0, **more: object) -> str:
    """The id of a cluster with so many nodes, at rest."""
    made = client.post("/clusters", {"cluster": {"name": name, "profile_id": "server", **more}})
    assert made.status == 202, made.text
    rest(cloud)
    cluster = str(made.json["cluster"]["id"])
    for _ in range(nodes):
        a_node(cloud, client, cluster_id=cluster)
    return cluster


def a_node(cloud: Cloud, client: Client, name: str = "n", profile: str = "server", **more: object) -> str:
    """The id of a node, at rest."""
    made = client.post("/nodes", {"node": {"name": name, "profile_id": profile, **more}})
    assert made.status == 202, made.text
    rest(cloud)
    return str(made.json["node"]["id"])


def bind(cloud: Cloud, cluster: str, policy: str, *, enabled: bool = True) -> str:
    """Attach a policy, as if long ago; its last use is now."""
    with cloud.store.write() as tx:
        found = tx.clustering.policies.one(policy, None)
        assert found is not None
        binding = Binding(f"{policy[:8]}-0000-4000-8000-000000000000", cluster, found, 100, enabled, {})
        tx.clustering.bindings.add(replace(binding, last_op=cloud.time()))
    return binding.id


def become(cloud: Cloud, node: str, server: str) -> None:
    """Have a server be a node."""
    with cloud.store.write() as tx:
        found = tx.clustering.nodes.by_ids([node])
        tx.clustering.nodes.update([replace(each, server_id=ServerId(server)) for each in found])
