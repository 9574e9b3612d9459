"""The state of a move, by the position of its server."""

import pytest

from covey.model.server_moves import LONGEST_PAUSE_S, MoveState, ServerPosition, pause_s


@pytest.mark.parametrize(
    ("position", "state"),
    [
        (ServerPosition("a"), MoveState.WAITING),
        (ServerPosition("b"), MoveState.DONE),
        (ServerPosition("c"), MoveState.DIVERGED),
        (ServerPosition(None), MoveState.DIVERGED),
        (ServerPosition("a", moves=True, source="a", destination="b"), MoveState.MOVING),
        (ServerPosition("a", moves=True, source="a"), MoveState.MOVING),
        (ServerPosition("a", moves=True, source="a", destination="c"), MoveState.DIVERGED),
        (ServerPosition("b", moves=True, source="b", destination="c"), MoveState.DIVERGED),
        (ServerPosition("b", moves=True, source="a", destination="b", arrived=True), MoveState.ARRIVED),
    ],
)
def test_position_shows_the_state_of_a_move_from_a_to_b(position: ServerPosition, state: MoveState) -> None:
    assert position.state("a", "b") is state


@pytest.mark.parametrize(("since_s", "pause"), [(0, 0.5), (1, 0.5), (4, 2), (60, LONGEST_PAUSE_S)])
def test_pause_grows_with_the_time_without_progress(since_s: float, pause: float) -> None:
    assert pause_s(since_s, LONGEST_PAUSE_S) == pause
