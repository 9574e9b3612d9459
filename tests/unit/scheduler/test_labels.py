"""Labels: which rows have which traits, aggregates or zones."""

from collections.abc import Iterable

import numpy as np
import pytest

from covey.scheduler import labels
from covey.scheduler.labels import Labels
from covey.scheduler.new_rows import NewRows


def sets(*words: str) -> list[frozenset[str]]:
    return [frozenset(word) for word in words]


ROWS = Labels(sets("ab", "", "b", "ab", "c"))
NONE = NewRows.of(np.arange(5), [])


def rows(found: Iterable[bool]) -> list[int]:
    return [row for row, has in enumerate(found) if has]


def test_rows_are_found_by_any_all_or_one_of_each() -> None:
    assert rows(ROWS.any_of("ac")) == [0, 3, 4]
    assert rows(ROWS.any_of("x")) == rows(ROWS.any_of("")) == []
    assert rows(ROWS.all_of("ab")) == [0, 3]
    assert rows(ROWS.all_of("")) == [0, 1, 2, 3, 4]
    assert rows(ROWS.one_of_each(["ac", "bc"])) == [0, 3, 4]


def test_row_has_its_labels_and_the_column_those_of_all_rows() -> None:
    assert [ROWS[row] for row in range(5)] == sets("ab", "", "b", "ab", "c")
    assert set(ROWS) == {"a", "b", "c"}
    assert "c" in ROWS
    assert "x" not in ROWS


def test_position_is_missing_for_rows_with_none_or_several() -> None:
    where, several = ROWS.positions(["b", "a", "c", "x"])
    assert where.tolist() == [-1, -1, 0, -1, 2]
    assert several.tolist() == [True, False, False, True, False]


def test_changed_column_leaves_the_older_one() -> None:
    other = ROWS.changed({4: frozenset("d"), 5: frozenset("a")}, NewRows.of(np.arange(5), [5, 6]))
    assert [other[row] for row in range(7)] == sets("ab", "", "b", "ab", "d", "a", "")
    assert "c" not in other
    assert rows(other.any_of("d")) == [4]
    assert [ROWS[row] for row in range(5)] == sets("ab", "", "b", "ab", "c")
    assert "d" not in ROWS
    assert ROWS.positions(["c", "d"])[0].tolist() == [-1, -1, -1, -1, 0]


def test_column_that_does_not_change_stays_the_same() -> None:
    assert ROWS.changed({2: frozenset("b")}, NONE) is ROWS


def test_sets_that_no_row_has_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "_SPARE", 2)
    column = ROWS
    for number in range(40):
        column = column.changed({1: frozenset(f"x{number}")}, NONE)
        assert rows(column.any_of([f"x{number}"[0]])) == [1]
        assert rows(column.all_of("ab")) == [0, 3]
    assert len(column._sets) <= 2 * 5 + 2 + 1
