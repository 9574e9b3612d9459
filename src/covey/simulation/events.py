"""What happens in a simulation, as values and as lines of JSON."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

import msgspec

from covey.model.errors import Invalid

_Count = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
_Amount = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
_Name = Annotated[str, msgspec.Meta(min_length=1)]
_KINDS = ("boot", "grow", "delete", "fail", "recover")


class Boot(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Servers are asked for. The first boot that names a group makes it, with the policies and rules that it has."""

    name: _Name
    vcpus: _Amount
    memory_mb: _Amount
    disk_gb: _Amount
    count: _Count = 1  # more than one are called NAME-1, NAME-2 and so on
    minimum: _Count = 1
    group: str | None = None
    policies: tuple[str, ...] = ()
    rules: Mapping[str, Annotated[int, msgspec.Meta(ge=1)]] = {}
    zone: str | None = None
    traits: tuple[str, ...] = ()


class Grow(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A group wants more servers like its latest, in one decision."""

    group: _Name
    count: _Count


class Event(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One thing that happens, so many seconds after the beginning; exactly one of its fields is set."""

    at: Annotated[float, msgspec.Meta(ge=0)]
    boot: Boot | None = None
    grow: Grow | None = None
    delete: _Name | None = None  # a server
    fail: _Name | None = None  # a host, with all its servers
    recover: _Name | None = None  # a host, which is empty then


def written(stream: Iterable[Event]) -> Iterator[bytes]:
    """A line for each happening."""
    encode = msgspec.json.Encoder().encode
    return (encode(event) + b"\n" for event in stream)


def read(lines: Iterable[bytes | str], source: str) -> list[Event]:
    """What the lines say, in the order of time; empty ones say nothing. Raises Invalid, with the line's number."""
    decode = msgspec.json.Decoder(Event).decode
    found: list[Event] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            event = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Invalid(f"{source}, line {number}: {error}") from error
        _check(event, f"{source}, line {number}")
        found.append(event)
    return sorted(found, key=lambda each: each.at)  # which keeps the order of those at the same moment


def _check(event: Event, where: str) -> None:
    if sum(getattr(event, kind) is not None for kind in _KINDS) != 1:
        raise Invalid(f"{where}: exactly one of {', '.join(_KINDS)} is needed beside `at`.")
    boot = event.boot
    if boot is None:
        return
    if boot.minimum > boot.count:
        raise Invalid(f"{where}: `minimum` may be no more than `count`.")
    if boot.group is None and (boot.policies or boot.rules):
        raise Invalid(f"{where}: `policies` and `rules` need a `group` to belong to.")
    if not (boot.vcpus or boot.memory_mb or boot.disk_gb):
        raise Invalid(f"{where}: one of `vcpus`, `memory_mb` and `disk_gb` has to be more than 0.")
