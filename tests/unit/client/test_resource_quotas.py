"""`openstack resource class quota ...`: requests and output."""

from typing import Any

import pytest

from tests.unit.client.wire import Answer, Wire

DETAIL: Answer = (
    200,
    {
        "quota_set": {
            "id": "p-1",
            "cores": {"limit": 20, "in_use": 3, "reserved": 0},
            "class:CUSTOM_GPU": {"limit": 4, "in_use": 1, "reserved": 0},
        }
    },
)
ROWS = [{"Resource Class": "CUSTOM_GPU", "Limit": 4, "In Use": 1}]
PROJECT: dict[str, Answer | list[Answer]] = {
    "GET /identity/v3/projects/demo": (200, {"project": {"id": "p-1", "name": "demo"}}),
    "GET /os-quota-sets/p-1/detail": DETAIL,
    "PUT /os-quota-sets/p-1": (200, {"quota_set": {}}),
}


def test_limits_of_a_project_are_listed_with_their_use() -> None:
    assert Wire(PROJECT).run("resource class quota show demo") == ROWS


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ("--limit CUSTOM_GPU=4", {"class:CUSTOM_GPU": 4}),
        ("--limit CUSTOM_GPU=4 --limit DISK_GB=-1", {"class:CUSTOM_GPU": 4, "class:DISK_GB": -1}),
        ("--limit CUSTOM_GPU=0 --force", {"class:CUSTOM_GPU": 0, "force": True}),
    ],
)
def test_limits_of_a_project_are_set(options: str, sent: dict[str, Any]) -> None:
    wire = Wire(PROJECT)
    assert wire.run(f"resource class quota set demo {options}") == ROWS
    changes = [(each.body, each.version) for each in wire.sent if each.route.startswith("PUT")]
    assert changes == [({"quota_set": sent}, "compute 2.1000")]


def test_limits_of_all_other_projects_are_set_and_listed() -> None:
    limits = {"quota_class_set": {"id": "default", "cores": 20, "class:CUSTOM_GPU": 2}}
    path = "/os-quota-class-sets/default"
    wire = Wire({f"GET {path}": (200, limits), f"PUT {path}": (200, limits)})
    expected = [{"Resource Class": "CUSTOM_GPU", "Limit": 2}]
    assert wire.run("resource class quota set --default --limit CUSTOM_GPU=2") == expected
    assert wire.sent[0].body == {"quota_class_set": {"class:CUSTOM_GPU": 2}}
    assert wire.run("resource class quota show --default") == expected


@pytest.mark.parametrize(
    "arguments", ["set demo", "set demo --limit CUSTOM_GPU", "set demo --limit =4", "set demo --limit A=b", "show"]
)
def test_incomplete_commands_are_refused(arguments: str) -> None:
    with pytest.raises(SystemExit):
        Wire(PROJECT).run(f"resource class quota {arguments}")
