"""Attribute paths into a document, such as details.addresses.private[0].addr or $['metadata']['a key']."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from covey.api.clustering.errors import Malformed

_STEP = re.compile(
    r"""\.?(?P<name>[^\W\d][\w:-]*)   # a key; keys of servers contain colons and dashes
    |\[(?P<index>-?\d{1,9})\]
    |\.?\[?(?P<quote>['"])(?P<quoted>[^'"]+)(?P=quote)\]?""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class AttributePath:
    """Keys and indexes: the subset of JSONPath that selects at most one value."""

    steps: tuple[str | int, ...]

    @classmethod
    def parse(cls, text: str) -> "AttributePath":
        """Raises Malformed."""
        remainder, steps = text.removeprefix("$"), list[str | int]()
        while remainder:
            found = _STEP.match(remainder)
            if found is None:
                raise Malformed(
                    f"Invalid attribute path: '{text}'. A path consists of keys and indexes, as in details.tags[0]."
                )
            index = found["index"]
            steps.append(found["name"] or found["quoted"] if index is None else int(index))
            remainder = remainder[found.end() :]
        return cls(tuple(steps))

    def values(self, document: object) -> Iterator[object]:
        """Yield the value at the path, if the document has it."""
        for step in self.steps:
            inside = (
                isinstance(document, list) and -len(document) <= step < len(document)
                if isinstance(step, int)
                else isinstance(document, dict) and step in document
            )
            if not inside:
                return
            document = document[step]  # type: ignore[index]
        yield document
