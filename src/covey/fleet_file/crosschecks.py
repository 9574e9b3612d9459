"""Checks what no entry can know alone: names used twice, and names that must exist elsewhere in the file."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from covey.fleet_file.entries import HOST_SCOPE, HostGroup
from covey.fleet_file.findings import Findings
from covey.fleet_file.names import Named
from covey.fleet_file.wording import Path, did_you_mean, quoted


def check_unique(kind: str, names: Iterable[Named], findings: Findings) -> None:
    """Report names that came before, once for each value that repeats some."""
    first: dict[str, Path] = {}
    repeated: list[Named] = []
    for name in names:
        if name.text in first:
            repeated.append(name)
        else:
            first[name.text] = name.path
    for path, (name, *more) in _by_value(repeated):
        line = findings.line(first[name.text])
        findings.at(path, f"duplicate {kind} {quoted(name.text)}{_and_more(more)}; the first is on line {line}")


def check_members(members: Sequence[Named], hosts: frozenset[str], findings: Findings) -> None:
    """Report hosts of an aggregate that the file does not declare, once for each value."""
    unknown = [member for member in members if member.text not in hosts]
    for path, (name, *more) in _by_value(unknown):
        findings.at(path, f"unknown host {quoted(name.text)}{_and_more(more)}; declare it under 'hosts:'")


def check_scopes(
    groups: Sequence[HostGroup], aggregates: Sequence[Named], scopes: Sequence[str], findings: Findings
) -> None:
    """Report domains of scopes that the file does not declare."""
    declared = frozenset(scopes)
    for scope_of in aggregates:
        if scope_of.text not in declared:
            findings.at(scope_of.path, _unknown_scope(scope_of.text, scopes))
    for group in groups:
        for scope in group.domains.keys() - declared:
            findings.at_key((*group.path, "domains", scope), _unknown_scope(scope, scopes))


def check_aggregate_names(groups: Sequence[HostGroup], aggregates: Sequence[Named], findings: Findings) -> None:
    """Report a name that two aggregates would share: each zone and each domain is an aggregate too."""
    owners: dict[str, tuple[str, Path]] = {}
    for what, name in _implied(groups):
        _claim(what, name, owners, findings)
    for name in aggregates:
        if name.text in owners:
            _claim("an aggregate", name, owners, findings)


def _implied(groups: Sequence[HostGroup]) -> Iterable[tuple[str, Named]]:
    """List zones and domains, the zones first, so that a clash is reported at the domain."""
    for group in groups:
        yield from (("a zone", zone) for zone in group.zones)
    for group in groups:
        for scope, domains in group.domains.items():
            yield from ((f"a domain of scope {quoted(scope)}", domain) for domain in domains)


def _claim(what: str, name: Named, owners: dict[str, tuple[str, Path]], findings: Findings) -> None:
    owner, path = owners.setdefault(name.text, (what, name.path))
    if owner != what:
        line = findings.line(path)
        findings.at(name.path, f"{quoted(name.text)} can't name {what}: it names {owner} on line {line}")


def _unknown_scope(scope: str, declared: Sequence[str]) -> str:
    if scope == HOST_SCOPE:
        return "each host is its own domain of the scope 'host'; leave it out"
    hint = did_you_mean(scope, declared) or "; declare it under 'scopes:'"
    return f"unknown scope {quoted(scope)}{hint}"


def _by_value(names: Sequence[Named]) -> list[tuple[Path, list[Named]]]:
    """Gather names by the value they came from: a range can bring thousands, and one report says it."""
    return [(path, list(group)) for path, group in groupby(names, key=lambda name: name.path)]


def _and_more(more: Sequence[Named]) -> str:
    return f" and {len(more)} more" if more else ""
