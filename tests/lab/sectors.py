"""The smallest guest that is a real one: a boot sector, assembled from sector.S.

It counts its boots in the second sector of its disk, and prints `GUEST boot=XXXX tick=XXXX` on its console four times a
second. So what a disk was started, how often, and whether it ran on, can be read in the console's log.
"""

import base64
import re
import subprocess
from pathlib import Path

# as --32 sector.S -o sector.o && ld -m elf_i386 -Ttext 0x7c00 --oformat binary -e _start sector.o
_SECTOR = (
    "+jHAjtiOwI7QvAB8/Pu4AQK5AgC2ALsAgFLNE1r/BgCAuAEDuQIAuwCAzRO44wAx0s0UMe2+vXzoUAChAIDoZAC+yXzoRACJ6OhZ"
    "ALAN6EUAsAroQABFix5sBPS6/QPsqAF0DLr4A+w8cXQQPGN0FaFsBCnYg/gEcuHruboEBrgAIO/r1rD+5mTr0KyEwHQF6AMA6/bD"
    "ULr9A+yoIHT7WLr4A+7DuQQAwcAEUCQPPApyAgQnBDDo3f9Y4uzDR1VFU1QgYm9vdD0AIHRpY2s9"
)
_LINE = re.compile(r"^GUEST boot=([0-9a-f]{4}) tick=([0-9a-f]{4})\r?$", re.MULTILINE)


def make_image(path: Path, ballast: bytes = b"") -> None:
    """Write the guest as a qcow2 image. Ballast after the guest makes a copy of the disk take its time."""
    sector = base64.b64decode(_SECTOR).ljust(510, b"\0") + b"\x55\xaa"
    raw = path.with_suffix(".raw")
    raw.write_bytes(sector.ljust(1 << 20, b"\0") + ballast)
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, path], check=True)
    raw.unlink()


def last(console: str) -> tuple[int, int]:
    """Return the last boot and tick that a console's log has; zeros before the first."""
    found = lines(console)
    return found[-1] if found else (0, 0)


def lines(console: str) -> list[tuple[int, int]]:
    """Return the boot and the tick of each line."""
    return [(int(boot, 16), int(tick, 16)) for boot, tick in _LINE.findall(console)]


def boots(console: str) -> int:
    """Return how often the disk has been booted."""
    return last(console)[0]
