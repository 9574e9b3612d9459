"""Overlays: versions of a large mapping share its base. BlockMaxima: the best candidate without a look at every row."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.scheduler import columns
from covey.scheduler.columns import BlockMaxima, Column, Mask, Overlay

BASE = Overlay({"a": 1, "b": 2, "c": 3})


def test_changed_mapping_has_new_values_and_lacks_removed_keys() -> None:
    other = BASE.changed({"a": 7, "b": None, "d": 4, "x": None})
    assert dict(other) == {"a": 7, "c": 3, "d": 4}
    assert ("b" in other, "d" in other, other.get("b"), len(other)) == (False, True, None, 3)
    with pytest.raises(KeyError):
        other["b"]
    assert dict(BASE) == {"a": 1, "b": 2, "c": 3}


def test_values_of_missing_keys_are_left_out() -> None:
    assert BASE.values_of(["c", "x", "a"]) == [3, 1]
    assert BASE.changed({"a": None, "d": 4}).values_of(["c", "a", "x", "d"]) == [3, 4]


def test_removed_key_returns() -> None:
    assert dict(BASE.changed({"a": None}).changed({"a": 9})) == {"a": 9, "b": 2, "c": 3}


def test_many_changes_make_a_new_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_MAX_CHANGES", 2)
    few = BASE.changed({"a": None}).changed({"d": 4})
    many = few.changed({"b": 5})
    assert dict(many) == {"b": 5, "c": 3, "d": 4}
    assert dict(few) == {"b": 2, "c": 3, "d": 4}
    assert many.changed({"b": None}).values_of("bcd") == [3, 4]


def best_candidate(scores: Column, candidates: Mask, number: int) -> int:
    """Return what BlockMaxima.pick returns, by a look at every row."""
    rows = np.flatnonzero(candidates)
    best = rows[scores[rows] == scores[rows].max()]
    return int(best[number % best.size])


@pytest.mark.parametrize(("small", "large"), [(0, 0), (0, 500), (0, 10_000), (10_000, 10_000)])
@given(st.randoms(use_true_random=False), st.integers(1, 5000), st.integers(1, 2000), st.floats(0.001, 1))
def test_picked_candidate_is_the_one_that_a_full_scan_finds(
    small: int, large: int, random: Random, size: int, values: int, share: float
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "_SMALL", small)
        patch.setattr(columns, "_LARGE", large)
        pick_and_compare(np.random.default_rng(random.getrandbits(32)), size, values, share)


def pick_and_compare(rng: np.random.Generator, size: int, values: int, share: float) -> None:
    scores = rng.integers(-values, values, size).astype(float)
    maxima = BlockMaxima(scores)
    for _ in range(5):
        candidates = rng.random(size) < share
        candidates[rng.integers(size)] = True
        number = int(rng.integers(2**63))
        assert maxima.pick(scores, candidates, number) == best_candidate(scores, candidates, number)
        older, known = maxima.copy(), scores.copy()
        row, rows = int(rng.integers(size)), rng.integers(0, size, 7)
        scores[row] = rng.integers(-values, values)
        maxima.update(scores, row)
        scores[rows] = rng.integers(-values, values, 7)
        maxima.update_many(scores, rows)
        assert older.pick(known, candidates, number) == best_candidate(known, candidates, number)
