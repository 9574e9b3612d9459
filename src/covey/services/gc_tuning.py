"""Garbage collection: keeps a large fleet out of the collector's passes."""

import gc

_LARGE = 1_000  # hosts


def freeze(hosts: int) -> None:
    """Freeze a fleet that was just loaded, with this number of hosts: a pass through it would delay many requests.

    Objects frozen before are collected first, so that the previous fleet is freed.
    """
    if hosts >= _LARGE:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
