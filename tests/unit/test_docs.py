"""The documentation matches the code: generated tables, links, module names, the glossary."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.api.compute import microversions
from covey.api.errors import STATUS
from covey.api.versions import Version
from covey.services.notifications import Event
from docs import tables

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
LINK = re.compile(r"\]\((?!https?://)([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", sorted(REFERENCE.glob("*.md")), ids=lambda page: page.name)
def test_page_has_the_tables_that_the_code_generates(page: Path) -> None:
    assert tables.written(page.read_text()) == page.read_text(), "run `make tables`"


@pytest.mark.parametrize("name", tables.TABLES)
def test_every_generated_table_is_on_a_page(name: str) -> None:
    assert any(f"<!-- table: {name} -->" in page.read_text() for page in REFERENCE.glob("*.md"))


def test_every_error_code_has_a_docstring_and_a_status() -> None:
    assert tables.meaning_of_codes().keys() == STATUS.keys()
    assert all(tables.meaning_of_codes().values())


def test_every_microversion_describes_its_change() -> None:
    versions = {name for name, value in vars(microversions).items() if isinstance(value, Version)}
    assert tables.described(microversions).keys() == versions


def test_every_notification_describes_its_event() -> None:
    assert tables.described(Event).keys() == Event.__members__.keys()


def test_prose_has_no_word_of_a_fable() -> None:
    private = re.compile(r"nobody|whoever|somebody|meanwhile|anew|outside hands", re.IGNORECASE)
    sources = [*SOURCE.rglob("*.py"), *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    found = [f"{path.relative_to(ROOT)}: {line.strip()}" for path in sources for line in private_lines(path, private)]
    assert found == []


def private_lines(path: Path, private: re.Pattern[str]) -> list[str]:
    return [line for line in path.read_text().splitlines() if private.search(line)]


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *ROOT.glob("changes/*.md"), *ROOT.glob("docs/**/*.md")], ids=str)
def test_page_links_only_to_existing_files(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("folder", ["docs/reference", "docs/decisions"])
def test_index_of_the_docs_links_to_every_page(folder: str) -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    assert [page.name for page in (ROOT / folder).glob("*.md") if f"{page.parent.name}/{page.name}" not in index] == []


SOURCE = ROOT / "src" / "covey"
# Private words that were replaced by the field's; the glossary has their successors.
REPLACED = {
    *("Ask", "Booking", "Case", "Crew", "Draw", "Ears", "Errands", "Lane", "Nap", "NOWHERE", "Placed", "Sight", "Spot"),
    *("Standing", "Wanted", "Wish", "badness", "batches", "disguise", "handover", "happenings", "journeys"),
    *("lanes", "leaders", "luck", "overtaken", "processors", "roll", "strays", "torn", "verdicts", "whys"),
    *("Histories", "PatientLock", "PatientPool", "PatientSession", "ServedServers"),
    *("departures", "kinds_of_trees", "place_of"),
}


def definitions() -> Iterator[str]:
    """Every module, class, function and constant that the source defines; migrations are history."""
    for path in SOURCE.rglob("*.py"):
        if "versions" in path.parts:
            continue
        yield path.stem
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                    yield name
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                    yield name


def test_glossary_names_only_identifiers_that_the_code_defines() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text()
    identifiers = set(re.findall(r"^\| [^|]+ \| `(\w+)` \|", text, re.MULTILINE))
    assert identifiers
    assert identifiers - set(definitions()) == set()


def test_code_defines_no_word_that_the_glossary_replaced() -> None:
    assert REPLACED & set(definitions()) == set()


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")], ids=str)
def test_page_names_only_modules_that_exist(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return
    modules = re.findall(r"`((?:\w+/)+\w+\.py)`", page.read_text())
    missing = [
        name
        for name in modules
        if not any((root / name).exists() for root in (SOURCE, SOURCE.parent, SOURCE / "api", ROOT))
    ]
    assert missing == []


def test_example_of_a_migration_has_the_next_number() -> None:
    numbers = [int(path.name[:4]) for path in (SOURCE / "storage" / "migrations" / "versions").glob("[0-9]*.py")]
    assert f'rev_id="{max(numbers) + 1:04}"' in (ROOT / "CONTRIBUTING.md").read_text()


def test_table_of_the_specifications_names_only_tests_that_exist() -> None:
    text = (ROOT / "docs" / "reference" / "specifications.md").read_text()
    named = re.findall(r"`([a-z_/]+\.py)::(test_\w+)`", text)
    assert named
    missing = [name for path, name in named if f"def {name}(" not in (ROOT / "tests" / path).read_text()]
    assert missing == []


def test_each_statement_of_the_specifications_is_counted_and_has_a_test_or_a_difference() -> None:
    text = (ROOT / "docs" / "reference" / "specifications.md").read_text()
    summary = re.findall(r"^\| \w+ \((\w)\) \|.*\| (\d+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    assert [letter for letter, *_ in summary] == ["R", "S", "F", "U", "C"]
    for letter, *counts in summary:
        rows = re.findall(rf"^\| {letter}(\d+) \| (.+) \| (.*) \| (.+) \|$", text, re.MULTILINE)
        assert [int(number) for number, *_ in rows] == list(range(1, len(rows) + 1))
        tested = [row for row in rows if "::test_" in row[2] and row[3] == "passes"]
        different = [row for row in rows if row[2] == "—" and row[3] == "[differs](differences.md#specifications)"]
        assert [int(count) for count in counts] == [len(rows), len(tested), len(different)]
        assert len(tested) + len(different) == len(rows)
