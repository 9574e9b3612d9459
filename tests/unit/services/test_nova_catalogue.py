"""An object of Nova whose name Covey has for another one is left out; all others are mirrored."""

import pytest

from covey.model.nova import NovaAggregate, NovaKind
from covey.services.nova_sync.catalogue import find_clashes

Names = dict[str, str]


def named(names: Names) -> dict[str, NovaAggregate]:
    return {key: NovaAggregate(key, name, {}) for key, name in names.items()}


@pytest.mark.parametrize(
    ("new", "stored", "owned", "admitted"),
    [
        pytest.param({"n1": "a", "n2": "b"}, {}, "", "n1 n2", id="nothing is in the way"),
        pytest.param({"n1": "a", "n2": "b"}, {"c1": "a"}, "", "n2", id="a name of an own object"),
        pytest.param({"n1": "a", "n2": "b"}, {"n1": "z"}, "", "n2", id="an id of an own object"),
        pytest.param({"n1": "b", "n2": "a"}, {"n1": "a", "n2": "b"}, "n1 n2", "n1 n2", id="exchanged names"),
        pytest.param({"n2": "a"}, {"n1": "a"}, "n1", "n2", id="the name of one that Nova deleted"),
        pytest.param(
            {"n1": "x", "n2": "a", "n3": "b"},
            {"c1": "x", "n1": "a", "n2": "b"},
            "n1 n2",
            "",
            id="the old names of those that keep them",
        ),
        pytest.param({"n1": "a", "n2": "a"}, {}, "", "n1", id="two of one name, of a reading during a change"),
    ],
)
def test_clashing_objects_are_left_out(new: Names, stored: Names, owned: str, admitted: str) -> None:
    found, sentences = find_clashes(NovaKind.AGGREGATE, named(new), named(stored), set(owned.split()))
    assert found == {key: each for key, each in named(new).items() if key in admitted.split()}
    assert len(sentences) == len(new) - len(found)


def test_sentence_names_both_objects_and_what_to_do() -> None:
    _, sentences = find_clashes(
        NovaKind.FLAVOR, named({"1": "a", "2": "b", "3": "c"}), named({"1": "z", "own": "b", "3": "d", "o": "c"}), {"3"}
    )
    rename = "Rename or delete one of the two."
    assert sentences == [
        "The flavor a of Nova (1) is not mirrored: a flavor of Covey's own has its id. Delete one of the two.",
        f"The flavor b of Nova (2) is not mirrored: Covey has another one, own, of that name. {rename}",
        f"The flavor c of Nova (3) stays as it was mirrored before: Covey has another one, o, of that name. {rename}",
    ]
