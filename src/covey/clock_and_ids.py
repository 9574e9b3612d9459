"""The clock, ids and seeds: the values that differ from run to run.

All randomness comes from the operating system, so that a caller cannot guess the next ids from those that it sees.
"""

import secrets
import time
import uuid
from datetime import UTC, datetime


def now() -> datetime:
    """Return the present time in UTC, without a time zone, as the wire and the database use it."""
    return datetime.now(UTC).replace(tzinfo=None)


def new_uuid() -> str:
    """Return a UUID of version 7. It begins with the time, so rows made together are neighbours in every index."""
    milliseconds = time.time_ns() // 1_000_000
    random_bits = secrets.randbits(74)
    return str(
        uuid.UUID(
            int=milliseconds << 80 | 0x7 << 76 | random_bits >> 62 << 64 | 0b10 << 62 | random_bits & (1 << 62) - 1
        )
    )


def random_uuid() -> str:
    """Return a UUID of version 4, for ids that must not be guessable or whose first characters callers use."""
    digits = secrets.token_hex(16)  # every request has such an id: uuid.UUID would cost four times as much
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def new_seed() -> int:
    """Return a seed for breaking ties between hosts."""
    return secrets.randbits(32)


def new_reservation_id() -> str:
    """Return an id for the servers of one request, in Nova's form."""
    return f"r-{secrets.randbits(32):08x}"


def new_version() -> int:
    """Return a version that no group had: a counter could repeat one after a failover that loses commits."""
    return secrets.randbits(62)
