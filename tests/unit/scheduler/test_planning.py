"""A plan is a pure function of the requests, what the transaction read, and the fleet."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from covey.model.claims import NewServer, Plan, ResolvedRequest, ServerRequest
from covey.model.errors import Conflict, CoveyError, Invalid, OverQuota
from covey.model.groups import GroupPolicy, GroupState
from covey.model.ids import GroupId, HostId, ProjectId, ServerId, UserId
from covey.model.quotas import COUNTED, UNLIMITED
from covey.model.resources import resource_request, server_resources
from covey.model.servers import Details, Fault, HostRequirements, PlacementRequest, Server, VmState
from covey.scheduler.explain import Explanation, NoHost
from covey.scheduler.fleet import Fleet
from covey.scheduler.planning import PlanningContext, plan, return_room, take_room
from tests.build import NOW, a_flavor
from tests.unit.scheduler.fleets import anti_affinity, fleet, host, hosts

WEB, ALICE = ProjectId("web"), UserId("alice")
GROUP = GroupId("g")
FIRST = ServerId("00000000-0000-7000-8000-000000000000")
FLAVOR = a_flavor("small", vcpus=2, memory_mb=1024, disk_gb=10)
NO_LIMITS = dict.fromkeys(("instances", "cores", "ram", "server_group_members", "metadata_items"), UNLIMITED)


def request(name: str = "s", **fields: Any) -> ResolvedRequest:
    """Return a request; fields of its resolved objects are accepted beside its own fields."""
    flavor = fields.pop("flavor", FLAVOR)
    forced, requirements = fields.pop("forced", False), fields.pop("requirements", {})
    refusal = fields.pop("refusal", None)
    defaults: dict[str, Any] = {"request_id": "req-1", "now": NOW, "seed": 7, "first_id": FIRST, "details": Details()}
    if "count" in fields:
        fields.setdefault("minimum", fields["count"])
    return ResolvedRequest(
        ServerRequest(WEB, ALICE, name, "small", None, **defaults | fields),
        flavor=flavor,
        resources=resource_request(flavor),
        placement=PlacementRequest(forced=forced),
        requirements=HostRequirements(WEB, **requirements),
        refusal=refusal,
    )


def context(**fields: Any) -> PlanningContext:
    """Return a context without limits, or with `limits` and zero usage."""
    limits = NO_LIMITS | fields.pop("limits", {})
    counted = any(limits[name] != UNLIMITED for name in COUNTED)
    fields.setdefault("usage", {WEB: dict.fromkeys(COUNTED, 0)} if counted else {})
    return PlanningContext(limits={WEB: limits}, **fields)


def in_group(
    *policies: GroupPolicy, members_by_host: dict[int, int] | None = None, project: ProjectId = WEB
) -> PlanningContext:
    members_by_host = members_by_host or {}
    state = GroupState(1, project, policies, members_by_host, {ALICE: sum(members_by_host.values())})
    return context(groups={GROUP: state})


def servers(outcome: list[Server] | CoveyError) -> list[Server]:
    assert not isinstance(outcome, CoveyError), outcome
    return outcome


def explained(
    outcome: list[Server] | CoveyError, tenant_message: Callable[[Explanation], str] = Explanation.sentence
) -> tuple[str, str]:
    """Return the tenant's message, without its common beginning, and the details for administrators."""
    assert isinstance(outcome, NoHost)
    why = outcome.explain(tenant_message)
    return why.message.removeprefix("No valid host was found. "), why.details


def free(of: Fleet) -> list[list[int]]:
    return np.asarray(of.free).tolist()  # type: ignore[no-any-return]


class TestOutcomes:
    def test_server_gets_a_host_and_the_plan_lists_its_amounts(self) -> None:
        there = fleet(host(1))
        result = plan([request(tags=frozenset({"blue"}))], context(), there)
        (server,) = servers(result.outcomes[0])
        assert (server.id, server.name, server.host_id, server.host_name) == (FIRST, "s", 1, "n1")
        assert (server.vm_state, server.created_at, server.tags) == (VmState.BUILDING, NOW, frozenset({"blue"}))
        assert (server.placement.seed, server.placement.candidates, server.placement.hosts) == (7, 1, 1)
        assert result.placed == [NewServer(server, "req-1", {1: server_resources(2, 1024, 10)})]
        assert result.taken == [((1,), server_resources(2, 1024, 10))]
        assert free(there) == free(fleet(host(1)))

    def test_equal_inputs_give_equal_plans(self) -> None:
        requests = [request(f"s{i}", seed=i, first_id=ServerId(str(uuid.UUID(int=i)))) for i in range(20)]
        assert plan(requests, context(), fleet(*hosts(9))) == plan(requests, context(), fleet(*hosts(9)))

    def test_each_request_is_planned_after_the_ones_before_it(self) -> None:
        full = fleet(host(1, (2, 8192, 100)), host(2, (2, 8192, 100)))
        result = plan([request(first_id=ServerId(str(uuid.UUID(int=i)))) for i in range(3)], context(), full)
        assert {servers(outcome)[0].host_id for outcome in result.outcomes[:2]} == {1, 2}
        assert isinstance(result.outcomes[2], NoHost)

    def test_batch_numbers_its_servers_and_their_ids(self) -> None:
        result = plan([request("web", count=3)], context(), fleet(*hosts(3)))
        batch = servers(result.outcomes[0])
        assert [server.name for server in batch] == ["web-1", "web-2", "web-3"]
        assert [server.details.launch_index for server in batch] == [0, 1, 2]
        assert [uuid.UUID(server.id).int - uuid.UUID(FIRST).int for server in batch] == [0, 1, 2]

    def test_servers_can_have_their_own_names_and_metadata(self) -> None:
        each = (("a", {"k": "1"}), ("b", {"k": "2"}))
        result = plan([request(count=2, names_and_metadata=each)], context(), fleet(*hosts(2)))
        assert [(s.name, s.details.metadata) for s in servers(result.outcomes[0])] == list(each)

    def test_batch_shrinks_to_what_fits_down_to_its_minimum(self) -> None:
        there = fleet(host(1, (6, 8192, 100)))
        result = plan([request(count=5, minimum=2)], context(), there)
        assert len(servers(result.outcomes[0])) == 3

    def test_batch_below_its_minimum_takes_nothing(self) -> None:
        there = fleet(host(1, (6, 8192, 100)))
        result = plan([request(count=5, minimum=4)], context(), there)
        assert explained(result.outcomes[0])[0] == "3 of 5 fit, then of 1 host: 1 lacks VCPUs"
        assert result.taken == []
        assert free(there) == free(fleet(host(1, (6, 8192, 100))))

    def test_refused_batch_becomes_as_many_servers_in_error_as_its_minimum(self) -> None:
        batch = request(count=5, minimum=4)
        result = plan([batch], context(), fleet(host(1)), faults={batch.request.first_id: Fault("full", NOW)})
        failed = servers(result.outcomes[0])
        assert [(s.vm_state, s.host_id, s.group_id) for s in failed] == [(VmState.ERROR, None, None)] * 4


class TestRefusals:
    def test_refused_request_has_a_reason_and_no_server(self) -> None:
        result = plan([request(flavor=replace(FLAVOR, vcpus=9))], context(), fleet(*hosts(3)))
        assert explained(result.outcomes[0]) == ("of 3 hosts: 3 lack VCPUs", "of 3 hosts: 3 lack VCPUs")
        assert result.servers == []

    def test_message_for_tenants_may_differ_from_the_details(self) -> None:
        result = plan([request(flavor=replace(FLAVOR, vcpus=9))], context(), fleet(*hosts(3)))
        told = explained(result.outcomes[0], lambda _: "Nothing fits.")
        assert told == ("Nothing fits.", "of 3 hosts: 3 lack VCPUs")

    def test_reason_is_that_of_the_fleet_at_the_decision(self) -> None:
        there = fleet(*hosts(2))
        big = request(flavor=replace(FLAVOR, vcpus=8))
        result = plan([big, big, big], context(), there)
        there.take(0, server_resources(-8, 0, 0))  # a server left since
        assert explained(result.outcomes[2])[0] == "of 2 hosts: 2 lack VCPUs"

    def test_refusal_known_before_planning_is_the_reason(self) -> None:
        rejected = request(refusal="No such host.", requirements={"only_hosts": frozenset({HostId(0)})}, forced=True)
        assert explained(plan([rejected], context(), fleet(*hosts(2))).outcomes[0])[0] == "No such host."

    def test_request_with_a_fault_becomes_servers_in_error_without_room(self) -> None:
        fault, there = Fault("No valid host was found.", NOW), fleet(*hosts(2))
        before = free(there)
        result = plan([request()], context(), there, faults={request().request.first_id: fault})
        (server,) = servers(result.outcomes[0])
        assert (server.fault, server.host_id, server.group_id) == (fault, None, None)
        assert free(there) == before

    def test_unknown_zone_is_invalid(self) -> None:
        result = plan([request(requirements={"zone": "moon"})], context(), fleet(*hosts(2)))
        assert isinstance(result.outcomes[0], Invalid)
        assert result.servers == []

    def test_host_that_was_full_is_avoided_unless_forced(self) -> None:
        avoid = context(avoid=frozenset({HostId(1)}))
        two = [request(), request(forced=True, requirements={"only_hosts": frozenset({HostId(1)})})]
        result = plan(two, avoid, fleet(*hosts(2)))
        assert [servers(outcome)[0].host_id for outcome in result.outcomes] == [2, 1]


class TestGroups:
    def test_members_of_one_plan_count_for_each_other(self) -> None:
        result = plan([request(group_id=GROUP)] * 3, in_group(anti_affinity()), fleet(*hosts(2)))
        assert {servers(outcome)[0].host_id for outcome in result.outcomes[:2]} == {1, 2}
        assert isinstance(result.outcomes[2], NoHost)
        assert result.groups[GROUP].members_by_host == {1: 1, 2: 1}
        assert result.groups[GROUP].users == {ALICE: 2}

    def test_planning_leaves_the_context_unchanged(self) -> None:
        read = in_group(anti_affinity(), members_by_host={1: 1})
        result = plan([request(group_id=GROUP)], read, fleet(*hosts(2)))
        assert read.groups[GROUP].members_by_host == {1: 1}
        assert result.groups[GROUP].members_by_host == {1: 1, 2: 1}

    @pytest.mark.parametrize("read", [context(), in_group(project=ProjectId("db"))], ids=["none", "of another project"])
    def test_unknown_group_is_invalid(self, read: PlanningContext) -> None:
        (outcome,) = plan([request(group_id=GROUP)], read, fleet(*hosts(2))).outcomes
        assert isinstance(outcome, Invalid)
        assert outcome.message == "Instance group g could not be found."

    def test_quota_of_members_counts_the_whole_batch(self) -> None:
        read = replace(in_group(members_by_host={1: 2}), limits={WEB: NO_LIMITS | {"server_group_members": 3}})
        two, one = plan([request(group_id=GROUP, count=2), request(group_id=GROUP)], read, fleet(*hosts(2))).outcomes
        assert isinstance(two, OverQuota)
        assert len(servers(one)) == 1


class TestQuotas:
    def test_request_beyond_the_quota_names_the_amounts(self) -> None:
        read = context(limits={"cores": 5}, usage={WEB: {"instances": 2, "cores": 4, "ram": 2048}})
        (outcome,) = plan([request()], read, fleet(*hosts(2))).outcomes
        assert isinstance(outcome, OverQuota)
        assert outcome.message == "Quota exceeded for cores: Requested 2, but already used 4 of 5 cores"

    def test_batch_shrinks_to_the_quota(self) -> None:
        result = plan([request(count=5, minimum=1)], context(limits={"instances": 3}), fleet(*hosts(9)))
        assert len(servers(result.outcomes[0])) == 3

    def test_requests_of_one_plan_share_the_quota(self) -> None:
        result = plan([request(), request(), request()], context(limits={"ram": 2048}), fleet(*hosts(9)))
        assert [isinstance(outcome, OverQuota) for outcome in result.outcomes] == [False, False, True]
        assert result.limits == {WEB: {"instances": UNLIMITED, "cores": UNLIMITED, "ram": 2048}}

    def test_quotas_that_a_plan_uses_no_more_of_are_not_checked_again(self) -> None:
        """They may be exceeded, by a lower limit, and would refuse every claim."""
        read = context(limits={"cores": 1}, usage={WEB: {"instances": 2, "cores": 4, "ram": 2048}})
        coreless = replace(FLAVOR, extra_specs={"resources:VCPU": "0"})
        result = plan([request(flavor=coreless)], read, fleet(*hosts(1)))
        assert len(servers(result.outcomes[0])) == 1
        assert result.limits == {WEB: {"instances": UNLIMITED, "ram": UNLIMITED}}

    def test_limit_of_a_resource_class_counts_placed_servers_of_the_plan(self) -> None:
        sized = context(limits={"class:DISK_GB": 35}, usage={WEB: {"class:DISK_GB": 10}})
        result = plan([request(count=5, minimum=1), request()], sized, fleet(*hosts(9)))
        assert len(servers(result.outcomes[0])) == 2
        assert isinstance(result.outcomes[1], OverQuota)
        assert result.outcomes[1].message == (
            "Quota exceeded for class:DISK_GB: Requested 10, but already used 30 of 35 class:DISK_GB"
        )
        assert result.limits == {WEB: {"class:DISK_GB": 35}}

    def test_servers_in_error_count_against_the_quota(self) -> None:
        failed = request(first_id=ServerId(str(uuid.UUID(int=7))))
        faults = {failed.request.first_id: Fault("full", NOW)}
        result = plan([failed, request()], context(limits={"instances": 1}), fleet(*hosts(2)), faults=faults)
        assert servers(result.outcomes[0])[0].vm_state is VmState.ERROR
        assert isinstance(result.outcomes[1], OverQuota)


class TestIdempotency:
    KEY = (WEB, "k")

    def repeated(self, fingerprint: str = "f") -> ResolvedRequest:
        return request(key=(WEB, "k"), fingerprint=fingerprint)

    def test_new_key_stores_its_answer(self) -> None:
        result = plan([self.repeated()], context(answers={self.KEY: None}), fleet(*hosts(2)))
        assert result.answers == {self.KEY: ("f", [FIRST])}
        assert result.unused_keys == []

    def test_known_key_returns_the_stored_servers_that_still_exist(self) -> None:
        (kept,) = servers(plan([request()], context(), fleet(*hosts(2))).outcomes[0])
        read = context(answers={self.KEY: ("f", [FIRST, "deleted"])}, answered={FIRST: kept})
        result = plan([self.repeated()], read, fleet(*hosts(2)))
        assert result == Plan(outcomes=[[kept]])

    def test_key_used_twice_in_one_plan_creates_one_server(self) -> None:
        result = plan([self.repeated(), self.repeated()], context(answers={self.KEY: None}), fleet(*hosts(2)))
        assert result.outcomes[0] == result.outcomes[1]
        assert len(result.servers) == 1

    def test_key_of_another_request_is_a_conflict(self) -> None:
        result = plan([self.repeated("other")], context(answers={self.KEY: ("f", [FIRST])}), fleet(*hosts(2)))
        assert isinstance(result.outcomes[0], Conflict)
        assert (result.answers, result.unused_keys) == ({}, [])

    def test_key_of_a_failed_request_is_free_again(self) -> None:
        read = context(answers={self.KEY: None}, limits={"instances": 0})
        result = plan([self.repeated()], read, fleet(*hosts(2)))
        assert isinstance(result.outcomes[0], OverQuota)
        assert (result.answers, result.unused_keys) == ({}, [self.KEY])


class TestRoom:
    def test_plan_leaves_the_fleet_as_it_is(self) -> None:
        there = fleet(*hosts(5))
        plan([request(count=7), request(), request(count=2)], context(), there)
        assert free(there) == free(fleet(*hosts(5)))

    def test_room_of_a_plan_is_taken_and_returned(self) -> None:
        there = fleet(*hosts(5))
        result = plan([request(count=7), request(), request(count=2)], context(), there)
        take_room(there, result)
        taken = np.array(free(fleet(*hosts(5)))) - free(there)
        assert taken.sum(axis=1).tolist() == [20, 10240, 100]
        return_room(there, result)
        assert free(there) == free(fleet(*hosts(5)))

    @pytest.mark.parametrize(
        ("last", "error"),
        [
            (request(flavor=replace(FLAVOR, vcpus=9)), NoHost),
            (request(group_id=GROUP), Invalid),
            (request(requirements={"zone": "moon"}), Invalid),
        ],
        ids=["no valid host", "unknown group", "unknown zone"],
    )
    def test_all_or_nothing_raises_the_first_error_and_takes_nothing(
        self, last: ResolvedRequest, error: type[CoveyError]
    ) -> None:
        there = fleet(*hosts(3))
        with pytest.raises(error):
            plan([request(count=3), last, request()], context(), there, all_or_nothing=True)
        assert free(there) == free(fleet(*hosts(3)))

    def test_all_or_nothing_plans_all_when_all_fit(self) -> None:
        result = plan([request(count=3), request()], context(), fleet(*hosts(3)), all_or_nothing=True)
        assert len(result.servers) == len(result.placed) == 4
