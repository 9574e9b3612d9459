"""Clients and specs for tests of the Clustering API."""

from typing import Any

from tests.functional.client import Client, Service

SERVER: dict[str, Any] = {
    "type": "os.nova.server",
    "version": 1.0,
    "properties": {"flavor": "small", "name": "web", "networks": [{"network": "private"}]},
}
STACK: dict[str, Any] = {"type": "os.heat.stack", "version": "1.0", "properties": {"template": {"a": 1}}}
SCALING: dict[str, Any] = {
    "type": "senlin.policy.scaling",
    "version": "1.0",
    "properties": {"event": "CLUSTER_SCALE_IN", "adjustment": {"number": 1, "best_effort": True}},
}


def clustering_client(service: Service, token: str | None, version: str | None = "1.14") -> Client:
    """Return a client of the Clustering API."""
    return as_clustering_client(service.as_(token), version)


def as_clustering_client(client: Client, version: str | None = "1.14") -> Client:
    """Return the same caller as a client of the Clustering API."""
    asked = {} if version is None else {"OpenStack_API_Version": f"clustering {version}"}
    return Client(client.http, client.token).below("/clustering/v1").sending(**asked)


def policy(kind: str, version: str = "1.0", **properties: Any) -> dict[str, Any]:
    """Return the spec of a policy."""
    return {"type": f"senlin.policy.{kind}", "version": version, "properties": properties}
