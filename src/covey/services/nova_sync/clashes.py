"""Finds what Covey cannot mirror, because one of its own objects has the name or the id."""

from collections.abc import Collection, Mapping
from typing import Protocol, TypeVar

from covey.model.nova import NovaKind


class Named(Protocol):
    """An aggregate or a flavor."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


def find_clashes(
    kind: NovaKind, new: Mapping[str, T], stored: Mapping[str, Named], owned: Collection[str]
) -> tuple[dict[str, T], list[str]]:
    """Return those of Nova's objects that can be mirrored, by key, and a sentence about each of the others.

    An object that was mirrored before keeps its old name while another has the new one, so it may be in the way itself.
    """
    holders = {each.name: key for key, each in stored.items() if key not in owned}
    clashing = {key: key for key in new if key in stored and key not in owned}
    while found := _holders_of_taken_names({key: new[key] for key in new if key not in clashing}, holders):
        clashing |= found
        holders |= {stored[key].name: key for key in found if key in stored}
    sentences = [
        _sentence(kind, key, new[key].name, holder, is_mirrored=key in owned) for key, holder in clashing.items()
    ]
    return {key: each for key, each in new.items() if key not in clashing}, sentences


def _holders_of_taken_names(new: Mapping[str, Named], holders: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of objects whose names others have, with the keys of those others."""
    names = dict(holders)
    return {key: holder for key, each in new.items() if (holder := names.setdefault(each.name, key)) != key}


def _sentence(kind: NovaKind, key: str, name: str, holder: str, *, is_mirrored: bool) -> str:
    outcome = "stays as it was mirrored before" if is_mirrored else "is not mirrored"
    if holder == key:
        return (
            f"The {kind} {name} of Nova ({key}) {outcome}: a {kind} of Covey's own has its id. Delete one of the two."
        )
    remedy = "Rename or delete one of the two."
    return f"The {kind} {name} of Nova ({key}) {outcome}: Covey has another one, {holder}, of that name. {remedy}"
