"""Optional packages: the service runs without them, and a feature that needs one names the extra to install."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.model.errors import MissingExtra
from covey.model.extras import requires
from tests.databases import SQLite
from tests.functional.fleets import Cloud

OPTIONAL = ("keystoneauth1", "keystonemiddleware", "matplotlib", "oslo_messaging", "ortools", "psycopg")
WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({OPTIONAL})); from covey.cli.main import main; main()"


def covey(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run `covey` in a process that cannot import the optional packages."""
    command = [sys.executable, "-c", WITHOUT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environ, timeout=60, check=False)


@pytest.fixture
def database(sqlite_server: SQLite, tmp_path: Path) -> Iterator[str]:
    """Use SQLite only: the result does not depend on the database."""
    with sqlite_server.fresh(tmp_path) as url:
        yield url


@pytest.mark.parametrize(
    ("extra", "feature", "environ"),
    [
        ("keystone", "auth_strategy=keystone", {"OS_API__AUTH_STRATEGY": "keystone"}),
        (
            "notifications",
            "[notifications] driver=messagingv2",
            {"OS_API__AUTH_STRATEGY": "none", "OS_NOTIFICATIONS__DRIVER": "messagingv2"},
        ),
        ("postgresql", "A PostgreSQL database", {"OS_DATABASE__CONNECTION": "postgresql://covey@127.0.0.1/covey"}),
    ],
    ids=["keystone", "notifications", "postgresql"],
)
def test_serve_names_the_extra_that_a_feature_needs(
    extra: str, feature: str, environ: dict[str, str], database: str
) -> None:
    ended = covey("serve", "--port", "1", **{"OS_DATABASE__CONNECTION": database, **environ})
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"Error: {feature} needs an optional package (")
    assert ended.stderr.endswith(f"Install it with: pip install 'covey[{extra}]'\n")


def test_simulate_without_matplotlib_names_the_extra_for_plots(tmp_path: Path) -> None:
    ended = covey("simulate", "--hosts", "4", "--boots", "8", "--plots", str(tmp_path / "out"))
    assert ended.returncode == 0
    assert "pip install 'covey[plots]'" in ended.stderr


@pytest.mark.parametrize("dry_run", [True, False])
def test_rebalance_without_the_solver_is_501_and_names_the_extra(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, *, dry_run: bool
) -> None:
    group = cloud.group("anti-affinity")
    for _ in range(2):
        cloud.boot_on("node-1", group)
    # An import of `ortools.sat` finds that name before it looks at `ortools`, if an earlier test imported it.
    for name in [name for name in sys.modules if name.startswith(("covey.scheduler.rebalancing.", "ortools."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ortools", None)
    answer = cloud.admin.post(f"/os-server-groups/{group}/action", {"rebalance": {"dry_run": dry_run}})
    assert answer.status == 501
    assert answer.json["notImplemented"]["message"].startswith("Rebalancing needs an optional package (")
    assert answer.message.endswith("Install it with: pip install 'covey[solver]'")


def test_database_is_prepared_without_optional_packages(tmp_path: Path) -> None:
    upgraded = covey("db", "upgrade", "--database", f"sqlite:///{tmp_path / 'covey.sqlite'}")
    assert (upgraded.returncode, upgraded.stderr) == (0, "")


def test_error_of_a_covey_module_is_not_taken_for_a_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError), requires("solver", "Rebalancing"):
        import covey.no_such_module  # type: ignore[import-not-found]  # noqa: F401


def test_missing_extra_names_the_missing_package() -> None:
    with pytest.raises(MissingExtra, match="No module named 'no_such_package'"), requires("solver", "Rebalancing"):
        import no_such_package  # type: ignore[import-not-found]  # noqa: F401
