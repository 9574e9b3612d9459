"""What a process keeps in memory, and what its garbage collector need not look at again and again."""

import gc

_LARGE = 1_000  # hosts


def settle(hosts: int) -> None:
    """A picture of so many hosts was made and stays: to walk through it for garbage would hold up many requests.

    What was there before is looked at once more, so that a picture which nobody uses any longer goes.
    """
    if hosts >= _LARGE:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
