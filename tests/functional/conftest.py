"""The real application in process, tested through its API."""

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
import sqlalchemy as sa
from falcon.routing import CompiledRouter
from oslo_policy import policy

from covey import access, bootstrap
from covey.api import app
from covey.api.compute.openapi import document
from covey.bootstrap import Settings
from covey.model.hosts import NewHost
from covey.storage import engine
from covey.storage.store import Store
from covey.storage.tables import metadata
from tests.build import NOW, a_host
from tests.databases import PostgreSQL
from tests.functional.client import Client, Service
from tests.functional.fleets import build_cloud, cloud, module_cloud  # noqa: F401 -- fixtures

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

AddHosts = Callable[..., None]
Route = tuple[str, object, str | None]


class Build(Protocol):
    """Builds the application with the options of a test, on the test's database."""

    def __call__(self, *overrides: tuple[str, str, object], only_api: str | None = None) -> Service: ...


@pytest.fixture(scope="session", autouse=True)
def parsed_rules() -> Iterator[None]:
    """Parse the access rules once a session, since nearly every test builds an application."""
    rules = access.list_rules()

    def register(enforcer: policy.Enforcer, _: object) -> None:
        enforcer.registered_rules |= {rule.name: copy.copy(rule) for rule in rules}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(access, "list_rules", lambda: rules)
        patch.setattr(policy.Enforcer, "register_defaults", register)
        yield


@dataclass
class LazyApi:
    """An API that is built at its first use: most tests use one of several."""

    build: Callable[[], "WSGIApplication"]

    @cached_property
    def app(self) -> "WSGIApplication":
        return self.build()

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        return self.app(environ, start_response)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.app, name)


@pytest.fixture(scope="session", autouse=True)
def lazy_apis() -> Iterator[None]:
    """Build only the APIs that a test uses, since nearly every test builds an application."""

    def lazy(builder: Callable[..., "WSGIApplication"]) -> Callable[..., LazyApi]:
        return lambda *arguments: LazyApi(partial(builder, *arguments))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "_BUILDERS", {name: lazy(builder) for name, builder in app._BUILDERS.items()})
        for name in ("_dashboard", "_identity"):
            patch.setattr(app, name, lazy(getattr(app, name)))
        patch.setattr(document, "document", _once_for_equal_routes(document.document))
        # Falcon inspects every responder; real processes let it.
        patch.setattr(CompiledRouter, "_require_non_coroutine_responders", lambda *_: None)
        yield


def _once_for_equal_routes(build: Callable[[list[Route], str], Any]) -> Callable[[list[Route], str], Any]:
    """Build the OpenAPI document once: it depends on the classes of the resources only."""
    built: dict[object, Any] = {}

    def find_or_build(routes: list[Route], url: str) -> Any:
        key = url, *((path, type(resource), suffix) for path, resource, suffix in routes)
        if key not in built:
            built[key] = build(routes, url)
        return built[key]

    return find_or_build


@pytest.fixture(scope="session")
def resettable_database(postgresql_server: PostgreSQL) -> Iterator["ResettableDatabase"]:
    with postgresql_server.fresh() as url:
        yield ResettableDatabase(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """For speed, a PostgreSQL database is emptied after each test instead of recreated."""
    if request.param == "sqlite":
        with request.getfixturevalue("sqlite_server").fresh(tmp_path) as url:
            yield url
    else:
        resettable: ResettableDatabase = request.getfixturevalue("resettable_database")
        yield resettable.url
        resettable.empty()


class ResettableDatabase:
    """A PostgreSQL database that can be reset to its initial state."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine = engine.connect(url)
        self._tables = metadata.sorted_tables
        with self._engine.begin() as connection:
            self._first = [connection.execute(sa.select(table)).mappings().all() for table in self._tables]

    def empty(self) -> None:
        with self._engine.begin() as connection:
            connection.execute(_OTHERS_OUT)
            # One round trip. setval() keeps the file of a sequence; ALTER SEQUENCE ... RESTART creates another.
            emptied = [str(sa.delete(table)) for table in reversed(self._tables)]
            numbered = "SELECT setval(oid, 1, false) FROM pg_class WHERE relkind = 'S'"
            connection.exec_driver_sql("; ".join([*emptied, numbered]))
            for table, rows in zip(self._tables, self._first, strict=True):
                if rows:
                    connection.execute(sa.insert(table), [dict(row) for row in rows])


_OTHERS_OUT = sa.text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


@pytest.fixture
def service(database: str, tmp_path: Path) -> Service:
    """All APIs, on an empty database, with auth_strategy=none."""
    return Service(_build(database, tmp_path))


@pytest.fixture
def build(database: str, tmp_path: Path) -> Build:
    """Builds the service with other options, or with one API only."""

    def built(*overrides: tuple[str, str, object], only_api: str | None = None) -> Service:
        return Service(_build(database, tmp_path, *overrides, only_api=only_api))

    return built


@pytest.fixture
def admin(service: Service) -> Client:
    return service.as_("admin:operators")


@pytest.fixture
def alice(service: Service) -> Client:
    """An ordinary member of the project web."""
    return service.as_("alice:web")


@pytest.fixture
def add_hosts(store: Store) -> AddHosts:
    """Adds hosts to the fleet; no API request can."""

    def add(*new: str | NewHost) -> None:
        with store.write() as tx:
            tx.hosts.add([a_host(host) if isinstance(host, str) else host for host in new], NOW)

    return add


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def module_database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One database of each kind for a whole module, whose tests do not change it."""
    if request.param == "sqlite":
        with request.getfixturevalue("sqlite_server").fresh(tmp_path_factory.mktemp("module")) as url:
            yield url
    else:
        with request.getfixturevalue("postgresql_server").fresh() as url:
            yield url


@pytest.fixture(scope="module")
def module_service(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Service:
    """The service on the module's database, for long parameter tables."""
    return Service(_build(module_database, tmp_path_factory.mktemp("module")))


def _build(
    database: str, directory: Path, *overrides: tuple[str, str, object], only_api: str | None = None
) -> bootstrap.Application:
    policy = directory / "policy.yaml"
    policy.touch()
    options = [
        ("database", "connection", database),
        ("api", "auth_strategy", "none"),
        ("oslo_policy", "policy_file", str(policy)),
        ("log", "level", "error"),
        *overrides,  # the last value of an option applies
    ]
    # A file for each test: overrides in the process would outlive the test.
    written = directory / "covey.conf"
    written.write_text("".join(f"[{group}]\n{option} = {value}\n" for group, option, value in options))
    return bootstrap.wsgi(Settings(config_files=(str(written),), only_api=only_api))
