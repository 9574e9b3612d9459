"""How nodes are called that nobody named."""

import random
import re
import string

from covey.model.clustering.specs import Document

FORMAT = "node.name.format"  # in a cluster's config
_DEFAULT = "node-$8r"
_PART = re.compile(r"\$(\d{0,2})([rRI])", re.ASCII)  # so many random characters, or digits of the index
_WHOLE = re.compile(rf"(?:[A-Za-z0-9\u4e00-\u9fa5_.~-]|{_PART.pattern})+", re.ASCII)
_LONGEST = 255
_RANDOM = 8  # characters, unless the format says how many
_LARGE = 10**9  # an index that no cluster gets to


def node_name(config: Document, index: int, seed: str) -> str:
    """What a member of a cluster is called. Equal seeds give equal names, so take the node's id."""
    tie_breaking = random.Random(seed)  # noqa: S311 -- a name, not a secret

    def part(found: re.Match[str]) -> str:
        length, kind = found.groups()
        if kind == "I":
            return str(index).zfill(int(length or 0))
        letters = string.ascii_lowercase if kind == "r" else string.ascii_letters
        return "".join(tie_breaking.choices(letters + string.digits, k=int(length or _RANDOM)))

    return _PART.sub(part, str(config.get(FORMAT) or _DEFAULT))


def is_format(text: object) -> bool:
    """Whether names can be made by it: none too long, and nothing in them that a name may not have."""
    if not isinstance(text, str) or not _WHOLE.fullmatch(text):
        return False
    return len(node_name({FORMAT: text}, _LARGE, "")) <= _LONGEST
