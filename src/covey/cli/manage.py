"""`covey manage`: repair inconsistencies in the database."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import NoReturn

import click
import msgspec

from covey import bootstrap, clock_and_ids
from covey.cli.options import database_options, settings_of
from covey.cli.output import echo
from covey.model.errors import NotFound, Unavailable
from covey.services.manage import (
    Progress,
    StartProgress,
    aggregate_sync,
    allocation_healing,
    orphaned_allocations,
    trait_sync,
)
from covey.services.manage.allocation_healing import AllocationMismatch
from covey.services.manage.orphaned_allocations import OrphanedConsumer
from covey.storage.store import Store

_FAILED, _FOUND, _DELETED, _NOTHING, _NO_SUCH = 3, 3, 4, 4, 127

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_dry_run = click.option("--dry-run", is_flag=True, help="Show the changes without making them.")


@click.group()
def manage() -> None:
    """Repair what was modified outside Covey. The commands are idempotent and may run beside the service."""


@manage.command("retry_jobs")
@_json
@database_options
def retry_jobs(as_json: bool, config_files: tuple[str, ...], database: str | None) -> None:
    """Let workers try all parked jobs again, once their cause is removed.

    A job that fails [worker] max_attempts times is parked; `covey status` lists such jobs with their last error.
    """
    with _store(config_files, database).write() as tx:
        number = tx.work.unpark()
    if as_json:
        _write({"retried": number})
    else:
        click.echo(f"{_count(number, 'parked job')} due now.")


@manage.group()
def placement() -> None:
    """Aggregates, traits and allocations of resource providers."""


@placement.command("sync_aggregates")
@click.option("--verbose", is_flag=True, help="Print each added link.")
@_json
@database_options
def sync_aggregates(verbose: bool, as_json: bool, config_files: tuple[str, ...], database: str | None) -> None:
    """Add each host's provider to the placement aggregates of the host's aggregates.

    The command adds missing links and never removes one.

    \b
    Exit status:
      0  all links exist
      2  the database does not answer
      3  some links could not be added
    """
    try:
        with _bar("Adding links") as begin:
            result = aggregate_sync.sync(_store(config_files, database), begin)
    except Unavailable as error:
        _exit(f"Error: {error.message}", 2)
    if as_json:
        added = [{"aggregate": link.aggregate, "uuid": link.uuid, "host": link.host} for link in result.added]
        failed = [{"aggregate": name, "reason": reason} for name, reason in result.failed]
        _write({"added": added, "failed": failed, "total": result.total})
    else:
        for link in result.added if verbose else ():
            echo(f"+ provider {link.host} in aggregate {link.aggregate} ({link.uuid})")
        for name, reason in result.failed:
            echo(f"! aggregate {name}: {reason}", err=True)
        echo(f"{_count(len(result.added), 'link')} added, of {result.total} required.")
    sys.exit(_FAILED if result.failed else 0)


@placement.command("sync_traits")
@_dry_run
@_json
@database_options
def sync_traits(dry_run: bool, as_json: bool, config_files: tuple[str, ...], database: str | None) -> None:
    """Add the traits that each aggregate requires (trait:NAME=required in its metadata) to its hosts' providers.

    Without them, servers that require the traits find no host. The command creates missing custom traits and never
    removes a trait.

    \b
    Exit status:
      0  all hosts have the traits
      1  a required trait does not exist and was skipped
    """
    store = _store(config_files, database)
    with _bar("Adding traits") as begin:
        result = trait_sync.sync(store, clock_and_ids.now, begin, dry_run=dry_run)
    if as_json:
        _write(
            {
                "added": [{"aggregate": t.aggregate, "host": t.host, "trait": t.trait} for t in result.added],
                "created": result.created,
                "unknown": [{"aggregate": name, "trait": trait} for name, trait in result.unknown],
                "applied": not dry_run,
            }
        )
    else:
        for name in result.created:
            echo(f"+ trait {name}")
        for added in result.added:
            echo(f"+ trait {added.trait} on {added.host} (aggregate {added.aggregate})")
        for name, trait in result.unknown:
            echo(f"! aggregate {name} requires {trait}: neither a standard trait nor a CUSTOM_ one.")
        echo(f"{_count(len(result.added), 'trait')} {_participle('added', dry_run=dry_run)}.")
    sys.exit(1 if result.unknown else 0)


@placement.command()
@click.option("--delete", is_flag=True, help="Delete these allocations.")
@_json
@database_options
def audit(delete: bool, as_json: bool, config_files: tuple[str, ...], database: str | None) -> None:
    """List allocations on hosts whose server or migration no longer exists.

    The command ignores consumers of types other than INSTANCE and MIGRATION.

    \b
    Exit status:
      0  no orphaned allocations exist
      3  orphaned allocations exist and were not deleted
      4  all orphaned allocations were deleted
    """
    store = _store(config_files, database)
    found = orphaned_allocations.find(store)
    if delete and found:
        with _bar("Deleting allocations") as begin:
            found = orphaned_allocations.delete(store, found, begin)
    if as_json:
        _write({"orphans": [_orphan(orphan) for orphan in found], "deleted": delete})
    else:
        for orphan in found:
            for allocation in orphan.allocations:
                consumer = f"{orphan.consumer.kind} {orphan.consumer.uuid}"
                echo(f"{'-' if delete else '!'} {consumer} on {allocation.provider}: {_amounts(allocation.resources)}")
        consumers = _count(len(found), "consumer")
        echo(f"{consumers} without a server or a migration {'deleted' if delete else 'found'}.")
    sys.exit(0 if not found else _DELETED if delete else _FOUND)


@placement.command("heal_allocations")
@_dry_run
@click.option("--instance", metavar="UUID", help="Only heal this server.")
@_json
@database_options
def heal_allocations(
    dry_run: bool, instance: str | None, as_json: bool, config_files: tuple[str, ...], database: str | None
) -> None:
    """Create or correct the allocations of servers, by their hosts and flavors.

    The command never exceeds a host's capacity: run `audit --delete` first to free some. It keeps allocations of
    other resource classes, and against providers that are not hosts.

    \b
    Exit status:
      0    servers were healed (with --dry-run: would be)
      3    some servers could not be healed
      4    nothing to heal
      127  no server has the UUID of --instance
    """
    store = _store(config_files, database)
    try:
        mismatches = allocation_healing.find_mismatches(store, instance)
    except NotFound as error:
        _exit(f"Error: {error.message}", _NO_SUCH)
    result = allocation_healing.plan(mismatches)
    if result.healed and not dry_run:
        with _bar("Healing servers") as begin:
            result = allocation_healing.heal(store, clock_and_ids.now, mismatches, begin)
    if as_json:
        failed = [{**_mismatch(mismatch), "reason": reason} for mismatch, reason in result.failed]
        _write(
            {"healed": [_mismatch(mismatch) for mismatch in result.healed], "failed": failed, "applied": not dry_run}
        )
    else:
        for healed in result.healed:
            echo(f"~ server {healed.server} ({healed.name}): {_places(healed)}")
        for mismatch, reason in result.failed:
            echo(f"! server {mismatch.server} ({mismatch.name}): {_places(mismatch)}: {reason}")
        echo(f"{_count(len(result.healed), 'server')} {_participle('healed', dry_run=dry_run)}.")
    sys.exit(_FAILED if result.failed else 0 if result.healed else _NOTHING)


def _store(config_files: tuple[str, ...], database: str | None) -> Store:
    conf = settings_of(config_files, database).load()
    bootstrap.prepare(conf)
    return bootstrap.store(conf)


@contextmanager
def _bar(label: str) -> Iterator[StartProgress]:
    """Yield a function that starts a progress bar of a given length."""
    with ExitStack() as stack:

        def begin(length: int) -> Progress:
            if not length:
                return lambda _: None
            bar = stack.enter_context(click.progressbar(length=length, label=label, file=sys.stderr, width=30))
            return bar.update

        yield begin


def _write(document: object) -> None:
    echo(msgspec.json.encode(document))


def _exit(message: str, status: int) -> NoReturn:
    echo(message, err=True)
    sys.exit(status)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _participle(verb: str, *, dry_run: bool) -> str:
    return f"would be {verb}" if dry_run else verb


def _amounts(resources: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {amount}" for kind, amount in resources.items())


def _places(mismatch: AllocationMismatch) -> str:
    return "; ".join(f"{_amounts(resources)} on {host}" for host, resources in mismatch.expected.items()) or "nothing"


def _mismatch(mismatch: AllocationMismatch) -> dict[str, object]:
    return {"server": mismatch.server, "name": mismatch.name, "allocations": mismatch.expected}


def _orphan(orphan: OrphanedConsumer) -> dict[str, object]:
    consumer = orphan.consumer
    allocations = [
        {"provider": allocation.provider, "uuid": allocation.uuid, "resources": allocation.resources}
        for allocation in orphan.allocations
    ]
    return {
        "consumer": consumer.uuid,
        "type": consumer.kind,
        "project_id": consumer.project_id,
        "user_id": consumer.user_id,
        "allocations": allocations,
    }
