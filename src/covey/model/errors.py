"""Expected errors. Each class has a stable code, which `api/` and `cli/` translate to their own form."""

from typing import ClassVar

from covey.model.ids import HostId
from covey.model.instance_refusals import InstanceRefusal


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


class PolicyViolation(Conflict):
    """The allocations would violate a hard policy of the consumer's server group; the message says which and why."""

    code = "policy_violation"

    def __init__(self, message: str, refusal: InstanceRefusal) -> None:
        super().__init__(message)
        self.refusal = refusal


class ReadOnly(Conflict):
    """The object belongs to another service, such as Nova; the message says where to change it."""

    code = "read_only"


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


class ServiceFault(Unavailable):
    """Internal: another service responds, but failed to carry out one request (HTTP 500)."""


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

    def __init__(self, message: str, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class OutdatedRequest(Busy):
    """Internal: the cached flavor or image of a request has changed, so they are read from the database."""

    def __init__(self) -> None:
        super().__init__("The flavor or the image changed under this request. Try again in a moment.")


class StaleClaim(CoveyError):
    """Internal: a host filled up, or a quota or the topology changed, before the claim. It is decided again."""

    code = "stale_claim"

    def __init__(self, hosts: frozenset[HostId]) -> None:
        super().__init__("A host filled up, or a quota or the topology changed, before the claim.")
        self.hosts = hosts


class DriverFault(CoveyError):
    """Internal: a driver operation failed."""

    code = "driver_fault"


class HostDown(DriverFault):
    """Internal: the agent of a host does not answer, and has not begun the operation or can't complete it."""

    def __init__(self, host: str) -> None:
        super().__init__(f"The agent of {host} is down.")


class HostsDown(DriverFault):
    """Internal: both hosts of a move are down, and the guest, with its data, may be on either of them."""

    def __init__(self, source: str, destination: str) -> None:
        super().__init__(f"The agents of {source} and {destination} are down.")


class OperationAborted(DriverFault):
    """Internal: an operation ended because a user asked for it."""

    def __init__(self) -> None:
        super().__init__("The operation was aborted.")


class TooLarge(Invalid):
    """A JSON body is longer than `[api] max_body_bytes`, or image data exceeds the project's quota or the disk."""

    code = "too_large"


class LeaseLost(CoveyError):
    """Internal: a worker outlived its lease of a job, so another worker may carry the job out."""

    code = "lease_lost"

    def __init__(self, subject: str, epoch: int) -> None:
        super().__init__(f"The lease {epoch} of the job for {subject} has ended.")


class OperationInProgress(CoveyError):
    """Internal: a driver operation has not finished; check again after `after_s` seconds."""

    code = "operation_in_progress"

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
