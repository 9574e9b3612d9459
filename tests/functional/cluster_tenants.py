"""A tenant with a cluster, and workers that execute its actions."""

from dataclasses import dataclass
from typing import Any

from tests.functional.client import Answer, Client
from tests.functional.clusters import as_clustering_client
from tests.functional.fleets import Cloud


@dataclass
class Tenant:
    """A tenant with the cluster web and the profile p."""

    cloud: Cloud
    api: Client

    def profile(self, called: str = "p", **properties: Any) -> str:
        spec = {"type": "os.nova.server", "version": "1.0", "properties": {"flavor": "small"} | properties}
        made = self.api.post("/profiles", {"profile": {"name": called, "spec": spec}})
        assert made.status == 201, made.text
        return str(made.json["profile"]["id"])

    def create(self, nodes: int = 0, **more: Any) -> dict[str, Any]:
        body = {"name": "web", "profile_id": "p", "desired_capacity": nodes} | more
        return self.done(self.api.post("/clusters", {"cluster": body}))

    def ask(self, action: str, **body: Any) -> Answer:
        return self.api.post("/clusters/web/actions", {action: body})

    def do(self, action: str, **body: Any) -> dict[str, Any]:
        """Start an action and return it when it is finished."""
        return self.done(self.ask(action, **body))

    def done(self, answer: Answer) -> dict[str, Any]:
        assert answer.status == 202, answer.text
        self.cloud.settle()
        return self.action(answer)

    def action(self, answer: Answer) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(f"/actions/{answer.headers['location'].rpartition('/')[2]}").json["action"]
        return found

    def attach(self, spec: dict[str, Any], name: str = "spread") -> dict[str, Any]:
        assert self.api.post("/policies", {"policy": {"name": name, "spec": spec}}).status == 201
        assert self.do("policy_attach", policy_id=name)["status"] == "SUCCEEDED"
        binding: dict[str, Any] = self.api.get(f"/clusters/web/policies/{name}").json["cluster_policy"]
        return binding

    def group(self) -> str:
        """Return the server group of the cluster's affinity policy."""
        (found,) = self.api.get("/clusters/web/policies").json["cluster_policies"]
        return str(found["data"]["AffinityPolicy"]["data"]["servergroup_id"])

    def delete(self) -> dict[str, Any]:
        return self.done(self.api.delete("/clusters/web"))

    @property
    def cluster(self) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get("/clusters/web").json["cluster"]
        return found

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of nodes and the desired capacity."""
        return len(self.cluster["nodes"]), self.cluster["desired_capacity"]

    @property
    def nodes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.api.get("/nodes", sort="index").json["nodes"]
        return found

    @property
    def hosts(self) -> list[str | None]:
        return self.cloud.hosts(node["physical_id"] for node in self.nodes if node["physical_id"])

    def check(self) -> None:
        """Assert that each ACTIVE node has its own server and no other server exists."""
        servers = {server["id"] for server in self.cloud.servers()}
        of_nodes = [node["physical_id"] for node in self.nodes if node["status"] == "ACTIVE"]
        assert sorted(servers) == sorted(of_nodes)


def a_tenant(cloud: Cloud, client: Client, **properties: Any) -> Tenant:
    """Return a tenant with the profile p."""
    tenant = Tenant(cloud, as_clustering_client(client))
    tenant.profile(**properties)
    return tenant
