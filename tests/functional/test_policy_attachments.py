"""Attaching and detaching policies: the server groups that result, and what is rejected."""

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
from covey.services.clustering.engine.actions import ActionContext, Outcome
from covey.services.clustering.engine.policy_attachments import GroupMembers, PolicyAttachments, PolicyGroups
from tests.build import NOW, an_actor
from tests.functional.fleets import Cloud

ALICE = an_actor()
OWNER = owner_of(ALICE)


def new_id() -> str:
    return str(uuid.uuid4())


@dataclass
class PolicyBench:
    """Clusters and policies as rows, addressed by name."""

    cloud: Cloud
    attachments: PolicyAttachments
    ids: dict[str, str] = field(default_factory=dict)

    def cluster(self, name: str = "c", kind: str = "os.nova.server", **properties: Any) -> None:
        """Add a cluster with its own profile."""
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

    def do(self, verb: Verb, policy: str, cluster: str = "c", **inputs: Any) -> Outcome:
        """Execute an action as a worker does."""
        target = self.ids[cluster]
        action = Action(new_id(), "a", verb, target, OWNER, NOW, target, roles=ALICE.roles)
        action = replace(action, status=ActionStatus.RUNNING, inputs={"policy_id": self.ids[policy], **inputs})
        with self.cloud.store.write() as tx:
            tx.clustering.actions.add([action])
            context = ActionContext(action, tx.clustering.clusters.lock(target))
        handlers = {
            Verb.CLUSTER_ATTACH_POLICY: self.attachments.attach,
            Verb.CLUSTER_DETACH_POLICY: self.attachments.detach,
            Verb.CLUSTER_UPDATE_POLICY: self.attachments.update,
        }
        return handlers[verb](context)

    def attach(self, policy: str, cluster: str = "c", **inputs: Any) -> Binding:
        self.do(Verb.CLUSTER_ATTACH_POLICY, policy, cluster, **inputs)
        return next(binding for binding in self.bindings(cluster) if binding.policy.id == self.ids[policy])

    def rejection(self, policy: str, cluster: str = "c") -> str:
        """Return why a policy cannot be attached; the attempt leaves nothing behind."""
        before = self.bindings(cluster), self.groups()
        with pytest.raises(CoveyError) as error:
            self.attach(policy, cluster)
        assert (self.bindings(cluster), self.groups()) == before
        return error.value.message

    def detach(self, policy: str, cluster: str = "c") -> None:
        self.do(Verb.CLUSTER_DETACH_POLICY, policy, cluster)

    def bindings(self, cluster: str = "c") -> list[Binding]:
        with self.cloud.store.read() as tx:
            return tx.clustering.bindings.of(self.ids[cluster])

    def groups(self) -> dict[str, dict[str, Any]]:
        """Return Alice's server groups by id."""
        found = self.cloud.alice.get("/os-server-groups").json["server_groups"]
        return {group["id"]: group for group in found}

    def group(self, name: str, *policies: str, **rules: int) -> str:
        body = {"name": name, "policies": list(policies)} | ({"rules": rules} if rules else {})
        made = self.cloud.alice.post("/os-server-groups", {"server_group": body})
        assert made.status == 200, made.text
        return str(made.json["server_group"]["id"])


@pytest.fixture
def bench(cloud: Cloud) -> Iterator[PolicyBench]:
    groups = cloud.assembled.services.groups
    members = GroupMembers(groups, cloud.assembled.live)
    bench = PolicyBench(cloud, PolicyAttachments(cloud.store, new_id, PolicyGroups(groups, new_id), members))
    bench.cluster()
    yield bench
    cloud.check()


def expected_data(group: str, *, inherited: bool, version: float = 1.0) -> dict[str, object]:
    """Return a binding's data as the affinity policy's specification shows it."""
    return {"AffinityPolicy": {"version": version, "data": {"servergroup_id": group, "inherited_group": inherited}}}


def test_attaching_creates_a_group_and_detaching_deletes_it(bench: PolicyBench) -> None:
    binding = bench.attach(bench.policy("apart"), enabled=False)
    (group,) = bench.groups().values()
    assert group["name"].startswith("server_group_")
    assert group["name"][-8:].isalnum()
    assert group["name"][-8].isalpha()
    assert (group["policies"], group["rules"]) == (["anti-affinity"], {})
    assert binding.data == expected_data(group["id"], inherited=False)
    assert (binding.priority, binding.enabled, binding.group_id) == (300, False, group["id"])
    bench.detach("apart")
    assert (bench.groups(), bench.bindings()) == ({}, [])


@pytest.mark.parametrize("by", ["name", "id"])
def test_group_of_the_profile_hint_is_inherited_and_kept(bench: PolicyBench, by: str) -> None:
    group = bench.group("mine", "anti-affinity", max_server_per_host=1)
    bench.cluster("hinted", scheduler_hints={"group": "mine" if by == "name" else group})
    binding = bench.attach(bench.policy("apart", servergroup={"name": "another"}), "hinted")
    assert binding.data == expected_data(group, inherited=True)
    bench.detach("apart", "hinted")
    assert list(bench.groups()) == [group]


def test_hinted_group_must_exist_in_the_project_with_equal_policies(bench: PolicyBench) -> None:
    bench.policy("apart", servergroup={"policies": "anti-affinity"})
    theirs = bench.cloud.group("anti-affinity", client=bench.cloud.bob)
    for name, hint in {"nothing": "nothing", "theirs": theirs}.items():
        bench.cluster(name, scheduler_hints={"group": hint})
        assert bench.rejection("apart", name) == f"The specified servergroup '{hint}' could not be found."
    bench.group("close", "affinity")
    bench.cluster("close", scheduler_hints={"group": "close"})
    assert bench.rejection("apart", "close") == (
        "Policies specified (anti-affinity) doesn't match that of the existing servergroup (affinity)."
    )


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_group_with_another_limit_than_implied_is_not_attached(bench: PolicyBench, version: str) -> None:
    bench.group("limited", "anti-affinity", max_server_per_host=3)
    bench.cluster("hinted", scheduler_hints={"group": "limited"})
    bench.policy("apart", version=version)
    assert bench.rejection("apart", "hinted") == (
        "Rules specified (none) doesn't match that of the existing servergroup (max_server_per_host=3)."
    )


def test_named_group_is_created_only_when_missing(bench: PolicyBench) -> None:
    bench.policy("apart", servergroup={"name": "web"})
    made = bench.attach("apart")
    assert [group["name"] for group in bench.groups().values()] == ["web"]
    bench.cluster("second")
    found = bench.attach("apart", "second")
    assert found.data == expected_data(str(made.group_id), inherited=True)
    # The second cluster still uses the group; its detachment deletes it.
    bench.detach("apart")
    assert list(bench.groups()) == [made.group_id]
    bench.detach("apart", "second")
    assert not bench.groups()


def test_ambiguous_group_name_is_rejected(bench: PolicyBench) -> None:
    bench.group("web", "anti-affinity")
    bench.group("web", "anti-affinity")
    assert (
        bench.rejection(bench.policy("apart", servergroup={"name": "web"})) == "Failed in retrieving servergroup 'web'."
    )


def test_affinity_1_1_has_scopes_and_rules(bench: PolicyBench) -> None:
    assert bench.cloud.admin.post("/os-policy-scopes", {"policy_scope": {"name": "rack"}}).status in {200, 201}
    wanted = {"policies": ["anti-affinity:rack", "affinity:host"], "rules": {"max_server_per_rack": 2}}
    binding = bench.attach(bench.policy("racks", version="1.1", servergroup=wanted))
    (group,) = bench.groups().values()
    assert (group["policies"], group["rules"]) == (["anti-affinity:rack", "affinity"], {"max_server_per_rack": 2})
    assert binding.data == expected_data(group["id"], inherited=False, version=1.1)
    # The order of hard policies is irrelevant; a limit is not.
    for name, limit in {"same": 2, "other": 3}.items():
        bench.group(name, "affinity", "anti-affinity:rack", max_server_per_rack=limit)
        bench.cluster(name, scheduler_hints={"group": name})
    assert bench.attach("racks", "same").data["AffinityPolicy"]["data"]["inherited_group"]  # type: ignore[index]
    assert bench.rejection("racks", "other") == (
        "Rules specified (max_server_per_rack=2) doesn't match that of the existing servergroup "
        "(max_server_per_rack=3)."
    )


def test_failed_group_creation_leaves_nothing_behind(bench: PolicyBench) -> None:
    nowhere = bench.policy("nowhere", version="1.1", servergroup={"policies": "anti-affinity:moon"})
    assert bench.rejection(nowhere) == "Failed in creating servergroup: Policy scope 'moon' does not exist."
    bench.cloud.set_quota(server_groups=0)
    assert bench.rejection(bench.policy("apart")) == (
        "Failed in creating servergroup: Quota exceeded, too many server groups."
    )


def test_attaching_is_idempotent_and_versions_count_as_one_type(bench: PolicyBench) -> None:
    first = bench.attach(bench.policy("apart"))
    assert bench.attach("apart") == first
    bench.policy("newer", version="1.1")
    assert bench.rejection("newer") == (
        "Only one instance of policy type (senlin.policy.affinity-1.1) can be attached to a cluster, but another "
        f"instance ({bench.ids['apart']}) is found attached to the cluster ({bench.ids['c']}) already."
    )
    for name in ("up", "down"):
        assert bench.attach(bench.policy(name, "scaling", event="CLUSTER_SCALE_OUT")).data == {}
    bench.attach(bench.policy("zones", "zone_placement", zones=[{"name": "nova"}]))
    bench.attach(bench.policy("removal", "deletion", "1.1"))
    types = [(binding.policy.type_name.rpartition(".")[2], binding.priority) for binding in bench.bindings()]
    assert types == [("scaling", 100), ("scaling", 100), ("zone_placement", 300), ("affinity", 300), ("deletion", 400)]


def test_policy_rejects_other_profile_types(bench: PolicyBench) -> None:
    bench.cluster("stacks", "os.heat.stack")
    assert (
        bench.rejection(bench.policy("apart"), "stacks") == "Policy not applicable on profile type: os.heat.stack-1.0"
    )


def test_policy_can_be_disabled_and_enabled(bench: PolicyBench) -> None:
    bench.attach(bench.policy("apart"))
    bench.do(Verb.CLUSTER_UPDATE_POLICY, "apart", enabled=False)
    bench.do(Verb.CLUSTER_UPDATE_POLICY, "apart")
    assert not bench.bindings()[0].enabled
    bench.do(Verb.CLUSTER_UPDATE_POLICY, "apart", enabled=True)
    assert bench.bindings()[0].enabled
    bench.detach("apart")
    bench.detach("apart")  # idempotent
    with pytest.raises(CoveyError, match="is not attached to the cluster"):
        bench.do(Verb.CLUSTER_UPDATE_POLICY, "apart", enabled=True)


def test_nodes_drop_a_deleted_group_from_their_placement(bench: PolicyBench) -> None:
    group = str(bench.attach(bench.policy("apart")).group_id)
    place = {"zone": "nova", "servergroup": group}
    with bench.cloud.store.write() as tx:
        cluster = tx.clustering.clusters.lock(bench.ids["c"])
        assert cluster is not None
        node = Node(new_id(), "n", cluster.profile_id, OWNER, NOW, cluster.id, index=1, data={"placement": place})
        tx.clustering.nodes.add([node])
    assert bench.cloud.alice.delete(f"/os-server-groups/{group}").status == 204
    bench.detach("apart")  # the group is deleted already
    bench.attach("apart")
    with bench.cloud.store.write() as tx:
        group = str(bench.bindings()[0].group_id)
        tx.clustering.nodes.update([replace(node, data={"placement": {"zone": "nova", "servergroup": group}})])
    bench.detach("apart")
    with bench.cloud.store.read() as tx:
        assert [found.data for found in tx.clustering.nodes.of(bench.ids["c"])] == [{"placement": {"zone": "nova"}}]


def test_deleting_a_cluster_deletes_only_its_own_groups(bench: PolicyBench) -> None:
    bench.policy("named", servergroup={"name": "web"})
    bench.attach(bench.policy("removal", "deletion", "1.1"))
    group = bench.attach("named").group_id
    bench.cluster("second")
    bench.attach("named", "second")
    for cluster, left in {"second": [group], "c": []}.items():
        with bench.cloud.store.write() as tx:
            bench.attachments.detach_all(tx, ALICE, bench.ids[cluster])
        assert bench.bindings(cluster) == []
        assert list(bench.groups()) == left
