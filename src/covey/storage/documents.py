"""JSON inside columns: values of the model, there and back."""

from typing import TypeVar

import msgspec

T = TypeVar("T")


def dump(value: object) -> str:
    """A value as JSON text."""
    return msgspec.json.encode(value).decode()


def load(text: str, kind: type[T]) -> T:
    """The value of that kind that the text holds."""
    return msgspec.json.decode(text, type=kind)
