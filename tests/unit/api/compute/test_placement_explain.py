"""The allocation candidates query of an explanation."""

import pytest

from covey.api.compute.placement_explain import show_query
from covey.model.resources import server_resources
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from covey.services.explanations import PlacementQuery

A, B = frozenset({"A"}), frozenset({"B", "C"})


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        (PlacementQuery(RequestSpec(server_resources(1, 512, 2)), ()), "resources=VCPU:1,MEMORY_MB:512,DISK_GB:2"),
        (
            PlacementQuery(RequestSpec(server_resources(1, 512, 0)), ("u1",)),
            "resources=VCPU:1,MEMORY_MB:512&member_of=!in:u1",
        ),
        (
            PlacementQuery(
                RequestSpec(
                    server_resources(1, 512, 0), requirements=HostRequirements(required_traits=B, forbidden_traits=A)
                ),
                ("u1", "u2"),
            ),
            "resources=VCPU:1,MEMORY_MB:512&required=B,C,!A&member_of=!in:u1,u2",
        ),
    ],
    ids=["resources", "one forbidden aggregate and no disk", "traits and two forbidden aggregates"],
)
def test_query_lists_only_requested_parts(query: PlacementQuery, shown: str) -> None:
    assert show_query(query) == shown
