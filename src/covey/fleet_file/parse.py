"""Parses a fleet file into a validated FleetFile, or reports every problem with its line."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import cast

from covey.fleet_file.document import ProblemCollector, UnreadableError, compose
from covey.fleet_file.entries import (
    HOST_SCOPE,
    HostRange,
    read_flavor,
    read_host,
    read_image,
    read_metadata,
    read_scope,
)
from covey.fleet_file.names import MAX_NAMES, Named, count_names, expand_names, zone_error
from covey.fleet_file.problems import FleetFileError, Path, Plain, did_you_mean, quoted
from covey.fleet_file.schema import AggregateDoc, FlavorDoc, HostDoc, ImageDoc, ScopeDoc, validate
from covey.model.fleet_file import AggregateEntry, FleetFile

_MAX_UNKNOWN_MEMBERS = 10_000  # more than this many undeclared members are rejected without making their names


def parse(text: str, filename: str) -> FleetFile:
    """Parse a fleet file. Raises FleetFileError with all problems; the file name only appears in messages."""
    try:
        document = compose(text)
    except UnreadableError as error:
        raise FleetFileError(filename, [error.problem]) from error
    problems = ProblemCollector(document)
    validate(problems)
    fleet = _Sections(problems).read()
    if document.problems or problems.problems:
        raise FleetFileError(filename, [*document.problems, *problems.problems])
    return fleet


class _Sections:
    """Reads the sections in the order of their dependencies.

    An entry with a problem is excluded from further checks, so that one mistake is reported once.
    """

    def __init__(self, problems: ProblemCollector) -> None:
        self._problems = problems

    def read(self) -> FleetFile:
        problems = self._problems
        ranges = self._host_ranges()
        scopes = tuple(read_scope(cast("ScopeDoc", doc), path, problems) for path, doc in self._clean("scopes"))
        aggregates = self._aggregates(ranges)
        flavors = tuple(read_flavor(cast("FlavorDoc", doc), path, problems) for path, doc in self._clean("flavors"))
        images = tuple(read_image(cast("ImageDoc", doc), path, problems) for path, doc in self._clean("images"))
        if problems.is_clean(("scopes",)):
            check_scopes(ranges, self._values("aggregates", "scope"), [scope.name for scope in scopes], problems)
        self._check_names(ranges)
        hosts = tuple(host for each in ranges for host in each.entries)
        return FleetFile(hosts, scopes, aggregates, flavors, images)

    def _host_ranges(self) -> list[HostRange]:
        ranges: list[HostRange] = []
        room = MAX_NAMES
        for path, doc in self._clean("hosts"):
            ranges.append(read_host(cast("HostDoc", doc), path, room, self._problems))
            room -= len(ranges[-1].names)
        return ranges

    def _aggregates(self, ranges: list[HostRange]) -> tuple[AggregateEntry, ...]:
        hosts = frozenset(name.text for each in ranges for name in each.names)
        return tuple(self._aggregate(cast("AggregateDoc", doc), path, hosts) for path, doc in self._clean("aggregates"))

    def _aggregate(self, doc: AggregateDoc, path: Path, hosts: frozenset[str]) -> AggregateEntry:
        metadata = read_metadata(doc, path, self._problems)
        members = self._members(doc, (*path, "hosts"), hosts)
        zone = doc.get("zone")
        if zone is not None and (fault := zone_error(zone)):
            self._problems.at((*path, "zone"), fault)
        return AggregateEntry(doc["name"], tuple(m.text for m in members), metadata, zone, doc.get("scope"))

    def _members(self, doc: AggregateDoc, path: Path, hosts: frozenset[str]) -> list[Named]:
        value = doc.get("hosts", [])
        size = count_names(value, path, self._problems)
        if not size or not self._problems.is_clean(("hosts",)):
            return []
        if size > len(hosts) + _MAX_UNKNOWN_MEMBERS:
            self._problems.at(path, f"lists {size} hosts, but the file declares only {len(hosts)}")
            return []
        members = expand_names(value, path, self._problems)
        check_members(members, hosts, self._problems)
        check_unique("host", members, self._problems)
        return members

    def _check_names(self, ranges: list[HostRange]) -> None:
        problems = self._problems
        check_unique("host", (name for each in ranges for name in each.names), problems)
        for kind, section in (("scope", "scopes"), ("flavor", "flavors"), ("image", "images")):
            check_unique(kind, self._values(section, "name"), problems)
        check_unique("flavor id", self._values("flavors", "id"), problems)
        aggregates = self._values("aggregates", "name")
        check_unique("aggregate", aggregates, problems)
        check_aggregate_names(ranges, aggregates, problems)

    def _values(self, section: str, key: str) -> list[Named]:
        """Return the texts under one key of a section's entries."""
        entries = [(path, doc.get(key)) for path, doc in self._entries(section) if isinstance(doc, dict)]
        return [Named(value, (*path, key)) for path, value in entries if isinstance(value, str)]

    def _clean(self, section: str) -> list[tuple[Path, Plain]]:
        return [(path, doc) for path, doc in self._entries(section) if self._problems.is_clean(path)]

    def _entries(self, section: str) -> list[tuple[Path, Plain]]:
        root = self._problems.document.root.plain
        entries = root.get(section) if isinstance(root, dict) else None
        return [((section, index), doc) for index, doc in enumerate(entries)] if isinstance(entries, list) else []


def check_unique(kind: str, names: Iterable[Named], problems: ProblemCollector) -> None:
    """Report duplicate names, once for each value."""
    first: dict[str, Path] = {}
    repeated: list[Named] = []
    for name in names:
        if name.text in first:
            repeated.append(name)
        else:
            first[name.text] = name.path
    for path, (name, *more) in _by_value(repeated):
        line = problems.line(first[name.text])
        problems.at(path, f"duplicate {kind} {quoted(name.text)}{_and_more(more)}; the first is on line {line}")


def check_members(members: Sequence[Named], hosts: frozenset[str], problems: ProblemCollector) -> None:
    """Report undeclared hosts of an aggregate, once for each value."""
    unknown = [member for member in members if member.text not in hosts]
    for path, (name, *more) in _by_value(unknown):
        problems.at(path, f"unknown host {quoted(name.text)}{_and_more(more)}; declare it under 'hosts:'")


def check_scopes(
    ranges: Sequence[HostRange], aggregates: Sequence[Named], scopes: Sequence[str], problems: ProblemCollector
) -> None:
    """Report domains of undeclared scopes."""
    declared = frozenset(scopes)
    for scope_of in aggregates:
        if scope_of.text not in declared:
            problems.at(scope_of.path, _unknown_scope(scope_of.text, scopes))
    for each in ranges:
        for scope in each.domains.keys() - declared:
            problems.at_key((*each.path, "domains", scope), _unknown_scope(scope, scopes))


def check_aggregate_names(ranges: Sequence[HostRange], aggregates: Sequence[Named], problems: ProblemCollector) -> None:
    """Report a name that two aggregates would share: each zone and each domain becomes an aggregate."""
    owners: dict[str, tuple[str, Path]] = {}
    for use, name in _implied_names(ranges):
        _claim_name(use, name, owners, problems)
    for name in aggregates:
        if name.text in owners:
            _claim_name("an aggregate", name, owners, problems)


def _implied_names(ranges: Sequence[HostRange]) -> Iterable[tuple[str, Named]]:
    """Yield zones, then domains, so that a conflict is reported at the domain."""
    for each in ranges:
        yield from (("a zone", zone) for zone in each.zones)
    for each in ranges:
        for scope, domains in each.domains.items():
            yield from ((f"a domain of scope {quoted(scope)}", domain) for domain in domains)


def _claim_name(use: str, name: Named, owners: dict[str, tuple[str, Path]], problems: ProblemCollector) -> None:
    owner, path = owners.setdefault(name.text, (use, name.path))
    if owner != use:
        line = problems.line(path)
        problems.at(name.path, f"{quoted(name.text)} can't name {use}: it names {owner} on line {line}")


def _unknown_scope(scope: str, declared: Sequence[str]) -> str:
    if scope == HOST_SCOPE:
        return "each host is its own domain of the scope 'host'; leave it out"
    hint = did_you_mean(scope, declared) or "; declare it under 'scopes:'"
    return f"unknown scope {quoted(scope)}{hint}"


def _by_value(names: Sequence[Named]) -> list[tuple[Path, list[Named]]]:
    """Group names by their value: a range can make thousands of names, and one report is enough."""
    return [(path, list(same)) for path, same in groupby(names, key=lambda name: name.path)]


def _and_more(more: Sequence[Named]) -> str:
    return f" and {len(more)} more" if more else ""
