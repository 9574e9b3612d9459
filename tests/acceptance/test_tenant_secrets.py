"""Responses of a real server to a tenant reveal nothing about the structure of the cloud."""

import http.client
import itertools
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import create_autospec

import falcon.inspect
import pytest
import sqlalchemy as sa

from covey.api import app
from covey.api.requests import BodyReads
from covey.storage import tables
from tests.acceptance import storm
from tests.acceptance.invariants import read
from tests.build import NOW
from tests.databases import SQLite
from tests.functional.test_no_leaks import GROUP_ACTIONS, QUERIES, SERVER_ACTIONS

HOSTS = [f"zz-secret-host-{number}" for number in range(1, 7)]
DOMAINS = {
    76543201: ("zz-secret-rack-a", "76543201-0000-4000-8000-feedfacecafe", "rack", HOSTS[:3]),
    76543202: ("zz-secret-rack-b", "76543202-0000-4000-8000-feedfacecafe", "rack", HOSTS[3:]),
    76543211: ("zz-secret-zone-a", "76543211-0000-4000-8000-feedfacecafe", "zone", HOSTS[:2]),
    76543212: ("zz-secret-zone-b", "76543212-0000-4000-8000-feedfacecafe", "zone", HOSTS[2:]),
}
NAMESPACES = {"rack": "a4ecc44e-0000-4000-8000-feedfacecafe", "zone": "b4ecc44e-0000-4000-8000-feedfacecafe"}
FLEET = f"""
hosts:
  - name: [{", ".join(HOSTS)}]
    vcpus: 16
    memory_mb: 65536
    disk_gb: 1000
flavors:
  - {{name: small, id: small, vcpus: 1, memory_mb: 512, disk_gb: 1}}
  - {{name: giant, id: giant, vcpus: 999, memory_mb: 512, disk_gb: 1}}
"""
UNKNOWN_ID = "99999999-aaaa-bbbb-cccc-999999999999"
# Drivers fail at random, with the host name in the error.
VARIABLES = storm.settings(
    storm.UNLIMITED, DRIVER__FAILURE_RATE="0.3", DRIVER__SEED="5", WORKER__POLL_INTERVAL_S="0.05"
)
COMPUTE = "/compute/v2.1"
ROLES = ("reader", "member", "manager")
RAW = ("{", "[]", "null", '"text"', "\x00", '{"server": {"name": "n", "name": 1}}')


@dataclass
class Tenant:
    """A tenant that searches every response for secrets."""

    port: int
    secrets: frozenset[str]
    role: str = "member"
    statuses: Counter[int] = field(default_factory=Counter)
    leaks: list[str] = field(default_factory=list)

    def ask(self, method: str, path: str, body: object = None, *, raw: str | None = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=storm.ANSWER_TIMEOUT_S)
        headers = {
            "X-Auth-Token": "alice:web",
            "X-Roles": self.role,
            "OpenStack-API-Version": "compute 2.1000",
            "Content-Type": "application/json",
        }
        text = raw if raw is not None else None if body is None else json.dumps(body)
        try:
            connection.request(method, path, text, headers)
            response = connection.getresponse()
            content = response.read().decode()
        finally:
            connection.close()
        self.check(f"{method} {path} {text}", response.status, f"{response.reason}\n{response.headers}\n{content}")
        return json.loads(content) if content and "json" in response.headers.get("Content-Type", "") else content

    def check(self, what: str, status: int, content: str) -> None:
        self.statuses[status] += 1
        found = sorted(secret for secret in self.secrets if secret in content.lower())
        if found or status >= 500:
            self.leaks.append(f"{what}: {status}, {found}: {content}")


@dataclass
class Site:
    """A running service with unique secrets, and the keys of its resources."""

    port: int
    rows: sa.Engine
    admin: storm.Client
    secrets: frozenset[str]
    keys: dict[str, list[str]]

    def settle(self) -> None:
        storm.wait_until_idle(self.rows)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, sqlite_server: SQLite) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("secrets")
    with sqlite_server.fresh(directory) as database:
        storm.apply_fleet(directory, database, FLEET)
        rows = storm.connect(database)
        with rows.begin() as connection:  # with unique ids
            new = [
                {"id": n, "uuid": uuid, "name": name, "created_at": NOW} for n, (name, uuid, _, _) in DOMAINS.items()
            ]
            connection.execute(sa.insert(tables.aggregates), new)
        with storm.serving(directory, database, 1, VARIABLES) as (service,):
            admin = storm.Client([service.port])
            _create_topology(admin)
            hosts = admin.ask("GET", f"{COMPUTE}/os-hypervisors").json["hypervisors"]
            domains = {text for name, uuid, _, _ in DOMAINS.values() for text in (name, uuid)} | set(map(str, DOMAINS))
            own = {*HOSTS, *NAMESPACES.values(), *domains, *(host["id"] for host in hosts)}
            found = Site(
                service.port,
                rows,
                admin,
                frozenset(own | _create_other_project(storm.Client([service.port], "db"))),
                {},
            )
            _populate(found)
            yield found
            admin.close()
        rows.dispose()


def _create_topology(admin: storm.Client) -> None:
    for name, namespace in NAMESPACES.items():
        scope = {"name": name, "allow_identifiers": name == "zone", "obfuscate_identifiers": True}
        body = {"policy_scope": scope | {"obfuscate_namespace_uuid": namespace}}
        assert admin.ask("POST", f"{COMPUTE}/os-policy-scopes", body).status == 200
    for number, (_, _, scope_name, hosts) in DOMAINS.items():
        for host in hosts:
            action = {"add_host": {"host": host}}
            assert admin.ask("POST", f"{COMPUTE}/os-aggregates/{number}/action", action).status == 200
        joining = {"add_aggregate": {"aggregate": number}}
        assert admin.ask("POST", f"{COMPUTE}/os-policy-scopes/{scope_name}/action", joining).status == 200


def _create_other_project(bob: storm.Client) -> set[str]:
    """Create resources of another project; return their ids and its identifiers of zones, which are secrets too."""
    server = bob.ask("POST", f"{COMPUTE}/servers", storm.boot_body("zz-secret-server")).json["server"]["id"]
    group = bob.ask("POST", f"{COMPUTE}/os-server-groups", storm.group_body(["affinity"], {})).json["server_group"][
        "id"
    ]
    zones = bob.ask("GET", f"{COMPUTE}/os-policy-scopes/zone?as_tenant_id=db").json["policy_scope"]["aggregates"]
    bob.close()
    return {server, group, "zz-secret-server", *(zone["obfuscated_group_id"] for zone in zones)}


def _populate(site: Site) -> None:
    """Create groups of the tenant, and servers with various histories."""
    zones = site.admin.ask("GET", f"{COMPUTE}/os-policy-scopes/zone?as_tenant_id=web").json["policy_scope"]
    zone = zones["aggregates"][0]
    wanted = (["anti-affinity:rack"], [f"affinity:zone:{zone['group_id']}"], ["affinity", "soft-anti-affinity:zone"])
    made = [site.admin.ask("POST", f"{COMPUTE}/os-server-groups", storm.group_body(w, {})) for w in wanted]
    groups = [answer.json["server_group"]["id"] for answer in made]
    for i, group in enumerate([*groups, groups[0], groups[0], None]):
        for more in ({}, {"flavorRef": "giant"}, {"min_count": 2, "max_count": 3}):
            site.admin.ask("POST", f"{COMPUTE}/servers", storm.boot_body(f"s{i}", group=group, **more))
    site.settle()
    mine = [row.id for row in read(site.rows).servers if row.project_id == "web"]
    for i, server in enumerate(mine):
        live = {"os-migrateLive": {"host": None, "block_migration": "auto"}}
        body: Any = ({"migrate": None}, live, {"shelve": None}, {"evacuate": {}})[i % 4]
        site.admin.ask("POST", f"{COMPUTE}/servers/{server}/action", body)
    site.settle()
    change = {"server_group": {"policies": ["anti-affinity:rack", "anti-affinity"]}}
    assert site.admin.ask("PUT", f"{COMPUTE}/os-server-groups/{groups[2]}", change).status == 200
    site.admin.ask("POST", f"{COMPUTE}/os-server-groups/{groups[2]}/action", {"rebalance": {}})
    site.settle()
    site.keys = {
        "servers": [*mine, UNKNOWN_ID],
        "os-server-groups": [*groups, UNKNOWN_ID],
        "os-policy-scopes": ["rack", "zone", "host", UNKNOWN_ID],
        "flavors": ["small", "none"],
        "os-quota-sets": ["web", "db"],
        "os-aggregates": ["1"],
    }


def routes(api: str = "compute") -> list[tuple[str, str]]:
    """Return every route of an API with its methods, found by inspection."""
    settings = app.ApiSettings(9, 9, "n")
    parts = create_autospec(
        app.AppParts, instance=True, projects=None, cors=None, settings=settings, bodies=BodyReads()
    )
    mounted: Any = app.build(parts)
    return [
        (route.path, method.method)
        for route in falcon.inspect.inspect_routes(mounted._below[api].__wrapped__)
        for method in route.methods
        if not method.internal
    ]


def _paths(route: str, keys: dict[str, list[str]]) -> Iterator[str]:
    first = next(iter(route.removeprefix("/v2.1/").split("/")))
    names = [part[1:-1] for part in route.split("/") if part.startswith("{")]
    for chosen in itertools.product(*(keys.get(first, [UNKNOWN_ID]) if name == "key" else ["x"] for name in names)):
        yield "/compute" + route.format(**dict(zip(names, chosen, strict=True)))


def _bodies(route: str, site: Site) -> list[Any]:
    groups, servers = site.keys["os-server-groups"], site.keys["servers"]
    policies = (["anti-affinity:rack"], ["affinity:zone"], ["affinity:zone:1"], ["affinity:rack:1"], ["affinity:x"])
    changes = [storm.group_body(wanted, {}) for wanted in policies]
    members = [{verb: {"instance_id": s}} for verb in ("add_instance", "remove_instance") for s in servers[-3:]]
    known: dict[str, list[Any]] = {
        "/servers": [
            storm.boot_body("n", flavor, group) for flavor in ("small", "giant", "none") for group in (*groups, None)
        ],
        "/servers/{key}/action": [body for body in SERVER_ACTIONS if "forceDelete" not in body],
        "/os-server-groups": changes,
        "/os-server-groups/{key}": changes,
        "/os-server-groups/{key}/action": [*GROUP_ACTIONS, *members],
        "/os-placement-explain": [{"explain": {"flavor": "small"}}, {"explain": {"flavor": "giant"}}],
        "/os-policy-scopes/{key}/action": [{"add_aggregate": {"aggregate": 1}}],
    }
    return [*known.get(route.removeprefix("/v2.1"), []), {}]


def _read_everything(tenant: Tenant, site: Site) -> None:
    """Request everything that can be read, with every query."""
    for route, method in routes():
        queries = ["", *QUERIES.get(route.removeprefix("/v2.1"), []), "surprise=1"]
        for path, query in itertools.product(_paths(route, site.keys), queries) if method == "GET" else ():
            tenant.ask("GET", f"{path}?{query}" if query else path)
    for server in site.keys["servers"][:-1]:
        path = f"{COMPUTE}/servers/{server}/os-instance-actions"
        for action in tenant.ask("GET", path)["instanceActions"]:
            tenant.ask("GET", f"{path}/{action['request_id']}")


@pytest.mark.parametrize("role", ROLES)
def test_responses_to_a_tenant_contain_no_secret(site: Site, role: str) -> None:
    tenant = Tenant(site.port, site.secrets, role)
    _read_everything(tenant, site)
    for route, method in routes():
        # No DELETE, and no forceDelete: later tests need the resources.
        for path in _paths(route, site.keys) if method in {"POST", "PUT"} else ():
            for body in _bodies(route, site):
                tenant.ask(method, path, body)
        site.settle()
    _read_everything(tenant, site)
    assert tenant.leaks == []
    assert tenant.statuses.keys() >= {200, 400, 403, 404} | ({202, 409} if role != "reader" else set())


@pytest.mark.parametrize("role", ROLES)
def test_dashboard_responses_contain_no_secret(site: Site, role: str) -> None:
    tenant = Tenant(site.port, site.secrets, role)
    keys = {"data": [*site.keys["servers"], *site.keys["os-server-groups"]]}
    for route, method in routes("dashboard"):
        queries = ["seconds=0"] if route == "/events" else ["", "scope=host", "scope=rack", "scope=zone", "limit=x"]
        bodies = (
            [{}, {"policies": ["anti-affinity:rack"]}, {"policies": ["affinity:zone:1"]}]
            if method == "POST"
            else [None]
        )
        paths = (path.removeprefix("/compute") for path in _paths(route, keys))
        for path, query, body in itertools.product(paths, queries, bodies):
            tenant.ask(method, f"/dashboard{path}?{query}" if query else f"/dashboard{path}", body)
    assert tenant.leaks == []
    assert tenant.statuses.keys() >= {200, 400, 403, 404}


def test_errors_contain_no_secret(site: Site) -> None:
    tenant = Tenant(site.port, site.secrets)
    for route, method in routes():
        path = next(_paths(route, site.keys))
        for raw in RAW if method in {"POST", "PUT"} else ():
            tenant.ask(method, path, raw=raw)
        for failures in ("PATCH", "OPTIONS", "HEAD"):
            tenant.ask(failures, path)
        tenant.ask(method, f"{path}/further/still")
        tenant.ask("GET", f"{path}?limit=x&marker={UNKNOWN_ID}&sort_key=host&%ff=%00")
    for path in ("/", "/healthcheck", "/metrics", "/image/v2/images", "/identity/v3/projects", "/compute/", "/nothing"):
        tenant.ask("GET", path)
    assert tenant.leaks == []
    assert tenant.statuses.keys() >= {300, 400, 404}


def test_operator_sees_real_identifiers(site: Site) -> None:
    """Proves that the other tests can detect the secrets."""
    operator = Tenant(site.port, site.secrets, "admin")
    paths = ("servers/detail?all_tenants=1", "os-policy-scopes?as_tenant_id=db", "os-server-groups?all_projects=1")
    for path in (*paths, "os-hypervisors"):
        operator.ask("GET", f"{COMPUTE}/{path}")
    assert {secret for secret in site.secrets if not any(secret in leak for leak in operator.leaks)} == set()


def test_deleted_objects_reveal_no_secret(site: Site) -> None:
    tenant = Tenant(site.port, site.secrets)
    for route, method in routes():
        for path in _paths(route, site.keys) if method == "DELETE" else ():
            tenant.ask("DELETE", path)
    for path in ("servers/detail", "servers/detail?deleted=true", "os-server-groups"):
        tenant.ask("GET", f"{COMPUTE}/{path}")
    assert tenant.leaks == []
    assert tenant.statuses.keys() >= {204, 403, 404}
