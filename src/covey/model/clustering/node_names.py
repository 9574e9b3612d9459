"""Node names that a cluster's config generates."""

import random
import re
import string

from covey.model.clustering.specs import Document

FORMAT_KEY = "node.name.format"  # in a cluster's config
_DEFAULT_FORMAT = "node-$8r"
_PLACEHOLDER = re.compile(r"\$(\d{0,2})([rRI])", re.ASCII)  # a number of random characters, or digits of the index
_FORMAT = re.compile(rf"(?:[A-Za-z0-9\u4e00-\u9fa5_.~-]|{_PLACEHOLDER.pattern})+", re.ASCII)
_MAX_LENGTH = 255
_DEFAULT_RANDOM_LENGTH = 8
_LARGE_INDEX = 10**9  # above every index in use


def generate_node_name(config: Document, index: int, seed: str) -> str:
    """Return the name of a cluster's node. Equal seeds give equal names: the seed is the node's id."""
    rng = random.Random(seed)  # noqa: S311 -- a name, not a secret

    def expand(placeholder: re.Match[str]) -> str:
        length, kind = placeholder.groups()
        if kind == "I":
            return str(index).zfill(int(length or 0))
        letters = string.ascii_lowercase if kind == "r" else string.ascii_letters
        return "".join(rng.choices(letters + string.digits, k=int(length or _DEFAULT_RANDOM_LENGTH)))

    return _PLACEHOLDER.sub(expand, str(config.get(FORMAT_KEY) or _DEFAULT_FORMAT))


def is_valid_format(text: object) -> bool:
    """Return whether every name of the format is short enough and has allowed characters only."""
    if not isinstance(text, str) or not _FORMAT.fullmatch(text):
        return False
    return len(generate_node_name({FORMAT_KEY: text}, _LARGE_INDEX, "")) <= _MAX_LENGTH
