"""What Nova does to Covey's Placement API: registers computes, tells of groups, claims and moves instances."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.functional.client import Answer, Client
from tests.functional.fleets import Cloud
from tests.functional.scopes import add_scope
from tests.functional.test_allocation_candidates import placement_client

OWNER = {"project_id": "web", "user_id": "alice"}
VIOLATION = "covey.policy_violation"


@dataclass
class Nova:
    """A Nova with computes, whose Placement service is the cloud."""

    cloud: Cloud
    computes: dict[str, str] = field(default_factory=dict)  # uuids of providers, by name

    @property
    def placement(self) -> Client:
        return placement_client(self.cloud, "1.36", "nova:service").sending(X_Roles="service")

    def add_compute(self, name: str, parent: str | None = None, vcpus: int = 100) -> str:
        """Add a provider with VCPUs; below another one, a child."""
        body = {"name": name} | ({} if parent is None else {"parent_provider_uuid": self.computes[parent]})
        made = self.placement.post("/resource_providers", body)
        assert made.status == 200, made.text
        key = self.computes[name] = str(made.json["uuid"])
        inventories = {"VCPU": {"total": vcpus}}
        self._put(key, "inventories", {"inventories": inventories})
        return key

    def set_aggregates(self, name: str, *uuids: str) -> None:
        self._put(self.computes[name], "aggregates", {"aggregates": list(uuids)})

    def set_traits(self, name: str, *traits: str) -> None:
        self._put(self.computes[name], "traits", {"traits": list(traits)})

    def _put(self, key: str, what: str, body: Mapping[str, Any]) -> None:
        generation = self.placement.get(f"/resource_providers/{key}").json["generation"]
        answer = self.placement.put(
            f"/resource_providers/{key}/{what}", {**body, "resource_provider_generation": generation}
        )
        assert answer.status == 200, answer.text

    def rank(
        self,
        group: str,
        policy: str,
        instance: str | None,
        hosts: Sequence[str] | None = None,
        members: Sequence[str] = (),
        rules: Mapping[str, int] | None = None,
    ) -> dict[str, Any]:
        """Ask for a ranking of computes, as the filter does; return weights by name, and the refusals."""
        told = {"uuid": group, "policy": policy, "rules": rules or {}, "members": list(members), "name": "g", **OWNER}
        names = list(self.computes) if hosts is None else list(hosts)
        body: dict[str, Any] = {"group": told, "hosts": [self.computes.get(name, name) for name in names]}
        answer = self.placement.post("/host_rankings", body | ({} if instance is None else {"instance_uuid": instance}))
        assert answer.status == 200, answer.text
        name_of = {self.computes.get(name, name): name for name in names}
        weights = {name_of[entry["host"]]: entry["weight"] for entry in answer.json["hosts"]}
        return {"hosts": weights, "refused": answer.json["refused"]}

    def member(self, group: str, policy: str = "anti-affinity", **rules: int) -> str:
        """Return a new instance, which the filter told of."""
        instance = str(uuid.uuid4())
        self.rank(group, policy, instance, rules=rules)
        return instance

    def claim(self, instance: str, *names: str, generation: int | None = None) -> Answer:
        """Replace the allocations of an instance by a VCPU of each of the providers."""
        return self.placement.put(f"/allocations/{instance}", self._body(names, generation))

    def place(self, instance: str, *names: str, generation: int | None = None) -> None:
        answer = self.claim(instance, *names, generation=generation)
        assert answer.status == 204, answer.text

    def exchange(self, **writes: tuple[str, Sequence[str], int | None]) -> Answer:
        """Write the allocations of several consumers at once: (uuid, providers, generation) each."""
        return self.placement.post(
            "/allocations", {key: self._body(names, generation) for key, names, generation in writes.values()}
        )

    def leave(self, instance: str) -> str:
        """Hand the allocations of an instance to a new migration, as a move does first; return the migration."""
        migration = str(uuid.uuid4())
        held = self.placement.get(f"/allocations/{instance}").json
        names = [name for name, key in self.computes.items() if key in held["allocations"]]
        answer = self.exchange(source=(instance, (), held["consumer_generation"]), migration=(migration, names, None))
        assert answer.status == 204, answer.text
        return migration

    def delete(self, consumer: str) -> None:
        assert self.placement.delete(f"/allocations/{consumer}").status == 204

    def _body(self, names: Sequence[str], generation: int | None) -> dict[str, Any]:
        allocations = {self.computes[name]: {"resources": {"VCPU": 1}} for name in names}
        return {"allocations": allocations, "consumer_generation": generation, **OWNER}


def nova_with_racks(cloud: Cloud) -> Nova:
    """Four computes: two in rack-a, one in rack-b, one in no rack."""
    made = Nova(cloud)
    for name in ("cn1", "cn2", "cn3", "cn4"):
        made.add_compute(name)
    add_scope(made.cloud, "rack", {"rack-a": [], "rack-b": []})
    with made.cloud.store.read() as tx:
        racks = {aggregate.name: aggregate.uuid for aggregate in tx.aggregates.all()}
    for name, rack in {"cn1": "rack-a", "cn2": "rack-a", "cn3": "rack-b"}.items():
        made.set_aggregates(name, racks[rack])
    return made


def violation(answer: Answer) -> str:
    """Return what a refused claim says."""
    (error,) = answer.json["errors"]
    assert (answer.status, error["code"]) == (409, VIOLATION), answer.text
    return str(error["detail"]).rpartition("\n\n ")[2].strip()
