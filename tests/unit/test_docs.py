"""The reference is what the code makes of it: every option, access rule, error code, microversion and notification."""

import re
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
def test_a_page_has_the_tables_that_the_code_makes(page: Path) -> None:
    assert tables.written(page.read_text()) == page.read_text(), "run `make tables`"


@pytest.mark.parametrize("name", tables.TABLES)
def test_every_table_that_the_code_makes_is_on_a_page(name: str) -> None:
    assert any(f"<!-- table: {name} -->" in page.read_text() for page in REFERENCE.glob("*.md"))


def test_every_error_code_has_a_class_that_says_what_it_means_and_a_status() -> None:
    assert tables.meaning_of_codes().keys() == STATUS.keys()
    assert all(tables.meaning_of_codes().values())


def test_every_microversion_says_what_it_changed() -> None:
    versions = {name for name, value in vars(microversions).items() if isinstance(value, Version)}
    assert tables.described(microversions).keys() == versions


def test_every_notification_says_when_it_is_sent() -> None:
    assert tables.described(Event).keys() == Event.__members__.keys()


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *ROOT.glob("changes/*.md"), *ROOT.glob("docs/**/*.md")], ids=str)
def test_a_page_links_only_to_what_is_there(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("folder", ["docs/reference", "docs/decisions"])
def test_the_index_of_the_docs_names_every_page(folder: str) -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    assert [page.name for page in (ROOT / folder).glob("*.md") if f"{page.parent.name}/{page.name}" not in index] == []
