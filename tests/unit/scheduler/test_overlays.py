"""Overlays: versions of a large mapping share its base."""

import pytest

from covey.scheduler import overlays
from covey.scheduler.overlays import Overlay

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
    monkeypatch.setattr(overlays, "_MAX_CHANGES", 2)
    few = BASE.changed({"a": None}).changed({"d": 4})
    many = few.changed({"b": 5})
    assert dict(many) == {"b": 5, "c": 3, "d": 4}
    assert dict(few) == {"b": 2, "c": 3, "d": 4}
    assert many.changed({"b": None}).values_of("bcd") == [3, 4]
