"""Writes the tables of the reference that the code itself knows best: options and access rules.

`make tables` runs it; a test fails while a page is not what it would write.
"""

import re
from collections.abc import Callable
from pathlib import Path

from covey.config import OPTIONS
from covey.model.access import AccessRule
from covey.model.access_rules import RULES
from covey.model.access_rules.clustering import CLUSTERING

REFERENCE = Path(__file__).parent / "reference"
_PLACE = re.compile(r"(<!-- table: ([a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def options() -> str:
    """A section for each group of options."""
    return "\n".join(
        f"## [{group.name}]\n\n{group.title}.\n\n"
        "| Option | Default | Environment | Meaning |\n| --- | --- | --- | --- |\n"
        + "".join(_option(group.name, option) for option in choices)
        for group, choices in OPTIONS.items()
    )


def rules(belongs: Callable[[AccessRule], bool]) -> str:
    """A table of the rules that belong."""
    rows = "".join(_rule(rule) for rule in RULES if belongs(rule))
    return f"| Rule | Default | What it guards |\n| --- | --- | --- |\n{rows}"


TABLES: dict[str, Callable[[], str]] = {
    "options": options,
    "building blocks": lambda: rules(lambda rule: not rule.requests),
    "compute rules": lambda: rules(
        lambda rule: (
            bool(rule.requests) and rule not in CLUSTERING and not rule.name.startswith(("image:", "placement:"))
        )
    ),
    "placement rules": lambda: rules(lambda rule: rule.name.startswith("placement:")),
    "clustering rules": lambda: rules(lambda rule: rule in CLUSTERING),
    "image rules": lambda: rules(lambda rule: rule.name.startswith("image:")),
}


def written(page: str) -> str:
    """A page with its tables made anew."""
    return _PLACE.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n{found[3]}", page)


def _option(group: str, option: object) -> str:
    name, default = getattr(option, "name", ""), getattr(option, "default", None)
    shown = "unset" if default is None else f"`{default}`"
    choices = getattr(getattr(option, "type", None), "choices", None)
    among = f" One of {', '.join(f'`{choice}`' for choice in choices)}." if choices else ""
    return f"| `{name}` | {shown} | `OS_{group.upper()}__{name.upper()}` | {getattr(option, 'help', '')}{among} |\n"


def _rule(rule: AccessRule) -> str:
    guarded = ", ".join(f"`{request}`" for request in rule.requests)
    return f"| `{rule.name}` | `{rule.check}` | {rule.description}{' ' + guarded if guarded else ''} |\n"


def main() -> None:
    """Write the pages that have such tables."""
    for page in sorted(REFERENCE.glob("*.md")):
        text = page.read_text()
        if written(text) != text:
            page.write_text(written(text))


if __name__ == "__main__":
    main()
