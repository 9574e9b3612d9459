"""`python -m tests.bench`: run the benchmarks and print one table. `make bench` runs it; BENCH="..." passes options."""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench import (
    adoption,
    agents,
    boots,
    candidates,
    comparison,
    decisions,
    filter_cost,
    machine,
    placement,
    reads,
    topology,
)
from tests.bench.backends import BACKENDS
from tests.bench.table import Row, markdown

_SECTIONS = ("decisions", "candidates", "nova", "placement", "adopt", "boots", "reads", "topology", "agents")
_FILTER_HOSTS = 1_000


def _arguments() -> argparse.Namespace:
    sizes = boots.Sizes()
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    parser.add_argument("--only", choices=_SECTIONS, action="append", help="run only this section; may be repeated")
    parser.add_argument("--skip-nova", action="store_true", help="skip the comparison with Nova")
    parser.add_argument(
        "--nova-venv", type=Path, default=Path(".bench/nova-venv"), metavar="DIR", help="created if missing"
    )
    parser.add_argument("--skip-placement", action="store_true", help="skip the comparison with Placement")
    parser.add_argument(
        "--placement-venv", type=Path, default=Path(".bench/placement-venv"), metavar="DIR", help="created if missing"
    )
    parser.add_argument(
        "--adopt",
        type=int,
        nargs=2,
        default=[adoption.PROVIDERS, adoption.CONSUMERS],
        metavar=("PROVIDERS", "CONSUMERS"),
    )
    parser.add_argument("--nova-hosts", type=int, nargs="+", default=[1_000, 10_000], metavar="N")
    parser.add_argument("--nova-batch", type=int, default=100, metavar="N", help="servers in Nova's batch")
    parser.add_argument("--decide-hosts", type=int, nargs="+", default=[1_000, 10_000, 100_000], metavar="N")
    parser.add_argument("--repeats", type=int, default=500, metavar="N", help="decisions for each row")
    parser.add_argument("--database", choices=BACKENDS, action="append", help="measure boots on this database only")
    parser.add_argument("--hosts", type=int, default=sizes.hosts, metavar="N", help="for boots")
    parser.add_argument("--servers", type=int, default=reads.SERVERS, metavar="N", help="for reads")
    parser.add_argument("--groups", type=int, default=sizes.groups, metavar="N", help="for boots")
    parser.add_argument("--boots", type=int, default=sizes.boots, metavar="N", help="for each round")
    parser.add_argument("--rounds", type=int, default=sizes.rounds, metavar="N", help="of boots; the median is shown")
    parser.add_argument("--connections", type=int, nargs="+", default=list(sizes.connections), metavar="N")
    parser.add_argument("--agents", type=int, default=agents.AGENTS, metavar="N", help="for agents")
    parser.add_argument("--large", type=int, default=topology.LARGE, metavar="N", help="hosts of a large fleet")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="directory of the databases; temporary by default")
    parser.add_argument(
        "--set", action="append", default=[], metavar="GROUP.OPTION=VALUE", help="an option of the measured service"
    )
    return parser.parse_args()


def _log(message: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {message}\n")
    sys.stderr.flush()


def _settings(chosen: list[str]) -> str:
    pairs = [setting.partition("=") for setting in chosen]
    return "".join(f"[{name.partition('.')[0]}]\n{name.partition('.')[2]} = {value}\n" for name, _, value in pairs)


def _sizes(chosen: argparse.Namespace) -> boots.Sizes:
    return boots.Sizes(
        hosts=chosen.hosts,
        groups=chosen.groups,
        boots=chosen.boots,
        boots_alone=max(50, chosen.boots // 6),
        warm_up=max(50, chosen.boots // 6),
        rounds=chosen.rounds,
        connections=tuple(chosen.connections),
    )


def _compare_with_nova(chosen: argparse.Namespace) -> list[Row]:
    try:
        python = comparison.prepared(chosen.nova_venv, _log)
        compared = list(comparison.measure(python, tuple(chosen.nova_hosts), 7, chosen.nova_batch, _log))
        return [*compared, *filter_cost.measure(_FILTER_HOSTS, _log)]
    except subprocess.SubprocessError as error:  # the other sections still run
        return [Row("Nova / Covey", note=f"FAILED: {type(error).__name__}; see standard error")]


def _compare_with_placement(chosen: argparse.Namespace, describe: Callable[[str], None]) -> list[Row]:
    try:
        return list(placement.measure(chosen.placement_venv, chosen.data_dir, describe, _log))
    except subprocess.SubprocessError as error:
        _log(str(error))
        return [Row("Placement / Covey", note=f"FAILED: {type(error).__name__}; see standard error")]


def _adopt(chosen: argparse.Namespace, describe: Callable[[str], None]) -> list[Row]:
    try:
        sizes = chosen.adopt[0], chosen.adopt[1]
        return list(adoption.measure(chosen.placement_venv, chosen.data_dir, sizes, describe, _log))
    except subprocess.SubprocessError as error:
        _log(str(error))
        return [Row("adopt", note=f"FAILED: {type(error).__name__}; see standard error")]


def _measure(chosen: argparse.Namespace, about: list[str]) -> list[Row]:
    sections = chosen.only or list(_SECTIONS)
    rows: list[Row] = []
    if "decisions" in sections:
        rows += decisions.measure(tuple(chosen.decide_hosts), chosen.repeats, _log)
    if "candidates" in sections:
        rows += candidates.measure(chosen.repeats, _log)
    if chosen.skip_nova or "nova" not in sections:
        rows.append(Row("Nova / Covey", note="NOT MEASURED: skipped by --skip-nova or --only"))
    else:
        rows += _compare_with_nova(chosen)
    if chosen.skip_placement or "placement" not in sections:
        rows.append(Row("Placement / Covey", note="NOT MEASURED: skipped by --skip-placement or --only"))
    else:
        rows += _compare_with_placement(chosen, about.append)
    if "adopt" in sections:
        rows += _adopt(chosen, about.append)
    if "boots" in sections:
        names = chosen.database or list(BACKENDS)
        rows += boots.measure(names, _sizes(chosen), _settings(chosen.set), chosen.data_dir, about.append, _log)
    if "reads" in sections:
        names = chosen.database or list(BACKENDS)
        rows += reads.measure(names, chosen.hosts, chosen.servers, chosen.data_dir, about.append, _log)
    if "topology" in sections:
        names = chosen.database or list(BACKENDS)
        rows += topology.measure(
            names, _sizes(chosen), _settings(chosen.set), chosen.data_dir, about.append, _log, chosen.large
        )
    if "agents" in sections:
        rows += agents.measure(chosen.database or list(BACKENDS), chosen.agents, chosen.data_dir, about.append, _log)
    return rows


def main() -> None:
    chosen = _arguments()
    started = time.monotonic()
    about = [*machine.about(), *(f"option of the service: {setting}" for setting in chosen.set)]
    rows = _measure(chosen, about)
    about += [f"took {time.monotonic() - started:.0f} s; at the end, {machine.load()}"]
    sys.stdout.write("\n".join(f"- {line}" for line in about) + f"\n\n{markdown(rows)}\n")
    if chosen.json:
        chosen.json.write_text(json.dumps({"about": about, "rows": [row.document() for row in rows]}, indent=1))
    if any("FAILED" in row.note for row in rows):
        sys.exit("a check failed; see the table")


if __name__ == "__main__":
    main()
