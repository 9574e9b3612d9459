"""How often `covey sync nova` reads."""

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest

from covey.cli.sync import repeat
from covey.services.nova_sync import SyncReport

if TYPE_CHECKING:
    from covey.services.nova_sync import NovaSync

PAUSE_S = 0.1
LONG_S = 60.0


@dataclass
class Mirror:
    """Records when it is read; a reading takes some time."""

    takes_s: float = 0.0
    read_at: list[float] = field(default_factory=list)
    ended_at: list[float] = field(default_factory=list)

    def run(self) -> SyncReport:
        self.read_at.append(time.monotonic())
        time.sleep(self.takes_s)
        self.ended_at.append(time.monotonic())
        return SyncReport({}, 0, ())


def woken(mirror: Mirror, for_s: float) -> None:
    """Wake the loop all the time, then stop it."""
    wake, stopping = threading.Event(), threading.Event()
    loop = threading.Thread(target=repeat, args=(cast("NovaSync", mirror), LONG_S, wake, stopping, PAUSE_S))
    loop.start()
    ends = time.monotonic() + for_s
    while time.monotonic() < ends:
        wake.set()
        time.sleep(0.001)
    stopping.set()
    wake.set()
    loop.join(LONG_S)
    assert not loop.is_alive()


@pytest.mark.parametrize(("takes_s", "pause_s"), [(0.0, PAUSE_S), (0.2, 0.2)], ids=["quick reading", "slow reading"])
def test_burst_of_notifications_is_read_with_pauses(takes_s: float, pause_s: float) -> None:
    mirror = Mirror(takes_s)
    woken(mirror, 1.0)
    pauses = [begun - ended for ended, begun in zip(mirror.ended_at, mirror.read_at[1:], strict=False)]
    assert len(pauses) >= 1, "it is woken"
    assert min(pauses) >= pause_s * 0.99
    assert len(mirror.read_at) <= 1 + 1.2 / (takes_s + pause_s)


def test_stopped_loop_does_not_wait_for_the_pause() -> None:
    mirror, began = Mirror(), time.monotonic()
    woken(mirror, 0.05)
    assert time.monotonic() - began < PAUSE_S * 10
    assert len(mirror.read_at) == 1
