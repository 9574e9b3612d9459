"""Reads a fleet file: text in, a checked FleetFile out, or every problem with its line."""

from typing import cast

from covey.fleet_file.crosschecks import check_aggregate_names, check_members, check_scopes, check_unique
from covey.fleet_file.document import UnreadableError, compose
from covey.fleet_file.entries import HostGroup, read_flavor, read_host, read_image, read_metadata, read_scope
from covey.fleet_file.findings import Findings
from covey.fleet_file.names import Named, spell_out, tally, zone_fault
from covey.fleet_file.problems import FleetFileError
from covey.fleet_file.ranges import MOST_NAMES
from covey.fleet_file.schema import AggregateDoc, FlavorDoc, HostDoc, ImageDoc, ScopeDoc
from covey.fleet_file.shape import check_shape
from covey.fleet_file.wording import Path, Plain
from covey.model.fleet_file import AggregateEntry, FleetFile

_NOT_WORTH_NAMING = 10_000  # a list of members that is too long by so many is refused without making its names


def parse(text: str, filename: str) -> FleetFile:
    """Read a whole fleet file. Raises FleetFileError with all that is wrong; the name is used in messages only."""
    try:
        document = compose(text)
    except UnreadableError as error:
        raise FleetFileError(filename, [error.problem]) from error
    findings = Findings(document)
    check_shape(findings)
    fleet = _Sections(findings).read()
    if document.problems or findings.problems:
        raise FleetFileError(filename, [*document.problems, *findings.problems])
    return fleet


class _Sections:
    """Reads the sections in the order in which they need one another.

    An entry with a problem is left out of what follows, so that one mistake is not reported twice.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings

    def read(self) -> FleetFile:
        findings = self._findings
        groups = self._host_groups()
        scopes = tuple(read_scope(cast("ScopeDoc", doc), path, findings) for path, doc in self._sound("scopes"))
        aggregates = self._aggregates(groups)
        flavors = tuple(read_flavor(cast("FlavorDoc", doc), path, findings) for path, doc in self._sound("flavors"))
        images = tuple(read_image(cast("ImageDoc", doc), path, findings) for path, doc in self._sound("images"))
        if findings.sound(("scopes",)):
            check_scopes(groups, self._values("aggregates", "scope"), [scope.name for scope in scopes], findings)
        self._check_names(groups)
        hosts = tuple(host for group in groups for host in group.entries)
        return FleetFile(hosts, scopes, aggregates, flavors, images)

    def _host_groups(self) -> list[HostGroup]:
        groups: list[HostGroup] = []
        room = MOST_NAMES
        for path, doc in self._sound("hosts"):
            groups.append(read_host(cast("HostDoc", doc), path, room, self._findings))
            room -= len(groups[-1].names)
        return groups

    def _aggregates(self, groups: list[HostGroup]) -> tuple[AggregateEntry, ...]:
        hosts = frozenset(name.text for group in groups for name in group.names)
        return tuple(self._aggregate(cast("AggregateDoc", doc), path, hosts) for path, doc in self._sound("aggregates"))

    def _aggregate(self, doc: AggregateDoc, path: Path, hosts: frozenset[str]) -> AggregateEntry:
        metadata = read_metadata(doc, path, self._findings)
        members = self._members(doc, (*path, "hosts"), hosts)
        zone = doc.get("zone")
        if zone is not None and (fault := zone_fault(zone)):
            self._findings.at((*path, "zone"), fault)
        return AggregateEntry(doc["name"], tuple(m.text for m in members), metadata, zone, doc.get("scope"))

    def _members(self, doc: AggregateDoc, path: Path, hosts: frozenset[str]) -> list[Named]:
        value = doc.get("hosts", [])
        size = tally(value, path, self._findings)
        if not size or not self._findings.sound(("hosts",)):
            return []
        if size > len(hosts) + _NOT_WORTH_NAMING:
            self._findings.at(path, f"lists {size} hosts, but the file declares only {len(hosts)}")
            return []
        members = spell_out(value, path, self._findings)
        check_members(members, hosts, self._findings)
        check_unique("host", members, self._findings)
        return members

    def _check_names(self, groups: list[HostGroup]) -> None:
        findings = self._findings
        check_unique("host", (name for group in groups for name in group.names), findings)
        for kind, section in (("scope", "scopes"), ("flavor", "flavors"), ("image", "images")):
            check_unique(kind, self._values(section, "name"), findings)
        check_unique("flavor id", self._values("flavors", "id"), findings)
        aggregates = self._values("aggregates", "name")
        check_unique("aggregate", aggregates, findings)
        check_aggregate_names(groups, aggregates, findings)

    def _values(self, section: str, key: str) -> list[Named]:
        """List the texts under one key of a section, wherever there are such texts."""
        entries = [(path, doc.get(key)) for path, doc in self._entries(section) if isinstance(doc, dict)]
        return [Named(value, (*path, key)) for path, value in entries if isinstance(value, str)]

    def _sound(self, section: str) -> list[tuple[Path, Plain]]:
        return [(path, doc) for path, doc in self._entries(section) if self._findings.sound(path)]

    def _entries(self, section: str) -> list[tuple[Path, Plain]]:
        root = self._findings.document.root.plain
        entries = root.get(section) if isinstance(root, dict) else None
        return [((section, index), doc) for index, doc in enumerate(entries)] if isinstance(entries, list) else []
