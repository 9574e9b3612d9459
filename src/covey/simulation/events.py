"""The events of a simulation, as values and as lines of JSON."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

import msgspec

from covey.model.errors import Invalid

_Count = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
_Amount = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
_Name = Annotated[str, msgspec.Meta(min_length=1)]
_KINDS = ("boot", "grow", "delete", "fail", "recover")


class Granular(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Resources that one provider of the host's tree serves."""

    resources: Mapping[str, _Amount]
    traits: tuple[str, ...] = ()
    forbidden_traits: tuple[str, ...] = ()


class Boot(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Create servers. The first boot of a group creates it, with these policies and rules."""

    name: _Name
    vcpus: _Amount
    memory_mb: _Amount
    disk_gb: _Amount
    count: _Count = 1  # several servers are named NAME-1, NAME-2 and so on
    minimum: _Count = 1
    group: str | None = None
    policies: tuple[str, ...] = ()
    rules: Mapping[str, Annotated[int, msgspec.Meta(ge=1)]] = {}
    zone: str | None = None
    traits: tuple[str, ...] = ()
    resources: Mapping[str, _Amount] = {}  # of further resource classes
    forbidden_traits: tuple[str, ...] = ()
    granular: tuple[Granular, ...] = ()
    isolate: bool = False  # no provider serves two of the granular groups


class Grow(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Add servers like the latest one to a group, in one decision."""

    group: _Name
    count: _Count


class Event(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An event `at` seconds after the start; exactly one of the other fields is set."""

    at: Annotated[float, msgspec.Meta(ge=0)]
    boot: Boot | None = None
    grow: Grow | None = None
    delete: _Name | None = None  # a server
    fail: _Name | None = None  # a host, with all its servers
    recover: _Name | None = None  # a host, which is empty by then


def encode_lines(stream: Iterable[Event]) -> Iterator[bytes]:
    """Return a line of JSON for each event."""
    encode = msgspec.json.Encoder().encode
    return (encode(event) + b"\n" for event in stream)


def read(lines: Iterable[bytes | str], source: str) -> list[Event]:
    """Return the events of the lines, sorted by time; empty lines are skipped. Raises Invalid with the line number."""
    decode = msgspec.json.Decoder(Event).decode
    events: list[Event] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            event = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Invalid(f"{source}, line {number}: {error}") from error
        _check(event, f"{source}, line {number}")
        events.append(event)
    return sorted(events, key=lambda event: event.at)  # stable: events at the same time keep their order


def _check(event: Event, position: str) -> None:
    if sum(getattr(event, kind) is not None for kind in _KINDS) != 1:
        raise Invalid(f"{position}: exactly one of {', '.join(_KINDS)} is required besides `at`.")
    boot = event.boot
    if boot is None:
        return
    if boot.minimum > boot.count:
        raise Invalid(f"{position}: `minimum` must not exceed `count`.")
    if boot.group is None and (boot.policies or boot.rules):
        raise Invalid(f"{position}: `policies` and `rules` require a `group`.")
    if not (boot.vcpus or boot.memory_mb or boot.disk_gb or any(boot.resources.values()) or boot.granular):
        raise Invalid(
            f"{position}: at least one of `vcpus`, `memory_mb`, `disk_gb` and `resources` must be greater than 0, "
            "or `granular` be given."
        )
