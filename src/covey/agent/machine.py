"""The id of a machine: two machines with the same host name have different ids."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

_ID_FILES = (Path("/etc/machine-id"), Path("/sys/class/dmi/id/product_uuid"))  # clones of an image share the first


def machine_id(files: Sequence[Path] = _ID_FILES) -> str | None:
    """Return an id of this machine, as a hash; None if it has none."""
    known = [text for file in files if (text := _read(file))]
    return hashlib.sha256("\n".join(known).encode()).hexdigest() if known else None


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
