"""Plots of simulations, as SVG and PNG; needs matplotlib, the extra `covey[plots]`."""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from covey.simulation.metrics import Columns, History
from covey.simulation.scaling import Timing
from covey.simulation.workload import DAY_S

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Panels: TypeAlias = "Sequence[tuple[History, Axes]]"

# Okabe and Ito's colours, distinguishable with colour vision deficiencies; dashes and hatches serve print.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
_HATCHES = ("", "///", "...", "\\\\\\", "xxx", "++", "ooo")
_MAX_LINES = 6  # in one panel; of more zones, the fullest, the mean and the emptiest
_MAX_REASONS = 6
_LABELS = {"VCPU": "VCPUs", "MEMORY_MB": "memory", "DISK_GB": "disk"}
_STYLE: dict[Any, Any] = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",
    "svg.hashsalt": "covey",
    "hatch.linewidth": 0.6,
}


def is_available() -> bool:
    """Return whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def draw(directory: Path, runs: Mapping[str, History], scaling: Sequence[Timing] = ()) -> list[Path]:
    """Write the plots to the directory, with a panel for each run. A stream without a duration has no plots over time.

    Returns the paths.
    """
    import matplotlib as mpl  # noqa: PLC0415 -- optional, and slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415

    directory.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    with mpl.rc_context(_STYLE):
        for name, paint in _OVER_TIME.items() if any(history.at_s[-1] for history in runs.values()) else ():
            figure = Figure(figsize=(7.2 if len(runs) == 1 else 11.5, 4.4), layout="constrained")
            panels = figure.subplots(1, len(runs), sharex=True, sharey=True, squeeze=False)[0]
            paint(figure, list(zip(runs.values(), panels, strict=True)))
            for (title, history), axes in zip(runs.items(), panels, strict=True):
                if len(runs) > 1:
                    axes.set_title(title if history.changed_at_s is None else f"what if: {title}", loc="left")
                axes.set_xlabel("days since the start")
                axes.set_xlim(0, np.ceil(history.at_s[-1] / DAY_S * 10) / 10)
                if history.changed_at_s is not None:
                    axes.axvline(history.changed_at_s / DAY_S, color="#444444", linewidth=1, linestyle=(0, (4, 3)))
            written += _save(figure, directory / name)
        if scaling:
            figure = Figure(figsize=(7.2, 4.6), layout="constrained")
            _scaling(figure.subplots(), scaling)
            written += _save(figure, directory / "scaling")
    return written


def _save(figure: "Figure", path: Path) -> list[Path]:
    svg, png = path.with_suffix(".svg"), path.with_suffix(".png")
    figure.savefig(svg, metadata={"Date": None})
    figure.savefig(png, dpi=150)
    return [svg, png]


def _usage(figure: "Figure", panels: "Panels") -> None:
    """Plot the resource that is scarcest at the end of the first run."""
    scarcest = int(panels[0][0].usage[-1].mean(axis=0).argmax())
    name = panels[0][0].classes[scarcest]
    _head(figure, f"Usage of {_LABELS.get(name, name)} by zone")
    for history, axes in panels:
        for number, (zone, usage) in enumerate(_lines(history.zones, history.usage[:, :, scarcest])):
            axes.plot(_days(history), 100 * usage, color=_COLOURS[number], linestyle=_DASHES[number], label=zone)
        axes.set_ylim(0, 102)
    panels[0][1].set_ylabel(f"{_LABELS.get(name, name)} used, % of capacity")
    _legend(figure, panels)


def _lines(zones: Sequence[str], usage: Columns) -> list[tuple[str, Columns]]:
    if len(zones) <= _MAX_LINES:
        return list(zip(zones, usage.T, strict=True))
    return [("fullest zone", usage.max(axis=1)), ("mean", usage.mean(axis=1)), ("emptiest zone", usage.min(axis=1))]


def _skew(figure: "Figure", panels: "Panels") -> None:
    _head(figure, "Skew of groups with anti-affinity policies")
    top = 0.0
    for history, axes in panels:
        for number, scope in enumerate(history.scopes[: len(_COLOURS)]):
            if np.isnan(history.skew_mean[:, number]).all():
                continue
            style: dict[str, Any] = {"color": _COLOURS[number], "linestyle": _DASHES[number]}
            axes.plot(_days(history), history.skew_mean[:, number], label=f"{scope}, mean of groups", **style)
            worst = history.skew_worst[:, number]
            axes.plot(
                _days(history), worst, label=f"{scope}, worst group", **style, linewidth=0.9, drawstyle="steps-post"
            )
            top = max(top, float(np.nanmax(worst)))
        if np.isnan(history.skew_mean).all():
            _annotate(axes, "no group with an anti-affinity policy")
    axes = panels[0][1]
    axes.set_ylim(0, max(2.0, top) * 1.08)
    axes.locator_params(axis="y", integer=True)
    axes.set_ylabel("skew: members in a group's fullest\ndomain minus those in its emptiest")
    _legend(figure, panels)


def _refusals(figure: "Figure", panels: "Panels") -> None:
    _head(figure, "Refused servers by leading reason, cumulative")
    totals: dict[str, float] = {}
    for history, _ in panels:
        for reason, number in zip(history.reasons, history.refused[-1].tolist(), strict=True):
            totals[reason] = totals.get(reason, 0.0) + number
    shown = sorted(totals, key=lambda reason: -totals[reason])[:_MAX_REASONS]
    for history, axes in panels:
        columns = dict(zip(history.reasons, history.refused.T, strict=True))
        stack = {reason: columns.get(reason, np.zeros(history.at_s.size)) for reason in shown}
        rest = [column for reason, column in columns.items() if reason not in stack]
        if len(totals) > _MAX_REASONS:
            stack["others"] = np.sum(rest, axis=0) if rest else np.zeros(history.at_s.size)
        if stack:
            layers = axes.stackplot(_days(history), *stack.values(), labels=[f"hosts {reason}" for reason in stack])
            for layer, colour, hatch in zip(layers, _COLOURS, _HATCHES, strict=False):
                layer.set(facecolor=colour, hatch=hatch, edgecolor="white", linewidth=0.5)
        if not totals:
            _annotate(axes, "no refusals")
            axes.set_ylim(0, 1)
    axes = panels[0][1]
    axes.set_ylim(bottom=0)
    axes.set_ylabel("servers refused")
    axes.yaxis.set_major_formatter(lambda number, _: f"{number:,.0f}")
    _legend(figure, panels)


def _scaling(axes: "Axes", timings: Sequence[Timing]) -> None:
    hosts = [timing.hosts for timing in timings]
    for number, (name, values) in enumerate(
        {"p50": [timing.p50_s for timing in timings], "p99": [timing.p99_s for timing in timings]}.items()
    ):
        times = [1e3 * value for value in values]
        axes.plot(hosts, times, color=_COLOURS[number], linestyle=_DASHES[number], marker="os"[number], label=name)
        for x, y in zip(hosts, times, strict=True):
            axes.annotate(
                _format_ms(y), (x, y), (0, 8 if number else -16), textcoords="offset points", ha="center", fontsize=9
            )
    axes.set(xscale="log", yscale="log", xlabel="hosts in the fleet", ylabel="CPU time of one decision, ms")
    axes.set_title("Decision time of one server by fleet size", loc="left", weight="bold")
    axes.margins(x=0.08, y=0.16)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    axes.legend(loc="upper left")


def _format_ms(time_ms: float) -> str:
    return f"{time_ms * 1e3:.0f} µs" if time_ms < 1 else f"{time_ms:.1f} ms"


def _head(figure: "Figure", title: str) -> None:
    figure.suptitle(title, weight="bold", x=0.01, ha="left")


def _annotate(axes: "Axes", text: str) -> None:
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", color="#666666")


def _legend(figure: "Figure", panels: "Panels") -> None:
    """Add one legend for all panels, below them."""
    entries: dict[str, Artist] = {}
    for _, axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    if entries:
        column_in = 0.09 * max(map(len, entries)) + 0.6
        columns = min(3, max(1, int(figure.get_figwidth() / column_in)))
        figure.legend(list(entries.values()), list(entries), loc="outside lower left", ncols=columns)


def _days(history: History) -> Columns:
    return np.asarray(history.at_s / DAY_S)


_OVER_TIME = {"use": _usage, "skew": _skew, "refusals": _refusals}
