"""Attaching policies to clusters and detaching them: what becomes of server groups, and what is refused."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from covey.model.clustering.actions import Action, ActionStatus, Verb
from covey.model.clustering.clusters import Cluster, Node
from covey.model.clustering.owners import owner_of
from covey.model.clustering.specs import Binding, Policy, Profile
from covey.model.errors import CoveyError
from covey.services.clustering.engine.attachments import Attachments
from covey.services.clustering.engine.policy_groups import PolicyGroups
from covey.services.clustering.engine.run import Run, Step
from tests.build import NOW, an_actor
from tests.functional.fleets import Cloud

ALICE = an_actor()
OWNER = owner_of(ALICE)


def new_id() -> str:
    return str(uuid.uuid4())


@dataclass
class Workshop:
    """Clusters and policies as rows, and what is done to them by name."""

    cloud: Cloud
    attachments: Attachments
    ids: dict[str, str] = field(default_factory=dict)

    def cluster(self, name: str = "c", kind: str = "os.nova.server", **properties: Any) -> None:
        """A cluster with a profile of its own."""
        cluster, profile = new_id(), new_id()
        spec = {"type": kind, "version": "1.0", "properties": {"flavor": "small", **properties}}
        with self.cloud.store.write() as tx:
            tx.clustering.profiles.add(Profile(profile, name, f"{kind}-1.0", spec, OWNER, NOW))
            tx.clustering.clusters.add(Cluster(cluster, name, profile, OWNER, NOW))
        self.ids[name] = cluster

    def policy(self, name: str, kind: str = "affinity", version: str = "1.0", **properties: Any) -> str:
        spec = {"type": f"senlin.policy.{kind}", "version": version, "properties": properties}
        policy = Policy(new_id(), name, f"senlin.policy.{kind}-{version}", spec, OWNER, NOW)
        with self.cloud.store.write() as tx:
            tx.clustering.policies.add(policy)
        self.ids[name] = policy.id
        return name

    def do(self, verb: Verb, policy: str, cluster: str = "c", **inputs: Any) -> Step:
        """Takes the turn of an action, as a worker does."""
        target = self.ids[cluster]
        action = Action(new_id(), "a", verb, target, OWNER, NOW, target, roles=ALICE.roles)
        action = replace(action, status=ActionStatus.RUNNING, inputs={"policy_id": self.ids[policy], **inputs})
        with self.cloud.store.write() as tx:
            tx.clustering.actions.add([action])
            run = Run(action, tx.clustering.clusters.lock(target))
        return self.attachments.handlers()[verb].begin(run)

    def attach(self, policy: str, cluster: str = "c", **inputs: Any) -> Binding:
        self.do(Verb.CLUSTER_ATTACH_POLICY, policy, cluster, **inputs)
        return next(binding for binding in self.bindings(cluster) if binding.policy.id == self.ids[policy])

    def refused(self, policy: str, cluster: str = "c") -> str:
        """Why it can't be attached; nothing is left of the attempt."""
        before = self.bindings(cluster), self.groups()
        with pytest.raises(CoveyError) as refusal:
            self.attach(policy, cluster)
        assert (self.bindings(cluster), self.groups()) == before
        return refusal.value.message

    def detach(self, policy: str, cluster: str = "c") -> None:
        self.do(Verb.CLUSTER_DETACH_POLICY, policy, cluster)

    def bindings(self, cluster: str = "c") -> list[Binding]:
        with self.cloud.store.read() as tx:
            return tx.clustering.bindings.of(self.ids[cluster])

    def groups(self) -> dict[str, dict[str, Any]]:
        """Alice's, by id."""
        found = self.cloud.alice.get("/os-server-groups").json["server_groups"]
        return {group["id"]: group for group in found}

    def group(self, name: str, *policies: str, **rules: int) -> str:
        body = {"name": name, "policies": list(policies)} | ({"rules": rules} if rules else {})
        made = self.cloud.alice.post("/os-server-groups", {"server_group": body})
        assert made.status == 200, made.text
        return str(made.json["server_group"]["id"])


@pytest.fixture
def shop(cloud: Cloud) -> Iterator[Workshop]:
    made = Workshop(cloud, Attachments(cloud.store, new_id, PolicyGroups(cloud.assembled.services.groups, new_id)))
    made.cluster()
    yield made
    cloud.check()


def kept(group: str, *, inherited: bool, version: float = 1.0) -> dict[str, object]:
    """What a binding remembers, in the words of the affinity policy's document."""
    return {"AffinityPolicy": {"version": version, "data": {"servergroup_id": group, "inherited_group": inherited}}}


def test_a_group_is_made_for_a_policy_and_goes_with_it(shop: Workshop) -> None:
    binding = shop.attach(shop.policy("apart"), enabled=False)
    (group,) = shop.groups().values()
    assert group["name"].startswith("server_group_")
    assert group["name"][-8:].isalnum()
    assert group["name"][-8].isalpha()
    assert (group["policies"], group["rules"]) == (["anti-affinity"], {})
    assert binding.data == kept(group["id"], inherited=False)
    assert (binding.priority, binding.enabled, binding.group_id) == (300, False, group["id"])
    shop.detach("apart")
    assert (shop.groups(), shop.bindings()) == ({}, [])


@pytest.mark.parametrize("by", ["name", "id"])
def test_the_group_of_the_profiles_hint_is_inherited_and_stays(shop: Workshop, by: str) -> None:
    group = shop.group("mine", "anti-affinity", max_server_per_host=3)
    shop.cluster("hinted", scheduler_hints={"group": "mine" if by == "name" else group})
    binding = shop.attach(shop.policy("apart", servergroup={"name": "another"}), "hinted")
    assert binding.data == kept(group, inherited=True)
    shop.detach("apart", "hinted")
    assert list(shop.groups()) == [group]


def test_a_hinted_group_has_to_be_there_be_ones_own_and_want_the_same(shop: Workshop) -> None:
    shop.policy("apart", servergroup={"policies": "anti-affinity"})
    theirs = shop.cloud.group("anti-affinity", client=shop.cloud.bob)
    for name, hint in {"nothing": "nothing", "theirs": theirs}.items():
        shop.cluster(name, scheduler_hints={"group": hint})
        assert shop.refused("apart", name) == f"The specified servergroup '{hint}' could not be found."
    shop.group("close", "affinity")
    shop.cluster("close", scheduler_hints={"group": "close"})
    assert shop.refused("apart", "close") == (
        "Policies specified (anti-affinity) doesn't match that of the existing servergroup (affinity)."
    )


def test_the_group_that_a_policy_names_is_made_unless_there_is_one(shop: Workshop) -> None:
    shop.policy("apart", servergroup={"name": "web"})
    made = shop.attach("apart")
    assert [group["name"] for group in shop.groups().values()] == ["web"]
    shop.cluster("second")
    found = shop.attach("apart", "second")
    assert found.data == kept(str(made.group_id), inherited=True)
    # Who made it lets go of it, but another cluster has it still; it goes with the last one.
    shop.detach("apart")
    assert list(shop.groups()) == [made.group_id]
    shop.detach("apart", "second")
    assert not shop.groups()


def test_two_groups_of_a_name_are_one_too_many(shop: Workshop) -> None:
    shop.group("web", "anti-affinity")
    shop.group("web", "anti-affinity")
    assert shop.refused(shop.policy("apart", servergroup={"name": "web"})) == "Failed in retrieving servergroup 'web'."


def test_the_newer_affinity_has_scopes_and_rules(shop: Workshop) -> None:
    assert shop.cloud.admin.post("/os-policy-scopes", {"policy_scope": {"name": "rack"}}).status in {200, 201}
    wanted = {"policies": ["anti-affinity:rack", "affinity:host"], "rules": {"max_server_per_rack": 2}}
    binding = shop.attach(shop.policy("racks", version="1.1", servergroup=wanted))
    (group,) = shop.groups().values()
    assert (group["policies"], group["rules"]) == (["anti-affinity:rack", "affinity"], {"max_server_per_rack": 2})
    assert binding.data == kept(group["id"], inherited=False, version=1.1)
    # The order of hard policies means nothing; a limit does.
    for name, limit in {"same": 2, "other": 3}.items():
        shop.group(name, "affinity", "anti-affinity:rack", max_server_per_rack=limit)
        shop.cluster(name, scheduler_hints={"group": name})
    assert shop.attach("racks", "same").data["AffinityPolicy"]["data"]["inherited_group"]  # type: ignore[index]
    assert shop.refused("racks", "other") == (
        "Rules specified (max_server_per_rack=2) doesn't match that of the existing servergroup "
        "(max_server_per_rack=3)."
    )


def test_what_can_not_be_made_leaves_nothing_behind(shop: Workshop) -> None:
    nowhere = shop.policy("nowhere", version="1.1", servergroup={"policies": "anti-affinity:moon"})
    assert shop.refused(nowhere) == "Failed in creating servergroup: Policy scope 'moon' does not exist."
    shop.cloud.set_quota(server_groups=0)
    assert shop.refused(shop.policy("apart")) == (
        "Failed in creating servergroup: Quota exceeded, too many server groups."
    )


def test_attaching_again_changes_nothing_and_versions_of_a_type_are_one_type(shop: Workshop) -> None:
    first = shop.attach(shop.policy("apart"))
    assert shop.attach("apart") == first
    shop.policy("newer", version="1.1")
    assert shop.refused("newer") == (
        "Only one instance of policy type (senlin.policy.affinity-1.1) can be attached to a cluster, but another "
        f"instance ({shop.ids['apart']}) is found attached to the cluster ({shop.ids['c']}) already."
    )
    for name in ("up", "down"):
        assert shop.attach(shop.policy(name, "scaling", event="CLUSTER_SCALE_OUT")).data == {}
    shop.attach(shop.policy("zones", "zone_placement", zones=[{"name": "nova"}]))
    shop.attach(shop.policy("fates", "deletion", "1.1"))
    kinds = [(binding.policy.kind.rpartition(".")[2], binding.priority) for binding in shop.bindings()]
    assert kinds == [("scaling", 100), ("scaling", 100), ("zone_placement", 300), ("affinity", 300), ("deletion", 400)]


def test_a_policy_for_servers_is_not_for_other_things(shop: Workshop) -> None:
    shop.cluster("stacks", "os.heat.stack")
    assert shop.refused(shop.policy("apart"), "stacks") == "Policy not applicable on profile type: os.heat.stack-1.0"


def test_a_policy_is_switched_off_and_on(shop: Workshop) -> None:
    shop.attach(shop.policy("apart"))
    shop.do(Verb.CLUSTER_UPDATE_POLICY, "apart", enabled=False)
    shop.do(Verb.CLUSTER_UPDATE_POLICY, "apart")
    assert not shop.bindings()[0].enabled
    shop.do(Verb.CLUSTER_UPDATE_POLICY, "apart", enabled=True)
    assert shop.bindings()[0].enabled
    shop.detach("apart")
    shop.detach("apart")  # what is done already is fine
    with pytest.raises(CoveyError, match="is not attached to the cluster"):
        shop.do(Verb.CLUSTER_UPDATE_POLICY, "apart", enabled=True)


def test_nodes_forget_a_group_that_is_gone(shop: Workshop) -> None:
    group = str(shop.attach(shop.policy("apart")).group_id)
    place = {"zone": "nova", "servergroup": group}
    with shop.cloud.store.write() as tx:
        cluster = tx.clustering.clusters.lock(shop.ids["c"])
        assert cluster is not None
        node = Node(new_id(), "n", cluster.profile_id, OWNER, NOW, cluster.id, index=1, data={"placement": place})
        tx.clustering.nodes.add([node])
    assert shop.cloud.alice.delete(f"/os-server-groups/{group}").status == 204
    shop.detach("apart")  # the group is gone already, and so is what remembers it
    shop.attach("apart")
    with shop.cloud.store.write() as tx:
        group = str(shop.bindings()[0].group_id)
        tx.clustering.nodes.update([replace(node, data={"placement": {"zone": "nova", "servergroup": group}})])
    shop.detach("apart")
    with shop.cloud.store.read() as tx:
        assert [found.data for found in tx.clustering.nodes.of(shop.ids["c"])] == [{"placement": {"zone": "nova"}}]


def test_a_cluster_that_goes_takes_its_own_groups_along_and_leaves_others(shop: Workshop) -> None:
    shop.policy("named", servergroup={"name": "web"})
    shop.attach(shop.policy("fates", "deletion", "1.1"))
    group = shop.attach("named").group_id
    shop.cluster("second")
    shop.attach("named", "second")
    for cluster, left in {"second": [group], "c": []}.items():
        with shop.cloud.store.write() as tx:
            shop.attachments.detach_all(tx, ALICE, shop.ids[cluster])
        assert shop.bindings(cluster) == []
        assert list(shop.groups()) == left
