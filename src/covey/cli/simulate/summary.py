"""What came of simulations, for people and for programs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from covey.scheduler.fleet import RESOURCES
from covey.simulation.replay import Outcome
from covey.simulation.scaling import Timing
from covey.simulation.start import Start

_WIDE, _COLUMN = 56, 20
_WORDS = {"VCPU": "VCPUs", "MEMORY_MB": "memory", "DISK_GB": "disk"}


def document(
    seed: int, start: Start, runs: Mapping[str, Outcome], timings: Sequence[Timing], plots: Sequence[str]
) -> dict[str, Any]:
    """Everything, for programs."""
    scaling = [
        {"hosts": t.hosts, "p50_cpu_ms": _number(t.p50_s * 1e3), "p99_cpu_ms": _number(t.p99_s * 1e3)} for t in timings
    ]
    return {
        "seed": seed,
        "fleet": _fleet(start),
        "runs": {name: _run(run) for name, run in runs.items()},
        "scaling": scaling,
        "plots": plots,
    }


def _run(run: Outcome) -> dict[str, Any]:
    """Everything about one run, with what changed over time in columns."""
    counts, fate, history = run.counts, run.fate, run.history
    return {
        "servers": {
            "asked": counts.asked,
            "placed": counts.placed,
            "refused": counts.refused,
            "deleted": counts.deleted,
            "lost": counts.lost,
            "moved": counts.moved,
            "stuck": counts.stuck,
            "running": len(run.places),
        },
        "refusals": [
            {"reason": f"hosts {reason}", "servers": number, "first_at_use": round(counts.first_at[reason], 4)}
            for reason, number in _by_number(counts.reasons)
        ],
        "groups": {
            "wanted": fate.groups,
            "whole": fate.whole,
            "emptied": fate.emptied,
            "breaking_hard_policies": fate.breaking,
            "breaking_soft_policies": fate.uneven,
        },
        "use": {zone: _use(row) for zone, row in zip(history.zones, history.use[-1], strict=True)},
        "skew": {
            scope: {"mean": _number(mean), "worst": _number(worst)}
            for scope, mean, worst in zip(history.scopes, history.skew_mean[-1], history.skew_worst[-1], strict=True)
        },
        "decision_cpu_ms": {name: _number(value) for name, value in _times(run).items()},
        "history": {
            "at_s": _numbers(history.at_s),
            "servers": _numbers(history.servers),
            "use": {
                zone: {kind: _numbers(history.use[:, i, j]) for j, kind in enumerate(RESOURCES)}
                for i, zone in enumerate(history.zones)
            },
            "skew_mean": {scope: _numbers(history.skew_mean[:, i]) for i, scope in enumerate(history.scopes)},
            "skew_worst": {scope: _numbers(history.skew_worst[:, i]) for i, scope in enumerate(history.scopes)},
            "refused": {f"hosts {reason}": _numbers(history.refused[:, i]) for i, reason in enumerate(history.reasons)},
        },
    }


def _fleet(start: Start) -> dict[str, Any]:
    """The fleet that all runs began with."""
    return {
        "hosts": len(start.hosts),
        "zones": sorted({host.zone or start.default_zone for host in start.hosts}),
        "scopes": {scope: sum(1 for _ in start.domains(scope)) for scope in start.scopes},
        "servers": len(start.servers),
        "groups": len(start.groups),
    }


def timing_lines(timings: Sequence[Timing]) -> list[str]:
    """A row for each size of a fleet."""
    rows = [(f"  {each.hosts:,} hosts", f"{each.p50_s * 1e3:.3f}  {each.p99_s * 1e3:.3f} ms") for each in timings]
    return (
        [
            "",
            "CPU time of a decision, p50 and p99, by size of the fleet",
            *(_row(label, [times]) for label, times in rows),
        ]
        if rows
        else []
    )


def lines(start: Start, runs: Mapping[str, Outcome]) -> list[str]:
    """A table for a person: a column for each run."""
    fleet = _fleet(start)
    places = ", ".join(f"{number} of {scope}" for scope, number in fleet["scopes"].items())
    told = f"{_counted(len(start.hosts), 'host')} in {_counted(len(fleet['zones']), 'zone')}"
    found = [told + (f"; domains: {places}" if places else "") + _present(start), ""]
    outcomes = list(runs.values())
    if len(runs) > 1:
        first, *others = runs
        found = [found[0], f"what if: {', '.join(others)}", "", _row("", [first, *(["what if"] * len(others))])]
    found += _counts(outcomes) + _groups(outcomes) + _refusals(outcomes) + _uses(outcomes)
    found += _skews(outcomes) + _decisions(outcomes)
    return found


def _present(start: Start) -> str:
    if not start.servers and not start.groups:
        return ""
    return f"; {len(start.servers):,} servers and {len(start.groups):,} groups to begin with"


def _row(label: str, values: Sequence[str]) -> str:
    return f"{label:<{_WIDE}}" + "".join(f"{value:>{_COLUMN}}" for value in values)


def _counts(runs: Sequence[Outcome]) -> list[str]:
    rows = {
        "servers asked for": [run.counts.asked for run in runs],
        "  got a place": [run.counts.placed for run in runs],
        "  deleted again": [run.counts.deleted for run in runs],
        "  lost with their hosts": [run.counts.lost for run in runs],
        "  moved to another host": [run.counts.moved for run in runs],
        "  stuck on a drained host": [run.counts.stuck for run in runs],
        "servers in the end": [len(run.places) for run in runs],
    }
    return [_row(label, [f"{n:,}" for n in numbers]) for label, numbers in rows.items() if any(numbers)]


def _groups(runs: Sequence[Outcome]) -> list[str]:
    rows = {
        "groups": [run.fate.groups for run in runs],
        "  with every member that they asked for": [run.fate.whole for run in runs],
        "  with none left": [run.fate.emptied for run in runs],
        "  that break a hard policy": [run.fate.breaking for run in runs],
        "  that break a soft policy": [run.fate.uneven for run in runs],
    }
    if not any(rows["groups"]):
        return []
    return ["", *(_row(label, [f"{n:,}" for n in numbers]) for label, numbers in rows.items())]


def _refusals(runs: Sequence[Outcome]) -> list[str]:
    found = ["", _row("refused (and how full the fleet was at the first)", [f"{run.counts.refused:,}" for run in runs])]
    totals: dict[str, int] = {}
    for run in runs:
        for reason, number in run.counts.reasons.items():
            totals[reason] = totals.get(reason, 0) + number
    for reason, _ in _by_number(totals):
        found.append(_row(f"  hosts {reason}", [_refused(run, reason) for run in runs]))
    return found


def _refused(run: Outcome, reason: str) -> str:
    number = run.counts.reasons.get(reason, 0)
    return f"{number:,} (from {run.counts.first_at[reason]:.0%})" if number else "0"


def _uses(runs: Sequence[Outcome]) -> list[str]:
    found = ["", "use in the end: " + ", ".join(_WORDS[kind] for kind in RESOURCES)]
    zones = runs[0].history.zones
    for number, zone in enumerate(zones):
        rows = [run.history.use[-1][number].tolist() for run in runs]
        found.append(_row(f"  {zone}", ["  ".join(f"{share:4.0%}" for share in row) for row in rows]))
    return found


def _skews(runs: Sequence[Outcome]) -> list[str]:
    found = []
    for number, scope in enumerate(runs[0].history.scopes):
        values = [(run.history.skew_mean[-1][number], run.history.skew_worst[-1][number]) for run in runs]
        if not np.isnan(values).all():
            found.append(_row(f"  over {scope}s", [f"{mean:.2f}  {worst:.0f}" for mean, worst in values]))
    return ["", "skew of groups to be spread: mean, worst", *found] if found else []


def _decisions(runs: Sequence[Outcome]) -> list[str]:
    if not any(run.decision_s.size for run in runs):
        return []
    times = [_times(run) for run in runs]
    return ["", _row("CPU time of a decision, p50 and p99", [f"{t['p50']:.3f}  {t['p99']:.3f} ms" for t in times])]


def _times(run: Outcome) -> dict[str, float]:
    if not run.decision_s.size:
        return {"p50": 0.0, "p99": 0.0}
    p50, p99 = np.percentile(run.decision_s, [50, 99]) * 1e3
    return {"p50": float(p50), "p99": float(p99)}


def _by_number(reasons: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(reasons.items(), key=lambda each: (-each[1], each[0]))


def _use(row: Sequence[float]) -> dict[str, float | None]:
    return {kind: _number(share) for kind, share in zip(RESOURCES, row, strict=True)}


def _number(value: float) -> float | None:
    """JSON has no word for what is not a number."""
    return None if np.isnan(value) else round(float(value), 4)


def _numbers(column: Sequence[float] | np.ndarray[Any, Any]) -> list[float | None]:
    return [_number(value) for value in column]


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
