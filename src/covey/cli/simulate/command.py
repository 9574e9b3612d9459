"""The command: from options to runs, and from runs to a summary, JSON and plots."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from covey.cli.options import chooses_database, chosen
from covey.cli.simulate import plots, sources, summary
from covey.cli.simulate.options import LOAD, OUT_OF_NOTHING, takes_options
from covey.fleet_file import parse
from covey.model.errors import Invalid
from covey.simulation.events import Event, read, written
from covey.simulation.replay import Outcome, Replay
from covey.simulation.scaling import Timing, measure
from covey.simulation.start import Start
from covey.simulation.what_ifs import Add, Drain, Lose, WhatIf
from covey.simulation.workload import Mix, Workload, generate

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar

_AS_IT_IS = "as it is"


@click.command()
@takes_options
@chooses_database
@click.pass_context
def simulate(ctx: click.Context, /, **given: Any) -> None:  # noqa: ANN401 -- click knows their types
    """Replay boots, deletes, growth and failures on a fleet, through the decisions that the service makes.

    FLEET is a fleet file. Without it and without --from-service, a fleet is made out of nothing. Nothing is
    written but what --record and --plots name.

    \b
    Examples:
      How full can we get before policies are in the way?
        covey simulate fleet.yaml --policies anti-affinity:rack
      How would groups fare if a rack, or a zone, went away?
        covey simulate fleet.yaml --drain rack-3 --plots out
        covey simulate --from-service --boots 0 --lose zone-b --evacuate
      Would ten more hosts for each rack do?
        covey simulate fleet.yaml --add 10 rack --at 0
      A large fleet, out of nothing:
        covey simulate --hosts 10000 --zones 3 --boots 100000 --plots out
    """
    _refuse_nonsense(ctx, given)
    start = _start(given)
    if not start.hosts:
        raise Invalid("The fleet has no hosts, so there is nothing to simulate.")
    what_ifs = _what_ifs(given)
    for what_if in what_ifs:
        what_if.check(start)
    stream = _stream(start, given)
    if given["record"] is not None:
        with given["record"].open("wb") as file:
            file.writelines(written(stream))
    replay = Replay(start, stream, time.thread_time, given["seed"], given["evacuate"])
    runs = _runs(replay, what_ifs, given["at"] / 100)
    timings = _timings(given["sizes"] if given["scales"] else (), given["seed"])
    drawn = _drawn(given["directory"], runs, timings)
    if given["as_json"]:
        click.echo(msgspec.json.encode(summary.document(given["seed"], start, runs, timings, list(map(str, drawn)))))
    else:
        click.echo("\n".join([*summary.lines(start, runs), *summary.timing_lines(timings)]))
    if drawn:
        click.echo(f"{len(drawn)} plots are in {given['directory']}.", err=True)
    elif given["directory"] is not None:
        click.echo(_no_plots(), err=True)


def _refuse_nonsense(ctx: click.Context, given: Mapping[str, Any]) -> None:
    """Options that have no meaning beside others."""

    def named(options: Sequence[str]) -> list[str]:
        said = (option for option in options if ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE)
        return [f"--{option.replace('_', '-')}" for option in said]

    if given["fleet"] and given["from_service"]:
        raise click.UsageError("A fleet file and --from-service are two beginnings; choose one.")
    if (given["fleet"] or given["from_service"]) and named(OUT_OF_NOTHING):
        raise click.UsageError(f"{named(OUT_OF_NOTHING)[0]} is for a fleet out of nothing, and there is one already.")
    if given["recording"] and named(LOAD):
        raise click.UsageError(f"{named(LOAD)[0]} is for a stream that is made up, and --replay has one already.")
    if given["zones"] > given["hosts"]:
        raise click.UsageError("--zones may be no more than --hosts: a zone needs a host.")
    if (given["racks_per_zone"] or 1) * given["zones"] > given["hosts"]:
        raise click.UsageError("--racks-per-zone leaves racks without a host: there are too few --hosts.")


def _start(given: Mapping[str, Any]) -> Start:
    conf = chosen(given["config_files"], given["database"]).load()
    if given["from_service"]:
        return sources.from_service(conf)
    if given["fleet"]:
        return sources.from_file(parse(Path(given["fleet"]).read_text(), Path(given["fleet"]).name), conf)
    return sources.out_of_nothing(conf, *(given[option] for option in OUT_OF_NOTHING))


def _stream(start: Start, given: Mapping[str, Any]) -> list[Event]:
    if given["recording"] is not None:
        with given["recording"].open("rb") as file:
            return read(file, given["recording"].name)
    texts = [tuple(text.strip() for text in each.split(",")) for each in given["policies"]]
    mix = tuple(Mix(() if each == ("none",) else each, 1.0) for each in texts)
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
    """The run as it is and, beside it, the one with the what-ifs."""
    wanted: dict[str, Sequence[WhatIf]] = {_AS_IT_IS: ()}
    if what_ifs:
        wanted[" ".join(map(str, what_ifs))] = what_ifs
    with _progress("Simulating", len(replay.stream) * len(wanted)) as bar:
        return {name: replay.run(changes, at, bar.update) for name, changes in wanted.items()}


def _timings(sizes: Sequence[int], seed: int) -> list[Timing]:
    if not sizes:
        return []
    with _progress("Measuring", len(sizes)) as bar:
        return list(measure(sizes, seed, time.thread_time, bar.update))


def _progress(label: str, length: int) -> "ProgressBar[int]":
    """For people: a file or a pipe gets none."""
    return click.progressbar(length=length, label=label, file=sys.stderr, hidden=not sys.stderr.isatty(), width=30)


def _drawn(directory: Path | None, runs: Mapping[str, Outcome], timings: Sequence[Timing]) -> list[Path]:
    if directory is None or not plots.is_available():
        return []
    return plots.draw(directory, {name: run.history for name, run in runs.items()}, timings)


def _no_plots() -> str:
    if plots.is_available():
        return "There are no plots: nothing happened in time."
    return "There are no plots, since they need matplotlib: pip install 'covey[plots]'."
