"""Reshapes: members of groups are not judged by them, and a tree may have hundreds of consumers."""

import json
import uuid
from typing import Any

import pytest

from tests.functional.fleets import BuildCloud
from tests.functional.nova_consumers import OWNER, Nova, nova_with_racks, violation

GROUP = str(uuid.UUID(int=78))
DEFAULT_LIMIT = 114688  # of the bodies of other APIs


@pytest.fixture
def nova(build_cloud: BuildCloud) -> Nova:
    return nova_with_racks(build_cloud(0))


def reshape_of(nova: Nova, source: str, target: str, consumers: dict[str, dict[str, int]]) -> dict[str, Any]:
    """Return a request that moves the resources of consumers from one provider to another, and their inventory."""
    keys = nova.computes[source], nova.computes[target]
    generations = [nova.placement.get(f"/resource_providers/{key}").json["generation"] for key in keys]
    kinds = {kind for resources in consumers.values() for kind in resources}
    stocks: tuple[dict[str, Any], ...] = ({}, {kind: {"total": 1_000_000} for kind in kinds})
    return {
        "inventories": {
            key: {"inventories": stock, "resource_provider_generation": generation}
            for key, stock, generation in zip(keys, stocks, generations, strict=True)
        },
        "allocations": {
            consumer: {"allocations": {keys[1]: {"resources": resources}}, "consumer_generation": 1, **OWNER}
            for consumer, resources in consumers.items()
        },
    }


@pytest.fixture
def violated(nova: Nova) -> tuple[str, str]:
    """Two members in one rack, on cn1 and cn2; then the policy of their group becomes anti-affinity by rack."""
    one, two = nova.member(GROUP, "soft-anti-affinity"), nova.member(GROUP, "soft-anti-affinity")
    nova.place(one, "cn1")
    nova.place(two, "cn2")
    answer = nova.cloud.admin.put(
        f"/os-server-groups/{GROUP}", {"server_group": {"policies": ["anti-affinity:rack"], "rules": {}}}
    )
    assert answer.status == 200, answer.text
    return one, two


def test_reshape_of_a_member_in_violation_is_admitted(nova: Nova, violated: tuple[str, str]) -> None:
    _, two = violated
    nova.add_compute("cn2-numa0", "cn2")
    answer = nova.placement.post("/reshaper", reshape_of(nova, "cn2", "cn2-numa0", {two: {"VCPU": 1}}))
    assert answer.status == 204, answer.text
    assert nova.placement.get(f"/allocations/{two}").json["allocations"].keys() == {nova.computes["cn2-numa0"]}
    violation(nova.claim(nova.member(GROUP), "cn2"))  # it still counts on its host


def test_reshape_to_a_host_that_the_policy_rules_out_is_admitted(nova: Nova, violated: tuple[str, str]) -> None:
    """A reshape describes what is so; only a claim asks whether it may be."""
    _, two = violated
    violation(nova.claim(two, "cn1", generation=1))
    answer = nova.placement.post("/reshaper", reshape_of(nova, "cn2", "cn1", {two: {"VCPU": 1}}))
    assert answer.status == 204, answer.text


def test_tree_with_400_consumers_is_reshaped(nova: Nova) -> None:
    resources = {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10, "SRIOV_NET_VF": 1}
    source = nova.computes["cn1"]
    generation = nova.placement.get(f"/resource_providers/{source}").json["generation"]
    stock = {"inventories": {kind: {"total": 1_000_000} for kind in resources}}
    answer = nova.placement.put(
        f"/resource_providers/{source}/inventories", stock | {"resource_provider_generation": generation}
    )
    assert answer.status == 200, answer.text
    consumers = {str(uuid.UUID(int=1000 + number)): resources for number in range(400)}
    held = {"allocations": {source: {"resources": resources}}, "consumer_generation": None, **OWNER}
    answer = nova.placement.post("/allocations", dict.fromkeys(consumers, held))
    assert answer.status == 204, answer.text
    nova.add_compute("cn1-numa0", "cn1")
    body = reshape_of(nova, "cn1", "cn1-numa0", consumers)
    for entry in body["allocations"].values():
        entry |= {"project_id": uuid.UUID(int=1).hex, "user_id": uuid.UUID(int=2).hex}  # as Keystone's are
    assert len(json.dumps(body)) > DEFAULT_LIMIT
    answer = nova.placement.post("/reshaper", body)
    assert answer.status == 204, answer.text
    numa, found = nova.computes["cn1-numa0"], nova.placement.get(f"/resource_providers/{source}/allocations")
    assert found.json["allocations"] == {}
    found = nova.placement.get(f"/resource_providers/{numa}/allocations")
    assert found.json["allocations"].keys() == consumers.keys()
    usages = nova.placement.get(f"/resource_providers/{numa}/usages").json["usages"]
    assert usages == {kind: 400 * amount for kind, amount in resources.items()}
