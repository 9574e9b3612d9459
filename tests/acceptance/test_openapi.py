"""The service conforms to its OpenAPI document for the requests that schemathesis generates."""

import subprocess
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import bcrypt
import pytest
import yaml

from tests.acceptance.processes import BESIDE_PYTHON, Covey, environment, running_covey
from tests.budgets import operations

pytestmark = pytest.mark.soak

ROOT = Path(__file__).parents[2]
PASSWORD = "quick to check"
RUN_TIMEOUT_S = 400
EXAMPLES = 8  # of each operation, in each phase


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Covey]:
    """Run the demo fleet with an operator and a tenant, with cheap password hashes for many wrong passwords."""
    directory = tmp_path_factory.mktemp("openapi")
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    users = [
        {"name": name, "project": name, "roles": [role], "password_hash": hashed}
        for name, role in (("operator", "admin"), ("tenant", "member"))
    ]
    projects = [{"id": user["project"], "name": user["project"]} for user in users]
    (directory / "users.yaml").write_text(yaml.safe_dump({"projects": projects, "users": users}))
    (directory / "users.yaml").chmod(0o600)
    fleet = resources.files("covey.demo") / "fleet.yaml"
    variables = {"OS_API__AUTH_STRATEGY": "basic", "OS_API__USERS_FILE": "users.yaml"}
    with running_covey(
        directory, "serve", "--fleet", str(fleet), "--database", "sqlite:///covey.sqlite", variables=variables
    ) as covey:
        yield covey


@pytest.mark.parametrize("user", ["operator", "tenant"])
def test_schemathesis_finds_no_failure(service: Covey, tmp_path: Path, user: str) -> None:
    done = subprocess.run(
        [
            *(BESIDE_PYTHON / "st", "run", f"{service.url}/compute/v2.1/openapi.json"),
            *("--auth", f"{user}:{PASSWORD}", "--checks", "all"),
            *("--max-examples", str(operations(EXAMPLES))),
        ],
        cwd=ROOT,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_TIMEOUT_S,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-20_000:]
    assert "No issues found" in said
    assert '"status":500' not in service.log
