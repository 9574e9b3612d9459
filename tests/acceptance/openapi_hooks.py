"""What schemathesis has to be told of our words: formats of our own, and that nobody writes 1.0 for the number 1."""

from typing import Any

import schemathesis
from hypothesis import strategies as st

_VISIBLE = st.characters(exclude_categories=("C", "Z"))
_LINES = st.characters(exclude_categories=("C", "Z"), include_characters=" \t\n")
_EXACT = 2**53
_NAMES = st.text(_VISIBLE, min_size=1, max_size=40)

schemathesis.openapi.format("name", _NAMES)
schemathesis.openapi.format("az_name", _NAMES.map(lambda name: name.replace(":", "-")))
schemathesis.openapi.format("printable", st.text(_LINES, max_size=40))
schemathesis.openapi.format("regex", st.sampled_from(["web", "^a.*b$", "x|y"]))


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """JSON Schema holds 1.0 for an integer; the API, as its clients know it, does not."""
    del context
    return _whole(body)


def _whole(value: Any) -> Any:
    match value:
        case dict():
            return {key: _whole(inner) for key, inner in value.items()}
        case list():
            return [_whole(inner) for inner in value]
        case float() if value.is_integer() and abs(value) < _EXACT:
            return int(value)
    return value
