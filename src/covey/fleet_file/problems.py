"""What is wrong with a fleet file, said so that an editor can jump to each place."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing to put right; lines and columns count from 1."""

    line: int
    column: int
    where: str
    message: str


class FleetFileError(Exception):
    """The file can't be used; carries every problem that was found, in the order of the file."""

    def __init__(self, filename: str, problems: Iterable[Problem]) -> None:
        """Keep each problem once: an alias can bring the same line in twice."""
        self.filename = filename
        self.problems = tuple(sorted(set(problems)))
        super().__init__(filename, self.problems)

    def __str__(self) -> str:
        """One line for each problem."""
        return "\n".join(f"{self.filename}:{p.line}:{p.column}: {p.where}: {p.message}" for p in self.problems)
