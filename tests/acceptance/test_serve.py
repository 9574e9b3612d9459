"""`covey serve` and related commands: start, errors, shutdown, logs and status."""

import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from oslo_config import cfg

from covey import config
from covey.model.access_rules import RULES
from tests.acceptance.processes import Covey, covey, free_port, running_covey
from tests.databases import PostgreSQL

NO_AUTHENTICATION = {"OS_API__AUTH_STRATEGY": "none"}
ADMIN = {"X-Auth-Token": "admin"}
TIMEOUT_S = 30
FLEET = """\
hosts:
  - {name: "host-[1-3]", vcpus: 8, memory_mb: 16384, disk_gb: 100, zone: az-1}
flavors:
  - {name: tiny, vcpus: 1, memory_mb: 512, disk_gb: 1}
"""


def database_in(directory: Path) -> tuple[str, str]:
    return "--database", f"sqlite:///{directory / 'covey.sqlite'}"


def get(url: str, **headers: str) -> requests.Response:
    return requests.get(url, headers=headers or ADMIN, timeout=TIMEOUT_S)


def log_lines(running: Covey) -> list[dict[str, Any]]:
    return [json.loads(line) for line in running.log.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Covey]:
    """Run a service without authentication and with three hosts."""
    directory = tmp_path_factory.mktemp("served")
    (directory / "fleet.yaml").write_text(FLEET)
    arguments = ("serve", "--fleet", "fleet.yaml", *database_in(directory))
    with running_covey(directory, *arguments, variables=NO_AUTHENTICATION, preloaded=False) as running:
        yield running


def test_fleet_file_is_applied_before_serving(served: Covey) -> None:
    found = get(f"{served.url}/compute/v2.1/os-hypervisors").json()["hypervisors"]
    assert [host["hypervisor_hostname"] for host in found] == ["host-1", "host-2", "host-3"]
    assert "changes made" in served.log


def test_index_lists_the_apis(served: Covey) -> None:
    index = get(f"{served.url}/").json()["covey"]
    assert index["compute"] == f"{served.url}/compute/"
    for name in ("compute", "image", "identity"):
        assert get(index[name]).status_code in {200, 300}


def test_single_api_is_served_at_the_root(tmp_path: Path) -> None:
    with running_covey(
        tmp_path, "serve", "--api", "compute", *database_in(tmp_path), variables=NO_AUTHENTICATION
    ) as running:
        assert get(f"{running.url}/v2.1/flavors").json() == {"flavors": []}
        assert get(f"{running.url}/").json()["versions"][-1]["links"][0]["href"] == f"{running.url}/v2.1/"
        assert "images" not in get(f"{running.url}/image/v2/images").json()
        assert get(f"{running.url}/healthcheck").json()["status"] == "ok"


def test_metrics_can_have_a_port_of_their_own(tmp_path: Path) -> None:
    port = free_port()
    variables = {**NO_AUTHENTICATION, "OS_API__METRICS_PORT": str(port)}
    with running_covey(tmp_path, "serve", *database_in(tmp_path), variables=variables, preloaded=False) as running:
        assert get(f"{running.url}/compute/v2.1/flavors").status_code == 200
        assert get(f"{running.url}/metrics").status_code == 404
        page = get(f"http://127.0.0.1:{port}/metrics").text
    assert re.search(r'^covey_http_requests_total\{.*route="/v2.1/flavors".*\} 1.0$', page, re.MULTILINE)


def test_metrics_cover_all_processes(tmp_path: Path, postgresql_server: PostgreSQL) -> None:
    counted = re.compile(r'^covey_http_requests_total\{.*route="/v2.1/flavors",status="200"\} (\d+)', re.MULTILINE)
    (tmp_path / "metrics").mkdir()
    variables = {**NO_AUTHENTICATION, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "metrics")}
    with postgresql_server.fresh() as database:
        arguments = ("serve", "--database", database, "--workers", "2")
        with running_covey(tmp_path, *arguments, variables=variables, preloaded=False) as running:
            asked, until = 0, time.monotonic() + 60
            # The second process may start later than the first.
            while asked < 60 or len(list((tmp_path / "metrics").glob("counter_*.db"))) < 2:
                assert get(f"{running.url}/compute/v2.1/flavors").status_code == 200
                assert time.monotonic() < until, "the second process never answered"
                asked += 1
            seen = [counted.findall(get(f"{running.url}/metrics").text) for _ in range(10)]
            assert seen == [[str(asked)]] * 10


@pytest.mark.parametrize(
    ("arguments", "variables", "sentence"),
    [
        pytest.param(
            ("--host", "0.0.0.0"),  # noqa: S104
            NO_AUTHENTICATION,
            "auth_strategy=none disables authentication and requires a loopback address, not 0.0.0.0.",
            id="no authentication on a public address",
        ),
        pytest.param(
            (),
            NO_AUTHENTICATION | {"OS_SCHEDULER__REBALANCE_TIME_LIMIT_S": "60"},
            "[api] connection_timeout_s is 30, but a request may take 67 s:",
            id="connections that are closed during a request",
        ),
        pytest.param((), {}, "Cannot read the users file users.yaml: No such file or directory.", id="no users"),
        pytest.param(
            (),
            {"OS_API__AUTH_STRATEGY": "keystone"},
            "auth_strategy=keystone needs auth_type, auth_url and credentials in [keystone_authtoken].",
            id="no Keystone",
        ),
        pytest.param(("--database", "nonsense"), NO_AUTHENTICATION, "The database URL is malformed.", id="no URL"),
        pytest.param(
            ("--database", "mysql://u:sesame@db/covey"),
            NO_AUTHENTICATION,
            "The database 'mysql://u:***@db/covey' is not supported. Covey stores in SQLite",
            id="another database",
        ),
        pytest.param(
            ("--database", "postgresql://u:sesame@127.0.0.1:1/covey"),
            NO_AUTHENTICATION,
            "The database can't be opened: connection failed",
            id="a database that is not there",
        ),
        pytest.param(
            ("--database", "sqlite:///users.txt"), NO_AUTHENTICATION, "file is not a database", id="no database"
        ),
        pytest.param(("--config-file", "port.conf"), NO_AUTHENTICATION, "Value for option port from", id="no number"),
    ],
)
def test_invalid_settings_are_reported(
    tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str], sentence: str
) -> None:
    (tmp_path / "users.txt").write_text("This is no database.")
    (tmp_path / "port.conf").write_text("[api]\nport = a lot\n")
    port = () if "port.conf" in arguments else ("--port", str(free_port()))
    done = covey(tmp_path, "serve", *port, *arguments, **variables)
    assert done.status == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert "sesame" not in done.stderr


def test_used_port_is_reported_before_any_change(tmp_path: Path, served: Covey) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    arguments = ("serve", "--port", str(served.port), "--fleet", "fleet.yaml", *database_in(tmp_path))
    done = covey(tmp_path, *arguments, **NO_AUTHENTICATION)
    assert done.status == 1
    assert f"Cannot listen on 127.0.0.1 port {served.port}: Address already in use" in done.stderr
    assert not (tmp_path / "covey.sqlite").exists()


def test_running_request_completes_before_shutdown(tmp_path: Path) -> None:
    arguments = ("serve", *database_in(tmp_path))
    with running_covey(tmp_path, *arguments, variables=NO_AUTHENTICATION, preloaded=False) as running:
        created = requests.post(f"{running.url}/image/v2/images", json={}, headers=ADMIN, timeout=TIMEOUT_S).json()
        with socket.create_connection(("127.0.0.1", running.port), timeout=TIMEOUT_S) as caller:
            head = f"PUT /image/v2/images/{created['id']}/file HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: admin\r\n"
            caller.sendall(f"{head}Content-Length: 8\r\n\r\nhalf".encode())
            time.sleep(0.5)
            running.process.terminate()
            time.sleep(0.5)
            assert running.process.poll() is None
            caller.sendall(b"half")
            assert caller.recv(4096).startswith(b"HTTP/1.1 204")
        assert running.process.wait(TIMEOUT_S) == 0
    assert log_lines(running)[-1]["event"] == "serve.stopped"


def test_every_request_is_logged_with_its_id_and_without_secrets(tmp_path: Path) -> None:
    added = covey(tmp_path, "user", "add", "alice", "--project", "web", "--role", "admin", "--password", "open sesame")
    assert added.status == 0, added.stderr
    variables = {"OS_LOG__LEVEL": "debug"}
    with running_covey(tmp_path, "serve", *database_in(tmp_path), variables=variables) as running:
        url = f"{running.url}/compute/v2.1/os-aggregates"
        right = requests.get(url, auth=("alice", "open sesame"), timeout=TIMEOUT_S)
        wrong = requests.get(url, auth=("alice", "closed sesame"), timeout=TIMEOUT_S)
        token = requests.get(url, headers={"X-Auth-Token": "a-bearer-of-sesame"}, timeout=TIMEOUT_S)
        assert [right.status_code, wrong.status_code, token.status_code] == [200, 401, 401]
    lines = {line["request_id"]: line for line in log_lines(running) if line["event"] == "http.request"}
    line = lines[right.headers["x-openstack-request-id"]]
    assert right.headers["x-compute-request-id"] == right.headers["x-openstack-request-id"]
    assert (line["method"], line["path"], line["status"], line["user"]) == ("GET", "/v2.1/os-aggregates", 200, "alice")
    assert lines[wrong.headers["x-openstack-request-id"]]["status"] == 401
    assert "sesame" not in running.log
    assert right.request.headers["Authorization"].split()[1] not in running.log
    assert wrong.request.headers["Authorization"].split()[1] not in running.log


def test_users_are_added_at_run_time(tmp_path: Path) -> None:
    file = tmp_path / "users.yaml"
    assert covey(tmp_path, "user", "add", "alice", "--project", "web", stdin="one\none\n").status == 0
    assert file.stat().st_mode & 0o777 == 0o600
    with running_covey(tmp_path, "serve", *database_in(tmp_path)) as running:
        url = f"{running.url}/compute/v2.1/flavors"
        assert requests.get(url, auth=("alice", "one"), timeout=TIMEOUT_S).status_code == 200
        assert requests.get(url, auth=("bob", "two"), timeout=TIMEOUT_S).status_code == 401
        assert covey(tmp_path, "user", "add", "bob", "--project", "web", "--password", "two").status == 0
        assert covey(tmp_path, "user", "add", "alice", "--project", "web", "--password", "three").status == 0
        time.sleep(1.1)
        assert requests.get(url, auth=("bob", "two"), timeout=TIMEOUT_S).status_code == 200
        assert requests.get(url, auth=("alice", "three"), timeout=TIMEOUT_S).status_code == 200
        assert requests.get(url, auth=("alice", "one"), timeout=TIMEOUT_S).status_code == 401
    known = yaml.safe_load(file.read_text())
    assert [project["name"] for project in known["projects"]] == ["web"]
    assert [user["name"] for user in known["users"]] == ["bob", "alice"]
    too_long = covey(tmp_path, "user", "add", "carol", "--project", "web", "--password", "x" * 73)
    assert too_long.status == 1
    assert "it must have 1 to 72" in too_long.stderr


def test_database_is_upgraded_once(tmp_path: Path) -> None:
    database = database_in(tmp_path)
    before = covey(tmp_path, "db", "current", *database)
    assert before.stdout.startswith("database: empty\nthis version: ")
    newest = before.stdout.split()[-1]
    assert covey(tmp_path, "db", "upgrade", *database).stdout == f"empty -> {newest}\n"
    assert covey(tmp_path, "db", "upgrade", *database).stdout == f"{newest}: up to date\n"


def test_status_reports_warnings(tmp_path: Path) -> None:
    database = database_in(tmp_path)
    empty = covey(tmp_path, "status", *database)
    assert empty.status == 1
    assert "run `covey db upgrade`" in empty.stdout
    assert covey(tmp_path, "db", "upgrade", *database).status == 0
    bare = covey(tmp_path, "status", "--json", *database)
    assert bare.status == 1
    assert any("no hosts" in warning for warning in json.loads(bare.stdout)["warnings"])
    assert covey(tmp_path, "fleet", "apply", "-", *database, stdin=FLEET).status == 0
    good = covey(tmp_path, "status", "--json", *database)
    assert good.status == 0
    report = json.loads(good.stdout)
    assert (report["hosts"], report["zones"], report["warnings"]) == (3, "az-1 (3)", [])
    away = covey(tmp_path, "status", "--database", "postgresql://u:sesame@127.0.0.1:1/covey?password=sesame")
    assert away.status == 1
    assert "Cannot use the database: connection failed" in away.stdout
    assert "sesame" not in away.stdout + away.stderr


def test_config_sample_is_complete_and_usable(tmp_path: Path) -> None:
    sample = covey(tmp_path, "config", "sample")
    assert sample.status == 0, sample.stderr
    sections = re.split(r"^\[(\w+)\]$", sample.stdout, flags=re.MULTILINE)
    texts = dict(zip(sections[1::2], sections[2::2], strict=True))
    for group, options in config.OPTIONS.items():
        missing = [option.dest for option in options if f"#{option.dest} =" not in texts[group.name]]
        assert missing == []
    file = tmp_path / "covey.conf"
    file.write_text(sample.stdout)
    assert config.load([str(file)]).api.auth_strategy == "basic"
    file.write_text(sample.stdout.replace("#max_limit = 1000", "max_limit = 7"))
    assert config.load([str(file)]).api.max_limit == 7
    with pytest.raises(cfg.NoSuchOptError):
        _ = config.load([str(file)]).api.nonsense


def test_policy_sample_is_complete(tmp_path: Path) -> None:
    sample = covey(tmp_path, "policy", "sample")
    assert sample.status == 0, sample.stderr
    uncommented = re.sub(r'^#(?=")', "", sample.stdout, flags=re.MULTILINE)
    assert yaml.safe_load(uncommented) == {rule.name: rule.check for rule in RULES}
    assert yaml.safe_load(sample.stdout) is None
