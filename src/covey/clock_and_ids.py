"""The clock, ids and seeds: the values that differ from run to run.

All randomness comes from the operating system, so that a caller cannot guess the next ids from those that it sees.
"""

import base64
import os
import time
from collections import deque
from datetime import UTC, datetime

_BLOCK_BYTES = 16
_BLOCKS = 256
_blocks: deque[bytes] = deque()
os.register_at_fork(after_in_child=_blocks.clear)  # else the child would make the ids of its parent


def now() -> datetime:
    """Return the present time in UTC, without a time zone, as the wire and the database use it."""
    return datetime.now(UTC).replace(tzinfo=None)


def new_uuid() -> str:
    """Return a UUID of version 7. It begins with the time, so rows made together are neighbours in every index."""
    digits = f"{time.time_ns() // 1_000_000:012x}{_random_block().hex()[12:]}"
    return _uuid(digits, "7")


def random_uuid() -> str:
    """Return a UUID of version 4, for ids that must not be guessable or whose first characters callers use."""
    return _uuid(_random_block().hex(), "4")


def new_seed() -> int:
    """Return a seed for breaking ties between hosts."""
    return int.from_bytes(_random_block()[:4])


def new_reservation_id() -> str:
    """Return an id for the servers of one request, in Nova's form."""
    return f"r-{_random_block()[:4].hex()}"


def new_password() -> str:
    """Return a password of 72 random bits, as text."""
    return base64.urlsafe_b64encode(_random_block()[:9]).decode()


def new_version() -> int:
    """Return a version that no group had: a counter could repeat one after a failover that loses commits."""
    return int.from_bytes(_random_block()[:8]) >> 2


def _random_block() -> bytes:
    """Return 16 random bytes, once. They are fetched in bulk: a system call for each would be a tenth of a request."""
    try:
        return _blocks.pop()
    except IndexError:
        fetched = os.urandom(_BLOCK_BYTES * _BLOCKS)
        _blocks.extend(fetched[start : start + _BLOCK_BYTES] for start in range(0, len(fetched), _BLOCK_BYTES))
        return _random_block()


def _uuid(digits: str, version: str) -> str:
    """Return 32 digits as a UUID. uuid.UUID would cost four times as much."""
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-{version}{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
