"""Expected trouble. Each class has a stable code; the edges decide how it looks on their wire."""

from typing import ClassVar

from covey.model.ids import HostId


class CoveyError(Exception):
    """Something that a caller can be told about in a sentence."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NotFound(CoveyError):
    """There is no such thing, or this caller may not know of it, or the microversion does not have the route."""

    code = "not_found"


class Invalid(CoveyError):
    """The request makes no sense, whatever the state of the service.

    A bad body, a bad parameter, a bad microversion.
    """

    code = "invalid"


class Conflict(CoveyError):
    """The request makes sense, but not in the present state of the service.

    A name is taken, a host would be in two zones.
    """

    code = "conflict"


class ConcurrentUpdate(Conflict):
    """Somebody else changed the same thing meanwhile: look at it anew, then try again.

    In the Placement API, a generation that is not the present one.
    """

    code = "concurrent_update"


class Overtaken(ConcurrentUpdate):
    """Two got in each other's way in the database; the same may well succeed when it is tried again at once."""


class DuplicateName(Conflict):
    """A resource provider of that name or uuid exists already."""

    code = "duplicate_name"


class InventoryInUse(Conflict):
    """Consumers hold allocations of the inventory that the request would take away."""

    code = "inventory_in_use"


class ProviderInUse(Conflict):
    """A resource provider that is to be deleted has allocations, or is a host."""

    code = "provider_in_use"


class ProviderHasChildren(Conflict):
    """A resource provider that is to be deleted has others below it."""

    code = "provider_has_children"


class UnknownProvider(Invalid):
    """A reshape names a resource provider that does not exist."""

    code = "unknown_provider"


class Forbidden(CoveyError):
    """The caller is known and may not do this. The message of an access rule has the rule's name."""

    code = "forbidden"


class Unauthorized(CoveyError):
    """Nobody knows who is asking. The answer has a `WWW-Authenticate` header that says how to do better."""

    code = "unauthorized"


class Unavailable(CoveyError):
    """Something that the service needs, its database or Keystone, does not answer."""

    code = "unavailable"


class MissingExtra(CoveyError):
    """A feature needs an optional package that is not installed. The message names the extra to install."""

    code = "missing_extra"

    def __init__(self, feature: str, extra: str, cause: str) -> None:
        super().__init__(
            f"{feature} needs an optional package ({cause}). Install it with: pip install 'covey[{extra}]'"
        )


class OverQuota(CoveyError):
    """The project, or the group, has as much as it may have."""

    code = "over_quota"


class Busy(CoveyError):
    """The fleet kept changing under the request; the same request may succeed in a moment."""

    code = "busy"


class StaleClaim(CoveyError):
    """Inside the service only: a host filled up between the decision and the claim, which is then decided again."""

    code = "stale_claim"

    def __init__(self, hosts: frozenset[HostId]) -> None:
        super().__init__("Hosts filled up while we were deciding.")
        self.hosts = hosts


class DriverFault(CoveyError):
    """Inside the service only: a backend could not do what was decided."""

    code = "driver_fault"


class NotYet(DriverFault):
    """A backend is still at it; ask again after so many seconds."""

    def __init__(self, after_s: float) -> None:
        super().__init__(f"It takes {after_s:g} seconds more.")
        self.after_s = after_s


class NoValidHost(CoveyError):
    """No host may take a server that is to move; the message says why, counted.

    A refused boot is 202 and a server in error with the same sentence.
    """

    code = "no_valid_host"

    def __init__(self, message: str, details: str) -> None:
        super().__init__(message)
        self.details = details
