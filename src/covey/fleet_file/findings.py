"""Collects what is wrong with a document, and remembers which entries can't be relied on."""

from dataclasses import dataclass, field

from covey.fleet_file.document import Document, Mark
from covey.fleet_file.problems import Problem
from covey.fleet_file.wording import Path, place


@dataclass(frozen=True, slots=True)
class Findings:
    """Problems so far; a place is looked up only when something is wrong there."""

    document: Document
    problems: list[Problem] = field(default_factory=list)
    _unsound: set[Path] = field(default_factory=set, repr=False)

    def at(self, path: Path, message: str) -> None:
        """Report a value."""
        self._add(self.document.node(path).mark, path, message)

    def at_key(self, path: Path, message: str) -> None:
        """Report the key that the path ends with, not its value."""
        self._add(self.document.key_mark(path), path, message)

    def line(self, path: Path) -> int:
        """Tell the line of a value, to mention it in another value's problem."""
        return self.document.node(path).mark[0]

    def sound(self, path: Path) -> bool:
        """Tell whether nothing was reported so far in a section, or in one of its entries."""
        return path not in self._unsound

    def _add(self, mark: Mark, path: Path, message: str) -> None:
        self.problems.append(Problem(*mark, place(path), message))
        self._unsound.update((path[:1], path[:2]))
