"""The reference names every option, access rule, error code and microversion that there is, and none that is gone."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import covey.api
from covey.api import errors as api_errors
from covey.api.compute import microversions
from covey.api.versions import Version
from covey.model.errors import CoveyError
from docs import tables

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
LINK = re.compile(r"\]\((?!https?://)([^)#]+)(?:#[^)]*)?\)")


def rows(page: str, section: str = "") -> list[list[str]]:
    """Return the cells of every table row, on the whole page or below one of its headings."""
    text = (REFERENCE / page).read_text()
    if section:
        _, _, text = text.partition(f"\n{section}\n")
        text = text.partition("\n## ")[0]
    lines = (line.strip() for line in text.splitlines())
    return [re.split(r"\s+\|\s+", line.strip("| ")) for line in lines if line.startswith(("| `", "| 2."))]


def named(page: str, section: str = "") -> set[str]:
    """Return what stands in the first cell of each row."""
    return {row[0].strip("`") for row in rows(page, section)}


def error_codes() -> dict[str, type[CoveyError]]:
    """Return every code that has a class, in the model or anywhere below the API."""
    for module in pkgutil.walk_packages(covey.api.__path__, "covey.api."):
        importlib.import_module(module.name)
    classes: set[type[CoveyError]] = set()
    fresh = set(CoveyError.__subclasses__())
    while fresh:
        classes |= fresh
        fresh = {inner for outer in fresh for inner in outer.__subclasses__()} - classes
    return {each.code: each for each in classes}


def versions() -> dict[str, Version]:
    return {name: value for name, value in vars(microversions).items() if isinstance(value, Version)}


@pytest.mark.parametrize("page", sorted(REFERENCE.glob("*.md")), ids=lambda page: page.name)
def test_a_page_has_the_tables_that_the_code_makes(page: Path) -> None:
    assert tables.written(page.read_text()) == page.read_text(), "run `make tables`"


@pytest.mark.parametrize("name", tables.TABLES)
def test_every_table_that_the_code_makes_is_on_a_page(name: str) -> None:
    assert any(f"<!-- table: {name} -->" in page.read_text() for page in REFERENCE.glob("*.md"))


def test_every_error_code_is_named() -> None:
    assert error_codes().keys() <= named("errors.md")


def test_every_error_code_that_http_knows_stands_with_its_status() -> None:
    told = {row[0].strip("`"): row[1] for row in rows("errors.md")}
    assert {code: told.get(code) for code in api_errors.STATUS} == {
        code: str(status.value) for code, status in api_errors.STATUS.items()
    }


def test_the_microversions_page_names_each_version_and_no_other() -> None:
    told = {row[1].strip("`"): row[0] for row in rows("microversions.md")}
    assert told == {name: str(version) for name, version in versions().items()}


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *ROOT.glob("changes/*.md"), *ROOT.glob("docs/**/*.md")], ids=str)
def test_a_page_links_only_to_what_is_there(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("folder", ["docs/reference", "docs/decisions"])
def test_the_index_of_the_docs_names_every_page(folder: str) -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    assert [page.name for page in (ROOT / folder).glob("*.md") if f"{page.parent.name}/{page.name}" not in index] == []
