"""The options of `covey simulate`, by what they are about."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

OUT_OF_NOTHING = ("hosts", "zones", "racks_per_zone", "host_size")  # options of a fleet that is made up
LOAD = ("boots", "policies", "days", "churn", "growth", "failures")  # options of a stream that is made up

_PERCENT = click.IntRange(0, 100)


class _Numbers(click.ParamType[tuple[int, ...]]):
    """Whole numbers from 1 on, with commas between them."""

    name = "numbers"

    def __init__(self, count: int | None = None) -> None:
        self._count = count

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:  # noqa: ANN401 -- click's
        if isinstance(value, tuple):
            return value
        parts = value.split(",")
        right = all(part.strip().isdecimal() and int(part) for part in parts)
        if not right or len(parts) != (self._count or len(parts)):
            count = f"{self._count} " if self._count else ""
            self.fail(f"{value!r} is not {count}numbers from 1 on with commas between them.", param, ctx)
        return tuple(map(int, parts))


_FLEET = (
    click.argument("fleet", required=False, type=click.Path(exists=True, dir_okay=False)),
    click.option(
        "--from-service",
        is_flag=True,
        help="Begin with the service's database as it is now: hosts and their use, groups, servers. It is only read.",
    ),
    click.option(
        "--hosts",
        type=click.IntRange(1, 2_000_000),
        default=1000,
        show_default=True,
        help="A fleet out of nothing: so many hosts.",
    ),
    click.option(
        "--zones",
        type=click.IntRange(1, 1000),
        default=3,
        show_default=True,
        help="Its availability zones, called zone-a, zone-b and so on.",
    ),
    click.option(
        "--racks-per-zone",
        type=click.IntRange(1, 100_000),
        help="Its racks, called rack-1 and so on. Without it, racks of about 40 hosts.",
    ),
    click.option(
        "--host-size",
        type=_Numbers(3),
        metavar="VCPUS,MB,GB",
        default="32,65536,2000",
        show_default=True,
        help="What each of its hosts has: VCPUs, memory and disk.",
    ),
)
_STREAM = (
    click.option(
        "--boots",
        type=click.IntRange(0, 10_000_000),
        help="Servers to ask for. Without it, somewhat more than the fleet has room for.",
    ),
    click.option(
        "--policies",
        multiple=True,
        metavar="POLICY[,POLICY]",
        help="What groups ask for: anti-affinity:rack, or anti-affinity:rack=2 for two in a rack at the most; none"
        " is servers in no group. May be repeated. Without it, a mix of all.",
    ),
    click.option(
        "--days",
        type=click.FloatRange(0, 36500, min_open=True),
        default=30,
        show_default=True,
        help="How long it takes, in the simulated world.",
    ),
    click.option(
        "--churn", type=_PERCENT, default=20, show_default=True, help="Percentage of servers that are deleted again."
    ),
    click.option(
        "--growth",
        type=_PERCENT,
        default=10,
        show_default=True,
        help="Percentage of a group's servers that come as growth, in one decision.",
    ),
    click.option(
        "--failures",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="Hosts that go down, for about a day each.",
    ),
    click.option(
        "--replay",
        "recording",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Replay this recorded stream instead of making one up.",
    ),
    click.option(
        "--record",
        type=click.Path(dir_okay=False, writable=True, path_type=Path),
        help="Write the stream to this file, to repeat or edit it.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0, 2**31 - 1),
        default=1,
        show_default=True,
        help="The same seed, the same outcome.",
    ),
)
_WHAT_IFS = (
    click.option(
        "--drain",
        multiple=True,
        metavar="PLACE",
        help="What if nothing went to this aggregate, zone or host any more, and what is there moved away?",
    ),
    click.option("--lose", multiple=True, metavar="PLACE", help="What if it went down for good, with its servers?"),
    click.option(
        "--add",
        multiple=True,
        type=(click.IntRange(1, 100_000), str),
        metavar="N SCOPE",
        help="What if every domain of this scope had so many more hosts? What-ifs may be repeated and combined.",
    ),
    click.option(
        "--at",
        type=_PERCENT,
        default=50,
        show_default=True,
        help="After which percentage of the stream what-ifs come true.",
    ),
    click.option(
        "--evacuate",
        is_flag=True,
        help="Servers of hosts that go down get another place, where there is one.",
    ),
)
_OUTPUT = (
    click.option("--scaling", "scales", is_flag=True, help="Also measure decision time against fleet size."),
    click.option(
        "--sizes",
        type=_Numbers(),
        metavar="N,N",
        default="1000,10000,100000,1000000",
        show_default=True,
        help="Hosts in the fleets of --scaling.",
    ),
    click.option(
        "--plots",
        "directory",
        type=click.Path(file_okay=False, path_type=Path),
        help="Write plots into this directory, as SVG and PNG.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Write everything as JSON, with its history."),
)


def takes_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds all of them, in this order."""
    for option in reversed((*_FLEET, *_STREAM, *_WHAT_IFS, *_OUTPUT)):
        command = option(command)
    return command
