"""From the schemas that check requests to the plain JSON Schema that other people's tools understand."""

from collections.abc import Mapping
from typing import Any

from covey.api.validation import JsonSchema

_NUMERIC_TEXT = ["integer", "string"]


def plain(schema: Any) -> Any:  # noqa: ANN401 -- any part of a schema
    """The same rules, with numbers in strings spelt out, and patterns that every tool reads alike."""
    if isinstance(schema, list | tuple):
        return [plain(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    if schema.get("type") == _NUMERIC_TEXT and "pattern" in schema:
        return _number(schema)
    return {key: _pattern(part) if key == "pattern" else plain(part) for key, part in schema.items()}


def _number(schema: JsonSchema) -> JsonSchema:
    low, high = schema["minimum"], schema.get("maximum")
    number = {"type": "integer", "minimum": low} | ({} if high is None else {"maximum": high})
    return {"anyOf": [number, {"type": "string", "pattern": f"^{digits(low, high)}$"}]}


def digits(low: int, high: int | None) -> str:
    """What matches the whole numbers from -1, 0 or 1 on, up to the highest, with any zeros before them."""
    positive = "[1-9][0-9]*" if high is None else f"(?:{'|'.join(_up_to(str(high)))})"
    if low > 0:
        return f"0*{positive}"
    return f"(?:0+|0*{positive})" if low == 0 else f"(?:-0*1|-?0+|0*{positive})"


def _up_to(high: str) -> list[str]:
    """Patterns for 1 to the highest: shorter ones, those that fall behind at some digit, and itself."""
    shorter = [f"[1-9][0-9]{{0,{len(high) - 2}}}"] if len(high) > 1 else []
    behind = []
    for place, digit in enumerate(high):
        lowest = 1 if place == 0 else 0
        if int(digit) > lowest:
            behind.append(f"{high[:place]}[{lowest}-{int(digit) - 1}][0-9]{{{len(high) - place - 1}}}")
    return [*shorter, *behind, high]


def any_case(word: str) -> str:
    """What matches a word in any mixture of small and large letters."""
    return "".join(f"[{letter}{letter.upper()}]" if letter.isalpha() else letter for letter in word)


def _pattern(pattern: str) -> str:
    return pattern.replace(r"\Z", "$")
