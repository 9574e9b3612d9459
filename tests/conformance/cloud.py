"""The cloud of Tempest's suites: a real Keystone beside `covey serve`, with users for the test processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.keystone import DOMAIN, REGION, Keystone, running_keystone
from tests.acceptance.processes import running_covey
from tests.databases import PostgreSQL, SQLite

_COVEY = "[api]\nauth_strategy = keystone\n{quota}\n[keystone_authtoken]\n{authtoken}\n"
_TEMPEST = """\
[DEFAULT]
log_file = {directory}/tempest.log

[oslo_concurrency]
lock_path = {directory}

[identity]
uri_v3 = {auth_url}
region = {region}
default_domain_id = {domain}

"""


@dataclass(frozen=True)
class Cloud:
    """A running cloud. Covey's log is in `directory / "covey"`."""

    directory: Path
    url: str
    keystone: Keystone

    def configure(self, options: str) -> Path:
        """Write tempest.conf with these further options, and return its path."""
        config = self.directory / "tempest.conf"
        common = _TEMPEST.format(
            directory=self.directory, auth_url=self.keystone.auth_url, region=REGION, domain=DOMAIN
        )
        config.write_text(common + options)
        return config


@contextmanager
def running_cloud(database: str, directory: Path, fleet: str, quota: str = "") -> Iterator[Cloud]:
    """Run a cloud with this fleet file on "sqlite" or "postgresql", for as long as the context lasts."""
    (directory / "keystone").mkdir(parents=True)
    with _connection(database, directory) as connection, running_keystone(directory / "keystone") as keystone:
        authtoken = "\n".join(f"{name} = {value}" for name, value in keystone.authtoken_options().items())
        (directory / "covey.conf").write_text(_COVEY.format(quota=quota, authtoken=authtoken))
        (directory / "fleet.yaml").write_text(fleet)
        files = ("--config-file", str(directory / "covey.conf"), "--fleet", str(directory / "fleet.yaml"))
        with running_covey(directory / "covey", "serve", *files, "--database", connection) as covey:
            keystone.register_service("compute", "covey", f"{covey.url}/compute/v2.1")
            yield Cloud(directory, covey.url, keystone)


@contextmanager
def _connection(name: str, directory: Path) -> Iterator[str]:
    if name == "sqlite":
        with SQLite(directory).fresh(directory) as url:
            yield url
        return
    server = PostgreSQL(directory / "server")
    try:
        with server.fresh() as url:
            yield url
    finally:
        server.stop()
