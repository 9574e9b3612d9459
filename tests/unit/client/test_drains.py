"""`openstack compute drain ...`: requests and output."""

from typing import Any

import pytest
from osc_lib.exceptions import CommandError

from covey.client import drains
from tests.unit.client.wire import Answer, Wire, help_of

DRAIN: dict[str, Any] = {"id": "d-2", "scope": "rack", "domain": "rack-3", "status": "running", "moves": [], "left": []}
LIST: Answer = (
    200,
    {
        "drains": [
            {"id": "d-3", "scope": "host", "domain": "rack-3", "status": "done"},
            {"id": "d-2", "scope": "rack", "domain": "rack-3", "status": "running", "moves_done": 1},
            {"id": "d-1", "scope": "rack", "domain": "rack-3", "status": "undone"},
        ]
    },
)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drains, "POLL_INTERVAL_S", 0)


@pytest.mark.parametrize(
    ("command", "sent"),
    [
        ("node-1", {"scope": "host", "domain": "node-1", "dry_run": False}),
        ("--scope rack rack-3", {"scope": "rack", "domain": "rack-3", "dry_run": False}),
        ("--scope rack rack-3 --dry-run", {"scope": "rack", "domain": "rack-3", "dry_run": True}),
    ],
)
def test_drain_starts_or_is_planned(command: str, sent: dict[str, object]) -> None:
    wire = Wire({"POST /os-drains": (202, {"drain": DRAIN})})
    assert wire.run(f"compute drain {command}") == DRAIN
    assert wire.last().body == {"drain": sent}


@pytest.mark.parametrize("action", ["cancel", "undo"])
def test_latest_drain_of_the_domain_is_ended(action: str) -> None:
    wire = Wire({"GET /os-drains": LIST, "POST /os-drains/d-2/action": (202, {"drain": DRAIN})})
    assert wire.run(f"compute drain --scope rack rack-3 --{action}") == DRAIN
    assert wire.last().body == {action: {}}


def test_domain_that_was_never_drained_is_an_error() -> None:
    with pytest.raises(CommandError, match=r"The rack rack-9 was never drained."):
        Wire({"GET /os-drains": LIST}).run("compute drain --scope rack rack-9 --undo")


def test_waiting_ends_with_the_drain() -> None:
    done = DRAIN | {"status": "done"}
    answers: list[Answer] = [(200, {"drain": DRAIN}), (200, {"drain": done})]
    wire = Wire({"POST /os-drains": (202, {"drain": DRAIN}), "GET /os-drains/d-2": answers})
    assert wire.run("compute drain --scope rack rack-3 --wait") == done


def test_waiting_shows_what_cannot_go() -> None:
    left = [{"instance_id": "s-1", "host": "node-5", "reason": "It is locked."}]
    failed: Answer = (200, {"drain": DRAIN | {"status": "failed", "left": left}})
    wire = Wire({"POST /os-drains": (202, {"drain": DRAIN}), "GET /os-drains/d-2": failed})
    with pytest.raises(CommandError, match=r"The drain ended as failed.\ns-1 on node-5: It is locked."):
        wire.run("compute drain --scope rack rack-3 --wait")


def test_drains_are_listed() -> None:
    rows = Wire({"GET /os-drains": LIST}).run("compute drain list")
    assert [(row["ID"], row["Status"], row["Moves Done"]) for row in rows] == [
        ("d-3", "done", None),
        ("d-2", "running", 1),
        ("d-1", "undone", None),
    ]


def test_latest_drain_of_the_domain_is_shown() -> None:
    wire = Wire({"GET /os-drains": LIST, "GET /os-drains/d-2": (200, {"drain": DRAIN})})
    assert wire.run("compute drain show --scope rack rack-3") == DRAIN


def test_help_says_that_servers_do_not_move_back() -> None:
    assert "servers stay where they are" in help_of("compute drain")
