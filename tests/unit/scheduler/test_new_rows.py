"""Rows: a provider has the row that its id gives it, whichever provider was seen first."""

import numpy as np
import pytest

from covey.scheduler.columns import ByRow, Overlay, RowOfId, RowOfKey
from covey.scheduler.new_rows import NewRows, with_values

IDS = np.array([2, 4, 6, 8])
ROW_OF = RowOfId(IDS, np.array([True, True, False, True]))  # 6 is gone


def test_row_of_an_id_is_that_of_a_provider_that_exists() -> None:
    assert dict(ROW_OF) == {2: 0, 4: 1, 8: 3}
    assert [ROW_OF.get(each) for each in (1, 3, 6, 8, 9)] == [None, None, None, 3, None]
    assert ROW_OF.rows([9, 8, 6, 2, 3]).tolist() == [3, 0]
    assert RowOfId(IDS[:0], np.zeros(0, dtype=np.bool_)).rows([2]).tolist() == []


def test_values_by_key_and_by_row_follow_the_ids() -> None:
    row_of_key = RowOfKey(Overlay({"a": 2, "d": 8}), ROW_OF)
    assert dict(row_of_key) == {"a": 0, "d": 3}
    assert row_of_key.get("x") is None
    names = ByRow(IDS, Overlay({2: "a", 4: "b", 8: "d"}))
    assert (names[3], names.of(np.array([3, 0]))) == ("d", ["d", "a"])


@pytest.mark.parametrize("added", [[], [9], [1], [5], [5, 5, 4], [9, 1, 3], [3, 5, 7, 12, 13], [6, 8]])
def test_new_rows_go_where_their_ids_are_in_order(added: list[int]) -> None:
    new = NewRows.of(IDS, added)
    ids = sorted({*IDS.tolist(), *added})
    assert with_values(IDS, dict(zip(new.rows.tolist(), new.ids.tolist(), strict=True)), new).tolist() == ids
    old = new.insert(np.array([IDS, -IDS]), -1)
    assert old.tolist() == [[s * each if each in IDS else -1 for each in ids] for s in (1, -1)]
    assert new.moved(np.array([3, -1, 0, 1])).tolist() == [ids.index(8), -1, ids.index(2), ids.index(4)]
    assert (new.size, new.rows.tolist()) == (len(ids), [ids.index(each) for each in ids if each not in IDS])


def test_column_without_new_rows_and_values_is_the_same() -> None:
    assert with_values(IDS, {1: 4}, NewRows.of(IDS, [2, 8])) is IDS
