"""Somebody who has a cluster, and workers that do what is asked of it."""

from dataclasses import dataclass
from typing import Any

from tests.functional.client import Answer, Client
from tests.functional.clusters import speaking
from tests.functional.fleets import Cloud


@dataclass
class Tenant:
    """Alice and her cluster called web, whose profile is p."""

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
        """What becomes of an action."""
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
        """The server group of the cluster's affinity policy."""
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
        """How many nodes there are, and how many are wanted."""
        return len(self.cluster["nodes"]), self.cluster["desired_capacity"]

    @property
    def nodes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.api.get("/nodes", sort="index").json["nodes"]
        return found

    @property
    def hosts(self) -> list[str | None]:
        return self.cloud.hosts(node["physical_id"] for node in self.nodes if node["physical_id"])

    def check(self) -> None:
        """Each node that is well has a server of its own, and there is no other server."""
        servers = {server["id"] for server in self.cloud.servers()}
        of_nodes = [node["physical_id"] for node in self.nodes if node["status"] == "ACTIVE"]
        assert sorted(servers) == sorted(of_nodes)


def a_tenant(cloud: Cloud, client: Client, **properties: Any) -> Tenant:
    """Somebody who has the profile p."""
    tenant = Tenant(cloud, speaking(client))
    tenant.profile(**properties)
    return tenant
