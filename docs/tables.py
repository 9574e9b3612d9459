"""Generates the tables of the reference from the definitions in the code and the sentences beside them.

`make tables` runs it. tests/unit/test_docs.py fails while a page differs from what it would write.
"""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import covey.api
from covey.api.clustering.errors import TYPES
from covey.api.compute import microversions as compute
from covey.api.errors import COMPUTE_NAMES, STATUS
from covey.api.placement.errors import CODES
from covey.config import OPTIONS
from covey.model.access import AccessRule
from covey.model.access_rules import RULES
from covey.model.access_rules.clustering import CLUSTERING
from covey.model.errors import CoveyError
from covey.services.notifications import Event

REFERENCE = Path(__file__).parent / "reference"
_PLACE = re.compile(r"(<!-- table: ([a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def options() -> str:
    """Return a section for each group of options."""
    return "\n".join(
        f"## [{group.name}]\n\n{group.title}.\n\n"
        + _table("Option", "Default", "Environment", "Meaning", rows=(_option(group.name, each) for each in choices))
        for group, choices in OPTIONS.items()
    )


def rules(belongs: Callable[[AccessRule], bool]) -> str:
    """Return a table of the access rules that the filter selects."""
    return _table("Rule", "Default", "What it guards", rows=(_rule(rule) for rule in RULES if belongs(rule)))


def errors() -> str:
    """Return a table of every error code by its status, with the docstring of its class."""
    meaning = meaning_of_codes()
    known = sorted(STATUS.items(), key=lambda item: item[1])
    rows = ((f"`{code}`", status.value, meaning[code]) for code, status in known)
    return _table("Code", "Status", "When", rows=rows)


def meaning_of_codes() -> dict[str, str]:
    """Return the meaning of each error code, from the error classes of the model and the APIs."""
    for module in pkgutil.walk_packages(covey.api.__path__, "covey.api."):
        importlib.import_module(module.name)
    return {each.code: _one_line(each.__doc__ or "") for each in _kinds_of(CoveyError) if "code" in vars(each)}


def names_on_the_wire(inside: str, wire: str, names: Mapping[str, str], *, other: str) -> str:
    """Return a table of the names that one API uses for errors on the wire."""
    rows = ((key, f"`{name}`") for key, name in names.items())
    return _table(inside, wire, rows=[*rows, ("any other", other)])


def microversions() -> str:
    """Return a table of what each microversion of the Compute API changes."""
    rows = ((getattr(compute, name), f"`{name}`", what) for name, what in described(compute).items())
    return _table("Version", "Name", "What it changes", rows=rows)


def notifications() -> str:
    """Return a table of all notifications."""
    return _table("Event", "When", rows=((f"`{Event[name]}`", what) for name, what in described(Event).items()))


def described(place: ModuleType | type) -> dict[str, str]:
    """Return the string below each definition of a module or a class, by the defined name."""
    tree = ast.parse(inspect.getsource(place))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else tree.body
    found: dict[str, str] = {}
    for definition, below in pairwise(body):
        match definition, below:
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str(what))):
                found[name] = _one_line(what)
    return found


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
    "errors": errors,
    "compute errors": lambda: names_on_the_wire(
        "Status", "Name", {str(status.value): name for status, name in COMPUTE_NAMES.items()}, other="`computeFault`"
    ),
    "placement errors": lambda: names_on_the_wire("Code inside", "`code`", CODES, other="`placement.undefined_code`"),
    "clustering errors": lambda: names_on_the_wire(
        "Code inside", "`type`", TYPES, other="by its status: `BadRequest`, `Forbidden`, `Conflict` and so on"
    ),
    "microversions": microversions,
    "notifications": notifications,
}


def written(page: str) -> str:
    """Return the page with its tables generated from the code."""
    return _PLACE.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n{found[3]}", page)


def _table(*headings: str, rows: Iterable[Iterable[object]]) -> str:
    lines: list[Iterable[object]] = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def _option(group: str, option: object) -> Iterable[str]:
    name, default = getattr(option, "name", ""), getattr(option, "default", None)
    shown = "unset" if default is None else f"`{default}`"
    choices = getattr(getattr(option, "type", None), "choices", None)
    among = f" One of {', '.join(f'`{choice}`' for choice in choices)}." if choices else ""
    return f"`{name}`", shown, f"`OS_{group.upper()}__{name.upper()}`", f"{getattr(option, 'help', '')}{among}"


def _rule(rule: AccessRule) -> Iterable[str]:
    guarded = ", ".join(f"`{request}`" for request in rule.requests)
    return f"`{rule.name}`", f"`{rule.check}`", f"{rule.description}{' ' + guarded if guarded else ''}"


def _kinds_of(error: type[CoveyError]) -> Iterator[type[CoveyError]]:
    for kind in error.__subclasses__():
        yield kind
        yield from _kinds_of(kind)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def main() -> None:
    """Rewrite each page whose tables differ."""
    for page in sorted(REFERENCE.glob("*.md")):
        text = page.read_text()
        if written(text) != text:
            page.write_text(written(text))


if __name__ == "__main__":
    main()
