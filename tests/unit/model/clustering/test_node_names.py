"""Generated node names."""

import re

import pytest

from covey.model.clustering.node_names import FORMAT_KEY, generate_node_name, is_valid_format


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, r"node-[a-z0-9]{8}"),
        ("", r"node-[a-z0-9]{8}"),
        ("web", r"web"),
        ("web-$I", r"web-7"),
        ("web-$3I.$r", r"web-007\.[a-z0-9]{8}"),
        ("$2R$12r", r"[A-Za-z0-9]{2}[a-z0-9]{12}"),
    ],
)
def test_format_places_index_and_random_characters(text: str | None, expected: str) -> None:
    config = {} if text is None else {FORMAT_KEY: text}
    name = generate_node_name(config, 7, "seed")
    assert re.fullmatch(expected, name)
    assert generate_node_name(config, 7, "seed") == name


def test_names_of_nodes_differ() -> None:
    assert len({generate_node_name({}, 1, str(seed)) for seed in range(100)}) == 100


@pytest.mark.parametrize("text", ["", " ", "a b", "$", "$5x", "$100r", 7, "x" * 256, "$99r$99r$99r"])
def test_invalid_formats(text: object) -> None:
    assert not is_valid_format(text)


@pytest.mark.parametrize("text", ["web", "N$2I", "集群-$r", "x" * 255, "$99r$99r"])
def test_valid_formats(text: str) -> None:
    assert is_valid_format(text)
