"""`covey manage`: puts right what outside hands did to the database."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import NoReturn

import click
import msgspec

from covey import bootstrap, clock_and_ids
from covey.cli.options import chooses_database, chosen
from covey.model.errors import NotFound, Unavailable
from covey.services.upkeep import Length, Progress, healing, host_traits, links, orphans
from covey.services.upkeep.healing import Wound
from covey.services.upkeep.orphans import Orphan
from covey.storage.store import Store

_FAILED, _FOUND, _DELETED, _NOTHING, _NO_SUCH = 3, 3, 4, 4, 127

_json = click.option("--json", "as_json", is_flag=True, help="For programs.")
_dry_run = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")


@click.group()
def manage() -> None:
    """Put right what outside hands did to the database. Safe beside a running service, and safe to repeat."""


@manage.group()
def placement() -> None:
    """Aggregates, traits and allocations of resource providers."""


@placement.command("sync_aggregates")
@click.option("--verbose", is_flag=True, help="Show each link that was added.")
@_json
@chooses_database
def sync_aggregates(verbose: bool, as_json: bool, config_files: tuple[str, ...], database: str | None) -> None:
    """Put each host's provider into the placement aggregates that the host's aggregates stand for.

    Adds what is missing, and never removes anything.

    \b
    Ends with:
      0  all links are there
      2  the database does not answer
      3  some links could not be added
    """
    try:
        with _bar("Adding links") as begin:
            done = links.sync(_store(config_files, database), begin)
    except Unavailable as error:
        _end(f"Error: {error.message}", 2)
    if as_json:
        added = [{"aggregate": each.aggregate, "uuid": each.uuid, "host": each.host} for each in done.added]
        failed = [{"aggregate": name, "reason": reason} for name, reason in done.failed]
        _write({"added": added, "failed": failed, "total": done.total})
    else:
        for each in done.added if verbose else ():
            click.echo(f"+ provider {each.host} in aggregate {each.aggregate} ({each.uuid})")
        for name, reason in done.failed:
            click.echo(f"! aggregate {name}: {reason}", err=True)
        click.echo(f"{_count(len(done.added), 'link')} added, of {done.total} that there should be.")
    sys.exit(_FAILED if done.failed else 0)


@placement.command("sync_traits")
@_dry_run
@_json
@chooses_database
def sync_traits(dry_run: bool, as_json: bool, config_files: tuple[str, ...], database: str | None) -> None:
    """Put the traits that each aggregate requires (trait:NAME=required in its metadata) on its hosts' providers.

    Without them, servers that require the traits find no host. Custom traits that do not exist are created. No
    trait is ever taken away.

    \b
    Ends with:
      0  all hosts have the traits
      1  a trait that is required somewhere does not exist, and was skipped
    """
    store = _store(config_files, database)
    with _bar("Adding traits") as begin:
        done = host_traits.sync(store, clock_and_ids.now, begin, dry_run=dry_run)
    if as_json:
        _write(
            {
                "added": [{"aggregate": t.aggregate, "host": t.host, "trait": t.trait} for t in done.added],
                "created": done.created,
                "unknown": [{"aggregate": name, "trait": trait} for name, trait in done.unknown],
                "applied": not dry_run,
            }
        )
    else:
        for name in done.created:
            click.echo(f"+ trait {name}")
        for each in done.added:
            click.echo(f"+ trait {each.trait} on {each.host} (aggregate {each.aggregate})")
        for name, trait in done.unknown:
            click.echo(f"! aggregate {name} requires {trait}: no standard trait, nor one that starts with CUSTOM_.")
        click.echo(f"{_count(len(done.added), 'trait')} {_done('added', dry_run=dry_run)}.")
    sys.exit(1 if done.unknown else 0)


@placement.command()
@click.option("--delete", is_flag=True, help="Give back what they hold.")
@_json
@chooses_database
def audit(delete: bool, as_json: bool, config_files: tuple[str, ...], database: str | None) -> None:
    """List allocations on hosts whose server, or move of a server, does not exist any more.

    Consumers that are not compute's own (of a type other than INSTANCE and MIGRATION) are left alone.

    \b
    Ends with:
      0  there are none
      3  there are some, and they were not deleted
      4  all of them were deleted
    """
    store = _store(config_files, database)
    found = orphans.find(store)
    if delete and found:
        with _bar("Giving back room") as begin:
            found = orphans.delete(store, found, begin)
    if as_json:
        _write({"orphans": [_orphan(each) for each in found], "deleted": delete})
    else:
        for orphan in found:
            for held in orphan.holds:
                who = f"{orphan.consumer.kind} {orphan.consumer.uuid}"
                click.echo(f"{'-' if delete else '!'} {who} on {held.provider}: {_amounts(held.resources)}")
        held_by = _count(len(found), "consumer")
        click.echo(f"{held_by} without a server or a move {'deleted' if delete else 'found'}.")
    sys.exit(0 if not found else _DELETED if delete else _FOUND)


@placement.command("heal_allocations")
@_dry_run
@click.option("--instance", metavar="UUID", help="Look at this server alone.")
@_json
@chooses_database
def heal_allocations(
    dry_run: bool, instance: str | None, as_json: bool, config_files: tuple[str, ...], database: str | None
) -> None:
    """Give servers the allocations that their places and sizes ask for, where these are missing or wrong.

    Room is taken only where there is room: `audit --delete` first may make some. What a server holds besides, of
    other resource classes or of providers that are no hosts, stays.

    \b
    Ends with:
      0    servers were healed (with --dry-run: would be)
      3    some could not be healed
      4    there is nothing to heal
      127  there is no server with the UUID of --instance
    """
    store = _store(config_files, database)
    try:
        wounds = healing.find(store, instance)
    except NotFound as error:
        _end(f"Error: {error.message}", _NO_SUCH)
    done = healing.Healing(tuple(wounds))
    if wounds and not dry_run:
        with _bar("Healing servers") as begin:
            done = healing.heal(store, clock_and_ids.now, wounds, begin)
    if as_json:
        failed = [{**_wound(each), "reason": reason} for each, reason in done.failed]
        _write({"healed": [_wound(each) for each in done.healed], "failed": failed, "applied": not dry_run})
    else:
        for each in done.healed:
            click.echo(f"~ server {each.server} ({each.name}): {_places(each)}")
        for each, reason in done.failed:
            click.echo(f"! server {each.server} ({each.name}): {_places(each)}: {reason}")
        click.echo(f"{_count(len(done.healed), 'server')} {_done('healed', dry_run=dry_run)}.")
    sys.exit(_FAILED if done.failed else 0 if done.healed else _NOTHING)


def _store(config_files: tuple[str, ...], database: str | None) -> Store:
    conf = chosen(config_files, database).load()
    bootstrap.prepare(conf)
    return bootstrap.store(conf)


@contextmanager
def _bar(label: str) -> Iterator[Length]:
    """A progress bar that begins once it is known how long it is."""
    with ExitStack() as stack:

        def begin(length: int) -> Progress:
            if not length:
                return lambda _: None
            bar = stack.enter_context(click.progressbar(length=length, label=label, file=sys.stderr, width=30))
            return bar.update

        yield begin


def _write(document: object) -> None:
    click.echo(msgspec.json.encode(document))


def _end(sentence: str, status: int) -> NoReturn:
    click.echo(sentence, err=True)
    sys.exit(status)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _done(verb: str, *, dry_run: bool) -> str:
    return f"would be {verb}" if dry_run else verb


def _amounts(resources: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {amount}" for kind, amount in resources.items())


def _places(wound: Wound) -> str:
    return "; ".join(f"{_amounts(held)} on {host}" for host, held in wound.should.items()) or "nothing"


def _wound(wound: Wound) -> dict[str, object]:
    return {"server": wound.server, "name": wound.name, "allocations": wound.should}


def _orphan(orphan: Orphan) -> dict[str, object]:
    who = orphan.consumer
    holds = [{"provider": held.provider, "uuid": held.uuid, "resources": held.resources} for held in orphan.holds]
    return {
        "consumer": who.uuid,
        "type": who.kind,
        "project_id": who.project_id,
        "user_id": who.user_id,
        "allocations": holds,
    }
