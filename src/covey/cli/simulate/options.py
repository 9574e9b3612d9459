"""The options of `covey simulate`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

SYNTHETIC = ("hosts", "zones", "racks_per_zone", "host_size")  # options of a synthetic fleet
LOAD = ("boots", "policies", "days", "churn", "growth", "failures")  # options of a generated workload

_PERCENT = click.IntRange(0, 100)


class _Numbers(click.ParamType[tuple[int, ...]]):
    """Comma-separated positive integers."""

    name = "numbers"

    def __init__(self, count: int | None = None) -> None:
        self._count = count

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:  # noqa: ANN401 -- click's
        if isinstance(value, tuple):
            return value
        parts = value.split(",")
        valid = all(part.strip().isdecimal() and int(part) for part in parts)
        if not valid or len(parts) != (self._count or len(parts)):
            count = f"{self._count} " if self._count else ""
            self.fail(f"{value!r} is not a list of {count}comma-separated positive integers.", param, ctx)
        return tuple(map(int, parts))


_FLEET = (
    click.argument("fleet", required=False, type=click.Path(exists=True, dir_okay=False)),
    click.option(
        "--from-service",
        is_flag=True,
        help="Start from the service's database: hosts with their usage, groups and servers. Read-only.",
    ),
    click.option(
        "--hosts",
        type=click.IntRange(1, 2_000_000),
        default=1000,
        show_default=True,
        help="Hosts of a synthetic fleet.",
    ),
    click.option(
        "--zones",
        type=click.IntRange(1, 1000),
        default=3,
        show_default=True,
        help="Availability zones of a synthetic fleet, named zone-a, zone-b and so on.",
    ),
    click.option(
        "--racks-per-zone",
        type=click.IntRange(1, 100_000),
        help="Racks in each zone of a synthetic fleet, named rack-1 and so on. [default: racks of about 40 hosts]",
    ),
    click.option(
        "--host-size",
        type=_Numbers(3),
        metavar="VCPUS,MB,GB",
        default="32,65536,2000",
        show_default=True,
        help="VCPUs, memory and disk of each host of a synthetic fleet.",
    ),
)
_STREAM = (
    click.option(
        "--boots",
        type=click.IntRange(0, 10_000_000),
        help="Servers to create. [default: slightly more than fit]",
    ),
    click.option(
        "--policies",
        multiple=True,
        metavar="POLICY[,POLICY]",
        help="Policies of groups: anti-affinity:rack, or anti-affinity:rack=2 to allow two in a rack; none creates"
        " servers without a group. May be repeated. [default: a mix of all]",
    ),
    click.option(
        "--days",
        type=click.FloatRange(0, 36500, min_open=True),
        default=30,
        show_default=True,
        help="Simulated duration in days.",
    ),
    click.option(
        "--churn", type=_PERCENT, default=20, show_default=True, help="Percentage of servers that are deleted."
    ),
    click.option(
        "--growth",
        type=_PERCENT,
        default=10,
        show_default=True,
        help="Percentage of a group's servers that are added in one decision.",
    ),
    click.option(
        "--failures",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="Hosts that fail, each for about a day.",
    ),
    click.option(
        "--replay",
        "recording",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Replay the events of this file instead of a generated workload.",
    ),
    click.option(
        "--record",
        type=click.Path(dir_okay=False, writable=True, path_type=Path),
        help="Write the events to this file, for --replay.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0, 2**31 - 1),
        default=1,
        show_default=True,
        help="Seed of the random generator; the same seed gives the same outcome.",
    ),
)
_WHAT_IFS = (
    click.option(
        "--drain",
        multiple=True,
        metavar="PLACE",
        help="What if this aggregate, zone or host is disabled and its servers are migrated?",
    ),
    click.option(
        "--lose",
        multiple=True,
        metavar="PLACE",
        help="What if this aggregate, zone or host is down permanently, with its servers?",
    ),
    click.option(
        "--add",
        multiple=True,
        type=(click.IntRange(1, 100_000), str),
        metavar="N SCOPE",
        help="What if every domain of this scope has N more hosts? What-ifs may be repeated and combined.",
    ),
    click.option(
        "--at",
        type=_PERCENT,
        default=50,
        show_default=True,
        help="Percentage of the stream after which the what-ifs are applied.",
    ),
    click.option(
        "--evacuate",
        is_flag=True,
        help="Evacuate the servers of hosts that go down.",
    ),
)
_OUTPUT = (
    click.option("--scaling", "scales", is_flag=True, help="Also measure the decision time by fleet size."),
    click.option(
        "--sizes",
        type=_Numbers(),
        metavar="N,N",
        default="1000,10000,100000,1000000",
        show_default=True,
        help="Fleet sizes of --scaling.",
    ),
    click.option(
        "--plots",
        "directory",
        type=click.Path(file_okay=False, path_type=Path),
        help="Write plots to this directory, as SVG and PNG.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print the results as JSON, with their history."),
)


def takes_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add all options to a command."""
    for option in reversed((*_FLEET, *_STREAM, *_WHAT_IFS, *_OUTPUT)):
        command = option(command)
    return command
