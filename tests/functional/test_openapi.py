"""Every operation of the OpenAPI document succeeds at least once, with the documented body."""

import re
from dataclasses import dataclass, field
from typing import Any

import jsonschema
import pytest

from tests.acceptance.openapi_resources import PUBLIC_KEY
from tests.functional.client import Answer, Client
from tests.functional.fleets import IMAGE, BuildCloud, Cloud

pytestmark = pytest.mark.sqlite_only


@dataclass
class Reader:
    """Validates responses against the document, and records the operations that succeeded."""

    document: dict[str, Any]
    answered: set[str] = field(default_factory=set)

    @property
    def operations(self) -> set[str]:
        return {f"{method.upper()} {path}" for path, ways in self.document["paths"].items() for method in ways}

    def ask(self, client: Client, request: str, body: Any = None) -> Any:
        """Send a request, validate the response, and return the value of the body's only key."""
        method, path = request.split(" ")
        path, _, query = path.partition("?")
        answer = client.ask(method, path, json=body, query_string=query)
        template = self.template(method, path)
        self._check(template, method, answer)
        assert answer.status < 300, answer.text
        if body is not None:
            self.body_checker(f"{method} {template}").validate(body)
        self.answered.add(f"{method} {template}")
        return next(iter(answer.json.values()), None) if answer.json else None

    def body_checker(self, operation: str) -> jsonschema.Draft202012Validator:
        """Return whether a body is valid by the document."""
        method, template = operation.split(" ")
        documented = self.document["paths"][template][method.lower()]["requestBody"]["content"]["application/json"]
        return jsonschema.Draft202012Validator(documented["schema"], format_checker=jsonschema.FormatChecker(("uuid",)))

    def template(self, method: str, path: str) -> str:
        """Return the operation as the router does: literal segments take precedence."""
        for known in sorted(self.document["paths"], key=lambda known: known.count("{")):
            pattern = re.sub(r"{\w+}", "[^/]+", known)
            if re.fullmatch(pattern, path) and method.lower() in self.document["paths"][known]:
                return str(known)
        raise AssertionError(f"The document has no {method} {path}.")

    def _check(self, template: str, method: str, answer: Answer) -> None:
        documented = self.document["paths"][template][method.lower()]["responses"]
        assert str(answer.status) in documented, (template, answer.status, answer.text)
        shape = documented[str(answer.status)].get("content", {}).get("application/json", {}).get("schema")
        if shape is None or answer.json is None:
            assert not answer.text, (template, answer.text)
            return
        checker = jsonschema.FormatChecker(formats=("uuid",))
        whole = {**shape, "components": self.document["components"]}
        jsonschema.Draft202012Validator(whole, format_checker=checker).validate(answer.json)


def test_every_operation_responds_as_documented(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(4)
    reader = Reader(cloud.service.as_(None).get("/openapi.json").json)
    ask, admin, alice = reader.ask, cloud.admin, cloud.alice
    ask(cloud.service.as_(None), "GET /openapi.json")
    _operator_resources(reader, cloud)
    _flavors(reader, admin)
    group, server = _servers(reader, cloud)
    _groups(reader, cloud, group, server)
    ask(alice, "POST /os-keypairs", {"keypair": {"name": "mine", "public_key": PUBLIC_KEY}})
    for path in ("/limits", "/extensions", "/extensions/os-aggregates", "/os-keypairs", "/os-keypairs/mine"):
        ask(alice, f"GET {path}")
    ask(alice, "DELETE /os-keypairs/mine")
    assert reader.operations - reader.answered == set()


def test_document_rejects_what_the_service_rejects(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(1)
    reader = Reader(cloud.service.as_(None).get("/openapi.json").json)
    boot = {"name": "web", "flavorRef": "small", "networks": "none"}
    rules = {"max_server_per_host": 2}
    refused: list[tuple[str, Any, str]] = [
        ("POST /servers", {"server": boot}, "Missing imageRef"),
        ("POST /servers", {"server": boot | {"imageRef": IMAGE, "availability_zone": "a:b:c:d"}}, "Unable to parse"),
        ("POST /servers", {"server": boot | {"imageRef": IMAGE, "availability_zone": "a:b", "host": "c"}}, "exclusive"),
        ("POST /os-server-groups", {"server_group": {"name": "g", "policy": "affinity", "rules": rules}}, "Only anti"),
        ("POST /os-server-groups", {"server_group": {"name": "g", "policies": ["near:host"]}}, "has an unknown type"),
        ("POST /os-server-groups", {"server_group": {"name": "g", "policies": ["affinity:"]}}, "has an empty part"),
        ("POST /os-aggregates/1/images", {"cache": [{"id": IMAGE}, {"id": IMAGE}]}, "Duplicate images"),
        ("POST /flavors/small/os-extra_specs", {"extra_specs": {"trait:CUSTOM_A": "yes"}}, "which is not one of"),
        ("PUT /os-quota-sets/web", {"quota_set": {"class:gpu": 1}}, "names no resource class"),
        ("PUT /os-quota-class-sets/default", {"quota_class_set": {"class:": 1}}, "names no resource class"),
    ]
    for request, body, sentence in refused:
        method, path = request.split(" ")
        answer = cloud.admin.ask(method, path, json=body)
        assert answer.status == 400, answer.text
        assert sentence in answer.message
        assert not reader.body_checker(f"{method} {reader.template(method, path)}").is_valid(body), body


def _operator_resources(reader: Reader, cloud: Cloud) -> None:
    ask, admin = reader.ask, cloud.admin
    for path in ("", "/detail", "?with_servers=true&limit=2", "/detail?limit=1&with_servers=1"):
        hosts = ask(admin, f"GET /os-hypervisors{path}")
    ask(admin, f"GET /os-hypervisors/{hosts[0]['id']}?with_servers=true")
    service = ask(admin, "GET /os-services?host=node-4")[0]["id"]
    ask(admin, f"PUT /os-services/{service}", {"status": "disabled", "disabled_reason": "fans"})
    ask(admin, f"DELETE /os-services/{service}")
    rack = ask(admin, "POST /os-aggregates", {"aggregate": {"name": "rack-1"}})["id"]
    ask(admin, f"PUT /os-aggregates/{rack}", {"aggregate": {"name": "rack-one"}})
    ask(admin, f"POST /os-aggregates/{rack}/action", {"add_host": {"host": "node-1"}})
    ask(admin, f"POST /os-aggregates/{rack}/action", {"set_metadata": {"metadata": {"shelf": "3"}}})
    ask(admin, f"POST /os-aggregates/{rack}/images", {"cache": [{"id": IMAGE}]})
    ask(admin, f"GET /os-aggregates/{rack}")
    ask(admin, "GET /os-availability-zone/detail")
    ask(cloud.alice, "GET /os-availability-zone")
    new = {"name": "rack", "allow_identifiers": True, "obfuscate_identifiers": True}
    scope = ask(admin, "POST /os-policy-scopes", {"policy_scope": new})["id"]
    ask(admin, f"POST /os-policy-scopes/{scope}/action", {"add_aggregate": {"aggregate": rack}})
    ask(admin, f"GET /os-policy-scopes/{scope}?as_tenant_id=web")
    ask(cloud.alice, "GET /os-policy-scopes")
    ask(admin, f"POST /os-policy-scopes/{scope}", {"policy_scope": {"name": "racks"}})
    ask(admin, f"PUT /os-policy-scopes/{scope}", {"policy_scope": {"allow_identifiers": "false"}})
    ask(admin, f"POST /os-policy-scopes/{scope}/action", {"remove_aggregate": {"aggregate_id": rack}})
    ask(admin, f"DELETE /os-policy-scopes/{scope}")
    ask(admin, "POST /os-drains", {"drain": {"domain": "node-1", "dry_run": True}})
    drain = ask(admin, "POST /os-drains", {"drain": {"domain": "node-1"}})["id"]
    ask(admin, "GET /os-drains")
    ask(admin, f"GET /os-drains/{drain}")
    ask(admin, f"POST /os-drains/{drain}/action", {"cancel": {}})
    ask(admin, f"POST /os-drains/{drain}/action", {"undo": {}})
    ask(admin, f"POST /os-aggregates/{rack}/action", {"remove_host": {"host": "node-1"}})
    ask(admin, "GET /os-aggregates")
    ask(admin, f"DELETE /os-aggregates/{rack}")
    ask(admin, "PUT /os-quota-sets/web", {"quota_set": {"cores": 100, "class:VGPU": "4"}})
    ask(admin, "PUT /os-quota-class-sets/default", {"quota_class_set": {"cores": 200, "class:DISK_GB": 900}})
    for path in ("", "/detail", "/defaults"):
        ask(admin, f"GET /os-quota-sets/web{path}")
    ask(admin, "DELETE /os-quota-sets/web")
    ask(admin, "GET /os-quota-class-sets/default")


def _flavors(reader: Reader, admin: Client) -> None:
    ask = reader.ask
    new = {"name": "mine", "ram": 64, "vcpus": 1, "disk": 1, "id": "7", "os-flavor-access:is_public": False}
    ask(admin, "POST /flavors", {"flavor": new})
    ask(admin, "PUT /flavors/7", {"flavor": {"description": "a small one"}})
    ask(admin, "POST /flavors/7/action", {"addTenantAccess": {"tenant": "web"}})
    ask(admin, "GET /flavors/7/os-flavor-access")
    ask(admin, "POST /flavors/7/os-extra_specs", {"extra_specs": {"a": "b", "n": 3}})
    ask(admin, "PUT /flavors/7/os-extra_specs/a", {"a": "c"})
    ask(admin, "GET /flavors/7/os-extra_specs/a")
    ask(admin, "GET /flavors/7/os-extra_specs")
    ask(admin, "GET /flavors/7")
    for path in ("", "/detail", "?limit=1", "/detail?limit=1"):
        ask(admin, f"GET /flavors{path}")
    ask(admin, "DELETE /flavors/7/os-extra_specs/a")
    ask(admin, "DELETE /flavors/7")


def _servers(reader: Reader, cloud: Cloud) -> tuple[str, str]:
    ask, alice, admin = reader.ask, cloud.alice, cloud.admin
    wanted = {"name": "web", "policies": ["anti-affinity", "soft-affinity:host"], "rules": {"max_server_per_host": 2}}
    group = ask(alice, "POST /os-server-groups", {"server_group": wanted})["id"]
    boot = {"name": "w", "flavorRef": "small", "imageRef": IMAGE, "networks": "none", "min_count": 2, "tags": ["a"]}
    new = {"server": boot, "os:scheduler_hints": {"group": group}}
    server = ask(alice, "POST /servers", new)["id"]
    ask(alice, "POST /servers", {"server": boot | {"flavorRef": "giant", "min_count": 1}})  # does not fit on any host
    ask(alice, "POST /servers", {"server": boot | {"return_reservation_id": True}})
    cloud.settle()
    for client in (alice, admin):
        ask(client, f"GET /servers/{server}")
        for path in ("", "/detail", "?limit=1", "/detail?limit=1&status=error"):
            ask(client, f"GET /servers{path}{'&' if '?' in path else '?'}all_tenants={int(client is admin)}")
        ask(client, f"GET /servers/{server}/placement")
    ask(alice, f"PUT /servers/{server}", {"server": {"description": "one of them"}})
    ask(alice, f"POST /servers/{server}/metadata", {"metadata": {"a": "b"}})
    ask(alice, f"PUT /servers/{server}/metadata", {"metadata": {"c": "d"}})
    ask(alice, f"PUT /servers/{server}/metadata/c", {"meta": {"c": "e"}})
    ask(alice, f"GET /servers/{server}/metadata/c")
    ask(alice, f"DELETE /servers/{server}/metadata/c")
    ask(alice, f"GET /servers/{server}/metadata")
    for request in ("PUT /tags/b", "PUT /tags/b", "GET /tags/b", "GET /tags", "DELETE /tags/b"):
        ask(alice, request.replace(" ", f" /servers/{server}"))
    ask(alice, f"PUT /servers/{server}/tags", {"tags": ["x", "y"]})
    ask(alice, f"DELETE /servers/{server}/tags")
    ask(admin, f"POST /servers/{server}/action", {"migrate": None})
    cloud.settle()
    ask(alice, f"POST /servers/{server}/action", {"confirmResize": None})
    ask(admin, "GET /os-migrations")
    ask(admin, f"POST /servers/{server}/action", {"os-migrateLive": {"host": None, "block_migration": "auto"}})
    (move,) = ask(admin, f"GET /servers/{server}/migrations")
    ask(admin, f"GET /servers/{server}/migrations/{move['uuid']}")
    ask(admin, f"DELETE /servers/{server}/migrations/{move['id']}")
    cloud.settle()
    ask(admin, "POST /os-placement-explain", {"explain": {"flavorRef": "small", "imageRef": IMAGE}})
    for client in (alice, admin):
        (done, *_) = ask(client, f"GET /servers/{server}/os-instance-actions?limit=1")
        ask(client, f"GET /servers/{server}/os-instance-actions/{done['request_id']}")
    return group, server


def _groups(reader: Reader, cloud: Cloud, group: str, server: str) -> None:
    ask, alice, admin = reader.ask, cloud.alice, cloud.admin
    path = f"/os-server-groups/{group}"
    ask(alice, f"POST {path}/action", {"preview": {"flavor": "small", "count": 9}})
    ask(alice, f"POST {path}/action", {"headroom": {"flavor": "small"}})
    ask(alice, f"POST {path}/action", {"remove_instance": {"instance_id": server}})
    ask(alice, f"POST {path}/action", {"add_instance": {"instance_id": server}})
    ask(alice, f"PUT {path}", {"server_group": {"policy": {"name": "affinity"}, "name": "together"}})
    for client in (alice, admin):
        ask(client, f"GET {path}/audit")
        ask(client, f"GET {path}/audit?violations=true")
        ask(client, f"POST {path}/action", {"rebalance": {"dry_run": True}})
    ask(admin, f"POST {path}/action", {"rebalance": {}})
    ask(admin, f"GET {path}/rebalance")
    ask(admin, f"POST {path}/action", {"cancel_rebalance": {}})
    cloud.settle()
    ask(alice, f"POST {path}", {"server_group": {"name": "still together"}})
    ask(alice, "GET /os-server-groups")
    ask(alice, f"GET {path}")
    ask(alice, f"DELETE {path}")
    ask(alice, f"DELETE /servers/{server}")


def test_wrong_method_is_405_at_the_covey_version(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(1)
    answer = cloud.alice.put("/servers", {})
    assert (answer.status, answer.json["badMethod"]["code"]) == (405, 405)
    assert {"GET", "POST"} <= set(answer.headers["allow"].split(", "))
    assert cloud.alice.at("2.104").put("/servers", {}).status == 404, "as older clients know it"
