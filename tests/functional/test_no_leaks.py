"""No response to a tenant discloses a host, an aggregate, or a resource of another project."""

import itertools
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import falcon.inspect
import pytest
import sqlalchemy as sa

from covey.api.compute.server_schemas import ACTIONS
from covey.model.ids import AggregateId, ScopeId
from covey.model.scopes import Scope
from covey.storage import tables
from tests.build import NOW, a_host
from tests.functional.client import Answer, Client
from tests.functional.fleets import IMAGE, UNKNOWN_ID, BuildCloud, Cloud, FailingDriver
from tests.functional.scopes import surrogate
from tests.functional.streams import listening

pytestmark = pytest.mark.sqlite_only

HOSTS = [f"xq-host-{number}7f3a" for number in range(1, 6)]
RACKS = {
    98765401: ("xq-rack-0ne", HOSTS[:2]),
    98765402: ("xq-rack-tw0", HOSTS[2:4]),
    98765403: ("xq-rack-3", HOSTS[4:]),
}
ZONES = {98765411: ("xq-zone-0ne", HOSTS[:3]), 98765412: ("xq-zone-tw0", HOSTS[3:])}
LIVE = {"host": None, "block_migration": "auto"}
PREFIX = "/v2.1"


@dataclass
class Walk:
    """A tenant that sends every request, and a list of secrets that no response may contain."""

    cloud: Cloud
    secrets: set[str]
    servers: list[str]
    groups: list[str]
    keys: dict[str, list[str]]
    asked: set[tuple[str, str]] = field(default_factory=set)
    statuses: set[int] = field(default_factory=set)

    def check(self, what: str, answer: Answer) -> None:
        self.statuses.add(answer.status)
        assert answer.status < 500, f"{what}: {answer.text}"
        received = "\n".join([answer.text, *answer.headers, *answer.headers.values()])
        self.search(f"{what} answers {answer.status}", received)

    def search(self, what: str, received: str) -> None:
        found = [secret for secret in self.secrets if secret in received]
        assert not found, f"{what} with {found}: {received}"

    def ask(self, client: Client, route: str, method: str, body: Any = None, query: str = "") -> None:
        """Request one route with each possible key."""
        self.asked.add((route, method))
        for path in self._paths(route):
            answer = client.ask(method, path, json=body, query_string=query)
            self.check(f"{method} {path}?{query} {body}", answer)

    def _paths(self, route: str) -> Iterator[str]:
        first = route.split("/")[1]
        names = [part[1:-1] for part in route.split("/") if part.startswith("{")]
        values = [self.keys[first] if name == "key" else self.keys.get(name, ["x"]) for name in names]
        for chosen in itertools.product(*values):
            yield route.format(**dict(zip(names, chosen, strict=True)))


@pytest.fixture
def walk(build_cloud: BuildCloud) -> Walk:
    failing_driver = FailingDriver(hosts={HOSTS[4]})
    cloud = build_cloud([a_host(name) for name in HOSTS], driver=failing_driver)
    secrets = {*HOSTS, *_add_scope(cloud, "rack", RACKS), *_add_scope(cloud, "zone", ZONES, allow=True)}
    with cloud.store.read() as tx:
        secrets |= {host.uuid for host in tx.hosts.find()}
    cloud.set_quota(instances=-1, cores=-1, ram=-1)
    bobs = cloud.boot(cloud.bob, name="xq-bobs")
    bobs_group = cloud.group("anti-affinity", client=cloud.bob)
    zone = surrogate(cloud, "zone", "web", "98765411")
    groups = [
        cloud.group("anti-affinity:rack", "soft-affinity", f"soft-affinity:zone:{zone}"),
        cloud.group(f"affinity:zone:{zone}", "anti-affinity"),
        cloud.group("affinity"),
    ]
    return Walk(
        cloud,
        secrets | {bobs, bobs_group, "xq-bobs", *_zones_of_bob(cloud)},
        _servers(cloud, failing_driver, groups),
        groups,
        {},
    )


def _zones_of_bob(cloud: Cloud) -> set[str]:
    return {surrogate(cloud, "zone", "db", str(real)) for real in ZONES}


def _add_scope(cloud: Cloud, name: str, domains: dict[int, tuple[str, list[str]]], *, allow: bool = False) -> set[str]:
    """Create a scope whose domains have unique ids, and return the secrets of it."""
    scope = Scope(ScopeId(str(uuid.uuid4())), name, allow, obfuscate_identifiers=True, namespace_uuid=str(uuid.uuid4()))
    uuids = {number: str(uuid.uuid4()) for number in domains}
    with cloud.store.write() as tx:
        tx.scopes.add([scope])
    rows = [
        {"id": number, "uuid": uuids[number], "name": called, "scope_id": scope.id, "created_at": NOW}
        for number, (called, _) in domains.items()
    ]
    with cloud.connection.begin() as connection:
        connection.execute(sa.insert(tables.aggregates), rows)
    with cloud.store.write() as tx:
        known = {host.name: host.id for host in tx.hosts.find()}
        pairs = [(AggregateId(number), known[host]) for number, (_, hosts) in domains.items() for host in hosts]
        tx.aggregates.add_hosts(pairs, NOW)
    names = {called for called, _ in domains.values()}
    return {scope.namespace_uuid, *uuids.values(), *map(str, domains), *names}


def _servers(cloud: Cloud, failing_driver: FailingDriver, groups: Sequence[str]) -> list[str]:
    """Create servers in various states, with various histories."""
    apart, targeted, together = groups
    servers = [cloud.boot(group=apart) for _ in range(4)]  # one of them was rescheduled from the failing host
    servers += [cloud.boot_on(HOSTS[0], apart), cloud.boot(group=targeted), cloud.boot(group=together)]
    servers.append(cloud.boot(flavorRef="giant"))
    failing_driver.hosts = set(HOSTS)
    servers.append(cloud.boot(name="starts-nowhere"))
    failing_driver.hosts = set()
    moved, failed, shelved, evacuated, moving = (cloud.boot() for _ in range(5))
    cloud.run_action(cloud.admin, moved, "migrate")
    failing_driver.verbs = {"live", "move", "reboot"}
    cloud.run_action(cloud.admin, failed, "os-migrateLive", LIVE)
    cloud.run_action(cloud.admin, failed, "migrate")
    cloud.run_action(cloud.alice, failed, "reboot", {"type": "HARD"})
    failing_driver.verbs = set()
    cloud.run_action(cloud.alice, shelved, "shelve")
    home = cloud.host(evacuated)
    assert home is not None
    cloud.set_down(home)
    cloud.run_action(cloud.admin, evacuated, "evacuate", {})
    cloud.set_down(home, down=False)
    cloud.act(cloud.admin, moving, "migrate")
    return [*servers, moved, failed, shelved, evacuated, moving]


def _routes(cloud: Cloud) -> list[tuple[str, str]]:
    """Return every route of the Compute API and its methods."""
    compute = cloud.service.app._below["compute"].__wrapped__  # by inspection, so that new routes are included
    found = [
        (route.path.removeprefix(PREFIX), method.method)
        for route in falcon.inspect.inspect_routes(compute)
        for method in route.methods
        if route.path.startswith(f"{PREFIX}/") and not method.internal
    ]
    assert {method for _, method in found} == {"GET", "POST", "PUT", "DELETE"}
    return found


GROUP_ACTIONS: list[dict[str, Any]] = [
    *({verb: {"flavor": size, "count": 9}} for verb in ("preview",) for size in ("small", "whole", "giant", "none")),
    *({"headroom": {"flavor": size}} for size in ("small", "giant")),
    {"preview": {"flavor": "small", "availability_zone": "moon"}},
    {"preview": {"flavor": "small", "image": UNKNOWN_ID}},
    {"rebalance": {"dry_run": True}},
    {"rebalance": {}},
    {"explode": {}},
    {},
]
SERVER_ACTIONS: list[dict[str, Any]] = [
    *({name: None} for name in ACTIONS),
    *({"resize": {"flavorRef": size}} for size in ("big", "giant", "none")),
    {"reboot": {"type": "SOFT"}},
    {"os-migrateLive": LIVE},
    {"os-migrateLive": {"host": "elsewhere", "block_migration": "auto"}},
    {"migrate": {"host": "elsewhere"}},
    {"evacuate": {}},
    {"evacuate": {"host": "elsewhere"}},
    {"lock": {"locked_reason": "mine"}},
    {"unlock": None},
    {"unshelve": {"availability_zone": "moon"}},
    {"unshelve": {"host": "elsewhere"}},
    {"os-resetState": {"state": "error"}},
    {"explode": {}},
]
QUERIES = {
    "/servers/detail": ["host=elsewhere", "all_tenants=1", "status=ERROR", f"marker={UNKNOWN_ID}", "name=["],
    "/servers": ["all_tenants=1", "sort_key=host", "limit=1"],
    "/os-server-groups": ["all_projects=1", "limit=1"],
    "/os-server-groups/{key}/audit": ["violations=true", "violations=nonsense"],
    "/os-policy-scopes": ["as_tenant_id=db"],
    "/os-policy-scopes/{key}": ["as_tenant_id=db"],
    "/os-migrations": ["instance_uuid=" + UNKNOWN_ID],
    "/limits": ["tenant_id=db"],
    "/os-hypervisors": ["with_servers=true"],
}


def _bodies(route: str, walk: Walk) -> list[Any]:
    zone = surrogate(walk.cloud, "zone", "web", "98765412")
    policies = [["anti-affinity:rack"], [f"affinity:zone:{zone}", f"soft-affinity:zone:{zone}"], ["affinity:zone:1"]]
    groups: list[Any] = [{"server_group": {"name": "n", "policies": wanted}} for wanted in policies]
    server = {"name": "n", "flavorRef": "small", "imageRef": IMAGE, "networks": "none"}
    server_creation: list[Any] = [
        {"server": server | more, "os:scheduler_hints": hints}
        for more in ({}, {"flavorRef": "giant"}, {"availability_zone": "nova:elsewhere"}, {"host": "elsewhere"})
        for hints in ({}, {"group": walk.groups[0]}, {"group": UNKNOWN_ID}, {"different_host": walk.servers[:3]})
    ]
    members = [
        {verb: {"instance_id": member} | more}
        for member in (*walk.servers, UNKNOWN_ID)
        for verb, more in (("add_instance", {"enforce": True}), ("add_instance", {}), ("remove_instance", {}))
    ]
    known = {
        "/servers": server_creation,
        "/servers/{key}/action": SERVER_ACTIONS,
        "/servers/{key}": [{"server": {"name": "renamed"}}],
        "/os-server-groups": groups,
        "/os-server-groups/{key}": groups,
        "/os-server-groups/{key}/action": [*GROUP_ACTIONS, *members],
        "/os-placement-explain": [{"explain": {"flavor": "small"}}, {"flavor": "small"}],
        "/os-policy-scopes": [{"policy_scope": {"name": "mine"}}],
        "/os-policy-scopes/{key}": [{"policy_scope": {"name": "mine"}}],
        "/os-policy-scopes/{key}/action": [{"add_aggregate": {"aggregate": 1}}, {"remove_aggregate": {"aggregate": 1}}],
    }
    return [*known.get(route, []), {}]


def _look(walk: Walk, client: Client, routes: list[tuple[str, str]]) -> None:
    """Request everything that can be read, including the events of instance actions."""
    for route in (path for path, method in routes if method == "GET"):
        for query in ("", *QUERIES.get(route, [])):
            walk.ask(client, route, "GET", query=query)
    for server in walk.servers:
        path = f"/servers/{server}/os-instance-actions"
        for action in client.get(path).json["instanceActions"]:
            walk.check(path, client.get(f"{path}/{action['request_id']}"))


@pytest.mark.parametrize("roles", ["member", "manager", "reader"])
def test_no_tenant_response_discloses_hosts_aggregates_or_other_projects(walk: Walk, roles: str) -> None:
    cloud, alice = walk.cloud, walk.cloud.alice.sending(X_Roles=roles)
    with cloud.store.read() as tx:
        scopes = [scope.id for scope in tx.scopes.all()]
    walk.keys = {
        "servers": [*walk.servers, UNKNOWN_ID],
        "os-server-groups": [*walk.groups, UNKNOWN_ID],
        "os-policy-scopes": [*scopes, UNKNOWN_ID],
        "flavors": ["small", "none"],
        "os-quota-sets": ["web", "db"],
        "os-quota-class-sets": ["default"],
        "os-aggregates": ["1"],
        "os-hypervisors": [UNKNOWN_ID],
        "os-services": [UNKNOWN_ID],
        "os-keypairs": ["none"],
        "os-drains": [UNKNOWN_ID],
        "extensions": ["os-server-groups"],
    }
    routes = _routes(cloud)
    _look(walk, alice, routes)
    for route, method in routes:
        for body in _bodies(route, walk) if method in {"POST", "PUT"} else []:
            walk.ask(alice, route, method, body)
            cloud.settle()
    _look(walk, alice, routes)  # the results of these requests
    for route, _ in (route for route in routes if route[1] == "DELETE"):
        walk.ask(alice, route, "DELETE")
    assert walk.asked == set(routes)
    assert walk.statuses >= {200, 400, 403, 404}
    if roles != "reader":
        assert walk.statuses >= {202, 204, 409}


def test_older_versions_disclose_no_more(walk: Walk) -> None:
    for version in ("2.1", "2.64", "2.104"):
        alice = replace(walk.cloud.alice, version=version)
        walk.keys = {"servers": walk.servers, "os-server-groups": walk.groups}
        for route in ("/servers", "/servers/detail", "/servers/{key}", "/os-server-groups", "/os-server-groups/{key}"):
            walk.ask(alice, route, "GET")
        walk.ask(alice, "/servers/{key}/os-instance-actions", "GET")


DASHBOARD_QUERIES = {
    "/data/fleet": ["scope=host", "scope=rack", "scope=zone", "scope=elsewhere"],
    "/data/groups": ["limit=1&offset=1", "limit=x"],
    "/events": ["seconds=0", "seconds=x"],
}
TRIED_ON = [
    *({"policies": [policy]} for policy in ("anti-affinity", "affinity:rack", "affinity:zone:1", "affinity:rack:1")),
    {"policies": ["anti-affinity:rack"], "rules": {"max_server_per_rack": 2}},
    {"policies": "all"},
    {},
]


@pytest.mark.parametrize("roles", ["member", "reader"])
def test_dashboard_discloses_no_more_to_a_tenant(walk: Walk, roles: str) -> None:
    alice = walk.cloud.alice.below("/dashboard").sending(X_Roles=roles)
    walk.cloud.admin.post(f"/os-server-groups/{walk.groups[0]}/action", {"rebalance": {}})
    walk.keys = {"data": [*walk.servers, *walk.groups, UNKNOWN_ID]}
    mounted = walk.cloud.service.app._below["dashboard"].__wrapped__
    routes = [
        (route.path, method.method)
        for route in falcon.inspect.inspect_routes(mounted)
        for method in route.methods
        if not method.internal
    ]
    for route, method in routes:
        queries = DASHBOARD_QUERIES.get(route, []) if route == "/events" else ["", *DASHBOARD_QUERIES.get(route, [])]
        for query, body in itertools.product(queries, TRIED_ON if method == "POST" else [None]):
            walk.ask(alice, route, method, body, query)
    assert walk.asked == set(routes)
    assert walk.statuses >= {200, 400, 403, 404}


def _change_other_projects(walk: Walk) -> None:
    """Create another project's group, server and quota; change hosts and aggregates as an operator."""
    cloud, admin = walk.cloud, walk.cloud.admin
    group = cloud.group("affinity", client=cloud.bob)
    server = cloud.boot(cloud.bob, name="xq-bobs", group=group)
    walk.secrets |= {group, server}
    cloud.run_action(admin, server, "migrate")
    cloud.set_quota("db", instances=77)
    cloud.set_host(HOSTS[1], status="disabled", disabled_reason="xq-fan")
    assert admin.post("/os-aggregates/98765403/action", {"remove_host": {"host": HOSTS[4]}}).status == 200
    assert admin.put("/os-aggregates/98765402", {"aggregate": {"name": "xq-renamed"}}).status == 200


def _migrate_and_rebalance(walk: Walk) -> None:
    """Migrate the tenant's servers, and rebalance one of its groups."""
    cloud = walk.cloud
    for action, body in {"migrate": None, "os-migrateLive": LIVE}.items():
        walk.servers.append(cloud.boot())
        cloud.run_action(cloud.admin, walk.servers[-1], action, body)
    assert cloud.admin.post(f"/os-server-groups/{walk.groups[0]}/action", {"rebalance": {}}).status == 202
    cloud.settle()


def test_dashboard_events_are_limited_to_the_tenants_project(walk: Walk) -> None:
    cloud = walk.cloud
    cloud.assembled.services.dashboard.changes.clock = itertools.count().__next__  # a clock that advances on every read
    alice, admin = listening(cloud, "alice:web"), listening(cloud, "admin:operators")
    for happen, subjects in ((_migrate_and_rebalance, {"servers", "groups"}), (_change_other_projects, {"servers"})):
        happen(walk)
        walk.servers.append(cloud.boot())
        heard = alice.next()
        assert heard.keys() <= subjects
        assert walk.servers[-1] in heard["servers"]
        assert {received for ids in heard.values() for received in ids} <= {*walk.servers, *walk.groups}
        admin.next()
    walk.search("GET /events", alice.received)
    with pytest.raises(AssertionError, match="GET /events with"):
        walk.search("GET /events", admin.received)
    alice.close()
    admin.close()


def test_walk_detects_a_leak(walk: Walk) -> None:
    """The responses to an operator contain all secrets."""
    with pytest.raises(AssertionError, match="xq-host"):
        walk.check("detail", walk.cloud.admin.get("/servers/detail", all_tenants="1"))
    with pytest.raises(AssertionError, match="98765401"):
        walk.check("audit", walk.cloud.admin.get(f"/os-server-groups/{walk.groups[0]}/audit"))
    with pytest.raises(AssertionError, match="xq-host"):
        walk.check("map", walk.cloud.admin.below("/dashboard").get("/data/fleet"))
