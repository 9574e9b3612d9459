"""Paths into a document, such as details.addresses.private[0].addr, or $['metadata']['a key']."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from covey.api.clustering.errors import Malformed

_STEP = re.compile(
    r"""\.?(?P<name>[^\W\d][\w:-]*)   # a key; those of servers have colons and dashes in them
    |\[(?P<index>-?\d{1,9})\]
    |\.?\[?(?P<quote>['"])(?P<quoted>[^'"]+)(?P=quote)\]?""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Path:
    """The keys and indexes that lead to a value: the part of JSONPath that finds one thing at the most."""

    steps: tuple[str | int, ...]

    @classmethod
    def parse(cls, text: str) -> "Path":
        """Raises Malformed."""
        rest, steps = text.removeprefix("$"), list[str | int]()
        while rest:
            found = _STEP.match(rest)
            if found is None:
                raise Malformed(
                    f"Invalid attribute path: '{text}'. It is made of keys and indexes, as in details.tags[0]."
                )
            index = found["index"]
            steps.append(found["name"] or found["quoted"] if index is None else int(index))
            rest = rest[found.end() :]
        return cls(tuple(steps))

    def of(self, document: object) -> Iterator[object]:
        """What it leads to, if it leads anywhere."""
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
