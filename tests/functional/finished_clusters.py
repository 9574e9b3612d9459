"""Clusters without a worker: every action succeeds at once. For tests of requests, not of their execution."""

from dataclasses import replace

from covey.model.clustering.actions import ActionStatus
from covey.model.clustering.clusters import ClusterStatus, NodeStatus
from covey.model.clustering.paging import PageQuery
from covey.model.clustering.specs import Binding
from covey.model.ids import ServerId
from covey.model.work import JobKind
from tests.functional.client import Client
from tests.functional.clusters import SERVER, STACK, clustering_client
from tests.functional.fleets import Cloud


def finish_actions(cloud: Cloud) -> None:
    """Make every unfinished action SUCCEEDED and every cluster and node ACTIVE."""
    now = cloud.time()
    with cloud.store.write() as tx:
        rows = tx.clustering
        unfinished = [action for action in rows.actions.page(PageQuery()) if not action.is_finished]
        rows.actions.update([replace(action, status=ActionStatus.SUCCEEDED, ended_at=now) for action in unfinished])
        tx.work.finish(JobKind.CLUSTER_ACTION, [action.id for action in unfinished])
        for action in unfinished:
            rows.locks.release(action.id)
        for cluster in rows.clusters.page(PageQuery()):
            rows.clusters.update(replace(cluster, status=ClusterStatus.ACTIVE, created_at=now))
        rows.nodes.update([replace(node, status=NodeStatus.ACTIVE) for node in rows.nodes.page(PageQuery())])


def with_profiles(cloud: Cloud, who: str = "alice:web", version: str = "1.14") -> Client:
    """Return a client whose project has the profiles `server` and `stack`."""
    client = clustering_client(cloud.service, who, version)
    for name, spec in (("server", SERVER), ("stack", STACK)):
        assert client.post("/profiles", {"profile": {"name": name, "spec": spec}}).status == 201
    return client


def a_cluster(cloud: Cloud, client: Client, name: str = "web", nodes: int = 0, **more: object) -> str:
    """Create an ACTIVE cluster with that many nodes; return its id."""
    made = client.post("/clusters", {"cluster": {"name": name, "profile_id": "server", **more}})
    assert made.status == 202, made.text
    finish_actions(cloud)
    cluster = str(made.json["cluster"]["id"])
    for _ in range(nodes):
        a_node(cloud, client, cluster_id=cluster)
    return cluster


def a_node(cloud: Cloud, client: Client, name: str = "n", profile: str = "server", **more: object) -> str:
    """Create an ACTIVE node; return its id."""
    made = client.post("/nodes", {"node": {"name": name, "profile_id": profile, **more}})
    assert made.status == 202, made.text
    finish_actions(cloud)
    return str(made.json["node"]["id"])


def bind(cloud: Cloud, cluster: str, policy: str, *, enabled: bool = True) -> str:
    """Attach a policy whose last_op is now; return the binding's id."""
    with cloud.store.write() as tx:
        found = tx.clustering.policies.one(policy, None)
        assert found is not None
        binding = Binding(f"{policy[:8]}-0000-4000-8000-000000000000", cluster, found, 100, enabled, {})
        tx.clustering.bindings.add(replace(binding, last_op=cloud.time()))
    return binding.id


def set_server(cloud: Cloud, node: str, server: str) -> None:
    """Make a server the server of a node."""
    with cloud.store.write() as tx:
        found = tx.clustering.nodes.by_ids([node])
        tx.clustering.nodes.update([replace(each, server_id=ServerId(server)) for each in found])
