"""The stock `server group show` and `server group list` with all policies and rules."""

from typing import Any

import pytest

from tests.unit.client.wire import Answer, Wire

WIDE: dict[str, Any] = {
    "id": "g-1",
    "name": "wide",
    "members": [],
    "policies": ["anti-affinity:rack", "soft-affinity:switch"],
    "policy": {"name": "anti-affinity:rack", "rules": {"max_server_per_rack": 2}},
    "rules": {"max_server_per_rack": 2},
    "project_id": "p-1",
    "user_id": "u-1",
}
FIRST = WIDE | {"policy": "anti-affinity:rack"}
BOTH = "anti-affinity:rack, soft-affinity:switch"


def wire(last: Answer) -> Wire:
    """Answer the stock client's requests, then the hook's."""
    show: list[Answer] = [(200, {"server_group": FIRST}), last]
    return Wire({"GET /os-server-groups/g-1": show, "GET /os-server-groups": [(200, {"server_groups": [FIRST]}), last]})


def test_show_lists_every_policy_and_rule() -> None:
    sent = wire((200, {"server_group": WIDE}))
    shown = sent.run("server group show g-1")
    assert (shown["policy"], shown["rules"]) == (BOTH, {"max_server_per_rack": 2})
    assert (sent.last().route, sent.last().version) == ("GET /os-server-groups/g-1", "compute 2.1000")


def test_list_shows_every_policy_and_rule() -> None:
    sent = wire((200, {"server_groups": [WIDE]}))
    (row,) = sent.run("server group list --all-projects")
    assert (row["Policy"], row["Rules"]) == (BOTH, {"max_server_per_rack": 2})
    assert sent.last().query == {"all_projects": "true"}


@pytest.mark.parametrize("command", ["server group show g-1", "server group list"])
def test_another_service_is_left_to_the_stock_client(command: str) -> None:
    refused: Answer = (406, {"computeFault": {"message": "Version 2.1000 is not supported by the API."}})
    assert "anti-affinity:rack" in str(wire(refused).run(command))
