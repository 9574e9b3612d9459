"""Expected errors. Each class has a stable code, which `api/` and `cli/` translate to their own form."""

from typing import ClassVar

from covey.model.ids import HostId


class CoveyError(Exception):
    """An error whose message is shown to the caller."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NotFound(CoveyError):
    """The object does not exist, is not visible to the caller, or has no route in this microversion."""

    code = "not_found"


class Invalid(CoveyError):
    """The request is malformed, in any state of the service: a bad body, parameter or microversion."""

    code = "invalid"


class Conflict(CoveyError):
    """The current state does not allow the request: a name is taken, or a host would be in two zones."""

    code = "conflict"


class ConcurrentUpdate(Conflict):
    """Another request changed the same object first; read it again, then retry.

    In the Placement API: the generation of the request is not the current one.
    """

    code = "concurrent_update"


class TransactionConflict(ConcurrentUpdate):
    """Two transactions conflicted in the database, and this one was rolled back; an immediate retry may succeed."""


class DuplicateName(Conflict):
    """A resource provider with this name or uuid already exists."""

    code = "duplicate_name"


class InventoryInUse(Conflict):
    """Consumers have allocations of the inventory that the request would remove."""

    code = "inventory_in_use"


class ProviderInUse(Conflict):
    """The resource provider to delete has allocations, or is a host."""

    code = "provider_in_use"


class ProviderHasChildren(Conflict):
    """The resource provider to delete has child providers."""

    code = "provider_has_children"


class UnknownProvider(Invalid):
    """A reshape names a resource provider that does not exist."""

    code = "unknown_provider"


class Forbidden(CoveyError):
    """The caller is authenticated but not allowed to do this; the message names the access rule."""

    code = "forbidden"


class Unauthorized(CoveyError):
    """The request is not authenticated; the `WWW-Authenticate` header of the response lists the accepted schemes."""

    code = "unauthorized"


class Unavailable(CoveyError):
    """A dependency, such as the database or Keystone, does not respond."""

    code = "unavailable"


class MissingExtra(CoveyError):
    """A feature needs an optional package that is not installed. The message names the extra to install."""

    code = "missing_extra"

    def __init__(self, feature: str, extra: str, cause: str) -> None:
        super().__init__(
            f"{feature} needs an optional package ({cause}). Install it with: pip install 'covey[{extra}]'"
        )


class OverQuota(CoveyError):
    """The request would exceed a quota of the project or of the group."""

    code = "over_quota"


class Busy(CoveyError):
    """Conflicts with other requests used up all retries, or a limit is reached; the same request may succeed later."""

    code = "busy"


class StaleClaim(CoveyError):
    """Internal: a chosen host lost its free capacity before the claim, so the scheduler decides again."""

    code = "stale_claim"

    def __init__(self, hosts: frozenset[HostId]) -> None:
        super().__init__("A chosen host no longer has enough free capacity.")
        self.hosts = hosts


class DriverFault(CoveyError):
    """Internal: a driver operation failed."""

    code = "driver_fault"


class OperationInProgress(DriverFault):
    """Internal: a driver operation has not finished; check again after `after_s` seconds."""

    def __init__(self, after_s: float) -> None:
        super().__init__(f"The operation is in progress; check again in {after_s:g} seconds.")
        self.after_s = after_s


class NoValidHost(CoveyError):
    """No host is valid for a server that moves; the message counts the reasons.

    A new server without a valid host is no error: it is accepted with 202 and becomes ERROR with the same message.
    """

    code = "no_valid_host"

    def __init__(self, message: str, details: str) -> None:
        super().__init__(message)
        self.details = details
