"""Rows of results, rendered as a Markdown table."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

_SHORT = {"p50_ms": "p50", "p99_ms": "p99", "cpu_us": "CPU", "per_second": "rate"}
HEADER = ("what", "p50 ms", "p99 ms", "CPU us", "per second", "ratio", "target", "note")


@dataclass(frozen=True, slots=True)
class Target:
    """An upper or lower limit of a number."""

    column: str  # a field of Row
    at_most: float | None = None
    at_least: float | None = None

    def met_by(self, row: "Row") -> bool | None:
        """Return whether the row meets the target; None when the row has no such number."""
        value: float | None = getattr(row, self.column)
        if value is None:
            return None
        return (self.at_most is None or value <= self.at_most) and (self.at_least is None or value >= self.at_least)

    def __str__(self) -> str:
        name = _SHORT.get(self.column, self.column)
        if self.at_most is not None:
            return f"{name} <= {number(self.at_most)}"
        return f"{name} >= {number(self.at_least)}"


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement. Numbers that do not apply are None."""

    what: str
    p50_ms: float | None = None
    p99_ms: float | None = None
    cpu_us: float | None = None
    per_second: float | None = None
    ratio: float | None = None
    targets: tuple[Target, ...] = ()
    note: str = ""

    def target_results(self) -> str:
        return ", ".join(f"{target} {_RESULT[target.met_by(self)]}" for target in self.targets)

    def cells(self) -> tuple[str, ...]:
        numbers = (self.p50_ms, self.p99_ms, self.cpu_us, self.per_second)
        ratio = "" if self.ratio is None else f"x{number(self.ratio)}"
        return (self.what, *map(number, numbers), ratio, self.target_results(), self.note)

    def document(self) -> dict[str, Any]:
        """Return the row as a JSON document."""
        met = {str(target): target.met_by(self) for target in self.targets}
        return {**asdict(self), "targets": met}


_RESULT = {True: "(met)", False: "(MISSED)", None: "(not measured)"}


def number(value: float | None) -> str:
    """Format a number with three significant digits."""
    if value is None:
        return ""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def markdown(rows: Sequence[Row]) -> str:
    """Return an aligned Markdown table."""
    lines = [HEADER, *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADER))]
    is_number = [i in range(1, 6) for i in range(len(HEADER))]
    rule = [f"{'-' * (width - 1)}:" if right else "-" * width for width, right in zip(widths, is_number, strict=True)]
    return "\n".join(
        "| " + " | ".join(_aligned(cell, widths[i], is_number[i]) for i, cell in enumerate(line)) + " |"
        for line in [lines[0], tuple(rule), *lines[1:]]
    )


def _aligned(cell: str, width: int, right: bool) -> str:
    return cell.rjust(width) if right else cell.ljust(width)
