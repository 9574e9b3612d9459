"""The command: it runs the simulations, and prints a summary, JSON and plots."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from covey.cli.options import database_options, settings_of
from covey.cli.output import echo
from covey.cli.simulate import plots, sources, summary
from covey.cli.simulate.options import LOAD, SYNTHETIC, takes_options
from covey.fleet_file import parse
from covey.model.errors import Invalid
from covey.simulation.events import Event, encode_lines, read
from covey.simulation.initial_state import InitialState
from covey.simulation.replay import Outcome, Replay
from covey.simulation.scaling import Timing, measure
from covey.simulation.what_ifs import Add, Drain, Lose, WhatIf
from covey.simulation.workload import Mix, Workload, generate

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar

_BASELINE = "baseline"


@click.command()
@takes_options
@database_options
@click.pass_context
def simulate(ctx: click.Context, /, **given: Any) -> None:  # noqa: ANN401 -- click knows their types
    """Replay boots, deletes, growth and failures on a fleet, through the service's scheduler.

    FLEET is a fleet file. Without it and without --from-service, the fleet is synthetic. The command only writes
    the files of --record and --plots.

    \b
    Examples:
      How full can the fleet get before policies refuse servers?
        covey simulate fleet.yaml --policies anti-affinity:rack
      What happens to groups when a rack or a zone is lost?
        covey simulate fleet.yaml --drain rack-3 --plots out
        covey simulate --from-service --boots 0 --lose zone-b --evacuate
      Are ten more hosts per rack enough?
        covey simulate fleet.yaml --add 10 rack --at 0
      A large synthetic fleet:
        covey simulate --hosts 10000 --zones 3 --boots 100000 --plots out
    """
    _reject_conflicts(ctx, given)
    start = _start(given)
    for note in start.notes:
        echo(note, err=True)
    if not start.hosts:
        raise Invalid("The fleet has no hosts.")
    what_ifs = _what_ifs(given)
    for what_if in what_ifs:
        what_if.check(start)
    stream = _stream(start, given)
    if given["record"] is not None:
        with given["record"].open("wb") as file:
            file.writelines(encode_lines(stream))
    replay = Replay(start, stream, time.thread_time, given["seed"], given["evacuate"])
    runs = _runs(replay, what_ifs, given["at"] / 100)
    timings = _timings(given["sizes"] if given["scales"] else (), given["seed"])
    drawn = _drawn(given["directory"], runs, timings)
    if given["as_json"]:
        echo(msgspec.json.encode(summary.document(given["seed"], start, runs, timings, list(map(str, drawn)))))
    else:
        echo("\n".join([*summary.lines(start, runs), *summary.timing_lines(timings)]))
    if drawn:
        echo(f"Wrote {len(drawn)} plots to {given['directory']}.", err=True)
    elif given["directory"] is not None:
        echo(_no_plots(), err=True)


def _reject_conflicts(ctx: click.Context, given: Mapping[str, Any]) -> None:
    """Raise UsageError for options that exclude each other."""

    def named(options: Sequence[str]) -> list[str]:
        present = (option for option in options if ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE)
        return [f"--{option.replace('_', '-')}" for option in present]

    if given["fleet"] and given["from_service"]:
        raise click.UsageError("FLEET and --from-service exclude each other.")
    if (given["fleet"] or given["from_service"]) and named(SYNTHETIC):
        raise click.UsageError(f"{named(SYNTHETIC)[0]} applies to a synthetic fleet only.")
    if given["recording"] and named(LOAD):
        raise click.UsageError(f"{named(LOAD)[0]} applies to a generated workload; --replay excludes it.")
    if given["zones"] > given["hosts"]:
        raise click.UsageError("--zones must not exceed --hosts: every zone needs a host.")
    if (given["racks_per_zone"] or 1) * given["zones"] > given["hosts"]:
        raise click.UsageError("--racks-per-zone exceeds --hosts: every rack needs a host.")


def _start(given: Mapping[str, Any]) -> InitialState:
    conf = settings_of(given["config_files"], given["database"]).load()
    if given["from_service"]:
        return sources.from_service(conf)
    if given["fleet"]:
        return sources.from_file(parse(Path(given["fleet"]).read_text(), Path(given["fleet"]).name), conf)
    return sources.synthetic_fleet(conf, *(given[option] for option in SYNTHETIC))


def _stream(start: InitialState, given: Mapping[str, Any]) -> list[Event]:
    if given["recording"] is not None:
        with given["recording"].open("rb") as file:
            return read(file, given["recording"].name)
    texts = [tuple(text.strip() for text in option.split(",")) for option in given["policies"]]
    mix = tuple(Mix(() if policies == ("none",) else policies, 1.0) for policies in texts)
    churn, growth = given["churn"] / 100, given["growth"] / 100
    return generate(
        start, Workload(given["boots"], given["days"], churn, growth, given["failures"], mix=mix), given["seed"]
    )


def _what_ifs(given: Mapping[str, Any]) -> list[WhatIf]:
    return [
        *(Add(count, scope) for count, scope in given["add"]),
        *(Drain(place) for place in given["drain"]),
        *(Lose(place, given["evacuate"]) for place in given["lose"]),
    ]


def _runs(replay: Replay, what_ifs: Sequence[WhatIf], at: float) -> dict[str, Outcome]:
    """Return the baseline and, with what-ifs, the run with them."""
    changes: dict[str, Sequence[WhatIf]] = {_BASELINE: ()}
    if what_ifs:
        changes[" ".join(map(str, what_ifs))] = what_ifs
    with _progress("Simulating", len(replay.stream) * len(changes)) as bar:
        return {name: replay.run(applied, at, bar.update) for name, applied in changes.items()}


def _timings(sizes: Sequence[int], seed: int) -> list[Timing]:
    if not sizes:
        return []
    with _progress("Measuring", len(sizes)) as bar:
        return list(measure(sizes, seed, time.thread_time, bar.update))


def _progress(label: str, length: int) -> "ProgressBar[int]":
    """Return a progress bar, hidden unless standard error is a terminal."""
    return click.progressbar(length=length, label=label, file=sys.stderr, hidden=not sys.stderr.isatty(), width=30)


def _drawn(directory: Path | None, runs: Mapping[str, Outcome], timings: Sequence[Timing]) -> list[Path]:
    if directory is None or not plots.is_available():
        return []
    return plots.draw(directory, {name: run.history for name, run in runs.items()}, timings)


def _no_plots() -> str:
    if plots.is_available():
        return "No plots: the stream has no duration."
    return "Plots need matplotlib: pip install 'covey[plots]'."
