"""The results of simulations, as a table and as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from covey.simulation.initial_state import InitialState
from covey.simulation.replay import Outcome
from covey.simulation.scaling import Timing

_LABEL_WIDTH, _COLUMN_WIDTH = 56, 20
_LABELS = {"VCPU": "VCPUs", "MEMORY_MB": "memory", "DISK_GB": "disk"}


def document(
    seed: int, start: InitialState, runs: Mapping[str, Outcome], timings: Sequence[Timing], plots: Sequence[str]
) -> dict[str, Any]:
    """Return all results as a JSON document."""
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
    """Return the results of a run, with its history in columns."""
    counts, groups, history = run.counts, run.groups, run.history
    return {
        "servers": {
            "asked": counts.requested,
            "placed": counts.placed,
            "refused": counts.refused,
            "deleted": counts.deleted,
            "lost": counts.lost,
            "moved": counts.moved,
            "stuck": counts.stuck,
            "running": len(run.server_hosts),
        },
        "refusals": [
            {"reason": f"hosts {reason}", "servers": number, "first_at_use": round(counts.first_at[reason], 4)}
            for reason, number in _by_number(counts.reasons)
        ],
        "groups": {
            "wanted": groups.groups,
            "whole": groups.complete,
            "emptied": groups.empty,
            "breaking_hard_policies": groups.hard_violations,
            "breaking_soft_policies": groups.soft_violations,
        },
        "use": {
            zone: {kind: _number(share) for kind, share in zip(history.classes, row, strict=True)}
            for zone, row in zip(history.zones, history.usage[-1], strict=True)
        },
        "skew": {
            scope: {"mean": _number(mean), "worst": _number(worst)}
            for scope, mean, worst in zip(history.scopes, history.skew_mean[-1], history.skew_worst[-1], strict=True)
        },
        "decision_cpu_ms": {name: _number(value) for name, value in _times(run).items()},
        "history": {
            "at_s": _numbers(history.at_s),
            "servers": _numbers(history.servers),
            "use": {
                zone: {kind: _numbers(history.usage[:, i, j]) for j, kind in enumerate(history.classes)}
                for i, zone in enumerate(history.zones)
            },
            "skew_mean": {scope: _numbers(history.skew_mean[:, i]) for i, scope in enumerate(history.scopes)},
            "skew_worst": {scope: _numbers(history.skew_worst[:, i]) for i, scope in enumerate(history.scopes)},
            "refused": {f"hosts {reason}": _numbers(history.refused[:, i]) for i, reason in enumerate(history.reasons)},
        },
    }


def _fleet(start: InitialState) -> dict[str, Any]:
    """Return the size of the initial fleet."""
    return {
        "hosts": len(start.hosts),
        "zones": sorted({host.zone or start.default_zone for host in start.hosts}),
        "scopes": {scope: sum(1 for _ in start.domains(scope)) for scope in start.scopes},
        "servers": len(start.servers),
        "groups": len(start.groups),
    }


def timing_lines(timings: Sequence[Timing]) -> list[str]:
    """Return a row for each fleet size."""
    rows = [
        (f"  {timing.hosts:,} hosts", f"{timing.p50_s * 1e3:.3f}  {timing.p99_s * 1e3:.3f} ms") for timing in timings
    ]
    return (
        [
            "",
            "CPU time of a decision, p50 and p99, by fleet size",
            *(_row(label, [times]) for label, times in rows),
        ]
        if rows
        else []
    )


def lines(start: InitialState, runs: Mapping[str, Outcome]) -> list[str]:
    """Return the results as a table with a column for each run."""
    fleet = _fleet(start)
    places = ", ".join(f"{number} of {scope}" for scope, number in fleet["scopes"].items())
    size = f"{_counted(len(start.hosts), 'host')} in {_counted(len(fleet['zones']), 'zone')}"
    table = [size + (f"; domains: {places}" if places else "") + _present(start), ""]
    outcomes = list(runs.values())
    if len(runs) > 1:
        first, *others = runs
        table = [table[0], f"what if: {', '.join(others)}", "", _row("", [first, *(["what if"] * len(others))])]
    table += _counts(outcomes) + _groups(outcomes) + _refusals(outcomes) + _usages(outcomes)
    table += _skews(outcomes) + _decisions(outcomes)
    return table


def _present(start: InitialState) -> str:
    if not start.servers and not start.groups:
        return ""
    return f"; {len(start.servers):,} servers and {len(start.groups):,} groups at the start"


def _row(label: str, values: Sequence[str]) -> str:
    return f"{label:<{_LABEL_WIDTH}}" + "".join(f"{value:>{_COLUMN_WIDTH}}" for value in values)


def _counts(runs: Sequence[Outcome]) -> list[str]:
    rows = {
        "servers requested": [run.counts.requested for run in runs],
        "  placed": [run.counts.placed for run in runs],
        "  deleted": [run.counts.deleted for run in runs],
        "  lost with their hosts": [run.counts.lost for run in runs],
        "  moved to another host": [run.counts.moved for run in runs],
        "  stuck on a drained host": [run.counts.stuck for run in runs],
        "servers at the end": [len(run.server_hosts) for run in runs],
    }
    return [_row(label, [f"{n:,}" for n in numbers]) for label, numbers in rows.items() if any(numbers)]


def _groups(runs: Sequence[Outcome]) -> list[str]:
    rows = {
        "groups": [run.groups.groups for run in runs],
        "  with all members": [run.groups.complete for run in runs],
        "  without members": [run.groups.empty for run in runs],
        "  with hard violations": [run.groups.hard_violations for run in runs],
        "  with soft violations": [run.groups.soft_violations for run in runs],
    }
    if not any(rows["groups"]):
        return []
    return ["", *(_row(label, [f"{n:,}" for n in numbers]) for label, numbers in rows.items())]


def _refusals(runs: Sequence[Outcome]) -> list[str]:
    rows = ["", _row("refused (and fleet usage at the first refusal)", [f"{run.counts.refused:,}" for run in runs])]
    totals: dict[str, int] = {}
    for run in runs:
        for reason, number in run.counts.reasons.items():
            totals[reason] = totals.get(reason, 0) + number
    for reason, _ in _by_number(totals):
        rows.append(_row(f"  hosts {reason}", [_refused(run, reason) for run in runs]))
    return rows


def _refused(run: Outcome, reason: str) -> str:
    number = run.counts.reasons.get(reason, 0)
    return f"{number:,} (from {run.counts.first_at[reason]:.0%})" if number else "0"


def _usages(runs: Sequence[Outcome]) -> list[str]:
    zones, classes = runs[0].history.zones, runs[0].history.classes
    table = ["", "usage at the end: " + ", ".join(_LABELS.get(kind, kind) for kind in classes)]
    for number, zone in enumerate(zones):
        rows = [run.history.usage[-1][number].tolist() for run in runs]
        table.append(_row(f"  {zone}", ["  ".join(f"{share:4.0%}" for share in row) for row in rows]))
    return table


def _skews(runs: Sequence[Outcome]) -> list[str]:
    rows = []
    for number, scope in enumerate(runs[0].history.scopes):
        values = [(run.history.skew_mean[-1][number], run.history.skew_worst[-1][number]) for run in runs]
        if not np.isnan(values).all():
            rows.append(_row(f"  over {scope}s", [f"{mean:.2f}  {worst:.0f}" for mean, worst in values]))
    return ["", "skew of groups with anti-affinity: mean, worst", *rows] if rows else []


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
    return sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))


def _number(value: float) -> float | None:
    """Return a rounded number, or None for NaN, which JSON lacks."""
    return None if np.isnan(value) else round(float(value), 4)


def _numbers(column: Sequence[float] | np.ndarray[Any, Any]) -> list[float | None]:
    return [_number(value) for value in column]


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
