"""Requests of administrators are forbidden to members, name their rule, and change nothing."""

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from covey.storage import engine
from covey.storage.store import Store
from tests.build import NOW, a_host
from tests.functional.client import Client, Service
from tests.functional.rows import all_rows

pytestmark = pytest.mark.sqlite_only

FLAVOR = {"name": "new", "ram": 1, "vcpus": 1, "disk": 0}
HOST = "6a6e6a4c-5fb3-4d9b-9b5a-3e6b0a1c2d3e"


@pytest.fixture(scope="module")
def connected(module_database: str) -> Iterator[sa.Engine]:
    """The module's database, with one resource of each kind."""
    made = engine.connect(module_database)
    with Store(made).write() as tx:
        tx.hosts.add([a_host("node-1")], NOW)
    yield made
    made.dispose()


@pytest.fixture(scope="module")
def member(module_service: Service, connected: sa.Engine) -> Client:  # noqa: ARG001
    admin = module_service.as_("admin:operators")
    for path, body in (
        ("/os-aggregates", {"aggregate": {"name": "a", "availability_zone": "z"}}),
        ("/os-aggregates/1/action", {"add_host": {"host": "node-1"}}),
        ("/flavors", {"flavor": FLAVOR | {"name": "small", "id": "small", "os-flavor-access:is_public": False}}),
        ("/flavors/small/action", {"addTenantAccess": {"tenant": "web"}}),
        ("/flavors/small/os-extra_specs", {"extra_specs": {"k": "v"}}),
    ):
        assert admin.post(path, body).status == 200
    assert admin.put("/os-quota-sets/web", {"quota_set": {"cores": 5}}).status == 200
    return module_service.as_("alice:web").at("2.87")


def of(rule: str, method: str, path: str, body: Any = None, version: str = "2.87") -> Any:
    about = f" {next(iter(body))}" if isinstance(body, dict) and path.endswith("action") else ""
    return pytest.param(rule, method, path, body, version, id=f"{method} {path}{about} at {version}")


AGGREGATES, FLAVORS, HYPERVISORS = (f"os_compute_api:os-{x}" for x in ("aggregates:", "flavor-", "hypervisors:"))
SERVICES, QUOTAS = "os_compute_api:os-services:", "os_compute_api:os-quota-"
NAMED = {"host": "node-1", "binary": "nova-compute"}

ADMINISTRATORS_ONLY = [
    of(f"{AGGREGATES}index", "GET", "/os-aggregates"),
    of(f"{AGGREGATES}show", "GET", "/os-aggregates/1"),
    of(f"{AGGREGATES}show", "GET", "/os-aggregates/99"),
    of(f"{AGGREGATES}create", "POST", "/os-aggregates", {"aggregate": {"name": "b"}}),
    of(f"{AGGREGATES}update", "PUT", "/os-aggregates/1", {"aggregate": {"name": "b"}}),
    of(f"{AGGREGATES}delete", "DELETE", "/os-aggregates/1"),
    of(f"{AGGREGATES}add_host", "POST", "/os-aggregates/1/action", {"add_host": {"host": "node-1"}}),
    of(f"{AGGREGATES}remove_host", "POST", "/os-aggregates/1/action", {"remove_host": {"host": "node-1"}}),
    of(f"{AGGREGATES}set_metadata", "POST", "/os-aggregates/1/action", {"set_metadata": {"metadata": {"k": "v"}}}),
    of("compute:aggregates:images", "POST", "/os-aggregates/1/images", {"cache": [{"id": HOST}]}),
    of("os_compute_api:os-availability-zone:detail", "GET", "/os-availability-zone/detail"),
    of(f"{FLAVORS}manage:create", "POST", "/flavors", {"flavor": FLAVOR}),
    of(f"{FLAVORS}manage:update", "PUT", "/flavors/small", {"flavor": {"description": "mine"}}),
    of(f"{FLAVORS}manage:delete", "DELETE", "/flavors/small"),
    of(f"{FLAVORS}access", "GET", "/flavors/small/os-flavor-access"),
    of(f"{FLAVORS}access:add_tenant_access", "POST", "/flavors/small/action", {"addTenantAccess": {"tenant": "x"}}),
    of(
        f"{FLAVORS}access:remove_tenant_access",
        "POST",
        "/flavors/small/action",
        {"removeTenantAccess": {"tenant": "web"}},
    ),
    of(f"{FLAVORS}extra-specs:create", "POST", "/flavors/small/os-extra_specs", {"extra_specs": {"k": "w"}}),
    of(f"{FLAVORS}extra-specs:update", "PUT", "/flavors/small/os-extra_specs/k", {"k": "w"}),
    of(f"{FLAVORS}extra-specs:delete", "DELETE", "/flavors/small/os-extra_specs/k"),
    of(f"{HYPERVISORS}list", "GET", "/os-hypervisors"),
    of(f"{HYPERVISORS}list-detail", "GET", "/os-hypervisors/detail"),
    of(f"{HYPERVISORS}show", "GET", f"/os-hypervisors/{HOST}"),
    of(f"{HYPERVISORS}statistics", "GET", "/os-hypervisors/statistics"),
    of(f"{HYPERVISORS}uptime", "GET", f"/os-hypervisors/{HOST}/uptime"),
    of(f"{HYPERVISORS}search", "GET", "/os-hypervisors/node/search", None, "2.52"),
    of(f"{HYPERVISORS}servers", "GET", "/os-hypervisors/node/servers", None, "2.52"),
    of(f"{SERVICES}list", "GET", "/os-services"),
    of(f"{SERVICES}update", "PUT", f"/os-services/{HOST}", {"status": "disabled"}),
    of(f"{SERVICES}update", "PUT", "/os-services/disable", NAMED, "2.1"),
    of(f"{SERVICES}update", "PUT", "/os-services/force-down", NAMED | {"forced_down": True}, "2.11"),
    of(f"{SERVICES}delete", "DELETE", "/os-services/1", None, "2.1"),
    of(f"{SERVICES}delete", "DELETE", f"/os-services/{HOST}"),
    of(f"{QUOTAS}sets:show", "GET", "/os-quota-sets/mail"),
    of(f"{QUOTAS}sets:detail", "GET", "/os-quota-sets/mail/detail"),
    of(f"{QUOTAS}sets:update", "PUT", "/os-quota-sets/web", {"quota_set": {"cores": 99}}),
    of(f"{QUOTAS}sets:update", "PUT", "/os-quota-sets/mail", {"quota_set": {"cores": 99}}),
    of(f"{QUOTAS}sets:delete", "DELETE", "/os-quota-sets/web"),
    of(f"{QUOTAS}class-sets:show", "GET", "/os-quota-class-sets/default"),
    of(f"{QUOTAS}class-sets:update", "PUT", "/os-quota-class-sets/default", {"quota_class_set": {"cores": 99}}),
    of("os_compute_api:limits:other_project", "GET", "/limits?tenant_id=mail"),
    of("os_compute_api:os-keypairs:index", "GET", "/os-keypairs?user_id=bob"),
    of("os_compute_api:os-keypairs:show", "GET", "/os-keypairs/k?user_id=bob"),
    of("os_compute_api:os-keypairs:create", "POST", "/os-keypairs", {"keypair": {"name": "k", "user_id": "bob"}}),
    of("os_compute_api:os-keypairs:delete", "DELETE", "/os-keypairs/k?user_id=bob"),
]


@pytest.mark.parametrize(("rule", "method", "path", "body", "version"), ADMINISTRATORS_ONLY)
def test_forbidden_names_the_rule(
    member: Client, connected: sa.Engine, rule: str, method: str, path: str, body: Any, version: str
) -> None:
    before = all_rows(connected)
    path, _, query = path.partition("?")
    answer = member.at(version).ask(method, path, json=body, query_string=query)
    fault = {"code": 403, "message": f"Policy doesn't allow {rule} to be performed."}
    assert (answer.status, answer.json) == (403, {"forbidden": fault})
    assert all_rows(connected) == before


@pytest.mark.parametrize("roles", ["member", "reader", "manager", "service", ""])
def test_only_the_admin_role_is_allowed(module_service: Service, member: Client, roles: str) -> None:  # noqa: ARG001
    assert module_service.as_("alice:web").sending(X_Roles=roles).get("/os-aggregates").status == 403


def test_invalid_body_is_reported_first(member: Client) -> None:
    assert member.post("/os-aggregates", {"aggregate": {}}).status == 400


@pytest.mark.parametrize(
    "path",
    [
        *("/flavors", "/flavors/detail", "/flavors/small", "/flavors/small/os-extra_specs"),
        *("/flavors/small/os-extra_specs/k", "/os-availability-zone", "/limits", "/os-quota-sets/web"),
        *("/os-quota-sets/web/detail", "/os-quota-sets/web/defaults", "/os-keypairs", "/extensions"),
    ],
)
def test_members_read_their_own_resources(member: Client, path: str) -> None:
    assert member.get(path).status == 200
