"""Builders of clusters, nodes and policies."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import Cluster, Node, NodeStatus
from covey.model.clustering.owners import owner_of
from covey.model.clustering.policies import PLUGINS
from covey.model.clustering.policies.context import Member, PolicyContext
from covey.model.clustering.specs import Binding, Policy
from tests.build import NOW, an_actor

OWNER = owner_of(an_actor())
GROUP = "XYZ-ABCD"


def a_cluster(**fields: Any) -> Cluster:
    return Cluster(id="c", name="web", profile_id="p", owner=OWNER, init_at=NOW, **fields)


def a_member(name: str, zone: str | None = None, age: int = 0, profile_age: int = 0, **fields: Any) -> Member:
    """Return a member whose node and profile have these ages in days."""
    born = NOW - timedelta(days=age)
    made = Node(name, name, "p", OWNER, born, cluster_id="c", created_at=born, status=NodeStatus.ACTIVE)
    node = replace(made, **fields)
    return Member(node, NOW - timedelta(days=profile_age), zone)


def members(*zones: str | None) -> tuple[Member, ...]:
    return tuple(a_member(f"n{index}", zone, index=index) for index, zone in enumerate(zones, 1))


def a_policy(kind: str, version: str = "1.0", name: str = "pol", **properties: Any) -> Policy:
    spec = {"type": f"senlin.policy.{kind}", "version": version, "properties": properties}
    return Policy(f"id-of-{name}", name, f"senlin.policy.{kind}-{version}", spec, OWNER, NOW)


def bound(policy: Policy, **fields: Any) -> Binding:
    known: dict[str, Any] = {"priority": PLUGINS[policy.type_name].priority, "enabled": True, "data": {}}
    return Binding(id=f"binding-of-{policy.name}", cluster_id="c", policy=policy, **known | fields)


def affinity(**properties: Any) -> Binding:
    data = {"AffinityPolicy": {"version": 1.0, "data": {"servergroup_id": GROUP, "inherited_group": True}}}
    return bound(a_policy("affinity", name="apart", **properties), data=data)


def context(
    verb: Verb, /, nodes: tuple[Member, ...] = (), cluster: Cluster | None = None, **more: Any
) -> PolicyContext:
    """Return the context of an action with `inputs` and `data`; other arguments go into the context."""
    known: dict[str, Any] = {"id": "a", "name": "a", "target": "c", "cluster_id": "c"}
    known |= {key: more.pop(key) for key in ("inputs", "data", "target") if key in more}
    action = Action(**known, verb=verb, owner=OWNER, created_at=NOW)
    return PolicyContext(action, cluster or a_cluster(), nodes, NOW, **more)
