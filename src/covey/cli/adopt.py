"""`covey adopt`: copy the ledger of another Placement service."""

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice

import click
import msgspec

from covey import bootstrap, clock_and_ids, remote_api
from covey.cli.options import database_options, settings_of
from covey.cli.output import echo
from covey.model.ledger_copy import Difference, Ledger
from covey.services.adoption import Adoption, Check
from covey.services.adoption.original import Original
from covey.services.adoption.reading import Reading, StartStep
from covey.services.manage import Progress

_MAX_LINES = 40  # of differences on the terminal
_NEXT_STEPS = """
To switch to Covey:
  1. Start `covey serve --api placement` on this database.
  2. Stop the clients of the original: nova-api, nova-conductor, nova-scheduler, nova-compute, neutron-server.
  3. `covey adopt --update` reads what changed since this copy; it must report no difference.
  4. For each endpoint of the service placement: `openstack endpoint set --url URL-OF-COVEY ENDPOINT`.
  5. Start the clients again.

To switch back:
  1. Stop the clients, and set the endpoints to {url} again.
  2. `covey adopt --check-only --url {url}` lists what was written to Covey since the switch. The original lacks it.
  3. Start the clients. nova-compute writes inventories and traits again, `nova-manage placement sync_aggregates` the
     aggregates, `nova-manage placement heal_allocations` the allocations of servers without nested resources.
"""


@click.command()
@click.option("--cloud", metavar="NAME", help="Cloud in clouds.yaml. [default: the OS_* variables]")
@click.option("--url", metavar="URL", help="Address of the original. [default: placement in the cloud's catalogue]")
@click.option("--token", metavar="TOKEN", envvar="OS_TOKEN", help="Token for --url, in place of a cloud.")
@click.option(
    "--connections", type=click.IntRange(1, 64), default=8, show_default=True, help="Requests to send at once."
)
@click.option("--update", is_flag=True, help="Update an earlier copy: read and write what changed since.")
@click.option("--dry-run", is_flag=True, help="Read the original without writing.")
@click.option("--check-only", is_flag=True, help="Compare an earlier copy with the original without writing.")
@click.option("--skip-check", is_flag=True, help="Do not compare after writing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every difference.")
@database_options
def adopt(
    cloud: str | None,
    url: str | None,
    token: str | None,
    connections: int,
    update: bool,
    dry_run: bool,
    check_only: bool,
    skip_check: bool,
    as_json: bool,
    config_files: tuple[str, ...],
    database: str | None,
) -> None:
    """Copy resource providers, inventories, traits, aggregates, allocations and consumers of another Placement.

    The command reads the original over its API, writes to an empty database in one transaction, then reads the
    original again and compares. It never writes to the original. Uuids and generations stay as they are.

    \b
    Examples:
      covey adopt --cloud production --dry-run
      covey adopt --cloud production
      covey adopt --cloud production --update

    \b
    Exit status:
      0  the copy is equal to the original
      1  they differ, or the original changed while it was read
    """
    if dry_run and check_only:
        raise click.UsageError("--dry-run and --check-only exclude each other.")
    if token is not None and url is None:
        raise click.UsageError("--token needs --url.")
    conf = settings_of(config_files, database).load()
    bootstrap.prepare(conf)
    api = remote_api.connect("placement", cloud=cloud, url=url, token=token, connections=connections)
    original = Original(api, connections)
    seconds: dict[str, float] = {}
    with _steps() as start:
        adoption = Adoption(original, bootstrap.store(conf), clock_and_ids.now, start)
        with _timed(seconds, "read"):
            reading = None if check_only else adoption.read(update=update)
        with _timed(seconds, "write"):
            if reading and not dry_run:
                adoption.write(reading.ledger, update=update)
        with _timed(seconds, "check"):
            check = None if dry_run or skip_check else adoption.check(reading.ledger if reading else None)
    if as_json:
        written = {"written": not (dry_run or check_only), "seconds": seconds}
        echo(msgspec.json.encode({**_document(original, reading, check), **written}))
    else:
        _show(original, reading, check, written=not (dry_run or check_only))
    sys.exit(0 if _is_complete(reading, check) else 1)


def _is_complete(reading: Reading | None, check: Check | None) -> bool:
    """Return whether the copy is that of one moment; with a check, of the present one."""
    if check is not None:
        return not check.differences and not check.changing
    return reading is None or not reading.changing


def _show(original: Original, reading: Reading | None, check: Check | None, *, written: bool) -> None:
    echo(f"Original: {original.url}, Placement {original.version}")
    if reading is not None:
        counts = ", ".join(f"{number} {noun}" for noun, number in _counts(reading.ledger).items())
        echo(f"{'Copied' if written else 'To copy'}: {counts}.")
    for difference in islice(check.differences if check else (), _MAX_LINES):
        echo(_line(difference), fg="yellow")
    if check is not None:
        _show_check(check)
    elif reading is not None and reading.changing:
        echo(f"{len(reading.changing)} providers and projects changed again while the original was read.", fg="yellow")
    if written:
        echo(_NEXT_STEPS.format(url=original.url))


def _show_check(check: Check) -> None:
    compared = f"{check.providers} providers and {check.consumers} consumers"
    if len(check.differences) > _MAX_LINES:
        echo(f"… and {len(check.differences) - _MAX_LINES} more (--json shows all)")
    if check.differences:
        echo(f"Checked: {compared}; {len(check.differences)} differences.", fg="yellow")
    else:
        echo(f"Checked: {compared} are equal in both.")
    if check.changing:
        echo(f"{len(check.changing)} providers and projects changed during the check: stop the clients, then --update.")


def _line(difference: Difference) -> str:
    what = "" if difference.field == difference.kind else f" {difference.field}"
    subject = f"{difference.kind} {difference.subject}{what}"
    return f"! {subject}: {_text(difference.original)} in the original, {_text(difference.copy)} in Covey"


def _text(value: object) -> str:
    return (
        "absent" if value is None or value is False else "present" if value is True else str(msgspec.to_builtins(value))
    )


def _counts(ledger: Ledger) -> dict[str, int]:
    return {
        "resource providers": len(ledger.providers),
        "consumers": len(ledger.consumers),
        "custom traits": len(ledger.traits),
        "custom resource classes": len(ledger.resource_classes),
    }


def _document(original: Original, reading: Reading | None, check: Check | None) -> dict[str, object]:
    document: dict[str, object] = {
        "original": original.url,
        "microversion": original.version,
        "requests": original.requests,
    }
    if reading is not None:
        document |= {name.replace(" ", "_"): number for name, number in _counts(reading.ledger).items()}
        document["changing"] = sorted(reading.changing)
    if check is not None:
        document["check"] = {
            "resource_providers": check.providers,
            "consumers": check.consumers,
            "changing": sorted(check.changing),
            "differences": check.differences,
        }
    return document


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    begun = time.monotonic()
    yield
    seconds[step] = round(time.monotonic() - begun, 3)


@contextmanager
def _steps() -> Iterator[StartStep]:
    """Yield a function that ends the progress bar of a step, and starts that of the next one."""
    with ExitStack() as stack:

        def start(label: str, length: int) -> Progress:
            stack.close()
            if not length:
                return lambda _: None
            return stack.enter_context(click.progressbar(length=length, label=label, file=sys.stderr, width=30)).update

        yield start
